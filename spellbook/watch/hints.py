"""Hints from the system's events: which paths of the vault to scan, and when."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time

from watchdog import events

from spellbook.settings.paths import OBSIDIAN
from spellbook.text.unicode import is_markdown, is_whole
from spellbook.vault.names import IGNORE_FILE
from spellbook.watch.schedule import MOST_WAIT, QUIET

USEFUL: list[type[events.FileSystemEvent]] = [
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


class Hints(events.FileSystemEventHandler):
    """Collects what to scan. On a system that `tells_folders`, an event of a folder that went says that it was one."""

    def __init__(self, root: str, *, tells_folders: bool = sys.platform != "win32") -> None:
        self.wake = threading.Event()
        self._root = os.path.join(root, "")
        self._tells_folders = tells_folders
        self._guard = threading.Lock()
        self._paths: set[str] = set()
        self._full = False
        self._first = self._last = 0.0
        self._overflow = logging.Handler(logging.WARNING)
        self._overflow.addFilter(self._take_record)
        logging.getLogger("watchdog").addHandler(self._overflow)

    def close(self) -> None:
        """Take no more hints from the log."""
        logging.getLogger("watchdog").removeHandler(self._overflow)

    def _take_record(self, record: logging.LogRecord) -> bool:
        """Scan everything after watchdog's only sign of lost events, a line in its log; handle no record."""
        if "overflow" in record.getMessage().lower():
            self.add(None)
        return False

    def dispatch(self, event: events.FileSystemEvent) -> None:
        """Take an event; small, since the thread that reads them from the kernel waits for it."""
        for place in filter(None, map(os.fsdecode, (event.src_path, event.dest_path))):
            path = place.removeprefix(self._root)
            if path == IGNORE_FILE or path.replace(os.sep, "/") in OBSIDIAN:
                self.add(None)
            elif path.startswith(".") or "/." in path or "\\." in path:
                continue
            elif event.is_directory or self._may_be_folder(event, path):
                self.add(None)
            elif is_markdown(path) and path != place:
                # A name that is not UTF-8 is for the walk to report.
                self.add(path.replace(os.sep, "/") if is_whole(path) else None)

    def _may_be_folder(self, event: events.FileSystemEvent, path: str) -> bool:
        """Say whether a file that was removed may have been a folder: Windows does not say what a name was."""
        return not self._tells_folders and isinstance(event, events.FileDeletedEvent) and not is_markdown(path)

    def due(self, now: float, *, force: bool = False) -> tuple[bool, list[str]] | None:
        """Return whether to scan everything, and what else, once it has been quiet; None until then."""
        with self._guard:
            wait = min(self._last + QUIET, self._first + MOST_WAIT) - now
            if not self._first or force or wait <= 0:
                hints = (self._full, sorted(self._paths)) if self._first else None
                self._paths, self._full, self._first = set(), False, 0.0
                self.wake.clear()
                return hints
        time.sleep(max(0.005, wait))
        return None

    def add(self, path: str | None) -> None:
        """Hint at a path; None stands for the whole vault."""
        now = time.monotonic()
        with self._guard:
            if path is None:
                self._full = True
            else:
                self._paths.add(path)
            self._first = self._first or now
            self._last = now
        self.wake.set()
