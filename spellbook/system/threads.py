"""How many threads of an event loop do one kind of work at a time; first come is first served."""

from __future__ import annotations

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

_computing: RunVar[CapacityLimiter] = RunVar("spellbook.computing")
_writing: RunVar[CapacityLimiter] = RunVar("spellbook.writing")
_checking: RunVar[CapacityLimiter] = RunVar("spellbook.checking")


def computing() -> CapacityLimiter:
    """Return the limiter of this event loop for what computes."""
    return _limiter(_computing, _COMPUTING)


def writing() -> CapacityLimiter:
    """Return the limiter of this event loop for verbs that write."""
    return _limiter(_writing, _WRITING)


def checking() -> CapacityLimiter:
    """Return the limiter of this event loop for checks whether the server is well."""
    return _limiter(_checking, _CHECKING)


def expect_waiting() -> None:
    """Let more threads of this event loop compute, because questions wait for a service that embeds."""
    _computing.set(CapacityLimiter(_WAITING))


def _limiter(variable: RunVar[CapacityLimiter], threads: int) -> CapacityLimiter:
    """Return the limiter of this event loop for one kind of work; `variable` keeps it."""
    try:
        return variable.get()
    except LookupError:
        variable.set(bound := CapacityLimiter(threads))
        return bound
