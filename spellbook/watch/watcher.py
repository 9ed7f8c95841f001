"""
Watch the vault and keep the index up to it; one watcher a vault, whichever process it lives in.

Events are hints and never the truth: they only say where to scan, and a scan
of everything follows whenever they may have been lost.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from watchdog.observers.api import BaseObserver

from spellbook.index import embed, sync
from spellbook.index.sync import Report
from spellbook.index.vectors import follow
from spellbook.library.book import Spellbook
from spellbook.system import processes
from spellbook.system.disk import eventless
from spellbook.system.errors import SpellbookError, StorageError
from spellbook.system.lock import take
from spellbook.watch.hints import USEFUL, Hints
from spellbook.watch.observers import observer
from spellbook.watch.schedule import (
    AGAIN,
    ELECTION,
    FULL_SCAN,
    RELEASE_AFTER,
    RELEASE_CHECK,
    SETTLE_AFTER,
    SNAPSHOT_AFTER,
    SNAPSHOT_CHECK,
)

_MOST_NAMED = 3
"""Folders that a complaint names; it is one line."""

_log = logging.getLogger(__name__)

_LIMITS = {errno.ENOSPC: "fs.inotify.max_user_watches", errno.EMFILE: "fs.inotify.max_user_instances"}
"""The kernel limit to raise, by the error number."""


class Watcher:
    """
    Watches `book`'s vault from a thread, once no other process does.

    `on_report` is called, from a watcher's thread, with the report of each scan that found a change, and of what was
    embedded afterwards. `begun` is set once the first scan is over, or another process watches.
    """

    def __init__(self, book: Spellbook, on_report: Callable[[Report], None] | None = None) -> None:
        self.begun = threading.Event()
        self._book = book
        self._state = book.config.state
        self._on_report = on_report
        self._hints = Hints(str(book.config.vault))
        self._stopping = threading.Event()
        self._to_embed = threading.Event()
        self._to_settle = threading.Event()
        self._threads: list[threading.Thread] = []
        self._observer: BaseObserver | None = None
        self._is_elected = False
        self._refused: dict[str, int] = {}
        self._unseen = ""
        self._root: tuple[int, int] | None = None
        self._next_try = 0.0
        self._scan_seconds = 0.0
        self._logged: dict[str, str] = {}
        self._follow_after = 0.0

    def start(self) -> Watcher:
        """Begin; returns at once."""
        for work in (self._watch, self._embed, self._settle, self._keep, self._rest):
            thread = threading.Thread(target=work, name=f"spellbook-{work.__name__.strip('_')}", daemon=True)
            self._threads.append(thread)
            thread.start()
        return self

    def stop(self, within: float = 10.0) -> None:
        """End the watch and wait at most `within` seconds for its threads. A running embedding finishes its batch."""
        deadline = time.monotonic() + within
        self._stopping.set()
        self._to_embed.set()
        self._to_settle.set()
        self._hints.wake.set()
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def __enter__(self) -> Watcher:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- scanning

    def _watch(self) -> None:
        # The lock is taken and released by this thread; the kernel frees it if the process dies.
        try:
            while (lock := take(self._state / processes.ELECTED)) is None:
                self.begun.set()
                if self._stopping.wait(ELECTION):
                    return
        except OSError as error:  # each question scans by itself
            self._say("watch", error)
            self.begun.set()
            return
        self._is_elected = True
        try:
            self._observe()
            self._hints.add(None)  # observe first, scan second: nothing falls between
            next_full = time.monotonic() + FULL_SCAN
            missed: list[str] = []
            while not self._stopping.is_set():
                self._hints.wake.wait(1.0)
                if self._stopping.is_set():
                    break
                self._restart_observer()
                now = time.monotonic()
                if now >= next_full:
                    self._hints.add(None)
                if due := self._hints.due(now, force=now >= next_full):
                    full, paths = due[0], [*missed, *due[1]]
                    is_well = self._scan(full, paths)
                    missed = [] if is_well else [*dict.fromkeys(paths)]
                    if full or not is_well:
                        # Without events, scan as often as costs no more than some per cent of a processor.
                        wait = FULL_SCAN if self._announce(is_well) else max(AGAIN, 20 * self._scan_seconds)
                        next_full = time.monotonic() + wait
                    self.begun.set()
        finally:
            self._is_elected = False
            processes.announce(self._state, None)
            self._unobserve()
            self._hints.close()
            lock.release()
            self.begun.set()

    def _announce(self, is_well: bool) -> bool:
        """After a scan that ended well or not, say whether others may rely on this watcher, and return that."""
        unseen = self._unseen = self._blind()
        self._say("watch", SpellbookError(unseen) if unseen else None)
        is_deaf = self._observer is None or self._book.config.polls or eventless(self._book.config.vault)
        is_relied_upon = is_well and not unseen and not is_deaf
        processes.announce(self._state, unseen if unseen or is_relied_upon else None)
        return is_relied_upon

    def _blind(self) -> str:
        """Say which folders cannot be watched, why, and what to do; "" if all can."""
        root, ignores = str(self._book.config.vault), self._book.index.vault.ignores
        refused = {
            os.path.relpath(place, root): code for place, code in list(self._refused.items()) if os.path.isdir(place)
        }
        folders = sorted(path for path in refused if path == "." or not ignores(path + "/"))
        if not folders:
            return ""
        why = "; ".join(sorted({_advice(refused[path]) for path in folders}))
        if "." in folders:
            return f"{root} cannot be watched: {why}"
        named = ", ".join([*folders[:_MOST_NAMED], *(["…"] if len(folders) > _MOST_NAMED else [])])
        return f"{len(folders)} folder{'s' * (len(folders) > 1)} cannot be watched ({named}): {why}"

    def _scan(self, full: bool, paths: list[str]) -> bool:
        """Scan everything or `paths`; return whether that went well. After a failure another scan follows."""
        started = time.monotonic()
        try:
            self._book.follow()
            # A full scan announces the embedding before it starts, since the embedding thread is only woken after it.
            if full:
                with processes.present(self._state, processes.EMBEDDING):
                    # An event may tell of a change that no stamp shows.
                    report = sync.scan(
                        self._book.index,
                        hinted=frozenset(paths),
                        progress=lambda *_: processes.keep_watched(self._state),
                    )
                self._scan_seconds = time.monotonic() - started
            else:
                report = sync.scan_paths(self._book.index, paths)
            if full or report.added or report.changed:
                self._to_embed.set()
            else:  # a note is gone or elsewhere, or another process has read the change first
                self._to_settle.set()
            if self._on_report and (report.added or report.changed or report.moved or report.removed):
                self._on_report(sync.finish(self._book.index, report, started))
        except Exception as error:
            self._say("scan", error)
            return False
        if full:  # a scan of some files says nothing of the others
            self._say("scan", None)
        return True

    def _embed(self) -> None:
        """Embed what the scans found, in a thread of its own, so that new words never wait for old vectors."""
        while not self._stopping.is_set():
            self._to_embed.wait()
            self._to_embed.clear()
            if self._stopping.is_set():
                return
            with self._reporting("embed"):  # tried again after the next scan of everything
                started = time.monotonic()
                with processes.present(self._state, processes.EMBEDDING):
                    stored = embed.embed_texts(
                        self._book.index, progress=lambda *_: self._to_settle.set(), stop=self._stopping.is_set
                    )
                self._to_settle.set()
                if stored and self._on_report:
                    self._on_report(sync.finish(self._book.index, Report(embedded=stored), started))

    def _settle(self) -> None:
        """Update the cache and Chroma between changes; in its own thread, so that no save waits for it."""
        while not self._stopping.is_set():
            self._to_settle.wait()
            until = time.monotonic() + follow.MOST_WAIT
            while self._to_settle.is_set() and not self._stopping.is_set() and time.monotonic() < until:
                self._to_settle.clear()
                self._stopping.wait(SETTLE_AFTER)
            if self._stopping.is_set():
                return
            with self._reporting("settle"):
                index = self._book.index
                embed.tidy(index)
                if time.monotonic() >= self._follow_after and follow.is_due(index):
                    failed = follow.in_child(index, self._stopping)
                    self._follow_after = time.monotonic() + follow.RETRY_AFTER if failed else 0.0
                    self._say("follow", StorageError(failed) if failed else None)

    def _keep(self) -> None:
        """Take the day's snapshot, if this process watches; after a kill, the next one uses what it left."""
        wait, config = SNAPSHOT_AFTER, self._book.config
        while (config.snapshots or config.forget_working) and not self._stopping.wait(wait):
            wait = SNAPSHOT_CHECK
            with self._reporting("keep"):
                if self._is_elected and config.snapshots and self._book.snapshots.is_due():
                    self._book.snapshots.create()
                if self._is_elected and config.forget_working:
                    self._book.forget_working()

    def _rest(self) -> None:
        """Keep a process small that is not asked: several clients may hold one open all day."""
        while not self._stopping.wait(RELEASE_CHECK):
            # Where nobody asks, the model is there for a saved note alone, which loads it again in .3 s.
            unused = RELEASE_AFTER if self._book.loaded else RELEASE_CHECK
            self._book.release(time.monotonic() - unused)

    @contextlib.contextmanager
    def _reporting(self, what: str) -> Iterator[None]:
        """Log an error instead of raising it."""
        try:
            yield
        except Exception as error:
            self._say(what, error)
        else:
            self._say(what, None)

    def _say(self, what: str, error: Exception | None) -> None:
        """Log what went wrong, once until it is well again."""
        text = str(error) or repr(error) if error else ""
        if error and text != self._logged.get(what):
            _log.warning("%s", text, exc_info=None if isinstance(error, SpellbookError) else error)
        self._logged[what] = text

    # -- observing

    def _observe(self) -> None:
        # watchdog 7.1 prints its whole state with this one when events flood in.
        warnings.filterwarnings("ignore", message="Callback with id", category=RuntimeWarning)
        vault = self._book.config.vault
        self._root = identity(vault)
        self._refused.clear()
        processes.announce(self._state, None)
        started = time.monotonic()
        one = None
        try:
            one = observer(str(vault), self._refuse, lambda: self._hints.add(None))
            one.schedule(self._hints, str(vault), recursive=True, event_filter=USEFUL)
            one.start()
        except OSError as error:  # a limit, or the root is gone; the timer still scans
            self._refuse(str(vault), error)
            if one is not None:
                with contextlib.suppress(Exception):
                    one.stop()
        else:
            self._observer = one
        self._next_try = time.monotonic() + max(FULL_SCAN, 20 * (time.monotonic() - started))

    def _refuse(self, place: str, error: OSError) -> None:
        """Note that a folder cannot be watched; called from whichever thread tried."""
        if error.errno not in {errno.ENOENT, errno.ENOTDIR}:  # else it is gone, or a name that a file has now
            self._refused[place] = error.errno or 0
            processes.announce(self._state, None)  # until a scan is over, which comes at once
            self._hints.add(None)

    def _unobserve(self) -> None:
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(timeout=3)
            self._observer = None

    def _restart_observer(self) -> None:
        """Start the observer again where events ended, or might come now; if its root was replaced, it looks alive."""
        root = identity(self._book.config.vault)
        is_same, self._root = root == self._root, root  # a folder made anew can have the identity of the one before
        is_early = is_same and time.monotonic() < self._next_try
        if self._observer is not None:
            is_alive = is_same and all(emitter.is_alive() for emitter in self._observer.emitters)
            if is_alive and (is_early or not self._unseen):
                return
            self._unobserve()
        elif root is None or is_early:
            return
        if root is not None:
            self._observe()
        self._hints.add(None)


def identity(folder: Path) -> tuple[int, int] | None:
    """Return the identity of a folder, which differs from another one of the same name; None if there is none."""
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _advice(code: int) -> str:
    """Return why the kernel refused to watch a folder (error number `code`), and what to do about it."""
    if limit := _LIMITS.get(code):
        try:
            now = int(Path("/proc/sys", *limit.split(".")).read_text())
        except (OSError, ValueError):
            now = 0
        return f"the limit {limit} is reached, raise it: `sudo sysctl {limit}={max(2 * now, 1024)}`"
    return "it cannot be read, fix its permissions" if code == errno.EACCES else os.strerror(code)
