"""Waits of a command: the first longer than a second is reported once, to a listener that only people have."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
