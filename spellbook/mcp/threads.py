"""The few threads in which all doors compute, so that a crowd of agents waits its turn as one of browsers does."""

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

_most = _COMPUTING
"""Which of the two this process has; see `set_waiting`."""

_computing: RunVar[CapacityLimiter] = RunVar("spellbook.computing")


def computing() -> CapacityLimiter:
    """Return the limiter of this event loop for what computes: first come is first served."""
    return limiter(_computing, _most)


def set_waiting(is_waiting: bool) -> None:
    """Set how many threads `computing` gives: more where questions wait for a service that embeds."""
    global _most
    _most = _WAITING if is_waiting else _COMPUTING


def limiter(variable: RunVar[CapacityLimiter], threads: int) -> CapacityLimiter:
    """Return the limiter of this event loop for one kind of work; `variable` keeps it."""
    try:
        return variable.get()
    except LookupError:
        variable.set(bound := CapacityLimiter(threads))
        return bound
