"""
The meter: how often and how long, kept in memory and written down now and then.

Whatever becomes of a count, the verb that it counts is never disturbed.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from spellbook.errors import SpellbookError
from spellbook.index.catalog.usage import Usage

_FLUSH_SECONDS = 10.0
"""Seconds of timings that a kill may lose: nobody misses them, and each write is a transaction."""

_STEPS = 8
"""Buckets for each tenfold of time: a figure is right to 15 %."""

_ONCE = -1_000
"""The bucket of what is only counted."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How often a verb was asked, and the milliseconds within which half, and nineteen of twenty, were answered."""

    count: int
    p50: float
    p95: float


class Meter:
    """Counts for one process; any thread may use it."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._guard = threading.Lock()
        self._counts: Counter[tuple[str, int]] = Counter()
        self._flushed = time.monotonic()

    @contextlib.contextmanager
    def timed(self, verb: str) -> Iterator[None]:
        """Time what is inside, unless it fails."""
        started = time.perf_counter()
        yield
        self._count(verb, bucket((time.perf_counter() - started) * 1000), 1)

    def count(self, name: str, number: int) -> None:
        """Count `number` more of something."""
        if number:
            self._count(name, _ONCE, number)

    def _count(self, name: str, at: int, number: int) -> None:
        with self._guard:
            self._counts[name, at] += number
            due = time.monotonic() - self._flushed > _FLUSH_SECONDS
        if due:
            self.flush()

    def flush(self) -> None:
        """Write down what was counted; later, if another process is writing now."""
        with self._guard:
            counts, self._counts = self._counts, Counter()
            self._flushed = time.monotonic()
        if counts:
            try:
                self._usage.add(counts)
            except SpellbookError:
                with self._guard:
                    self._counts.update(counts)

    def read(self) -> tuple[dict[str, Timing], dict[str, int]]:
        """Return timings by verb and counts by name, of all processes that wrote theirs down, and of this one."""
        self.flush()
        found = self._usage.counts()
        timings = {name: _timing(buckets) for name, buckets in sorted(found.items()) if _ONCE not in buckets}
        return timings, {name: buckets[_ONCE] for name, buckets in found.items() if _ONCE in buckets}


def bucket(milliseconds: float) -> int:
    """Return the bucket of a time."""
    return round(_STEPS * math.log10(max(milliseconds, 0.001)))


def _timing(buckets: Mapping[int, int]) -> Timing:
    total = sum(buckets.values())

    def within(share: float) -> float:
        seen = 0
        for each in sorted(buckets):
            seen += buckets[each]
            if seen >= share * total:
                break
        return float(f"{10 ** (each / _STEPS):.2g}")

    return Timing(total, within(0.5), within(0.95))
