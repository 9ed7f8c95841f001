"""
Watch the vault and keep the index up to it; one watcher a vault, whichever process it lives in.

Events are hints and never the truth: they only say where to look, and a look
at everything follows whenever they may have been lost.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from watchdog import events
from watchdog.observers import Observer

from spellbook import sync
from spellbook.book import Spellbook
from spellbook.errors import EmbeddingError, SpellbookError
from spellbook.sync import Report
from spellbook.vault import IGNORE_FILE

if TYPE_CHECKING:
    from filelock import BaseFileLock
    from watchdog.observers.api import BaseObserver


QUIET, MOST_WAIT = 0.3, 2.0
"""Seconds without an event before the vault is looked at, and the most that a stream of events can put it off."""
FULL_LOOK = 30.0
"""Seconds between looks at everything, whatever the events said."""

_log = logging.getLogger(__name__)
_ELECTION = 1.0
_USEFUL: list[type[events.FileSystemEvent]] = [
    events.FileCreatedEvent,
    events.FileModifiedEvent,
    events.FileClosedEvent,
    events.FileDeletedEvent,
    events.FileMovedEvent,
    events.DirCreatedEvent,
    events.DirDeletedEvent,
    events.DirMovedEvent,
]
"""All that can change a note; opens and reads, of which there are far more, would overflow the queue."""


class Watcher:
    """
    Watches `book`'s vault from a thread, once no other process does.

    `on_report` is called, from a watcher's thread, with what a look at the
    vault changed and what was embedded afterwards.
    """

    def __init__(self, book: Spellbook, on_report: Callable[[Report], None] | None = None) -> None:
        self._book = book
        self._on_report = on_report
        self._hints = _Hints(str(book.config.vault))
        self._stopping = threading.Event()
        self._to_embed = threading.Event()
        self._threads: list[threading.Thread] = []
        self._observer: BaseObserver | None = None
        self._complaint = ""
        self._look_seconds = 0.0

    def start(self) -> Watcher:
        """Begin; returns at once."""
        for name, work in (("watch", self._run), ("embed", self._embed)):
            thread = threading.Thread(target=work, name=f"spellbook-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def stop(self) -> None:
        """End the watch and wait for its threads; an embedding under way finishes its batch."""
        self._stopping.set()
        self._to_embed.set()
        self._hints.wake.set()
        for thread in self._threads:
            thread.join(timeout=5)

    def __enter__(self) -> Watcher:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- looking

    def _run(self) -> None:
        lock = self._elected()
        if lock is None:
            return
        try:
            self._observe()
            self._hints.everything()  # observe first, look second: nothing falls between
            next_full = time.monotonic() + FULL_LOOK
            while not self._stopping.is_set():
                self._hints.wake.wait(1.0)
                if self._stopping.is_set():
                    break
                self._mend_observer()
                now = time.monotonic()
                if now >= next_full:
                    self._hints.everything()
                due = self._hints.due(now, force=now >= next_full)
                if due is not None:
                    full, paths = due
                    self._look(full, paths)
                    self._book.watching = True
                    if full:
                        next_full = time.monotonic() + self._period()
        finally:
            self._book.watching = False
            self._unobserve()
            self._hints.close()
            lock.release()

    def _elected(self) -> BaseFileLock | None:
        """Wait until no other process watches; None if stopped before."""
        from filelock import FileLock, Timeout

        # The lock is taken and let go by this thread; the kernel frees it if the process dies.
        lock = FileLock(self._book.config.state / "watch.lock", timeout=0)
        while not self._stopping.is_set():
            try:
                return lock.acquire().lock
            except Timeout:
                self._stopping.wait(_ELECTION)
        return None

    def _period(self) -> float:
        # Without events, look as often as costs no more than some per cent of a processor.
        return FULL_LOOK if self._observer is not None else max(2.0, 40 * self._look_seconds)

    def _look(self, full: bool, paths: list[str]) -> None:
        started = time.monotonic()
        try:
            report = sync.words(self._book.index) if full else sync.some(self._book.index, paths)
        except SpellbookError as error:
            self._complain(error)
            return
        self._complain(None)
        if full:
            self._look_seconds = time.monotonic() - started
        if full or report.added or report.changed:
            self._to_embed.set()
        if self._on_report and (report.added or report.changed or report.moved or report.removed):
            self._on_report(sync.finish(self._book.index, report, started))

    def _complain(self, error: SpellbookError | None) -> None:
        text = str(error) if error else ""
        if text and text != self._complaint:
            _log.warning("%s", text)
        self._complaint = self._book.complaint = text

    def _embed(self) -> None:
        """Embed what the looks found, in a thread of its own, so that new words never wait for old vectors."""
        while not self._stopping.is_set():
            self._to_embed.wait()
            self._to_embed.clear()
            if self._stopping.is_set():
                return
            try:
                started = time.monotonic()
                stored = sync.embed(self._book.index, stop=self._stopping.is_set)
                if not self._stopping.is_set():
                    sync.settle(self._book.index, stored)
                if stored and self._on_report:
                    self._on_report(sync.finish(self._book.index, Report(embedded=stored), started))
            except EmbeddingError as error:
                _log.warning("%s", error)
            except SpellbookError as error:
                self._complain(error)

    # -- observing

    def _observe(self) -> None:
        # watchdog 7.1 prints its whole state with this one when events flood in.
        warnings.filterwarnings("ignore", message="Callback with id", category=RuntimeWarning)
        observer = Observer()
        try:
            observer.schedule(self._hints, str(self._book.config.vault), recursive=True, event_filter=_USEFUL)
            observer.start()
        except OSError as error:  # the limit on watches, or the root is gone; the timer still looks
            _log.debug("no events from %s: %s", self._book.config.vault, error)
            with contextlib.suppress(Exception):
                observer.stop()
            self._observer = None
        else:
            self._observer = observer

    def _unobserve(self) -> None:
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(timeout=3)
            self._observer = None

    def _mend_observer(self) -> None:
        """A root that is deleted or unmounted kills the emitter and leaves the observer looking alive."""
        if self._observer is not None and all(emitter.is_alive() for emitter in self._observer.emitters):
            return
        if not os.path.isdir(self._book.config.vault):
            self._unobserve()
            return
        self._unobserve()
        self._observe()
        if self._observer is not None:
            self._hints.everything()


class _Overflow(logging.Handler):
    """Turns watchdog's only sign of lost events, a line in its log, into a call."""

    def __init__(self, lost: Callable[[], None]) -> None:
        super().__init__(logging.WARNING)
        self._lost = lost

    def emit(self, record: logging.LogRecord) -> None:
        """Take a log record."""
        if "overflow" in record.getMessage().lower():
            self._lost()


