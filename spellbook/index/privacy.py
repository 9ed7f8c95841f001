"""
Privacy and trust of a note: one rule for each, by the keys of its frontmatter.

A limited token sees the notes that say so by `privacy_scope`. A note without the key is private, and one with several
values is shown only where each of them would be. Text is untrusted if `trust` or `source` says that it comes from
outside; `trust: trusted`, which only a person writes, ends that. `trust: agent` is in between: a captured session,
which nobody kept on purpose. Text made of several notes is as private as the most private of them, and as untrusted as
the least trusted. Keys and values are compared without case.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from spellbook.index.filters import NO_GUIDES, Condition, flat, fold
from spellbook.notes.frontmatter import FRONTMATTER, load
from spellbook.notes.note import decode, parse
from spellbook.system.errors import InvalidInput

KEY = "privacy_scope"
TRUST = "trust"
SOURCES = frozenset({"source", "sources", "source_url", "source-url", "url", "origin"})
"""Keys that say where a text is from."""
RULED = frozenset({KEY, TRUST})
"""Keys whose value in a text that was made of several notes `needed` decides."""

TRUSTED, AGENT, UNTRUSTED = TRUSTS = "trusted", "agent", "untrusted"
"""Levels of trust in the text of a note, the least trusted last."""

ON_PURPOSE = Condition(TRUST, (AGENT,), negated=True)
"""Leaves out the sessions that were captured."""

SHOWN: Mapping[str, frozenset[str]] = {"team": frozenset({"team", "public"}), "public": frozenset({"public"})}
"""For each scope that limits a token, the values of `privacy_scope` that it sees."""

SCOPES = ("public", "team", "private")
"""Scopes of a note, the most private last."""

_OUTSIDE = re.compile(
    r"[^\w/]*(?:(?:https?|ftp|file|data|javascript):|www\.|[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}/)|.*(?:://|\.pdf\b)"
)
"""An address, with or without its scheme, in brackets or behind invisible letters; or a PDF."""

_CALLS_ITSELF = re.compile(r"""(?is)((?:^|\n)["']?trust["']?[ \t]*:(?:(?!\n[^\s-]).)*?)\btrusted\b""")
"""The key `trust`, with its further lines, up to the word `trusted`."""

_SAYS = re.compile(rb"(?i)t\0?r\0?u\0?s\0?t\0?e\0?d")

Meta = Mapping[str, Any]
_folded = lru_cache(maxsize=1_000)(fold)  # a search asks for the keys of all its candidates


def shows(sees: str, path: str, data: bytes) -> bool:
    """Return whether a token that sees `sees` may see a note, by the bytes of its file."""
    return privacy_of(meta_of(path, data)) in SHOWN[sees]


def meta_of(path: str, data: bytes) -> Meta:
    """Return the frontmatter of a note by the bytes of its file: empty, so private, if it cannot be read."""
    with contextlib.suppress(Exception):
        if match := FRONTMATTER.match(decode(path, data)[0]):
            return load(match[0])[0]
    return {}


def privacy_of(meta: Meta) -> str:
    """Return which of `SCOPES` a note is, by its frontmatter."""
    values = _values(meta, KEY)
    return next((scope for scope in SCOPES[:-1] if values and values <= SHOWN[scope]), SCOPES[-1])


def trust_of(meta: Meta) -> str:
    """Return which of `TRUSTS` a note's text is, by its frontmatter: the least that it says of itself."""
    levels = _values(meta, TRUST)
    is_outside = TRUSTED not in levels and any(map(_OUTSIDE.match, _values(meta, *SOURCES)))
    return UNTRUSTED if is_outside or UNTRUSTED in levels else AGENT if AGENT in levels else TRUSTED


def is_untrusted(meta: Meta) -> bool:
    """Return whether a note's text comes from outside, by its frontmatter."""
    return trust_of(meta) == UNTRUSTED


def is_session(meta: Meta) -> bool:
    """Return whether a note's text is of a captured session, by its frontmatter."""
    return "session" in meta and trust_of(meta) == AGENT  # most notes have no such key: that is quick


def distrusted(path: str, data: bytes) -> bytes:
    """Return a stranger's note as untrusted if it calls itself trusted. Raises InvalidInput if it stays so."""
    if not _SAYS.search(data) or TRUSTED not in _values(meta_of(path, data), TRUST):
        return data
    note = parse(path, data)
    header = note.text[: len(note.text) - len(note.body)]
    changed = note.encode(_CALLS_ITSELF.sub(r"\1untrusted", header) + note.body)
    if TRUSTED in _values(meta_of(path, changed), TRUST):
        raise InvalidInput(f"{path}: it calls itself trusted.", "Take the key trust out of it; nothing was imported.")
    return changed


def is_guide(path: str, data: bytes) -> bool:
    """Say whether a note is a guide, which tells agents how to write memories."""
    return b"guide" in data and not _values(meta_of(path, data), "guide").isdisjoint(NO_GUIDES.values)


def needed(meta: Meta, *parts: Meta) -> dict[str, str]:
    """Return the keys that the frontmatter `meta` lacks for a text made of notes with the frontmatter of `parts`."""
    scope = max(map(privacy_of, parts), key=SCOPES.index)
    wanted = {KEY: scope} if SCOPES.index(privacy_of(meta)) < SCOPES.index(scope) else {}
    return wanted | kept_label(meta, *parts)


def kept_label(meta: Meta, *parts: Meta) -> dict[str, str]:
    """Return the label that `meta` lacks to be as untrusted as the least trusted of `parts`: no edit raises that."""
    least = max(map(trust_of, parts), key=TRUSTS.index)
    return {TRUST: least} if TRUSTS.index(trust_of(meta)) < TRUSTS.index(least) else {}


def _values(meta: Meta, *keys: str) -> set[str]:
    # What is in a mapping is under `key.name`, and no key asked for has a dot.
    named = ((key, written) for name, written in meta.items() if (key := _folded(name)) in keys)
    return {value for key, written in named for at, value in flat(key, written) if at == key}
