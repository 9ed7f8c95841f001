"""Routes of figures: performance, errors, and alerts, which say what needs attention now and its next step."""

from __future__ import annotations

import datetime as dt
import math
import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from spellbook.http import faults
from spellbook.http.endpoints import Call, Endpoint
from spellbook.index import metrics
from spellbook.index.catalog.usage import local
from spellbook.system.errors import MemoryNotFound
from spellbook.text.quoting import counted
from spellbook.verbs import admin

_SEARCHES = ("search", "memorize", "find")
"""The verbs whose time is that of a search."""

_TYPES = ("working", "episodic", "semantic", "procedural")


_SLOW_MS = 500.0
"""Milliseconds from which on the 95th percentile of searches is slow."""

_MOST_FAILING = 0.05
"""Share of calls that may fail. Errors of the caller, such as the name of a missing note, do not count."""

_LEAST_FREE = 500_000_000
"""Bytes of the disk that should be free."""

_SNAPSHOT_DAYS = 2
"""Days after which a snapshot is no longer recent."""

_HOUR = 3_600.0

_PENDING_SECONDS = 3_600.0
"""Seconds for which texts may wait to be embedded."""


def performance(call: Call, timeRange: str, includeDetails: bool) -> dict[str, Any]:
    """Counts, sizes and times of all processes of this vault; memory and uptime are this process's."""
    book, hours = call.book, admin.RANGES[timeRange]
    book.refresh()
    timing, average = book.meter.mean(_SEARCHES, hours)
    _, totals = book.meter.read(hours)
    counts = book.index.catalog.counts()
    named = dict(book.index.catalog.commonest("type", (), 1_000))
    types = {name: named.get(name, 0) for name in _TYPES}
    hits, misses = (totals.get(f"{metrics.QUERY_VECTORS} {kind}", 0) for kind in (metrics.HITS, metrics.MISSES))
    slow = [{"query": q, "time": round(ms, 1), "count": n} for q, ms, n in book.meter.slowest()]
    uptime = time.monotonic() - call.served.started
    rss, peak = _memory()
    database = {
        "totalMemories": counts.notes,
        "memoryByType": {**{k: v for k, v in types.items() if v}, "none": counts.notes - sum(types.values())},
        "averageMemorySize": book.index.catalog.average_bytes(),
        "databaseSize": book.index.catalog.disk_bytes(),
        "queryPerformance": {
            "averageQueryTime": average,
            "p50": timing.p50,
            "p95": timing.p95,
            "slowQueries": slow if includeDetails else [],
        },
    }
    search = {
        "totalSearches": timing.count,
        "averageSearchTime": average,
        "cacheHitRate": round(hits / (hits + misses), 4) if hits + misses else 0.0,
        "embeddingSearchRate": round(totals.get(metrics.BY_MEANING, 0) / timing.count, 4) if timing.count else 0.0,
    }
    memory = {"usage": rss, "rss": rss, "peak": peak, "heapUsed": None, "heapTotal": None}
    system = {
        "uptime": round(uptime, 1),
        "cpuUsage": round(time.process_time() / max(uptime, 0.001), 4),
        "loadAverage": list(os.getloadavg()) if hasattr(os, "getloadavg") else [],
    }
    result = {"database": database, "search": search, "memory": memory, "system": system}
    return {"success": True, "message": call.translated("Performance statistics."), "result": result}


def _memory() -> tuple[int | None, int | None]:
    """Return the bytes of memory that this process uses, and the most that it used; None where it cannot be known."""
    if sys.platform == "win32":
        return None, None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"), peak
    except OSError:
        return None, peak


def errors(call: Call, timeRange: str, resolved: bool) -> dict[str, Any]:
    """Errors of all processes, equal ones as one, without any text of notes or queries."""
    call.book.meter.flush()
    usage, hours = call.book.index.catalog.usage, admin.RANGES[timeRange]
    none = {"resolvedAt": None, "resolvedBy": None, "reason": None}
    listed: list[dict[str, Any]]
    listed = usage.resolved(hours) if resolved else [{**e.as_dict(), **none} for e in usage.failures(hours)]
    by: dict[str, Counter[str]] = {"code": Counter(), "verb": Counter()}
    for error in listed:
        for key, counter in by.items():
            counter[str(error[key])] += int(str(error["count"]))
    counts = {"total": sum(by["code"].values()), "byCode": by["code"], "byVerb": by["verb"], "errors": listed}
    return {"message": call.translated("Error statistics."), **counts}


def resolve(call: Call, errorId: str, resolvedBy: str, reason: str) -> dict[str, Any]:
    """Mark an error as resolved; the same error again is a new one."""
    call.book.meter.flush()
    if not call.book.index.catalog.usage.resolve(errorId, resolvedBy, reason):
        raise MemoryNotFound(f"There is no open error {errorId!r}.", "GET /admin/stats/errors lists them.")
    return {"message": call.translated("The error is resolved.")}


