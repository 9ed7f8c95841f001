"""
Who may see a note, and whose text it holds: the one rule for both, by the keys of its frontmatter.

A limited token sees the notes that say so by `privacy_scope`. A note without the key is private, and one with several
values is shown only where each of them would be. Text is untrusted if `trust` or `source` says that it comes from
outside; `trust: trusted`, which only a person writes, ends that. Text that was made of several notes is as private as
the most private of them, and as untrusted as the least trusted. Keys and values are compared without case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from spellbook.index.filters import flat, fold
from spellbook.notes.frontmatter import FRONTMATTER, load
from spellbook.notes.note import decode

KEY = "privacy_scope"
TRUST = "trust"
SOURCE = "source"
RULED = frozenset({KEY, TRUST})
"""Keys whose value in a text that was made of several notes `needed` decides."""

UNTRUSTED = "untrusted"

SHOWN: Mapping[str, frozenset[str]] = {"team": frozenset({"team", "public"}), "public": frozenset({"public"})}
"""For each scope that limits a token, the values of `privacy_scope` that it sees."""

SCOPES = ("public", "team", "private")
"""What a note may be, the most private last."""

_OUTSIDE = re.compile(r"https?:|ftp:|file:|.*\.pdf\b")

Meta = Mapping[str, Any]


def shows(sees: str, path: str, data: bytes) -> bool:
    """Return whether a token that sees `sees` may see a note, by the bytes of its file."""
    try:
        match = FRONTMATTER.match(decode(path, data)[0])
        meta = load(match[0])[0] if match else {}
        return privacy_of(meta) in SHOWN[sees]
    except Exception:  # a note that cannot be read does not say that it may be shown
        return False


def privacy_of(meta: Meta) -> str:
    """Return which of `SCOPES` a note is, by its frontmatter."""
    values = _values(meta, KEY)
    return next((scope for scope in SCOPES[:-1] if values and values <= SHOWN[scope]), SCOPES[-1])


def is_untrusted(meta: Meta) -> bool:
    """Return whether a note's text comes from outside, by its frontmatter."""
    trust = _values(meta, TRUST)
    return UNTRUSTED in trust or ("trusted" not in trust and any(map(_OUTSIDE.match, _values(meta, SOURCE))))


def needed(meta: Meta, *parts: Meta) -> dict[str, str]:
    """Return what the frontmatter `meta` lacks for a text that was made of notes with the frontmatter of `parts`."""
    scope = max(map(privacy_of, parts), key=SCOPES.index)
    wanted = {KEY: scope} if SCOPES.index(privacy_of(meta)) < SCOPES.index(scope) else {}
    return wanted | kept_label(meta, *parts)


def kept_label(meta: Meta, *parts: Meta) -> dict[str, str]:
    """Return the label that `meta` lacks if one of `parts` is untrusted: no edit and no merge ends that."""
    return {TRUST: UNTRUSTED} if any(map(is_untrusted, parts)) and not is_untrusted(meta) else {}


def _values(meta: Meta, key: str) -> set[str]:
    # What is in a mapping is under `key.name`, and no key asked for has a dot.
    return {
        value for name, written in meta.items() if fold(name) == key for at, value in flat(key, written) if at == key
    }
