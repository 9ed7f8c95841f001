"""
The part of a vault that a token limited to team or public notes sees.

Such a token gets a reader with an index of its own, which holds the notes that it may see and nothing else. So no verb,
count, statistic or suggestion can reveal another note. The index is in the vault's state folder. Models are shared, and
vectors are copied from the vault's index, so nothing is embedded.

It is only read. A write would reveal hidden notes: the name of a new note may be in use by one, the journal, the trash
and undo belong to all notes, and a move changes links in hidden notes.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from spellbook.index import embed
from spellbook.index.opened import BEING_READ, Index
from spellbook.index.vectors import follow
from spellbook.library.book import Spellbook
from spellbook.library.reader import Reader
from spellbook.library.scanning import scan
from spellbook.settings.config import Config
from spellbook.system.errors import PermissionDenied

_OF_NOTES = ("generation", "notes", "chunks", "pending", "vectors_in_use", "categories", "faults", "unread")
"""Keys of the status that tell of the notes alone; others tell of the machine, its settings, or who asks."""


def seen_by(book: Spellbook, sees: str) -> Seen:
    """Return `book` for a token that sees all; with `sees` (team or public) its reader of such notes alone."""
    if not sees:
        return book
    with book.opening:
        part = next((part for part in book.beside if isinstance(part, LimitedReader) and part.sees == sees), None)
        if part is None:
            state = book.config.state / f"sees-{sees}"
            settings = replace(  # without settings for the rest of the vault
                book.config,
                state=state,
                embedder_given=True,  # the vault's index alone decides when to switch to another one
                categories=book.config.category_rules,
                count_use=False,
                snapshots=False,
                snapshot_folder=state / "snapshots",  # never made
                chroma_url="",
                wikis=(),
                words_of=state,  # the words of the vault may name hidden notes
            )
            part = LimitedReader(book, settings, sees)
            book.beside.append(part)
        return part


class LimitedReader(Reader):
    """The notes of the book `whole` that `sees` (team or public) shows."""

    def __init__(self, whole: Spellbook, settings: Config, sees: str) -> None:
        self.sees = sees
        self._whole = whole
        self._guard = threading.Lock()
        self._source = whole.index
        self._seen: tuple[object, ...] | None = None
        self._scanned: tuple[object, ...] | None = None
        # An event loop may wait for this; the first verb, in a thread, fills the index.
        super().__init__(settings, Index.open(settings, whole.index, sees))

    @property
    def index(self) -> Index:
        """The index, as new as the vault's own: no verb shows a note that became private meanwhile."""
        self._catch_up()
        return self._own

    @index.setter
    def index(self, index: Index) -> None:
        self._own = index

    @property
    def denial(self) -> PermissionDenied:
        """Why nothing can be changed here."""
        return PermissionDenied(
            f"This token only reads what is {self.sees}, as it is now.", "Use a token that sees all notes."
        )

    @property
    def whole(self) -> Spellbook:
        """The book of the whole vault, which the caller may not have. Raises PermissionDenied."""
        raise self.denial

    def refresh(self, *, embed: bool = False, scans: bool = True) -> None:
        """Scan the vault for changes as the whole book does, and take them over."""
        self._whole.refresh(embed=embed, scans=scans)
        # The words of the complaint count all notes, or name one.
        complaint = self._whole.complaint
        self.complaint = "the vault could not be looked at" if complaint and complaint != BEING_READ else complaint
        self._catch_up()

    def follow(self) -> None:
        """Switch to the embedding model that the vault uses now."""
        self._whole.follow()
        self._catch_up()

    def is_watched(self) -> bool:
        """Return whether a process watches every folder of the vault."""
        return self._whole.is_watched()

    def stats(self) -> dict[str, Any]:
        """Return the counts of the notes."""
        return {key: value for key, value in super().stats().items() if key in _OF_NOTES}

    def status(self) -> dict[str, Any]:
        """Return the counts of the notes, and their faults; nothing of the machine."""
        return {key: value for key, value in super().status().items() if key in _OF_NOTES}

    def close(self) -> None:
        """Close files and connections; the whole book has its own."""
        self.meter.flush()
        self._own.close()

    def _now(self) -> tuple[object, ...]:
        """Return the version of the vault's index, which changes if it or this reader's own is begun anew."""
        source = self._whole.index
        return id(source), source.catalog.generation, source.catalog.vectors.seq, self._own.catalog.version[0]

    def _catch_up(self) -> None:
        """Update the index from the vault's own. Raises StorageError: no answer comes from an older index."""
        if self._seen == self._now():
            return
        with self._guard:
            source, now = self._whole.index, self._now()
            if self._seen == now:  # another thread has done it
                return
            if self._source is not source:
                before, self._own, self.loaded = self._own, self._own.with_models(source), None
                self.config, self._source = self._own.config, source
                before.chroma.close()
                self._scanned = None
            versions = source.catalog.version, self._own.catalog.version[0]
            if self._scanned != versions:  # a new vector alone changes no note
                scan(self._own)
                self._scanned = versions
            embed.copy_vectors(self._own, source.catalog)
            if self._own.catalog.counts().chunks > self.config.exact_most:
                follow.start(self._own)  # Chroma answers in a vault of this size
            self._seen = now


Seen = Spellbook | LimitedReader
"""A vault as its caller sees it. `whole` is the book that changes it, or raises PermissionDenied."""
