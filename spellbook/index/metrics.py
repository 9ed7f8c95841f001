"""The meter: counts, times and errors, kept in memory and written down now and then, without disturbing any verb."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any

from spellbook.index.catalog.usage import KEPT_DAYS, FailureKind, Failures, Usage
from spellbook.settings import translate
from spellbook.system.errors import SpellbookError

_FLUSH_SECONDS = 10.0
"""Seconds between two writes, each of which is a transaction. A kill loses the counts of that time at most."""

_STEPS = 32
"""Buckets for each tenfold of time: a figure is right to 4 %."""

_ONCE = -1_000
"""The bucket of counts without a time."""

CALLS = "calls"
ERRORS = "errors"
BY_MEANING = "searches by meaning"
"""Names of counts."""

QUERY_VECTORS = "query vectors"
SEARCHES = "searches"
"""Names of caches, of which `HITS` and `MISSES` are counted."""

HITS = "hits"
MISSES = "misses"

ENOUGH = 20
"""Fewer calls give no share of failures and no percentile of times. By hand."""

_SLOWEST = 10
"""Slowest queries that are listed."""

_MOST_QUERY = 80
"""Letters that are kept of each."""

_MOST_SEARCHES = 1_000
"""Searches of this process whose time is kept."""

_MOST_FAILURES = 1_000
"""Errors that are kept until they can be written down; the catalog adds up equal ones."""


@dataclass(frozen=True, slots=True)
class Timing:
    """How often a verb was asked, and the milliseconds within which half, and nineteen of twenty, were answered."""

    count: int
    p50: float
    p95: float


class Taken:
    """How long something took, in milliseconds; 0 while it is running."""

    ms = 0.0


class Meter:
    """Counts for one process; any thread may use it. Only `timed`, `read` and `flush` write anything down."""

    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._guard = threading.Lock()
        self._counts: Counter[tuple[str, int]] = Counter()
        self._failures: deque[Failures] = deque(maxlen=_MOST_FAILURES)
        self._flushed = time.monotonic()
        self._searches: deque[tuple[bool, float, float, str]] = deque(maxlen=_MOST_SEARCHES)

    @contextlib.contextmanager
    def timed(self, verb: str) -> Iterator[Taken]:
        """Time a verb, unless it fails."""
        started, taken = time.perf_counter(), Taken()
        yield taken
        taken.ms = (time.perf_counter() - started) * 1000
        if self.add(verb, bucket(taken.ms)):
            self.flush()

    def count(self, name: str, number: int = 1) -> None:
        """Count `number` more of something."""
        if number:
            self.add(name, _ONCE, number)

    def add(self, name: str, at: int = _ONCE, number: int = 1) -> bool:
        """Count, and return whether it is time to `flush`. An event loop may call it."""
        with self._guard:
            self._counts[name, at] += number
            return time.monotonic() - self._flushed > _FLUSH_SECONDS

    def searched(self, is_cached: bool | None, query: str, ms: float, *, is_warm: bool) -> None:
        """Count a search by meaning, and its cached vector (None: by words); a warm one had nothing to load."""
        self._searches.append((is_warm, ms, time.monotonic(), query[:_MOST_QUERY]))
        self.count(BY_MEANING, is_cached is not None)
        self.cached(QUERY_VECTORS, is_cached)

    def warm(self, seconds: float) -> list[float]:
        """Return the milliseconds of this process's latest searches that had nothing to load first, sorted."""
        since = time.monotonic() - seconds
        return sorted(ms for is_warm, ms, at, _ in list(self._searches) if is_warm and at >= since)

    def slowest(self) -> list[tuple[str, float, int]]:
        """Return this process's slowest queries, the warm ones first: the most milliseconds of each, and how often."""
        searches = sorted(self._searches)
        counts = Counter(query for *_, query in searches)
        slowest = {query: (is_warm, ms) for is_warm, ms, _, query in searches}
        listed = sorted(slowest, key=lambda query: slowest[query])[-_SLOWEST:]
        return sorted(((query, slowest[query][1], counts[query]) for query in listed), key=lambda slow: -slow[1])

    def cached(self, cache: str, is_hit: bool | None) -> None:
        """Count a hit or a miss of a cache; None counts nothing."""
        if is_hit is not None:
            self.count(f"{cache} {HITS if is_hit else MISSES}")

    def failed(self, verb: str, door: str, error: BaseException, *, code: str = "", message: str = "") -> None:
        """
        Count a failed verb, by the door that it was called through (cli, stdio, http).

        Messages may hold texts of notes and questions, so only known words of the table are kept: `The query has …
        characters; the maximum is ….` Any other error is its class, and the function that raised it. `code` and
        `message` are for errors of libraries.
        """
        code = code or (error.code if isinstance(error, SpellbookError) else SpellbookError.code)
        message = message or (translate.shape(error.message) if isinstance(error, SpellbookError) else "")
        if not message:
            at = error.__traceback__
            while at and at.tb_next:
                at = at.tb_next
            where = f" in {at.tb_frame.f_globals.get('__name__', '')}.{at.tb_frame.f_code.co_name}" if at else ""
            message = f"{type(error).__name__}{where}"
        now = time.time()
        self._failures.append(Failures(FailureKind(code, verb, door, message), 1, now, now))
        self.add(f"{ERRORS} {code}")

    def flush(self) -> None:
        """Write the counts; later, if another process is writing now."""
        with self._guard:
            counts, self._counts = self._counts, Counter()
            failures = [self._failures.popleft() for _ in range(len(self._failures))]
            self._flushed = time.monotonic()
        if counts:  # an error is a count, too
            try:
                self._usage.add(counts, failures)
            except SpellbookError:
                with self._guard:
                    self._counts.update(counts)
                    self._failures.extendleft(reversed(failures))

    def read(self, hours: int = KEPT_DAYS * 24) -> tuple[dict[str, Timing], dict[str, int]]:
        """Return timings by verb and counts by name of the last `hours`, of all processes that wrote theirs."""
        self.flush()
        counts = self._usage.counts(hours)
        timings = {name: _timing(buckets) for name, buckets in sorted(counts.items()) if _ONCE not in buckets}
        return timings, {name: buckets[_ONCE] for name, buckets in counts.items() if _ONCE in buckets}

    def mean(self, verbs: Collection[str], hours: int) -> tuple[Timing, float]:
        """Return the timing of several verbs together in the last `hours`, and their mean in ms, right to 4 %."""
        self.flush()
        counts = self._usage.counts(hours)
        buckets = sum((counts[name] for name in verbs if name in counts), Counter[int]())
        timing, spent = _timing(buckets), sum(10 ** (at / _STEPS) * count for at, count in buckets.items())
        return timing, round(spent / timing.count, 1) if timing.count else 0.0


