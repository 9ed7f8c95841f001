"""
The admin API: its verbs, which HTTP alone offers, and their routes.

Performance and errors; the database, caches and links; old memories; the document.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from spellbook.editing import erase
from spellbook.http import api
from spellbook.http.alerts import alerts
from spellbook.http.api import changes, notes, openapi
from spellbook.http.endpoints import Call, Endpoint, Reply
from spellbook.http.faults import InvalidFields
from spellbook.index import embed, metrics, sync
from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.catalog.usage import local
from spellbook.index.opened import Progress
from spellbook.index.vectors import follow
from spellbook.library.reader import Reader
from spellbook.mcp.toolsets import memento
from spellbook.memories.memories import TYPES
from spellbook.search import newest
from spellbook.system.errors import InvalidInput, MemoryNotFound, SpellbookError, StorageError
from spellbook.vault.names import TRASH
from spellbook.verbs.arguments import DRY_RUN
from spellbook.verbs.declare import choice, flag, needed, number, share, text, texts, verb

MOST_DAYS = 36_500
RANGES = {"1h": 1, "24h": 24, "7d": 168, "30d": 720}
"""Periods of figures, in hours."""

_SEARCHES = ("search", "memorize", "find")
"""The verbs whose time is that of a search."""

_MUCH_FREE = 10_000_000
"""Bytes that are worth a vacuum."""

_MOST_LINKS = 100
"""Maximum number of single broken links to list."""

_MOST_LISTED = 20

_WAIT = 10.0
"""Seconds that a request waits for its job before it is answered 202."""

_ACTIONS = ("analyze", "index", "vacuum")
_CACHES = {"search": "searches", "embedding": "query_vectors"}
"""The name of each cache in `metrics.brief`."""


def performance(call: Call, timeRange: str, includeDetails: bool) -> dict[str, Any]:
    """Counts, sizes and times of all processes of this vault; memory and uptime are this process's."""
    book, hours = call.book, RANGES[timeRange]
    book.refresh()
    timing, average = book.meter.mean(_SEARCHES, hours)
    _, totals = book.meter.read(hours)
    counts = book.index.catalog.counts()
    named = dict(book.index.catalog.commonest("type", (), 1_000))
    types = {name: named.get(name, 0) for name in TYPES}
    hits, misses = (totals.get(f"{metrics.QUERY_VECTORS} {kind}", 0) for kind in (metrics.HITS, metrics.MISSES))
    slow = [{"query": q, "time": round(ms, 1), "count": n} for q, ms, n in book.meter.slowest()]
    uptime = time.monotonic() - call.served.started
    rss = peak = None
    if sys.platform != "win32":
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        with contextlib.suppress(OSError), open("/proc/self/statm", encoding="ascii") as file:
            rss = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {
        "success": True,
        "message": call.translated("Performance statistics."),
        "result": {
            "database": {
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
            },
            "search": {
                "totalSearches": timing.count,
                "averageSearchTime": average,
                "cacheHitRate": round(hits / (hits + misses), 4) if hits + misses else 0.0,
                "embeddingSearchRate": round(totals.get(metrics.BY_MEANING, 0) / timing.count, 4)
                if timing.count
                else 0.0,
            },
            "memory": {"usage": rss, "rss": rss, "peak": peak, "heapUsed": None, "heapTotal": None},
            "system": {
                "uptime": round(uptime, 1),
                "cpuUsage": round(time.process_time() / max(uptime, 0.001), 4),
                "loadAverage": list(os.getloadavg()) if hasattr(os, "getloadavg") else [],
            },
        },
    }


def errors(call: Call, timeRange: str, resolved: bool) -> dict[str, Any]:
    """Errors of all processes, equal ones as one, without any text of notes or queries."""
    call.book.meter.flush()
    usage, hours = call.book.index.catalog.usage, RANGES[timeRange]
    none = {"resolvedAt": None, "resolvedBy": None, "reason": None}
    listed: list[dict[str, Any]] = (
        usage.resolved(hours) if resolved else [{**e.as_dict(), **none} for e in usage.failures(hours)]
    )
    by: dict[str, Counter[str]] = {"code": Counter(), "verb": Counter()}
    for error in listed:
        for key, counter in by.items():
            counter[str(error[key])] += int(str(error["count"]))
    counts = {"total": by["code"].total(), "byCode": by["code"], "byVerb": by["verb"], "errors": listed}
    return {"message": call.translated("Error statistics."), **counts}


