"""Routes of figures: performance and errors."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from typing import Any

from spellbook.http.endpoints import Call, Endpoint
from spellbook.index import metrics
from spellbook.system.errors import MemoryNotFound
from spellbook.verbs import admin

_SEARCHES = ("search", "memorize", "find")
"""The verbs whose time is that of a search."""

_TYPES = ("working", "episodic", "semantic", "procedural")


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


ENDPOINTS = (
    Endpoint("GET", "/admin/stats/performance", performance, admin.PERFORMANCE),
    Endpoint("GET", "/admin/stats/errors", errors, admin.ERRORS),
    Endpoint("POST", "/admin/errors/resolve", resolve, admin.RESOLVE),
)