def brief(timings: Mapping[str, Timing], totals: Mapping[str, int]) -> dict[str, Any]:
    """Return `Meter.read`'s figures as `stats` shows them: timings, calls, errors by code, and how caches did."""
    return {
        "timings": {verb: asdict(timing) for verb, timing in timings.items()},
        "calls": totals.get(CALLS, 0),
        "errors": {name.removeprefix(f"{ERRORS} "): count for name, count in totals.items() if name.startswith(ERRORS)},
        "by_meaning": totals.get(BY_MEANING, 0),
        "caches": {
            cache.replace(" ", "_"): {kind: totals.get(f"{cache} {kind}", 0) for kind in (HITS, MISSES)}
            for cache in (QUERY_VECTORS, SEARCHES)
        },
    }


def bucket(milliseconds: float) -> int:
    """Return the bucket of a time."""
    return round(_STEPS * math.log10(max(milliseconds, 0.001)))


def _timing(buckets: Mapping[int, int]) -> Timing:
    listed, total = sorted(buckets), sum(buckets.values())
    if not total:
        return Timing(0, 0.0, 0.0)
    seen = list(accumulate(buckets[at] for at in listed))
    p50, p95 = (10 ** (listed[bisect_left(seen, share * total)] / _STEPS) for share in (0.5, 0.95))
    return Timing(total, float(f"{p50:.3g}"), float(f"{p95:.3g}"))