def resolve(call: Call, errorId: str, resolvedBy: str, reason: str) -> dict[str, Any]:
    """Mark an error as resolved; the same error again is a new one."""
    call.book.meter.flush()
    if not call.book.index.catalog.usage.resolve(errorId, resolvedBy, reason):
        raise MemoryNotFound(f"There is no open error {errorId!r}.", "GET /admin/stats/errors lists them.")
    return {"message": call.translated("The error is resolved.")}


def optimize(call: Call, actions: Sequence[str], autoCreateIndexes: bool) -> Reply:
    """Analyze, optimise the full-text index, and give the disk back what is free; beyond 10 seconds as a job."""
    wanted = [action for action in _ACTIONS if action in actions or "all" in actions]
    jobs = call.served.jobs
    job = jobs.wait(jobs.start("optimize", lambda report: _optimize(call.book, wanted, report)).id, _WAIT)
    if job.state == "running":
        return changes.begun(call, job)
    if job.state != "done":
        raise SpellbookError("The database could not be optimized.", (job.error or {}).get("message", job.state))
    return Reply({"success": True, "message": call.translated("The database is optimized."), "result": job.result}, 200)


def _optimize(book: Reader, actions: Sequence[str], report: Progress) -> dict[str, Any]:
    catalog = book.index.catalog
    before = catalog.disk_bytes()
    tables = 0
    for done, action in enumerate(actions):
        report(action, done, len(actions))
        tables = max(tables, catalog.upkeep.optimize(action))
        if action == "index" and (failed := follow.in_child(book.index, patience=0)):
            raise StorageError(failed)
    after = catalog.disk_bytes()
    free = catalog.free_bytes()
    advice = {
        "type": "table",
        "priority": "low",
        "description": 'The file has free pages: run the action "vacuum".',
        "estimatedImprovement": f"{free / 1e6:,.0f} MB of the disk.",
    }
    return {
        "analyzedQueries": len(book.meter.slowest()),
        "createdIndexes": 0,
        "optimizedTables": tables,
        "before_bytes": before,
        "after_bytes": after,
        "recommendations": [advice] if free > _MUCH_FREE and "vacuum" not in actions else [],
    }


def cache(call: Call, cacheType: str) -> dict[str, Any]:
    """Hits and misses of 30 days over all processes; sizes are this process's."""
    kinds = [*_CACHES] if cacheType == "all" else [cacheType]
    caches = metrics.brief(*call.book.meter.read())["caches"]
    hits, misses = (sum(caches[_CACHES[kind]][how] for kind in kinds) for how in ("hits", "misses"))
    sizes = [size for kind in kinds for size in _sizes(call.book, kind).values()]
    whole = hits + misses
    rate = {"totalRequests": whole, "hitRate": round(hits / whole, 4) if whole else 0.0}
    result = {"hits": hits, "misses": misses, **rate, "size": len(sizes), "memoryUsage": sum(sizes)}
    return {"success": True, "message": call.translated("Cache statistics."), "result": result}


def _sizes(book: Reader, kind: str) -> dict[str, int]:
    """Return the queries that a cache of this process has, with the bytes of each."""
    if kind == "embedding":
        return book.loaded.texts.cached() if book.loaded else {}
    return memento.cached_searches(book)


def clear(call: Call, cacheType: str, pattern: str) -> dict[str, Any]:
    """Drop cached queries, all or those in which a pattern is found. Stored vectors in use stay."""
    matches = _compile(pattern)
    cleared = left = 0
    for kind in _CACHES if cacheType == "all" else [cacheType]:
        cached = _sizes(call.book, kind)
        gone = [text for text in cached if matches is None or matches.search(text[:_MOST_SEARCHED])]
        if kind == "search":
            cleared += memento.forget_searches(call.book, gone)
        elif loaded := call.book.loaded:
            cleared += loaded.texts.forget(gone)
        left += len(cached) - len(gone)
    return {
        "success": True,
        "message": call.translated("The cache is cleared."),
        "result": {"clearedCount": cleared, "remainingCount": left},
    }


