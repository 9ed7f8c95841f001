"""Recent: the notes of a vault by their dates, newest first. It only reads."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass
from typing import Any

from spellbook.index import privacy
from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.catalog.usage import local
from spellbook.index.filters import WAITS, Condition, Filter, conditions, without_guides
from spellbook.index.opened import Index
from spellbook.search import related
from spellbook.settings.limits import MOST_LISTED, MOST_OFFSET
from spellbook.system.errors import InvalidInput

_MOST_REVIEWS = 1_000
"""Review dates, and notes with one, that are searched."""

_SHOWN = ("path", "line", "title", "heading", "text", "topic", "category", "keywords", "tags", "importance", "hash")


@dataclass(frozen=True, slots=True)
class Recent:
    """The first chunk of each note that is listed, newest first, and how many notes there are in all."""

    notes: tuple[StoredChunk, ...]
    total: int

    def as_dict(self) -> dict[str, Any]:
        """Return the list as the command line's JSON shows it."""
        notes = [
            {"id": chunk.note, "chunk_id": chunk.id, "when": date_of(chunk)}
            | {name: getattr(chunk, name) for name in _SHOWN}
            for chunk in self.notes
        ]
        return {"notes": notes, "total": self.total}


def recent(index: Index, limit: int, offset: int = 0, filter: Filter | None = None) -> Recent:
    """Return `limit` notes (1 to 100) after `offset`, newest first, then by id, without guides. Raises InvalidInput."""
    if not 1 <= limit <= MOST_LISTED:
        raise InvalidInput(f"limit={limit} is out of range.", f"It is 1 to {MOST_LISTED}; offset goes on from there.")
    if not 0 <= offset <= MOST_OFFSET:
        raise InvalidInput(f"offset={offset} is out of range.", f"It is 0 to {MOST_OFFSET:,}, the notes to leave out.")
    named = conditions(filter)
    notes, total = index.catalog.newest((*named, *without_guides(named), *index.visible), limit, offset)
    return Recent(tuple(notes), total)


def living(index: Index, limit: int, filter: Filter) -> Recent:
    """Return the same without an offset, but for the notes that are superseded, deprecated or stale."""
    filter = {**filter, "status!": ["superseded", privacy.DEPRECATED]}
    named = conditions(filter)
    paths = set(index.catalog.paths((*named, *without_guides(named), *index.visible)))
    named_gone = {path for path, _, _ in index.catalog.links.fields(paths, ["superseded_by"])}
    gone = paths & (related.superseded(index, paths, index.reviewed).keys() | named_gone)
    kept: list[StoredChunk] = []
    for offset in range(0, len(paths), MOST_LISTED):
        listed = recent(index, MOST_LISTED, offset, filter).notes
        kept += [each for each in listed if each.path not in gone and not privacy.lapsed(each.meta, time.time())]
        if len(kept) >= limit:
            break
    return Recent(tuple(kept[:limit]), len(paths) - len(gone))


def reviews(index: Index, *, due: bool = False) -> list[StoredChunk]:
    """Return the first chunks of the notes with a review date (key `review`), the next first; or only of those due."""
    known = index.catalog.commonest("review", index.visible, _MOST_REVIEWS)
    days = [day for day, _ in known if not due or is_due(day)]
    if not days:
        return []
    named = conditions({"review": days})
    notes, _ = index.catalog.newest((*named, *without_guides(named), *index.visible), _MOST_REVIEWS, 0)
    chunks = (chunk for chunk in notes if chunk.meta.get("review"))
    return sorted(chunks, key=lambda chunk: (str(chunk.meta["review"]), chunk.path))


def waiting(index: Index) -> tuple[int, str]:
    """Return how many notes wait for the person's review, and the day of the oldest, "" for none."""
    limits = (Condition(WAITS), *privacy.visible(index.scope, *index.other_scopes))
    total = index.catalog.newest(limits, 1, 0)[1] if index.config.review else 0
    return (total, index.catalog.newest(limits, 1, total - 1)[0][0].day) if total else (0, "")


def is_due(review: object) -> bool:
    """Say whether a review date has come."""
    return str(review)[:10] <= dt.date.today().isoformat()


def date_of(chunk: StoredChunk) -> str:
    """Return the date of a chunk's note in ISO 8601: its frontmatter's, else the file's time, local."""
    return chunk.created or chunk.updated or local(chunk.when)
