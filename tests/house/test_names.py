"""No test uses a private name of a module, no docstring begins with a riddle, and no name is a retired word."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
PACKAGE = TESTS.parent / "spellbook"
RIDDLES = {"What", "Those", "Whatever", "Whoever", "Who", "Whose"}
"""First words of a docstring that does not name its subject."""
RETIRED = set(
    [
        "look",
        "looks",
        "looked",
        "told",
        "said",
        "then",
        "went",
        "heir",
        "heirs",
        "spare",
        "spared",
        "vouch",
        "retract",
        "hurried",
        "haste",
        "met",
    ]
)
"""Words that no name has: `scan`, `message`, `earlier` and others say which thing is meant."""
LATER = ("models/", "mcp/", "cli/output.py", "search/presentation.py")
"""Rooms and files whose names and docstrings are still to be mended."""
KEPT = {"look_seconds"}
"""Names with a retired word that people use already: a setting."""
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


def _modules() -> Iterator[Path]:
    """Yield the modules of the package that keep these rules."""
    for path in PACKAGE.rglob("*.py"):
        if not path.relative_to(PACKAGE).as_posix().startswith(LATER):
            yield path


def _strings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the docstrings of modules, classes and functions, and those below attributes and constants."""
    for node in ast.walk(tree):
        for each in getattr(node, "body", ()) if isinstance(getattr(node, "body", ()), list) else ():
            if (
                isinstance(each, ast.Expr)
                and isinstance(each.value, ast.Constant)
                and isinstance(each.value.value, str)
            ):
                yield each.value


def _names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each variable, argument, attribute, function and class, and of imports."""
    for node in ast.walk(tree):
        for field in ("id", "attr", "arg", "name", "asname"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                yield getattr(node, "lineno", 0), name


def test_docstrings_name_their_subject() -> None:
    """No docstring of the package begins with "What", "Those" or another word that leaves its subject open."""
    found = [
        f"{path.relative_to(PACKAGE).as_posix()}:{text.lineno}"
        for path in _modules()
        for text in _strings(ast.parse(path.read_text("utf-8")))
        if re.split(r"\W", str(text.value).strip(), maxsplit=1)[0] in RIDDLES
    ]
    assert not found


def test_no_name_is_a_retired_word() -> None:
    """No name of the package has a word that does not say which thing is meant, such as `said` or `then`."""
    found = [
        f"{path.relative_to(PACKAGE).as_posix()}:{line}: {name}"
        for path in _modules()
        for line, name in _names(ast.parse(path.read_text("utf-8")))
        if name not in KEPT and RETIRED & set(name.lower().split("_"))
    ]
    assert not found
