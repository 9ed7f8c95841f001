"""
Looking up chunks by what a person or an agent calls them: ids of notes and of sections, paths, and unique titles.

An id or a path goes before a title, so that no note can take the place of another by its title.
"""

from __future__ import annotations

import contextlib
import unicodedata
from collections.abc import Iterable

from spellbook.index.catalog.schema import StoredChunk
from spellbook.index.filters import conditions
from spellbook.index.opened import Index
from spellbook.notes import links
from spellbook.notes.note import MERGED, parse
from spellbook.system.errors import InvalidInput, MemoryNotFound
from spellbook.text.quoting import counted, exact

_MOST_NAMED = 5
"""Notes of one title that an error names."""


def note_chunks(index: Index, id: str) -> list[StoredChunk]:
    """
    Return all chunks, in order, of the note with this id, path (with or without `.md`) or title; none if there is none.

    Raises InvalidInput for a title that several notes have.
    """
    named = next(filter(None, map(index.catalog.note, _spellings(id))), []) or index.catalog.at(f"{id}.md")
    return named or ([] if _meant(index, id) else _titled(index, id))


def _meant(index: Index, id: str) -> list[StoredChunk]:
    return next(filter(None, map(index.catalog.meant, _spellings(id))), [])


def _titled(index: Index, title: str) -> list[StoredChunk]:
    """Return all chunks of the one note with this title, none if there is none. Raises InvalidInput for several."""
    paths: list[str] = []
    with contextlib.suppress(InvalidInput):  # no note has such a key
        paths = index.catalog.paths((*conditions({"title": " ".join(title.split())}), *index.visible))
    if len(paths) > 1:
        ids = ", ".join(exact(chunk.note) for path in paths[:_MOST_NAMED] for chunk in index.catalog.at(path)[:1])
        more = ", …" if len(paths) > _MOST_NAMED else ""
        raise InvalidInput(
            f"{counted(len(paths), 'note')} have the title {title!r:.200}.", f"Name one by its id: {ids}{more}."
        )
    return index.catalog.at(paths[0]) if paths else []


def body(index: Index, path: str) -> str:
    """Return the body of the note at `path`."""
    return parse(path, index.vault.read(path)[0]).body


def _spellings(id: str) -> Iterable[str]:
    """Return an id or a path as it was given, then composed and decomposed: systems name files in either form."""
    return dict.fromkeys([id, unicodedata.normalize("NFC", id), unicodedata.normalize("NFD", id)])


def resolve(index: Index, id: str) -> StoredChunk:
    """
    Return the chunk with this id, or the first of the note with this id, path or title.

    Raises MemoryNotFound, and InvalidInput for a title that several notes have.
    """
    if chunks := _meant(index, id) or note_chunks(index, id):
        return chunks[0]
    name = id.rpartition("#")[0] or id
    if into := _merged_into(index, name):
        raise MemoryNotFound(
            f"{id[:200]!r} was merged into {into.path}.", f"Look at {into.note}, which says what it said."
        )
    for fault in index.catalog.notes.faults():
        named = fault.path.removesuffix(".md") in {id.removesuffix(".md"), name.removesuffix(".md")}
        if named and index.catalog.where_is(fault.path) is None:
            raise MemoryNotFound(f"{fault}.", "The file cannot be read as a note until that is mended.")
    hint = "Search for it: ids are in every hit; it may have been erased or renamed."
    raise index.missing(MemoryNotFound(f"There is no memory {id[:200]!r}.", hint))


def relation(index: Index, id: str) -> str:
    """
    Return the text that names the note `id` (its id or path, or a chunk's id) under a key of `relations.RELATIONS`.

    It is a wikilink with the full path. `frontmatter.compose` and `revise` quote it as YAML. Raises MemoryNotFound.
    """
    return links.wikilink(resolve(index, id).path)


def _merged_into(index: Index, name: str) -> StoredChunk | None:
    """Return the note that another one, of this id or path, was merged into."""
    with contextlib.suppress(InvalidInput):  # no note has such a key
        for path in index.catalog.paths(conditions({MERGED: name.removesuffix(".md")})):
            return next(iter(index.catalog.at(path)), None)
    return None


def chunks_of(index: Index, id: str) -> list[StoredChunk]:
    """Return the chunk with this id, or all chunks of the note with this id, path or title; raise as `resolve` does."""
    return note_chunks(index, id) or [resolve(index, id)]  # which says what is wrong with an id that means nothing
