"""
Cleanup of working memories: nothing else is ever forgotten by itself, and what is forgotten is in the trash.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from spellbook.editing.revise import Erased, erase_notes
from spellbook.index.catalog.schema import StoredChunk
from spellbook.index.filters import conditions, instant
from spellbook.index.opened import Index
from spellbook.text.quoting import counted

_DAY = 86_400.0  # seconds


def due(index: Index, days: float, now: float) -> list[StoredChunk]:
    """
    Return the first chunk of each working memory that may be forgotten at `now` (seconds since 1970), oldest first.

    That is a note that Spellbook wrote (it has an `id`), of `type: working`, not pinned, and neither edited nor opened
    for so many days. The file's own time counts as an edit.
    """
    notes = [*_working(index)]
    uses = index.catalog.usage.of(note.note for note in notes)

    def touched(note: StoredChunk) -> float:
        dates = (instant(text) or 0.0 for text in (note.created, note.updated))
        used = uses.get(note.note)
        return max(*dates, note.mtime_ns / 1e9, used.last if used else 0.0)

    old = [note for note in notes if touched(note) <= now - days * _DAY]
    return sorted(old, key=lambda note: (touched(note), note.path))


def forget(index: Index, days: float | None = None) -> Erased | None:
    """
    Move the working memories that are due to the trash, as one change that `undo` takes back; None if none is.

    Without `days`, the setting `working_days` counts.
    """
    notes = due(index, index.config.working_days if days is None else days, time.time())
    count = counted(len(notes), "note")
    return erase_notes(index, notes, f"working memories ({count})", "working memories", "forget") if notes else None


def _working(index: Index) -> Iterable[StoredChunk]:
    for path in index.catalog.paths((*conditions({"type": "working"}), *index.visible)):
        first = next(iter(index.catalog.at(path)), None)
        if first is not None and first.meta.get("id") and first.meta.get("pinned") is not True:
            yield first
