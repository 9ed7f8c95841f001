"""
What a token sees that does not see everything: the notes that say so themselves, by `privacy_scope` in their header.

A note without the key is private. One with several values is shown only where each of them would be.
"""

from __future__ import annotations

from collections.abc import Mapping

from spellbook.index.filters import flat, fold
from spellbook.notes.frontmatter import FRONTMATTER, load
from spellbook.notes.note import decode

KEY = "privacy_scope"

SHOWN: Mapping[str, frozenset[str]] = {"team": frozenset({"team", "public"}), "public": frozenset({"public"})}
"""For each scope that limits a token, the values of `privacy_scope` that it sees."""


def shows(sees: str, path: str, data: bytes) -> bool:
    """Return whether a token that sees `sees` may see a note, by the bytes of its file."""
    try:
        match = FRONTMATTER.match(decode(path, data)[0])
        meta = load(match[0])[0] if match else {}
        said = {value for name, given in meta.items() for key, value in flat(fold(name), given) if key == KEY}
    except Exception:  # whatever is wrong with it, it does not say that it may be shown
        return False
    return bool(said) and said <= SHOWN[sees]
