"""File system events from the kernel, and the folders for which it refuses them."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

_LIMITS = {errno.ENOSPC: "fs.inotify.max_user_watches", errno.EMFILE: "fs.inotify.max_user_instances"}
"""The kernel limit to raise, by the error number."""


def advice(code: int) -> str:
    """Return why the kernel refused to watch a folder (error number `code`), and what to do about it."""
    if limit := _LIMITS.get(code):
        try:
            now = int(Path("/proc/sys", *limit.split(".")).read_text())
        except (OSError, ValueError):
            now = 0
        return f"the limit {limit} is reached, raise it: `sudo sysctl {limit}={max(2 * now, 1024)}`"
    return "it cannot be read, fix its permissions" if code == errno.EACCES else os.strerror(code)


def observer(root: str, refused: Callable[[str, OSError], None]) -> BaseObserver:
    """Return an observer of `root`; `refused` is called for each folder that cannot be watched. Raises OSError."""
    if sys.platform != "linux":
        return Observer()
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
