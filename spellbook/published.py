"""
The book of vaults that were published to a database, for servers without files: it is only read.

It is opened on an empty folder of its own, which holds what a server keeps beside notes: counts, sessions, tokens.
Any number of such servers answer from one database; each asks it anew for every question.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

from spellbook import config, paths
from spellbook.book import Spellbook
from spellbook.errors import MemoryNotFound, PermissionDenied, StorageError
from spellbook.index.catalog.schema import StoredChunk
from spellbook.index.postgres.database import URL, Database, configured
from spellbook.index.postgres.opened import Published
from spellbook.search.question import State, state
from spellbook.search.searcher import Searcher

if TYPE_CHECKING:
    from spellbook.config import Config

_FINDING = {"search", "memorize", "find", "show", "resolve", "state", "is_watched", "is_loaded"}
_KEEPING = {"refresh", "follow", "use", "warm_up", "release", "close"}
_READS = _FINDING | _KEEPING
"""The verbs that work."""


def open(names: Sequence[str] = (), database: Database | None = None, scope: str | None = None) -> PublishedBook:
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
    settings = replace(config.load(root, scope=scope), count_use=False, snapshots=False, wikis=())
    return PublishedBook(settings, database, tuple(names))


class PublishedBook(Spellbook):
    """Published vaults; `sees` is team or public for a caller who sees only such notes. Verbs but `_READS` refuse."""

    def __init__(
        self, settings: Config, database: Database, names: tuple[str, ...], sees: str = "", of: Spellbook | None = None
    ) -> None:
        super().__init__(settings, of.index if of else None)
        self._database, self._names = database, names
        index = self.index
        self._source = Published(index.config, database, index.embedder, index.second, index.reranker, names, sees)
        self._engine = self._source.engine()
        self._engine.counts()  # so that a wrong name or address is an error now

    @property
    def _searcher(self) -> Searcher:
        self._loaded = self._loaded or Searcher(self._source)
        return self._loaded

    def seen_by(self, sees: str) -> PublishedBook:
        """Return the book of what a token of this scope sees; it ends with this one."""
        for each in self.beside:
            if isinstance(each, PublishedBook) and each._source.sees == sees:
                return each
        settings = replace(self.config, state=self.config.state / f"sees-{sees}")
        found = PublishedBook(settings, self._database, self._names, sees, self)
        self.beside.append(found)
        return found

    def refresh(self, *, embed: bool = False) -> None:
        """Do nothing: each question reads the database as it is."""

    def follow(self) -> None:
        """Do nothing: the embedder is this server's own."""

    def is_watched(self) -> bool:
        """Return True: nothing here can be out of date."""
        return True

    def show(self, id: str) -> list[StoredChunk]:
        """Return the chunk with this id, or all chunks of the note with this id or path. Raises MemoryNotFound."""
        found = self._engine.meant(id)
        if not found:
            raise MemoryNotFound(f"Nothing has the id {id!r:.200}.", "Search for it; ids begin with the vault's name.")
        return found

    def resolve(self, id: str) -> StoredChunk:
        """Return the chunk with this id, or the first of the note with this id or path. Raises MemoryNotFound."""
        return self.show(id)[0]

    def state(self) -> State:
        """Return the state of what is published."""
        return state(self._source, self._engine.counts(), self._engine.second_fingerprint)

    def close(self) -> None:
        """Close connections."""
        super().close()
        self._database.close()


def _refused(verb: str) -> Callable[..., NoReturn]:
    def refuse(self: PublishedBook, *_: object, **__: object) -> NoReturn:
        raise PermissionDenied(
            f"This server has no files and only finds what was published: {verb} is not for it.",
            "Do it where the vault's files are.",
        )

    return refuse


for _verb, _does in vars(Spellbook).items():
    if not _verb.startswith("_") and _verb not in _READS:
        _refuse = _refused(_verb)
        setattr(PublishedBook, _verb, cast(Any, _refuse) if callable(_does) else property(_refuse))