def alerts(call: Call) -> dict[str, Any]:
    """Return what needs attention now, each with its next step. `since` is when the alerts first showed it."""
    call.book.refresh()
    listed = list(_alerts(call))
    known, now = call.served.noticed, time.time()
    first = {alert["id"]: known.get(alert["id"], alert.pop("since", None) or now) for alert in listed}
    call.served.noticed = first
    shown = []
    for alert in listed:
        since = first[alert["id"]]
        if alert["id"] != "pending" or now - since >= _PENDING_SECONDS:
            shown.append({**alert, "since": local(since)})
    return {"message": call.translated("Performance alerts."), "alerts": shown}


def _alerts(call: Call) -> Iterator[dict[str, Any]]:
    """Yield what is wrong; `since`, where it is known, in seconds since 1970."""
    book = call.book

    def alert(
        message: str, value: Any, threshold: Any, *, id: str, hint: str, severity: str = "warning"
    ) -> dict[str, Any]:
        row = {"what": call.translated(message), "value": value, "threshold": threshold}
        return {"id": id, "severity": severity, **row, "hint": call.translated(hint)}

    # The first search after a pause loads the model. The slowest queries, to which the hint leads, are this process's.
    warm = book.meter.warm(_HOUR)
    slow = warm[math.ceil(0.95 * len(warm)) - 1] if len(warm) >= admin.ENOUGH else 0.0
    if slow > _SLOW_MS:
        hint = "Look at the slowest queries: /admin/stats/performance?includeDetails=true."
        message = f"Searches are slow: 95 % took up to {slow / 1_000:.3g} s."
        yield alert(message, round(slow, 1), _SLOW_MS, id="slow_search", hint=hint)
    state = book.state()
    if state.pending:
        message = f"{counted(state.pending, 'text')} cannot be found by meaning yet."
        yield alert(message, state.pending, 0, id="pending", hint="Start a job: POST /api/reindex.", severity="info")
    if state.degraded:
        message = f"Answers are incomplete: {state.reason}"
        yield alert(message, state.reason, "", id="degraded", hint="Run spellbook doctor.", severity="critical")
    hour = metrics.brief(*book.meter.read(1))
    calls, errors = hour["calls"], hour["errors"]
    failed = sum(count for code, count in errors.items() if not faults.is_callers(code))
    if calls >= admin.ENOUGH and failed / calls > _MOST_FAILING:
        hint = "Look at them: /admin/stats/errors."
        message = f"{failed / calls:.0%} of the calls of the last hour failed."
        yield alert(message, round(failed / calls, 4), _MOST_FAILING, id="errors", hint=hint)
    last = book.snapshots.state()["last"]
    age = (time.time() - dt.datetime.fromisoformat(last).timestamp()) / 86_400 if last else None
    if age is None or age >= _SNAPSHOT_DAYS:
        days = None if age is None else int(age)
        message = "No snapshot was taken yet." if days is None else f"The last snapshot is {days:,} days old."
        row = alert(message, days, _SNAPSHOT_DAYS, id="snapshot", hint="Take one: POST /api/snapshots.")
        yield {**row, "since": time.time() - (age - _SNAPSHOT_DAYS) * 86_400} if age else row
    folder = book.config.vault if os.path.exists(book.config.vault) else book.config.state  # it may have gone away
    free = shutil.disk_usage(folder).free
    if free < _LEAST_FREE:
        message = f"The disk is nearly full: {free / 1e6:,.0f} MB are free."
        yield alert(message, free, _LEAST_FREE, id="disk", hint="Free some space.", severity="critical")
    if broken := len({fault.path for fault in book.index.catalog.notes.faults()}):
        message = "1 note needs fixing." if broken == 1 else f"{broken:,} notes need fixing."
        yield alert(message, broken, 0, id="faults", hint="They are listed by GET /api/status.")
    if refusals := errors.get("RATE_LIMIT_EXCEEDED", 0):
        message = f"The limit of requests was met {counted(refusals, 'time')} in the last hour."
        yield alert(message, refusals, 0, id="rate", hint="Ask less often, or set SPELLBOOK_RATE.")


ENDPOINTS = (
    Endpoint("GET", "/admin/alerts/performance", alerts, admin.ALERTS),
    Endpoint("GET", "/admin/stats/performance", performance, admin.PERFORMANCE),
    Endpoint("GET", "/admin/stats/errors", errors, admin.ERRORS),
    Endpoint("POST", "/admin/errors/resolve", resolve, admin.RESOLVE),
)
