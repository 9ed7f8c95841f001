"""No test uses a private name of a module, so that its inside can change."""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
OF_PYTHON = {"_exit", "_replace", "_asdict", "_fields", "_make"}
"""Names of Python's own that begin with an underscore and are public: of `os` and of named tuples."""


def private_names(source: str) -> Iterator[str]:
    """Yield each private attribute, patched name and imported name; one's own `self._x` is allowed."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) not in {"self", "cls"}:
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".setattr", ".delattr")):
            names = [str(each.value) for each in node.args[1:2] if isinstance(each, ast.Constant)]
        elif isinstance(node, ast.Constant) and "import" in str(node.value):
            with contextlib.suppress(SyntaxError):  # else it is a program for another process
                yield from private_names(str(node.value))
        yield from (name for name in names if re.match("_[^_]", name) and name not in OF_PYTHON)


def test_no_test_reaches_into_a_private_name() -> None:
    """No test uses one by attribute, patch, import, or in a program that it starts."""
    found = {path.name: list(private_names(path.read_text("utf-8"))) for path in TESTS.rglob("*.py")}
    assert {name: names for name, names in found.items() if names} == {}