class _Hints(events.FileSystemEventHandler):
    """Collects where to look."""

    def __init__(self, root: str) -> None:
        self.wake = threading.Event()
        self._root = os.path.join(root, "")
        self._guard = threading.Lock()
        self._paths: set[str] = set()
        self._full = False
        self._first = self._last = 0.0
        self._overflow = _Overflow(self.everything)
        logging.getLogger("watchdog").addHandler(self._overflow)

    def close(self) -> None:
        """Take no more hints from the log."""
        logging.getLogger("watchdog").removeHandler(self._overflow)

    def dispatch(self, event: events.FileSystemEvent) -> None:
        """Take an event; small, since the thread that reads them from the kernel waits for it."""
        for place in (event.src_path, event.dest_path):
            if place:
                self._hint(os.fsdecode(place), event.is_directory)

    def everything(self) -> None:
        """Hint at the whole vault."""
        self._add(None)

    def due(self, now: float, *, force: bool = False) -> tuple[bool, list[str]] | None:
        """Return whether to look at everything, and where else, once it has been quiet; None until then."""
        with self._guard:
            if not self._first:
                self.wake.clear()
                return None
            if not force and now - self._last < QUIET and now - self._first < MOST_WAIT:
                wait = min(QUIET - (now - self._last), MOST_WAIT - (now - self._first))
            else:
                result = self._full, sorted(self._paths)
                self._paths, self._full, self._first = set(), False, 0.0
                self.wake.clear()
                return result
        time.sleep(max(0.005, wait))
        return None

    def _hint(self, place: str, is_directory: bool) -> None:
        path = place.removeprefix(self._root)
        if path == IGNORE_FILE:
            self._add(None)
        elif path.startswith(".") or "/." in path or "\\." in path:
            return
        elif is_directory:
            self._add(None)
        elif path[-3:].lower() == ".md" and path != place:
            self._add(path.replace(os.sep, "/"))

    def _add(self, path: str | None) -> None:
        now = time.monotonic()
        with self._guard:
            if path is None:
                self._full = True
            else:
                self._paths.add(path)
            self._first = self._first or now
            self._last = now
        self.wake.set()
