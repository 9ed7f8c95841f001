"""
Locks between processes, all taken here: files that the kernel frees however their holder ends; and waits of a command.

The first wait longer than a second is reported once, to a listener that only people have.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import BaseFileLock

AFTER = 1.0
"""Seconds of a wait before it is reported: a person wonders from then on."""

_listeners: list[Callable[[str], None]] = []
_reasons: list[str] = []  # the innermost last


@contextmanager
def listening(tell: Callable[[str], None]) -> Iterator[None]:
    """Call `tell` from another thread for the first wait longer than `AFTER`, with the innermost reason."""
    _listeners.append(tell)
    try:
        yield
    finally:
        _listeners.clear()


@contextmanager
def waiting(reason: str) -> Iterator[None]:
    """Name a wait, for the duration of the block."""
    if not _listeners:
        yield
        return
    timer = threading.Timer(AFTER, _tell)
    timer.daemon = True
    _reasons.append(reason)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        _reasons.remove(reason)


def tell(reason: str) -> None:
    """Report at once what an answer does not wait for."""
    if _listeners:
        _listeners.pop()(reason)


def _tell() -> None:
    if _reasons:
        tell(_reasons[-1])


_POLL = 0.05
"""Seconds between attempts on a lock that another process holds: filelock's own default."""


def take(file: Path, patience: float = 0, *, poll: float = _POLL) -> BaseFileLock | None:
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
