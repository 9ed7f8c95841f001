"""How many threads of an event loop do one kind of work at a time; first come is first served."""

from __future__ import annotations

from collections.abc import Callable

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

_COMPUTING = 2
"""
Threads that compute at a time. Python runs one of them, and each more makes them take turns more often: with four, two
hundred clients got three quarters of the answers, with forty half. A second one answers while the first one waits.
"""

_WAITING = 8
"""The same where questions wait for other machines most of the time."""

_WRITING = 2
"""Threads that write at a time. The catalog takes one writer; a second one may read and parse meanwhile."""

_CHECKING = 2
"""Threads that strangers can make wait for a disk that hangs."""


def _limiter(work: str, threads: int) -> Callable[[], CapacityLimiter]:
    """Return a call for the limiter of the running event loop for one kind of work."""
    kept: RunVar[CapacityLimiter] = RunVar(f"spellbook.{work}")

    def limiter() -> CapacityLimiter:
        try:
            return kept.get()
        except LookupError:
            kept.set(made := CapacityLimiter(threads))
            return made

    return limiter


computing = _limiter("computing", _COMPUTING)
"""The limiter of this event loop for what computes."""

writing = _limiter("writing", _WRITING)
"""The limiter of this event loop for verbs that write."""

checking = _limiter("checking", _CHECKING)
"""The limiter of this event loop for checks whether the server is well."""


def expect_waiting() -> None:
    """Let more threads of this event loop compute, because questions wait for a service that embeds."""
    computing().total_tokens = _WAITING
