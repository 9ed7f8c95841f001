"""
watchdog's source of events on each system, told apart by the ways in which it loses some.

Linux names lost events in watchdog's log; Windows and macOS tell the program, and watchdog passes it on to nobody.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import Any

from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

Refused = Callable[[str, OSError], None]
Lost = Callable[[], None]


def observer(root: str, refused: Refused, lost: Lost) -> BaseObserver:
    """
    Return an observer of `root`. Raises OSError.

    `refused` is called for each folder that cannot be watched, `lost` when Windows or macOS has dropped events.
    """
    if sys.platform == "linux":
        return _on_linux(root, refused)
    if sys.platform == "win32":
        return on_windows(lost)
    if sys.platform == "darwin":
        return on_mac(lost)
    return Observer()


def _on_linux(root: str, refused: Refused) -> BaseObserver:
    from watchdog.observers.inotify import InotifyEmitter
    from watchdog.observers.inotify_c import CallbackId, InotifyFD, Mask, WatchCallback, WatchDescriptor

    class Inotify(InotifyFD):
        """Reports the folders that cannot be watched; watchdog alone ignores them silently."""

        def add_callback(self, path: bytes, mask: Mask, callback: WatchCallback, id_: CallbackId) -> WatchDescriptor:
            place = os.fsdecode(path)
            if "/." in place.removeprefix(root):
                raise FileNotFoundError(errno.ENOENT, "dot-folders hold no notes, and watches are limited", place)
            try:
                descriptor = super().add_callback(path, mask, callback, id_)
                if descriptor == -1:  # watchdog's sign of a refusal
                    self.remove_callbacks([(descriptor, id_)])
                    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), place)
            except OSError as error:
                refused(place, error)
                raise
            return descriptor

    class Observing(BaseObserver):
        """An observer with an inotify instance of its own."""

        def __init__(self) -> None:
            self._events = Inotify()
            self._events.start()
            super().__init__(InotifyEmitter, inotify_fd=self._events)

        def on_thread_stop(self) -> None:
            super().on_thread_stop()
            self._events.stop()
            self._events.join(timeout=3)

    return Observing()


def on_windows(lost: Lost) -> BaseObserver:
    """Return an observer that calls `lost` when there were more changes than Windows' buffer could hold."""
    from watchdog.observers.read_directory_changes import WindowsApiEmitter
    from watchdog.observers.winapi import DirectoryChangeReader

    class WindowsReader(DirectoryChangeReader):
        """Reads the changes; an answer of no bytes is Windows' sign that there were too many."""

        def _run_inner(self, handle: Any, event_buffer: Any, nbytes: Any) -> None:
            super()._run_inner(handle, event_buffer, nbytes)
            if not nbytes.value:
                lost()

    class WindowsEmitter(WindowsApiEmitter):
        """Has a reader of the class above."""

        def on_thread_start(self) -> None:
            with self._lock:
                self._reader = WindowsReader(self.watch.path, recursive=self.watch.is_recursive)
            self._reader.start()

    return BaseObserver(WindowsEmitter)


def on_mac(lost: Lost) -> BaseObserver:
    """Return an observer that calls `lost` where FSEvents names a folder instead of many changes in it."""
    from watchdog.observers.fsevents import FSEventsEmitter

    class MacEmitter(FSEventsEmitter):
        """Looks at the system's own events, of which watchdog makes its own."""

        def queue_events(self, timeout: float, events: list[Any]) -> None:  # type: ignore[override]
            if any(event.must_scan_subdirs for event in events):
                lost()
            super().queue_events(timeout, events)

    return BaseObserver(MacEmitter)
