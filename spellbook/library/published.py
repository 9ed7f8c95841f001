"""
The vaults that were published to a database, for servers without files: they are only read.

It is opened on an empty folder of its own, for the server's own counts and errors. Any number of such servers answer
from one database; every question is a new request to it.
"""

from __future__ import annotations

import copy
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from spellbook.index.catalog.schema import ListedNote
from spellbook.index.opened import Index
from spellbook.index.postgres.catalog import PublishedCatalog, PublishedVault
from spellbook.index.postgres.database import URL, PostgresDatabase, configured
from spellbook.index.postgres.engine import PublishedSource
from spellbook.index.postgres.reader import VaultRow, vaults
from spellbook.library.reader import Reader
from spellbook.search import related
from spellbook.search.question import State, state
from spellbook.search.related import Adjacent, Around, Backlink, Leading, NoteGraph, Related, VaultGraph
from spellbook.search.searcher import Searcher
from spellbook.settings import config, paths
from spellbook.system.errors import PermissionDenied, StorageError

Entry = TypeVar("Entry", Leading, Backlink, Related)

MOST_SEEN = 64
"""Readers of limited callers that are kept, each with the vectors of its latest questions."""


def open(
    names: Sequence[str] = (), database: PostgresDatabase | None = None, scope: str | None = None
) -> PublishedReader:
    """
    Open the published vaults `names`, or all, of a database: that of SPELLBOOK_DATABASE_URL unless one is given.

    Raises InvalidInput without one, StorageError where it does not answer, VaultNotFound for an unknown name.
    """
    database = database or configured()
    if database is None:
        raise StorageError(f"{URL} is not set.", "Write it as postgresql://USER:PASSWORD@HOST:PORT/NAME.")
    which = hashlib.sha256("\0".join((database.place, *names)).encode()).hexdigest()[:16]
    root = Path(paths.state("published")).parent / "published" / which / "vault"
    root.mkdir(parents=True, exist_ok=True)
    settings = replace(config.load(root, scope=scope), count_use=False, snapshots=False, wikis=(), categories={})
    return PublishedReader(settings, database, tuple(names))


