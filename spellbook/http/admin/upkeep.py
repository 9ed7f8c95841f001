"""
Routes of upkeep: the database, the caches and links; cleanup of memories, those due to be forgotten, and review dates.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from spellbook.editing import revise
from spellbook.http.api import changes
from spellbook.http.api.notes import entry_of
from spellbook.http.endpoints import Call, Endpoint, Reply
from spellbook.http.faults import InvalidFields
from spellbook.index import embed, metrics, sync
from spellbook.index.catalog.schema import StoredChunk
from spellbook.index.catalog.usage import local
from spellbook.index.embed import Progress
from spellbook.index.vectors import follow
from spellbook.library.reader import Reader
from spellbook.mcp.toolsets import memento
from spellbook.search import newest
from spellbook.system.errors import InvalidInput, SpellbookError
from spellbook.vault.names import TRASH
from spellbook.verbs import admin

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


def clean(call: Call, dry_run: bool, working_days: float | None) -> dict[str, Any]:
    """Forget working memories that nobody touched, ended sessions and unused vectors; undo takes memories back."""
    book = call.book
    book.refresh()
    days = book.config.working_days if working_days is None else working_days
    due = revise.due(book.index, days, time.time())
    before, entry, trash = book.index.catalog.disk_bytes(), None, dict[str, str]()
    if not dry_run:
        if due and (done := book.whole.forget_working(days)):
            entry = entry_of(book, "forget", due[0].path)
            trash = {path.removeprefix(f"{TRASH}/"): path for path in done.trash}
        book.index.catalog.sessions.forget_ended()
        embed.tidy(book.index)
        sync.scan(book.index)  # it deletes temporary files of killed writers
    forgotten = [{"id": each.note, "path": each.path, "trash": trash.get(each.path)} for each in due]
    freed = max(0, before - book.index.catalog.disk_bytes())
    message = "Preview of the memory cleanup." if dry_run else "Memory cleanup is done."
    return {"message": call.translated(message), "forgotten": forgotten, "entry": entry, "freed_bytes": freed}


def forgetting(call: Call) -> dict[str, Any]:
    """How many memories are working, due to be forgotten, in the trash, due for review, and pinned."""
    book = call.book
    book.refresh()
    index = book.index
    due = revise.due(index, book.config.working_days, time.time())
    return {
        "message": call.translated("Forgetting statistics."),
        "working": _count(call, "type", "working"),
        "due": [_row(each) for each in due[:_MOST_LISTED]],
        "trash": trash(str(book.config.vault)),
        "reviews_due": len(newest.reviews(index, due=True)),
        "pinned": _count(call, "pinned", "true"),
    }


def _row(chunk: StoredChunk) -> dict[str, Any]:
    return {"id": chunk.note, "path": chunk.path, "title": chunk.title}


def _count(call: Call, key: str, value: str) -> int:
    """Return how many notes have this value of a key; none has where no note has the key."""
    index = call.book.index
    values = index.catalog.commonest(key, index.visible, 1_000)
    return sum(count for each, count in values if each.casefold() == value)


def trashed(vault: str) -> Iterator[tuple[float, int, str]]:
    """Yield the files of the trash: the time of each in seconds since 1970, its bytes, and its path in the vault."""
    for folder, _, names in os.walk(os.path.join(vault, TRASH)):
        for name in names:
            place = os.path.join(folder, name)
            try:
                stat = os.lstat(place)
            except OSError:
                continue  # somebody restored it just now
            yield stat.st_mtime, stat.st_size, os.path.relpath(place, vault).replace(os.sep, "/")


def trash(vault: str) -> dict[str, Any]:
    """Return how many files the trash has, their bytes, and when the oldest came."""
    files = [*trashed(vault)]
    oldest = min((changed for changed, _, _ in files), default=0.0)
    return {
        "files": len(files),
        "bytes": sum(size for _, size, _ in files),
        "oldest": local(oldest) if oldest else None,
    }


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
    message = "The review date is set." if day else "The review date is removed."
    at_text = day.isoformat() if day else None
    return {
        "message": call.translated(message),
        "id": chunk.note,
        "path": done.path,
        "review": at_text,
        "hash": done.hash,
    }


def reviews(call: Call, due: bool) -> dict[str, Any]:
    """The memories with a review date, the next first."""
    call.book.refresh()
    chunks = newest.reviews(call.book.index, due=due)
    listed = [
        {**_row(each), "review": str(each.meta["review"]), "due": newest.is_due(each.meta["review"])} for each in chunks
    ]
    return {"message": call.translated("Memories by their review dates."), "reviews": listed}


ENDPOINTS = (
    Endpoint("POST", "/admin/memory/cleanup", clean, admin.CLEAN),
    Endpoint("GET", "/admin/stats/forgetting", forgetting, admin.FORGETTING),
    Endpoint("POST", "/admin/memory/review", review, admin.REVIEW),
    Endpoint("GET", "/admin/memory/reviews", reviews, admin.REVIEWS),
    Endpoint("POST", "/admin/database/optimize", optimize, admin.OPTIMIZE, (200, 202), waits=True),
    Endpoint("GET", "/admin/links", broken_links, admin.BROKEN_LINKS),
    Endpoint("GET", "/admin/stats/cache", cache, admin.CACHE),
    Endpoint("POST", "/admin/cache/clear", clear, admin.CLEAR),
)
