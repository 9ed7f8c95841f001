"""Routes of the database, the caches and links: optimize, cache figures and clearing, broken links."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from spellbook.http.api import changes
from spellbook.http.endpoints import Call, Endpoint, Reply
from spellbook.index import metrics
from spellbook.index.embed import Progress
from spellbook.index.vectors import follow
from spellbook.library.reader import Reader
from spellbook.mcp.toolsets import memento
from spellbook.system.errors import InvalidInput, SpellbookError
from spellbook.verbs import admin

_MUCH_FREE = 10_000_000
"""Bytes that are worth a vacuum."""

_MOST_LINKS = 100
"""Maximum number of single broken links to list."""

_WAIT = 10.0
"""Seconds that a request waits for its job before it is answered 202."""

_ACTIONS = ("analyze", "index", "vacuum")
_CACHES = {"search": "searches", "embedding": "query_vectors"}
"""The name of each cache in `metrics.brief`."""


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
    before, tables = catalog.disk_bytes(), 0
    for number, action in enumerate(actions):
        report(action, number, len(actions))
        tables = max(tables, catalog.optimize(action))
        if action == "index":
            follow.catch_up(catalog, book.index.chroma)
    after = catalog.disk_bytes()
    return {
        "analyzedQueries": len(book.meter.slowest()),
        "createdIndexes": 0,
        "optimizedTables": tables,
        "before_bytes": before,
        "after_bytes": after,
        "recommendations": [] if "vacuum" in actions else _recommend(catalog.free_bytes()),
    }


def _recommend(free: int) -> list[dict[str, str]]:
    """Return advice that makes the file smaller; slow searches are among the alerts."""
    if free <= _MUCH_FREE:
        return []
    advice = {"type": "table", "priority": "low", "description": 'The file has free pages: run the action "vacuum".'}
    return [{**advice, "estimatedImprovement": f"{free / 1e6:,.0f} MB of the disk."}]


def cache(call: Call, cacheType: str) -> dict[str, Any]:
    """Hits and misses of 30 days over all processes; sizes are this process's."""
    kinds, caches = _kinds(cacheType), metrics.brief(*call.book.meter.read())["caches"]
    hits, misses = (sum(caches[_CACHES[kind]][how] for kind in kinds) for how in ("hits", "misses"))
    sizes = [size for kind in kinds for size in _sizes(call.book, kind).values()]
    whole = hits + misses
    rate = {"totalRequests": whole, "hitRate": round(hits / whole, 4) if whole else 0.0}
    result = {"hits": hits, "misses": misses, **rate, "size": len(sizes), "memoryUsage": sum(sizes)}
    return {"success": True, "message": call.translated("Cache statistics."), "result": result}


def _kinds(name: str) -> list[str]:
    return [*_CACHES] if name == "all" else [name]


def _sizes(book: Reader, kind: str) -> dict[str, int]:
    """Return the queries that a cache of this process has, with the bytes of each."""
    if kind == "embedding":
        return book.loaded.cached() if book.loaded else {}
    return memento.cached_searches(book)


def clear(call: Call, cacheType: str, pattern: str) -> dict[str, Any]:
    """Drop cached queries, all or those in which a pattern is found. Stored vectors in use stay."""
    matches = _compile(pattern)
    cleared = left = 0
    for kind in _kinds(cacheType):
        cached = _sizes(call.book, kind)
        gone = [text for text in cached if matches is None or matches.search(text[:_MOST_SEARCHED])]
        if kind == "search":
            cleared += memento.forget_searches(call.book, gone)
        elif loaded := call.book.loaded:
            cleared += loaded.forget(gone)
        left += len(cached) - len(gone)
    result = {"clearedCount": cleared, "remainingCount": left}
    return {"success": True, "message": call.translated("The cache is cleared."), "result": result}


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


ENDPOINTS = (
    Endpoint("POST", "/admin/database/optimize", optimize, admin.OPTIMIZE, (200, 202), waits=True),
    Endpoint("GET", "/admin/links", broken_links, admin.BROKEN_LINKS),
    Endpoint("GET", "/admin/stats/cache", cache, admin.CACHE),
    Endpoint("POST", "/admin/cache/clear", clear, admin.CLEAR),
)
