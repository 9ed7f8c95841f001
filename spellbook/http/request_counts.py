"""Counts of requests by caller, within bounds of time and memory."""

from __future__ import annotations

import time

_MOST_COUNTED = 10_000
"""Addresses or tokens that are counted at a time; one more, and all begin anew."""


class Bounded:
    """Counts by key. A count ends `seconds` after it began."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._counts: dict[str, tuple[float, int]] = {}
        """When each count ends, and how much it is."""

    def add(self, key: str) -> None:
        now = time.monotonic()
        if len(self._counts) >= _MOST_COUNTED and key not in self._counts:
            self._counts.clear()
        ends, count = self._counts.get(key, (0.0, 0))
        self._counts[key] = (ends, count + 1) if ends > now else (now + self._seconds, 1)

    def wait(self, key: str, more: int = 0) -> int:
        """Return for how many seconds a key must wait, 0 unless it has as many as allowed, and so many `more`."""
        ends, count = self._counts.get(key, (0.0, 0))
        left = ends - time.monotonic()
        return int(left) + 1 if left > 0 and count >= self._most + more else 0
