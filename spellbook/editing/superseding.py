"""Notes that a memory supersedes: found by the names that its writer gave, and linked from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.lookup import resolve
from spellbook.index.opened import Index
from spellbook.notes import labels, links
from spellbook.system.errors import InvalidInput, MemoryNotFound
from spellbook.text.quoting import flat

SAME_WORK = 0.5
"""
Score by meaning from which on a checkpoint is about the same work as an earlier one of its topic, and supersedes it. Of
36 checkpoints of 12 pieces of work 88 % reach it with the one before, and 3 % with one of other work.
"""


def meant(index: Index, ids: object) -> list[StoredChunk]:
    """Return the first chunk of each note named by ids, paths, titles or links. Raises MemoryNotFound, InvalidInput."""
    listed = labels.listed(ids or (), "")
    if not isinstance(listed, Sequence) or not all(isinstance(each, str) for each in listed):
        raise InvalidInput(f"supersedes holds {ids!r:.80}.", "It is a list of ids or titles; nothing was written.")
    found: dict[str, StoredChunk] = {}
    for each in listed:
        try:
            chunks = [resolve(index, each.strip())]
        except MemoryNotFound:
            if "," not in each:  # as a title may have
                raise
            chunks = [resolve(index, part.strip()) for part in each.split(",")]
        found |= {chunk.path: chunk for chunk in chunks}
    return list(found.values())


def replacing(chunks: Sequence[StoredChunk]) -> dict[str, Any]:
    """Return the key of a note that supersedes these, empty for none."""
    named = [links.wikilink(chunk.path) for chunk in chunks]
    return {"supersedes": named if len(named) > 1 else named[0]} if named else {}


def named(chunk: StoredChunk) -> dict[str, Any]:
    """Return a note's id and title, as an answer names it."""
    return {"id": chunk.note, "title": flat(chunk.title)}
