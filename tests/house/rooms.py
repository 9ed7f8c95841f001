"""The rooms of the package, from the highest to the lowest, and the syntax trees of its modules."""

from __future__ import annotations

import ast
from pathlib import Path

import spellbook

ROOT = Path(spellbook.__file__).parent
MODULES = {path: ast.parse(path.read_text("utf-8")) for path in sorted(ROOT.rglob("*.py"))}

ORDER: tuple[set[str], ...] = (
    *({"__main__", "__init__"}, {"cli"}, {"http"}, {"mcp"}, {"watch"}, {"verbs"}, {"library"}, {"memories"}),
    *({"capture"}, {"editing"}, {"search"}, {"archive"}, {"index"}, {"models", "vault"}, {"settings"}, {"notes"}),
    *({"text"}, {"system"}),
)
"""The rooms, top to bottom. A module imports from its own room and from those below it."""


def room(path: Path) -> str:
    """The room in which a module is."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")
