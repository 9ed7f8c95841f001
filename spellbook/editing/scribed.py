"""Writing memories: its options, and its results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from spellbook.editing.memory import Labels


@dataclass(frozen=True, slots=True)
class Duplicate:
    """
    An existing chunk that a new text repeats.

    `how` it was found: by equal `words` (then `score` is 1), by `meaning`, or by `labels` (topic and keywords), only a
    hint. `difference` is a unified diff, `changed` the contradicting pairs of words, the chunk's first.
    """

    id: str
    path: str
    title: str
    score: float
    difference: str
    how: Literal["words", "meaning", "labels"] = "words"
    changed: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Overturned:
    """An older memory about the same thing, which a new one may overturn; `score` compares their texts alone."""

    id: str
    path: str
    title: str
    score: float


@dataclass(frozen=True, slots=True)
class WrittenNote:
    """A note that was written: its id, its path, and the generation of the index that contains it."""

    chunk_id: str
    path: str
    generation: int
    pending: bool = False


class ScribeOptions(TypedDict, total=False):
    """
    Keyword arguments of `Spellbook.scribe` and `Spellbook.scribe_all`.

    `source` and `category` are for chunks whose metadata has none. `force` also writes what repeats a chunk or looks
    like a secret; `again`, by default as `force`, what was erased. `session` is the REST session to count them in. With
    `labels` "derived" a chunk without keywords gets those of its tags and its text. `untrusted` text comes from
    outside: its note says so, and answers mark it.
    """

    source: str | None
    category: str | None
    force: bool
    again: bool
    session: str | None
    labels: Labels
    untrusted: bool


@dataclass(frozen=True, slots=True)
class Scribed:
    """Notes `written`; for each chunk duplicates, warnings, `may_supersede` candidates, and `superseded` notes."""

    written: tuple[WrittenNote, ...]
    duplicates: tuple[tuple[Duplicate, ...], ...]
    warnings: tuple[tuple[str, ...], ...]
    may_supersede: tuple[tuple[Overturned, ...], ...] = ()
    superseded: tuple[tuple[dict[str, Any], ...], ...] = ()
