"""Superseded notes: how callers name them, and how the frontmatter of the new note and an answer name them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from spellbook.index import lookup
from spellbook.index.catalog.schema import StoredChunk
from spellbook.index.opened import Index
from spellbook.notes import labels, links
from spellbook.system.errors import InvalidInput, MemoryNotFound
from spellbook.text.quoting import flat


def meant(index: Index, ids: object) -> list[StoredChunk]:
    """
    Return the first chunk of each note that ids, paths, titles or wikilinks name; a text may hold several.

    Raises MemoryNotFound, and InvalidInput for what names no note, or several.
    """
    listed = labels.listed(ids or (), "")
    if not isinstance(listed, Sequence) or not all(isinstance(each, str) for each in listed):
        raise InvalidInput(f"supersedes holds {ids!r:.80}.", "It is a list of ids or titles; nothing was written.")
    return list({chunk.path: chunk for each in listed for chunk in _meant(index, each)}.values())


def _meant(index: Index, text: str) -> Iterator[StoredChunk]:
    try:
        yield lookup.resolve(index, text.strip())
    except MemoryNotFound:
        if "," not in text:  # as a title may have
            raise
        yield from (lookup.resolve(index, part.strip()) for part in text.split(","))


def replacing(chunks: Sequence[StoredChunk]) -> dict[str, Any]:
    """Return the key of a note that supersedes these, empty for none."""
    named = [links.wikilink(chunk.path) for chunk in chunks]
    return {"supersedes": named if len(named) > 1 else named[0]} if named else {}


def named(chunk: StoredChunk) -> dict[str, Any]:
    """Return a note's id and title, as an answer names it."""
    return {"id": chunk.note, "title": flat(chunk.title)}
