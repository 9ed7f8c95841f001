"""No test uses a private name of a module, so that its inside can change."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
OF_PYTHON = {"_exit", "_replace", "_asdict", "_fields", "_make"}
"""Names of Python's own that begin with an underscore and are public: of `os` and of named tuples."""


def private_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each private attribute, patched name and imported name; one's own `self._x` is allowed."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            names = [] if isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"} else [node.attr]
        elif isinstance(node, ast.ImportFrom):
            names = [alias.name for alias in node.names]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in {"setattr", "delattr"}
        ):
            names = [
                each.value for each in node.args[1:2] if isinstance(each, ast.Constant) and isinstance(each.value, str)
            ]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "import" in node.value:
            yield from _of_a_program(node)
            continue
        else:
            continue
        yield from (
            (node.lineno, name) for name in names if name[0] == "_" and name[1:2] != "_" and name not in OF_PYTHON
        )


def _of_a_program(node: ast.Constant) -> Iterator[tuple[int, str]]:
    """What a string does that is a program for another process."""
    try:
        yield from ((node.lineno, name) for _, name in private_names(str(node.value)))
    except SyntaxError:
        return


def test_no_test_reaches_into_a_private_name() -> None:
    """No test uses one by attribute, patch, import, or in a program that it starts."""
    found = {
        f"{path.relative_to(TESTS).as_posix()}:{line}: {name}"
        for path in TESTS.rglob("*.py")
        for line, name in private_names(path.read_text("utf-8"))
    }
    assert not sorted(found)
