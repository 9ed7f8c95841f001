"""
Questions to the vault as it was written by an earlier time.

The past state is an overlay: a catalog of its own in the state folder, which begins as a copy of the vault's, so that
texts which were seen before keep their vectors. It is kept as a cache by commit or snapshot. The vault's own catalog is
only read, and no file is checked out.

Notes are read as they were then: a decision that was superseded later still holds there. A state that was never
committed, and is in no snapshot, is not known.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spellbook.archive import past, versions
from spellbook.archive.past import Moment
from spellbook.index import embed, sync
from spellbook.index.catalog import overlay
from spellbook.index.catalog.catalog import FILE, Catalog
from spellbook.index.catalog.tables import FORM
from spellbook.index.opened import Index
from spellbook.library import upkeep
from spellbook.library.book import Spellbook
from spellbook.library.reader import Reader
from spellbook.models.base import short_hash
from spellbook.search import searcher
from spellbook.system import disk
from spellbook.system.errors import EmbeddingError, MemoryNotFound, PermissionDenied, SpellbookError, StorageError
from spellbook.vault import obsidian
from spellbook.vault.ignored import IGNORE_FILE
from spellbook.vault.past import Past

if TYPE_CHECKING:
    from spellbook.settings.config import Config

_MOST_OPEN = 3
"""Past states that a process keeps open beside those in use."""

_FIRST_SECONDS = 1.2
"""Seconds after which the first question to a state is answered with the vectors that it has by then."""

_OPENED_SECONDS = 0.4
"""Seconds that a process embeds pending texts when it opens a state that is kept."""

_MOST_FIRST = 512
"""Most texts that are embedded before the first answer."""

_MOST_AT_ONCE = 64
"""Texts of one batch in the background."""

_PATIENCE = 60
"""Seconds to wait for another process that makes the index of an earlier state."""

_EXACT = 1_000_000_000
"""A past state is searched exactly: an approximate index would take longer to build than it is used."""

_opening = threading.Lock()


@contextlib.contextmanager
def at(book: Reader, when: str) -> Iterator[Reader]:
    """
    Yield what reads the vault as it was written by `when` (a date, a revision of git, a snapshot); "" is now.

    It is only read, and good until the end of the context. Raises InvalidInput for what means no time, StorageError if
    git fails, PermissionDenied for a book that does not show all notes.
    """
    if not when.strip():
        yield book
        return
    whole = book.whole
    whole.follow()
    moment = past.resolve(whole.index.vault, whole.snapshots, when)
    with _opening:
        then = _open(whole, moment)
        then.users += 1
    try:
        then.moment = moment
        yield then
    finally:
        with _opening:
            then.users -= 1
            then.embed_rest()
            _close_idle(whole)


def history(book: Reader, id: str, most: int = 20) -> dict[str, Any]:
    """
    Return the versions of a note (its id or path, or a chunk's id), newest first, each with its difference.

    Of a note that is gone, the path is enough. Raises MemoryNotFound if neither git, a snapshot nor the journal has it,
    InvalidInput for a number out of range, PermissionDenied for a book that does not show all notes.
    """
    missing = None
    try:
        path = book.resolve(id).path
    except MemoryNotFound as error:
        path, missing = id if id.lower().endswith(".md") else f"{id}.md", error
    entries, left = versions.of(book.whole.index.vault, book.whole.snapshots, path, most)
    if missing and not entries:
        raise missing
    return {"id": id, "path": path, "versions": [entry.as_dict() for entry in entries], "not_read": list(left)}


def sentences(book: Reader) -> list[str]:
    """Return the sentences that name the time that `book` is of, and the notes that could not be read; [] for now."""
    if not isinstance(book, EarlierReader):
        return []
    return [*filter(None, (str(book.moment), past.left_out(book.index.catalog.notes.faults())))]


def fields(book: Reader) -> dict[str, Any]:
    """Return the same for programs, under `as_of`; {} for now."""
    if not isinstance(book, EarlierReader):
        return {}
    faults = book.index.catalog.notes.faults()
    return {"as_of": {**book.moment.as_dict(), "pending": book.index.catalog.counts().pending, "faults": len(faults)}}


class EarlierReader(Reader):
    """The vault of the book `whole` at a moment; its index lies in `settings.state`."""

    def __init__(self, whole: Spellbook, settings: Config, moment: Moment) -> None:
        now, taken = whole.index.vault, whole.snapshots
        vault = Past(settings.state, lambda: past.notes_at(now, taken, moment))
        super().__init__(settings, replace(Index.open(settings, whole.index), vault=vault))
        self.moment = moment
        self.users = 0
        self._stopping = threading.Event()
        self._embedding: threading.Thread | None = None

    @property
    def _searcher(self) -> searcher.Searcher:
        self.loaded = self.loaded or searcher.Searcher(self.index, lambda: self.moment.until)
        return self.loaded

    @property
    def denial(self) -> PermissionDenied:
        """Why nothing can be changed here."""
        return PermissionDenied("Notes of an earlier time are only read.", "Leave as_of out.")

    def embed(self, until: float) -> None:
        """Embed pending texts `until` a time of the monotonic clock; the others are found by words."""
        with contextlib.suppress(EmbeddingError):
            embed.embed_texts(self.index, most=_MOST_FIRST, stop=lambda: time.monotonic() > until)

    def embed_rest(self) -> None:
        """Embed the pending texts in the background, as long as this process has the state open."""
        if self.index.catalog.counts().pending and not (self._embedding and self._embedding.is_alive()):
            self._embedding = threading.Thread(target=self._embed_rest, name="spellbook-past", daemon=True)
            self._embedding.start()

    def _embed_rest(self) -> None:
        with contextlib.suppress(SpellbookError):
            while not self._stopping.is_set():
                if not embed.embed_texts(self.index, most=_MOST_AT_ONCE, stop=self._stopping.is_set):
                    return

    def close(self) -> None:
        """Close files and connections."""
        self._stopping.set()
        if self._embedding:
            self._embedding.join()
        super().close()


def _open_readers(book: Spellbook) -> list[EarlierReader]:
    """Return the earlier times that are open, the one opened first in front."""
    return [reader for reader in book.beside if isinstance(reader, EarlierReader)]


def _open(book: Spellbook, moment: Moment) -> EarlierReader:
    """Return the book of a moment: an open one, one that is kept, or a new one."""
    settings = _settings(book, moment)
    then = next((reader for reader in _open_readers(book) if reader.config.state == settings.state), None)
    # Another process may have deleted it; and a file that was damaged is begun anew, without a look.
    if then is not None and upkeep.mark_use(settings.state) and then.index.catalog.looked is not None:
        return then
    if then is not None:
        book.beside.remove(then)
        then.close()
    settings.state.parent.mkdir(parents=True, exist_ok=True)
    busy = StorageError("Another process is preparing the notes of an earlier time.", "Try again in a moment.")
    try:
        with disk.alone(settings.state.parent / "past.lock", _PATIENCE, busy):
            then = _reopen(book, settings, moment) or _build(book, settings, moment)
            open_states = [reader.config.state for reader in _open_readers(book)]
            upkeep.forget_past(settings.state.parent, keep=[settings.state, *open_states])
    except OSError as error:
        raise disk.storage_error(str(settings.state), error) from error
    book.beside.append(then)
    return then


def _settings(book: Spellbook, moment: Moment) -> Config:
    """Return the vault's settings for a past state. Its folder is named by all that the state's index depends on."""
    config = book.config
    ignored = b""
    with contextlib.suppress(OSError, ValueError):
        ignored = disk.read_small(config.vault / IGNORE_FILE)
    depends = [moment.key, sync.name_rules(config), book.index.embedder.fingerprint, FORM, ignored.hex()]
    if config.obsidian:
        depends.append(repr(obsidian.read(config.vault)))
    return replace(
        config,
        state=config.state / upkeep.PAST / short_hash(json.dumps(depends).encode()),
        embedder_given=True,  # the vault's book alone decides when to switch to another one
        count_use=False,
        snapshots=False,
        chroma_url="",
        wikis=(),
        beside=config.vault,  # its files and settings are only read
        exact_most=_EXACT,
    )


def _reopen(book: Spellbook, settings: Config, moment: Moment) -> EarlierReader | None:
    """Return the book of a state that is in the cache and whole, else None."""
    if not upkeep.mark_use(settings.state):
        return None
    then = EarlierReader(book, settings, moment)
    if then.index.catalog.looked is None:  # its file was damaged, and is begun anew
        then.close()
        return None
    if then.index.catalog.counts().pending:
        then.embed(time.monotonic() + _OPENED_SECONDS)
    return then


def _build(book: Spellbook, settings: Config, moment: Moment) -> EarlierReader:
    """Make the index of a state: a copy of the vault's, updated to the notes as they were then."""
    started, state = time.monotonic(), settings.state
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(parents=True, exist_ok=True)
    then: EarlierReader | None = None
    try:
        overlay.begin(book.index.catalog.file, state / FILE)
        then = EarlierReader(book, settings, moment)
        sync.scan(then.index)
        overlay.finish(state / FILE)
        if then.index.catalog.counts().pending:
            # Other earlier states may have vectors of texts that are gone since.
            for ready in state.parent.glob(f"*/{upkeep.READY}"):
                if ready.parent != state:
                    with contextlib.closing(Catalog.open(ready.parent)) as catalog:
                        embed.copy_vectors(then.index, catalog)
            then.embed(started + _FIRST_SECONDS)
        (state / upkeep.READY).write_text(json.dumps(moment.as_dict()), "utf-8")
        return then
    except BaseException:
        if then is not None:
            then.close()
        shutil.rmtree(state, ignore_errors=True)
        raise


def _close_idle(book: Spellbook) -> None:
    """Close the past states that were opened first, beyond so many, if nobody uses them."""
    idle = [reader for reader in _open_readers(book) if not reader.users]
    for reader in idle[:-_MOST_OPEN]:
        book.beside.remove(reader)
        reader.close()