_MOST_SEARCHED = 500
"""Letters of a query that a pattern is searched in: with one repetition, the time grows by their square."""


def _compile(text: str) -> re.Pattern[str] | None:
    """Return a pattern that is matched in bounded time. Raises InvalidInput for one that may not be."""
    if not text:
        return None
    repeats = len(re.findall(r"(?<!\\)(?:[*+?]|\{\d*,?\d*\})", text.replace("(?", "(")))
    if "\\" in text and re.search(r"\\[1-9]|\(\?P=", text):
        raise InvalidInput("The pattern refers back to a group.", "Use a plain one, for example ^keys.")
    if repeats > 1 or (repeats and re.search(r"\)[*+?{]", text)):
        raise InvalidInput("The pattern repeats more than once.", "Use at most one of * + ? {}, and not on a group.")
    try:
        return re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidInput("The pattern is not a regular expression.", "For example ^keys.") from error


def broken_links(call: Call) -> dict[str, Any]:
    """Links that lead nowhere, those to files that moved first: these are `known`, and can be repaired."""
    links = call.book.whole.broken_links()
    return {
        "message": call.translated("Broken links."),
        "links": [asdict(each) for each in links[:_MOST_LINKS]],
        "total": len(links),
        "known": sum(each.path is not None for each in links),
    }


def clean(call: Call, dry_run: bool, working_days: float | None) -> dict[str, Any]:
    """Forget working memories that nobody touched, ended sessions and unused vectors; undo takes memories back."""
    book = call.book
    book.refresh()
    days = book.config.working_days if working_days is None else working_days
    due = erase.due(book.index, days, time.time())
    before = book.index.catalog.disk_bytes()
    done = book.whole.forget_working(days) if due and not dry_run else None
    entry = notes.entry_of(book, "tidy", due[0].path) if done else None
    trash = {path.removeprefix(f"{TRASH}/"): path for path in done.trash} if done else {}
    if not dry_run:
        book.index.catalog.sessions.forget_ended()
        embed.tidy(book.index)
        sync.scan(book.index)  # it deletes temporary files of killed writers
    return {
        "message": call.translated("Preview of the memory cleanup." if dry_run else "Memory cleanup is done."),
        "forgotten": [{"id": each.note, "path": each.path, "trash": trash.get(each.path)} for each in due],
        "entry": entry,
        "freed_bytes": max(0, before - book.index.catalog.disk_bytes()),
    }


def forgetting(call: Call) -> dict[str, Any]:
    """How many memories are working, due to be forgotten, in the trash, due for review, and pinned."""
    book = call.book
    book.refresh()
    index = book.index
    due = erase.due(index, book.config.working_days, time.time())
    files = [*trashed(book)]
    return {
        "message": call.translated("Forgetting statistics."),
        "working": _count(call, "type", "working"),
        "due": [_row(each) for each in due[:_MOST_LISTED]],
        "trash": {
            "files": len(files),
            "bytes": sum(size for _, size, _ in files),
            "oldest": local(min(files)[0]) if files else None,
        },
        "reviews_due": len(newest.reviews(index, due=True)),
        "pinned": _count(call, "pinned", "true"),
    }


def _row(chunk: StoredChunk) -> dict[str, Any]:
    return {"id": chunk.note, "path": chunk.path, "title": chunk.title}


def _count(call: Call, key: str, value: str) -> int:
    """Return how many notes have this value of a key; none has where no note has the key."""
    index = call.book.index
    return sum(n for each, n in index.catalog.commonest(key, index.visible, 1_000) if each.casefold() == value)


def trashed(book: Reader) -> Iterator[tuple[float, int, str]]:
    """Yield the files of the trash: the time of each in seconds since 1970, its bytes, and its path in the vault."""
    for path in book.index.vault.files(TRASH):
        with contextlib.suppress(OSError):  # somebody restored it just now
            stat = (book.config.vault / path).lstat()
            yield stat.st_mtime, stat.st_size, path


