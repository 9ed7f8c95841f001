"""No docstring begins with a riddle, and no name is a retired word."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "spellbook"
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
KEPT = {"look_seconds"}
"""Names with a retired word that people use already: a setting."""


def _strings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the docstrings of modules, classes and functions, and those below attributes and constants."""
    values = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    yield from (each for each in values if isinstance(each, ast.Constant) and isinstance(each.value, str))


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
        for path in PACKAGE.rglob("*.py")
        for text in _strings(ast.parse(path.read_text("utf-8")))
        if re.split(r"\W", str(text.value).strip(), maxsplit=1)[0] in RIDDLES
    ]
    assert not found


def test_no_name_is_a_retired_word() -> None:
    """No name of the package has a word that does not say which thing is meant, such as `said` or `then`."""
    found = [
        f"{path.relative_to(PACKAGE).as_posix()}:{line}: {name}"
        for path in PACKAGE.rglob("*.py")
        for line, name in _names(ast.parse(path.read_text("utf-8")))
        if name not in KEPT and RETIRED & set(name.lower().split("_"))
    ]
    assert not found
