"""Routes of memories as such: cleanup, what is due to be forgotten, and review dates."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Iterator
from typing import Any

from spellbook.editing import revise
from spellbook.http.api.notes import entry_of
from spellbook.http.endpoints import Call, Endpoint
from spellbook.http.faults import InvalidFields
from spellbook.index import embed, sync
from spellbook.index.catalog.schema import StoredChunk
from spellbook.index.catalog.usage import local
from spellbook.search import newest
from spellbook.system.errors import InvalidInput
from spellbook.vault.names import TRASH
from spellbook.verbs import admin

_MOST_LISTED = 20


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
)
