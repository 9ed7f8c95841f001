"""No docstring begins with a riddle, and no name is a retired word."""

from __future__ import annotations

import ast
import re

from tests.house.rooms import MODULES, ROOT

RIDDLES = {"What", "Those", "Whatever", "Whoever", "Who", "Whose"}
"""First words of a docstring that does not name its subject."""
RETIRED = {
    *("look", "looks", "looked", "told", "said", "then", "went", "heir", "heirs", "spare", "spared", "vouch"),
    *("retract", "hurried", "haste", "met"),
}
"""Words that no name has: `scan`, `message`, `earlier` and others say which thing is meant."""
KEPT = {"look_seconds"}
"""Names with a retired word that people use already: a setting."""


def test_docstrings_and_names_say_which_thing_is_meant() -> None:
    """
    No docstring of the package begins with "What", "Those" or another word that leaves its subject open. No name of the
    package has a word that does not say which thing is meant, such as `said` or `then`.
    """
    found = []
    for path, tree in MODULES.items():
        place = path.relative_to(ROOT).as_posix()
        for node in ast.walk(tree):
            line = getattr(node, "lineno", 0)
            text = getattr(node.value, "value", None) if isinstance(node, ast.Expr) else None
            if isinstance(text, str) and re.split(r"\W", text.strip(), maxsplit=1)[0] in RIDDLES:
                found.append(f"{place}:{line}: {text[:60]}")
            names = (getattr(node, field, None) for field in ("id", "attr", "arg", "name", "asname"))
            for name in (each for each in names if isinstance(each, str) and each not in KEPT):
                if RETIRED & set(name.lower().split("_")):
                    found.append(f"{place}:{line}: {name}")
    assert not found
