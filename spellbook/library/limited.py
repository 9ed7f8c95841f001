"""
The book of a token that sees team or public notes alone.

The lock is absence: such a token gets a book with an index of its own, which is made of the notes that it may see and
of nothing else. So no verb, count, statistic or suggestion can tell of another note, whoever writes it. The index lies
in the vault's state folder. Models are shared, and vectors copied from the vault's index, so nothing is embedded.

It is only read. A write could not be locked: the name of a new note would tell that a hidden one has it already, the
journal, the trash and undo belong to all notes, and a move mends links in notes that are hidden.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast

from spellbook.index import embed, sync
from spellbook.index.opened import Index
from spellbook.library.book import Spellbook
from spellbook.memories.opened import refusal
from spellbook.system.sqlite import Damaged

if TYPE_CHECKING:
    from spellbook.settings.config import Config

_FINDING = {"search", "memorize", "find", "why", "recent", "show", "resolve", "alike", "validate"}
_LISTING = {"around", "backlinks", "topics", "topics_of", "topic", "contents", "about", "log", "snapshots"}
_STATE = {"state", "stats", "status", "is_watched"}
_KEPT = {"memories", "wikis"}
_KEEPING = {"refresh", "follow", "use", "warm_up", "release", "close"}
_READS = _FINDING | _LISTING | _STATE | _KEPT | _KEEPING
"""The verbs that work. `log` and `snapshots` find nothing here: those of the vault tell of all notes."""

_opening = threading.Lock()


def of(book: Spellbook, sees: Literal["team", "public"]) -> Spellbook:
    """Return the book of what a token of this scope sees of `book`'s vault; it ends with `book`."""
    with _opening:
        found = next((each for each in book.beside if each.config.sees == sees), None)
        if found is None:
            found = _Limited(book, _settings(book.config, sees))
            book.beside.append(found)
        return found


def _settings(config: Config, sees: str) -> Config:
    """Return the settings of a part of the vault, without what they say of the rest."""
    state = config.state / f"sees-{sees}"
    return replace(
        config,
        state=state,
        embedder_given=True,  # so that the vault's index alone says when to go over to another one
        categories={},
        count_use=False,
        snapshots=False,
        snapshot_folder=state / "snapshots",  # which nobody makes
        chroma_url="",
        wikis=(),
        sees=sees,
    )


class _Limited(Spellbook):
    """A part of the vault of the book `whole`. Other verbs than `_READS` raise PermissionDenied."""

    def __init__(self, whole: Spellbook, settings: Config) -> None:
        self._whole = whole
        self._guard = threading.RLock()
        self._source = whole.index
        self._seen: tuple[int, int] | None = None
        self._is_opening = True  # which an event loop may wait for; the first verb, in a thread, fills the index
        super().__init__(settings, whole.index)
        self._is_opening = False

    @property
    def index(self) -> Index:
        """The index, as new as the vault's own: whatever a verb reads of it, nothing is shown that went private."""
        if not self._is_opening:
            self._catch_up()
        return self._own

    @index.setter
    def index(self, index: Index) -> None:
        self._own = index

    def refresh(self, *, embed: bool = False, look: bool = True) -> None:
        """Scan the vault for changes as the whole book does, and take them over."""
        self._whole.refresh(embed=embed, look=look)
        # The words of the complaint count all notes, or name one.
        self.complaint = "the vault could not be looked at" if self._whole.complaint else ""
        self._catch_up()

    def follow(self) -> None:
        """Switch to the embedding model that the vault uses now."""
        self._whole.follow()
        self._catch_up()

    def is_watched(self) -> bool:
        """Return whether a process watches every folder of the vault."""
        return self._whole.is_watched()

    def close(self) -> None:
        """Close files and connections; the whole book has its own."""
        self.meter.flush()
        self._own.close()

    def _catch_up(self) -> None:
        """Bring the index up to the vault's own. Raises StorageError: then nobody is answered from an older one."""
        source = self._whole.index
        with self._guard:
            # A catalog that was begun anew counts its generations from 0, and has another seq.
            now = (source.catalog.generation, source.catalog.vectors.seq)
            if self._source is source and self._seen == now:
                return
            is_other, self._source, self._seen = self._source is not source, source, now  # what follows asks for both
            try:
                if is_other:
                    self.use(self._own.with_models(source))
                try:
                    sync.scan(self._own)
                except Damaged:  # the next use starts a new catalog
                    sync.scan(self._own)
                embed.copy_vectors(self._own, source.catalog)
            except BaseException:
                self._source, self._seen = self._own, None
                raise


def _refused(verb: str) -> Callable[..., NoReturn]:
    def refuse(self: _Limited, *_: object, **__: object) -> NoReturn:
        raise refusal(self.config, verb) or AssertionError("a book of this class may only be read")

    return refuse


for _verb, _does in vars(Spellbook).items():
    if not _verb.startswith("_") and _verb not in _READS:
        _refuse = _refused(_verb)
        setattr(_Limited, _verb, cast(Any, _refuse) if callable(_does) else property(_refuse))
