"""Locks between processes, all taken here: files that the kernel frees however their holder ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Protocol

from spellbook.system.waiting import waiting

_POLL = 0.05
"""Seconds between attempts on a lock that another process holds: filelock's own default."""


class Held(Protocol):
    """A lock that was taken."""

    def release(self) -> None:
        """Free it; only the thread that took it may."""


def take(file: Path, patience: float = 0, *, poll: float = _POLL) -> Held | None:
    """Take a lock, for this thread to `release`; None if busy for `patience` seconds (below 0: for ever)."""
    from filelock import FileLock, Timeout

    lock = FileLock(file, timeout=patience, mode=0o600, poll_interval=poll)
    try:
        with waiting("another Spellbook is at work here; this waits for it") if patience else nullcontext():
            lock.acquire()
    except Timeout:
        return None
    return lock


@contextlib.contextmanager
def held(file: Path, patience: float = 0, *, poll: float = _POLL) -> Iterator[bool]:
    """Hold the lock `file` during a `with` block, and yield whether it is held: see `take`. Raises OSError."""
    lock = take(file, patience, poll=poll)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            lock.release()
