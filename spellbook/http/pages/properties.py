"""The properties of a note as a person reads them: dates, tags, yes and no, and text."""

from __future__ import annotations

import datetime as dt
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spellbook.index.catalog.schema import StoredChunk
from spellbook.notes import frontmatter
from spellbook.notes.frontmatter import RELATIONS
from spellbook.search import newest

KEPT = ("id", "agent", "created", "updated", "modified")
"""Keys that nobody edits on the page: what writes a note sets them."""

NAMES = (
    *("aliases", "author", "category", "created", "date", "importance", "keywords", "kind", "language", "published"),
    *("review", "source", "tags", "topic", "type", "updated"),
)
"""Keys that the page calls by a name of its own."""

DATE = "DAY MONTH YEAR"
"""A date as it is said; the Korean has NUMBER for the month."""

_ELSEWHERE = {"id", "agent", "title", "pinned", "tags", "tag", *RELATIONS}
"""Keys that the page says in another place."""

_MOST_VALUES = 40
_MOST_LETTERS = 500
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ].{4,})?")
_ADDRESS = re.compile(r"https?://[^\s\"'<>]+")


@dataclass(frozen=True, slots=True)
class Property:
    """A key of the frontmatter, its values, and its `kind`: "date", "tags" (links to notes), "list", "link", "text"."""

    key: str
    kind: str
    values: tuple[str, ...]


def read(meta: Mapping[str, Any], tags: Sequence[str], phrase: Callable[..., str]) -> list[Property]:
    """Return the properties of a note to be read; `tags` are all of its tags, also those in its text."""
    listed = [Property("tags", "tags", tuple(tags[:_MOST_VALUES]))] if tags else []
    for key, value in meta.items():
        if key in _ELSEWHERE or value in (None, "", [], {}):
            continue
        if isinstance(value, list) and not any(isinstance(each, list | dict) for each in value):
            listed.append(Property(key, "list", tuple(_text(each, phrase) for each in value[:_MOST_VALUES])))
        elif isinstance(value, str) and (day := _day(value)):
            listed.append(Property(key, "date", (date(day, phrase),)))
        else:
            kind = "link" if isinstance(value, str) and _ADDRESS.fullmatch(value) else "text"
            listed.append(Property(key, kind, (_text(value, phrase),)))
    return listed


def edited(meta: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the properties that can be edited, as they stand in the file."""
    return [(key, frontmatter.dump(value)) for key, value in meta.items() if key not in KEPT]


def date(day: dt.date, phrase: Callable[..., str]) -> str:
    """Return a day as a person writes it."""
    values = {"DAY": day.day, "MONTH": f"{day:%B}", "YEAR": day.year, "NUMBER": day.month}
    return re.sub("[A-Z]{3,}", lambda word: str(values[word[0]]), phrase(DATE))


def ago(chunk: StoredChunk, phrase: Callable[..., str], count: Callable[[int, str], str]) -> str:
    """Return a note's time as people say it: "3 minutes ago", "yesterday", or the day."""
    minutes = int(time.time() - chunk.when) // 60
    if len(newest.date_of(chunk)) > len("2026-01-01") and 0 <= minutes < 1440:
        number = count(minutes, "minute") if minutes < 60 else count(minutes // 60, "hour")
        return phrase("{0} ago", number) if minutes else phrase("just now")
    day = dt.date.fromisoformat(chunk.day)
    days = (dt.date.today() - day).days
    if days in (0, 1):
        return phrase("Yesterday" if days else "Today").lower()
    return phrase("{0} ago", count(days, "day")) if 1 < days < 7 else date(day, phrase)


def _day(text: str) -> dt.date | None:
    """Return the day of a date or a time in ISO 8601, in local time; None for another text."""
    if not _DATE.fullmatch(text):
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
        return (moment.astimezone() if moment.tzinfo else moment).date()
    except (ValueError, OverflowError, OSError):
        return None


def _text(value: object, phrase: Callable[..., str]) -> str:
    if isinstance(value, bool):
        return phrase("yes") if value else phrase("no")
    text = value if isinstance(value, str) else frontmatter.dump(value)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}…"