def review(call: Call, memory_id: str, at: str | None, days: int | None) -> dict[str, Any]:
    """Set the date on which to look at a memory again, in the note itself."""
    if at and days is not None:
        raise InvalidInput("at and days are both given.", "Give one of them, or neither to take the date away.")
    try:
        day = dt.date.fromisoformat(at) if at is not None else None
    except ValueError as error:
        raise InvalidFields({"at": "should be a date, for example 2026-03-14"}) from error
    day = day if days is None else dt.date.today() + dt.timedelta(days=days)
    chunk = call.book.resolve(memory_id)
    done = call.book.whole.revise(chunk.note, metadata={"review": day})
    return {
        "message": call.translated("The review date is set." if day else "The review date is removed."),
        "id": chunk.note,
        "path": done.path,
        "review": day.isoformat() if day else None,
        "hash": done.hash,
    }


def reviews(call: Call, due: bool) -> dict[str, Any]:
    """The memories with a review date, the next first."""
    call.book.refresh()
    return {
        "message": call.translated("Memories by their review dates."),
        "reviews": [
            {**_row(each), "review": str(each.meta["review"]), "due": newest.is_due(each.meta["review"])}
            for each in newest.reviews(call.book.index, due=due)
        ],
    }


_RANGE = choice("Of which time.", " ".join(RANGES), "24h")
_CACHE = choice("Which cache.", "search embedding all", "all")

PERFORMANCE = verb(
    "performance",
    "admin",
    timeRange=_RANGE,
    includeDetails=flag("With the slowest queries of this process."),
)
RESOLVE = verb(
    "resolve",
    "admin",
    errorId=needed("Which error.", 100),
    resolvedBy=text("Who resolved it.", 200),
    reason=text("Why it is resolved."),
)
CLEAN = verb(
    "clean",
    "admin",
    dry_run=DRY_RUN,
    working_days=share("After how many days; working_days of the settings if not given.", most=MOST_DAYS),
)
REVIEW = verb(
    "review",
    "admin",
    memory_id=needed("Id or path."),
    at=text("When to look at it again: a date, as 2026-03-14. Neither this nor days takes the date away.", 10, None),
    days=number("In how many days to look at it again.", None, 0, MOST_DAYS),
)
OPTIMIZE = verb(
    "optimize",
    "admin",
    actions=texts("What to do.", items=4, default=("all",), choices=(*_ACTIONS, "all")),
    autoCreateIndexes=flag("Without effect: the indexes that are needed are there."),
)
CLEAR = verb(
    "clear",
    "admin",
    cacheType=_CACHE,
    pattern=text("A regular expression for the cached queries to drop; without one, all.", 200),
)
ERRORS = verb("errors", "admin", timeRange=_RANGE, resolved=flag("The resolved ones."))
REVIEWS = verb("reviews", "admin", due=flag("Only those that are due."))

ENDPOINTS = (
    Endpoint("POST", "/admin/memory/cleanup", clean, CLEAN),
    Endpoint("GET", "/admin/stats/forgetting", forgetting, verb("forgetting", "admin")),
    Endpoint("POST", "/admin/memory/review", review, REVIEW),
    Endpoint("GET", "/admin/memory/reviews", reviews, REVIEWS),
    Endpoint("GET", "/admin/alerts/performance", alerts, verb("alerts", "admin")),
    Endpoint("GET", "/admin/stats/performance", performance, PERFORMANCE),
    Endpoint("GET", "/admin/stats/errors", errors, ERRORS),
    Endpoint("POST", "/admin/errors/resolve", resolve, RESOLVE),
    Endpoint("POST", "/admin/database/optimize", optimize, OPTIMIZE, (200, 202), waits=True),
    Endpoint("GET", "/admin/links", broken_links, verb("broken_links", "admin")),
    Endpoint("GET", "/admin/stats/cache", cache, verb("cache", "admin", cacheType=_CACHE)),
    Endpoint("POST", "/admin/cache/clear", clear, CLEAR),
)
ROUTES = [openapi.route((*api.ENDPOINTS, *ENDPOINTS)), *(each.route for each in ENDPOINTS)]
