"""The page of statistics: how many notes and chunks a reader sees, of which categories, and how they grew."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from starlette.responses import Response

from spellbook.http.pages import view
from spellbook.index.catalog.rows import CountedNote
from spellbook.index.filters import day_of

_MOST_MONTHS = 36
"""Months that are shown by months, a longer time by years. By hand: so many bars fit on a phone."""

_MOST_YEARS = 30
"""Years that are shown; the first one then counts all notes before it, too."""


def statistics(shown: view.View) -> Response:
    """Show notes, chunks, categories, growth and what is found by meaning, of the notes that the caller sees."""
    shown.book.refresh()
    index = shown.book.index
    notes = index.catalog.counted(index.visible)
    by_category: dict[str, list[CountedNote]] = defaultdict(list)
    for note in notes:
        by_category[note.category].append(note)
    categories = [(name, len(held), sum(note.chunks for note in held)) for name, held in by_category.items()]
    return shown.page(
        "statistics.html",
        notes=len(notes),
        chunks=sum(note.chunks for note in notes),
        vectors=sum(note.vectors for note in notes),
        model="" if shown.caller.is_limited else index.embedder.name,
        categories=sorted(categories, key=lambda row: (-row[1], row[0])),
        growth=list(growth([day_of(int(note.when * 1e9)) for note in notes], dt.date.today())),
    )


def growth(days: Sequence[str], today: dt.date) -> Iterator[tuple[str, int, int]]:
    """
    Yield each month, as `2026-03`, or year, from the first of `days` (ISO 8601) until today: the notes of it, and all
    notes until its end. Later days count as today.
    """
    now = today.year * 12 + today.month - 1
    months = [min(now, int(day[:4]) * 12 + int(day[5:7]) - 1) for day in days]
    oldest = min(months, default=now)
    step, most = (1, _MOST_MONTHS) if now - oldest < _MOST_MONTHS else (12, _MOST_YEARS)
    first = max(oldest // step, now // step - most + 1)
    added = Counter(max(first, month // step) for month in months)
    total = 0
    for at in range(first, now // step + 1):
        total += added[at]
        yield f"{at // 12:04}-{at % 12 + 1:02}" if step == 1 else f"{at:04}", added[at], total


ROUTES = [view.page("/statistics", statistics)]
