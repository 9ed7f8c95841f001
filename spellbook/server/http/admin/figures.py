"""Routes of figures: performance, alerts with the next step, and errors."""

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

from spellbook.index import metrics
from spellbook.index.catalog.usage import local
from spellbook.server.http.admin.common import SEARCHES, SLOW_MS, say
from spellbook.server.http.endpoints import Call, Endpoint
from spellbook.system.errors import MemoryNotFound
from spellbook.verbs import admin

_MOST_FAILING = 0.05
"""Share of calls that may fail."""

_LEAST_FREE = 500_000_000
"""Bytes of the disk that should be free."""

_SNAPSHOT_DAYS = 2
"""Days after which a snapshot is no longer recent."""

_FEW_CALLS = 20
"""Of fewer calls, a share that failed says nothing, and neither does a percentile of their times."""

_HOUR = 3_600.0

_PENDING_SECONDS = 3_600.0
"""Seconds for which texts may wait to be embedded."""

_TYPES = ("working", "episodic", "semantic", "procedural")


def performance(call: Call, timeRange: str, includeDetails: bool) -> dict[str, Any]:
    """Counts, sizes and times of all processes of this vault; memory and uptime are this process's."""
    book, hours = call.book, admin.RANGES[timeRange]
    book.refresh()
    timing, average = book.meter.mean(SEARCHES, hours)
    _, totals = book.meter.read(hours)
    counts, sizes = book.index.catalog.counts(), book.index.catalog.sizes()
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
        "databaseSize": sizes["bytes"],
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
    return {"success": True, "message": say(call, "Performance statistics."), "result": result}


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


def alerts(call: Call) -> dict[str, Any]:
    """What needs attention now, each with its next step. `since` is when a look at the alerts first met it."""
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
    return {"message": say(call, "Performance alerts."), "alerts": shown}


def _alerts(call: Call) -> Iterator[dict[str, Any]]:
    """Yield what is wrong; `since`, where it is known, in seconds since 1970."""
    book = call.book

    def alert(
        value: Any, threshold: Any, *, id: str, message: str, hint: str, severity: str = "warning"
    ) -> dict[str, Any]:
        row = {"what": say(call, message), "value": value, "threshold": threshold}
        return {"id": id, "severity": severity, **row, "hint": say(call, hint)}

    # The first search after a pause loads the model. The slowest queries, to which the hint leads, are this process's.
    warm = book.meter.warm(_HOUR)
    slow = warm[math.ceil(0.95 * len(warm)) - 1] if len(warm) >= _FEW_CALLS else 0.0
    if slow > SLOW_MS:
        hint = "Look at the slowest queries: /admin/stats/performance?includeDetails=true."
        yield alert(round(slow, 1), SLOW_MS, id="slow_search", message="Searches are slow.", hint=hint)
    state = book.state()
    if state.pending:
        message = "Some texts are not embedded yet."
        yield alert(
            state.pending, 0, id="pending", message=message, hint="Start a job: POST /api/reindex.", severity="info"
        )
    if state.degraded:
        message = "Answers are incomplete."
        yield alert(state.reason, "", id="degraded", message=message, hint="Run spellbook doctor.", severity="critical")
    _, totals = book.meter.read(1)
    calls, failed = totals.get(metrics.CALLS, 0), sum(n for k, n in totals.items() if k.startswith(metrics.ERRORS))
    if calls >= _FEW_CALLS and failed / calls > _MOST_FAILING:
        hint = "Look at them: /admin/stats/errors."
        yield alert(round(failed / calls, 4), _MOST_FAILING, id="errors", message="Many calls fail.", hint=hint)
    last = book.snapshots.state()["last"]
    age = (time.time() - dt.datetime.fromisoformat(last).timestamp()) / 86_400 if last else None
    if not call.served.is_published and (age is None or age >= _SNAPSHOT_DAYS):
        days = None if age is None else int(age)
        hint = "Take one: POST /api/snapshots."
        row = alert(days, _SNAPSHOT_DAYS, id="snapshot", message="There is no recent snapshot.", hint=hint)
        yield {**row, "since": time.time() - (age - _SNAPSHOT_DAYS) * 86_400} if age else row
    free = shutil.disk_usage(book.config.vault).free
    if free < _LEAST_FREE:
        message = "The disk is nearly full."
        yield alert(free, _LEAST_FREE, id="disk", message=message, hint="Free some space.", severity="critical")
    if faults := len(book.index.catalog.notes.faults()):
        message = "Some notes have faults."
        yield alert(faults, 0, id="faults", message=message, hint="They are listed by GET /api/status.")
    if met := totals.get(f"{metrics.ERRORS} RATE_LIMIT_EXCEEDED", 0):
        yield alert(met, 0, id="rate", message="A rate limit was met.", hint="Ask less often, or set SPELLBOOK_RATE.")


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
    return {"message": say(call, "Error statistics."), **counts}


def resolve(call: Call, errorId: str, resolvedBy: str, reason: str) -> dict[str, Any]:
    """Mark an error as resolved; the same error again is a new one."""
    call.book.meter.flush()
    if not call.book.index.catalog.usage.resolve(errorId, resolvedBy, reason):
        raise MemoryNotFound(f"There is no open error {errorId!r}.", "GET /admin/stats/errors lists them.")
    return {"message": say(call, "The error is resolved.")}


ENDPOINTS = (
    Endpoint("GET", "/admin/stats/performance", performance, admin.PERFORMANCE),
    Endpoint("GET", "/admin/alerts/performance", alerts, admin.ALERTS),
    Endpoint("GET", "/admin/stats/errors", errors, admin.ERRORS),
    Endpoint("POST", "/admin/errors/resolve", resolve, admin.RESOLVE),
)