def _below(head: str, entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Return links or notes with `head` before their paths and ids."""
    return tuple(
        replace(entry, path=entry.path and head + entry.path, id=entry.id and head + entry.id) for entry in entries
    )


def _shown(head: str, note: ListedNote | None) -> ListedNote | None:
    """Return a note with `head` before its path and id."""
    return note and note._replace(path=head + note.path, id=head + note.id)


class PublishedReader(Reader):
    """The published vaults `names` of a database, all of them if it is empty."""

    def __init__(self, settings: config.Config, database: PostgresDatabase, names: tuple[str, ...]) -> None:
        super().__init__(settings, Index.open(settings))
        self._database, self._names = database, names
        self._local = self.index
        self._seen: OrderedDict[tuple[str, tuple[str, ...] | None], PublishedReader] = OrderedDict()
        self._guard = threading.Lock()
        vaults(database, names)  # so that a wrong name or address is an error now
        self._show("", None)

    def _show(self, sees: str, only: tuple[str, ...] | None) -> None:
        """Show the notes of a scope and of the vaults `only`, None for all; no other notes are found."""
        local = self._local
        self._source = PublishedSource(
            local.config, self._database, local.embedder, local.second, local.reranker, self._names, sees, only
        )
        self._engine = self._source.engine()
        self.loaded = None
        catalog = PublishedCatalog(local.catalog, self._engine)
        self.index = replace(local, catalog=catalog, vault=PublishedVault(catalog, local.vault.journal))

    @property
    def _searcher(self) -> Searcher:
        self.loaded = self.loaded or Searcher(self._source)
        return self.loaded

    def seen_by(self, sees: str = "", only: Collection[str] | None = None) -> PublishedReader:
        """Return the book of a caller who sees team or public notes alone, "" for all, and the vaults `only`."""
        key = sees, None if only is None else tuple(sorted(set(only)))
        with self._guard:
            reader = self._seen.pop(key, None)
            if reader is None:
                reader = copy.copy(self)  # connections, models and counts are shared
                reader._show(*key)
            self._seen[key] = reader
            if len(self._seen) > MOST_SEEN:
                self._seen.popitem(last=False)
        return reader

    @property
    def vaults(self) -> list[VaultRow]:
        """The vaults that are read, by name."""
        return self._engine.reader.vaults

    @property
    def is_there(self) -> bool:
        """Whether the database answers now."""
        try:
            self._database.expect()
        except StorageError:
            return False
        return True

    @property
    def denial(self) -> PermissionDenied:
        """Why nothing can be changed here."""
        return PermissionDenied(
            "This server has no files, and only finds what was published.", "Do it where the vault's files are."
        )

    def around(self, id: str) -> Around:
        """Return links, backlinks and related notes of a note (id, path or a chunk's id). Raises MemoryNotFound."""
        book, path, head = self._locate(self.resolve(id).path)
        around = related.around(book.index, path)
        return Around(_below(head, around.links), _below(head, around.backlinks), _below(head, around.related))

    def graph(self, id: str, most: int) -> NoteGraph:
        """Return at most `most` notes around a note, which comes first. Raises MemoryNotFound."""
        book, path, head = self._locate(self.resolve(id).path)
        graph = related.graph(book.index, path, most, book._near(path))
        return replace(graph, notes=tuple((head + path, head + id, title) for path, id, title in graph.notes))

    def vault_graph(self, most: int) -> VaultGraph:
        """Return the notes of the vaults, of each at most the `most` linked ones, and the links between them."""
        notes: list[ListedNote] = []
        degrees: list[int] = []
        edges: list[tuple[int, int, str]] = []
        total = 0
        for vault in self.vaults:
            book, _, head = self._locate(f"{vault.name}/")
            graph = related.vault_graph(book.index, most)
            edges += [(a + len(notes), b + len(notes), why) for a, b, why in graph.edges]
            notes += filter(None, (_shown(head, note) for note in graph.notes))
            degrees += graph.degrees
            total += graph.total
        return VaultGraph(tuple(notes), tuple(degrees), tuple(edges), total)

    def adjacent(self, id: str) -> Adjacent:
        """Return the notes before and after a note in its folder, by name. Raises MemoryNotFound."""
        book, path, head = self._locate(self.resolve(id).path)
        before, after = related.adjacent(book.index, path)
        return _shown(head, before), _shown(head, after)

    def backlinks(self, paths: Collection[str]) -> tuple[Backlink, ...]:
        """Return the other notes that link to one of the notes at `paths`."""
        by_vault: dict[str, tuple[PublishedReader, list[str]]] = {}
        for shown in paths:
            book, path, head = self._locate(shown)
            by_vault.setdefault(head, (book, []))[1].append(path)
        return tuple(
            link
            for head, (book, inside) in by_vault.items()
            for link in _below(head, related.backlinks(book.index, inside))
        )

    def _locate(self, path: str) -> tuple[PublishedReader, str, str]:
        """Return the book of a note's vault alone, the note's path there, and what is before the path here."""
        if len(self.vaults) == 1:
            return self, path, ""
        name, _, inside = path.partition("/")
        return self.seen_by(self._source.sees, [name] if inside else []), inside, f"{name}/"

    def state(self) -> State:
        """Return the state of what is published."""
        return state(self._source, self._engine.counts(), self._engine.second_fingerprint)

    def status(self) -> dict[str, Any]:
        """Return counts, sizes, this server's processes, and which vaults there are."""
        vaults = [{"name": vault.name} for vault in self.vaults]
        return {**super().status(), "vault": self._database.place, "vaults": vaults}

    def close(self) -> None:
        """Close files and connections."""
        self.index = self._local
        super().close()
        self._database.close()
