"""
Observing: events from the kernel, and which folders it gives none of.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path

from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

_LIMITS = {errno.ENOSPC: "fs.inotify.max_user_watches", errno.EMFILE: "fs.inotify.max_user_instances"}
"""What to raise where the kernel refuses to watch, by the error that it gives."""


def advice(code: int) -> str:
    """Say why the kernel refused, with the error number `code`, to watch a folder, and what to do about it."""
    if limit := _LIMITS.get(code):
        try:
            now = int(Path("/proc/sys", *limit.split(".")).read_text())
        except (OSError, ValueError):
            now = 0
        return f"the limit {limit} is reached, raise it: `sudo sysctl {limit}={max(2 * now, 1024)}`"
    return "it may not be read, mend its permissions" if code == errno.EACCES else os.strerror(code)


def observer(root: str, refused: Callable[[str, OSError], None]) -> BaseObserver:
    """Return what observes the folder `root`; `refused` is called with each folder that cannot be watched, and why. Raises OSError."""
    if sys.platform != "linux":
        return Observer()
    from watchdog.observers.inotify import InotifyEmitter
    from watchdog.observers.inotify_c import CallbackId, InotifyFD, Mask, WatchCallback, WatchDescriptor

    class Inotify(InotifyFD):
        """Tells of the folders below the root that cannot be watched; watchdog alone passes over them in silence."""

        def add_callback(self, path: bytes, mask: Mask, callback: WatchCallback, id_: CallbackId) -> WatchDescriptor:
            place = os.fsdecode(path)
            if "/." in place.removeprefix(root):
                raise FileNotFoundError(errno.ENOENT, "no note is looked for in dot-folders, and watches are few", place)
            try:
                descriptor = super().add_callback(path, mask, callback, id_)
                if descriptor == -1:  # watchdog's way of saying so
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
