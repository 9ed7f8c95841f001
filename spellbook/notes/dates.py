"""
Dates as people and other programs write them, and the one rule for which key of the frontmatter dates a note.

The first date under CREATED, in their order, is a note's date; else the day in its name (`day_in`), the first date
under UPDATED, the time of its file. Pure.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, product
from typing import Any
from urllib.parse import unquote

from spellbook.notes.date_names import LETTER, NAME, SPELLED_DAYS, day_pattern, meanings, plain, table
from spellbook.notes.frontmatter import label_of
from spellbook.system.lazy import regex
from spellbook.text.unicode import folded, without_ending

CREATED = ("created", "creation", "date", "published")
UPDATED = ("updated", "changed", "modified", "edited")
"""Tables of keys in date_keys.toml, the most telling first."""
VALID = ("valid_from", "valid_until")  # the keys that say when a note holds; see `filters.validity`


def _day_of(match: re.Match[str]) -> str:
    """Return the day that a match of `day_pattern` names in ISO 8601, "" if no calendar has it."""
    parts = {name[0]: text for name, text in match.groupdict().items() if text}
    try:
        return _date(int(parts["Y"]), parts.get("M") or parts["N"], int(parts["D"]), match.string).isoformat()
    except ValueError:
        return ""


def _date(year: int, month: str, day: int, text: str) -> dt.date:
    """Return a day by the name or number of its month, by the day of the week in `text` if the name has several."""
    months = [int(month)] if month.isdecimal() else meanings("months", month)
    if len(months) > 1:
        named = {meanings("days", word)[0] for word in re.split(r"[\s,.()]+", text) if word not in month}
        dates = ((each, dt.date(year, each, 1) + dt.timedelta(day - 1)) for each in months if each)
        months = [each for each, date in dates if date.isoweekday() in named] or months
    return dt.date(year, months[0], day)


_WORD = rf"{LETTER}{{1,20}}(?:[-.'’]{LETTER}{{1,20}}){{0,3}}"
"""A day of the week in any language; in a date also "at", "um", "г."."""

_VALUE_DAY = day_pattern(r"Y\s?[-/.]\s?M\s?[-/.]\s?D", r"D\.\s?M\.\s?Y", *SPELLED_DAYS)
_TIME = (
    r"(?P<before>오전|오후|午前|午後|上午|下午)?\s?(?P<hour>\d\d?)[:시時]\s?(?P<minute>\d\d?)[분分]?(?::(?P<second>\d\d)"
    r"(?:[.,]\d+)?)?\s?(?P<half>[ap]\.?m\.?)?\s?(?P<utc>Z|UTC|GMT)?(?P<zone>[+-]\d\d:?\d\d)?"
)
_WORDS = rf"(?:[\s,،.(]*{_WORD}[.)]*){{0,3}}?[\s.,]*"
_VALUE = regex(rf"(?:{_WORD}[.,،]*\s+){{0,4}}?(?:{_VALUE_DAY}){_WORDS}(?:{_TIME}(?:\s*\(.*\)|\s*{_WORD})?)?", re.I)


def iso(value: object) -> str | None:
    """Return a date or time, a text or a link of one, or seconds or milliseconds since 1970 in ISO 8601, else None."""
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, list) and len(value) == 1:  # `[[2024-01-05]]` without quotes
        return iso(value[0])
    text = plain(label_of(str(value)).strip()) if isinstance(value, str | int) else ""
    if re.fullmatch(r"1\d{9}(?:\d{3})?", text):
        return dt.datetime.fromtimestamp(int(text) / 1000 ** (len(text) > 10), dt.UTC).isoformat()
    for form in (re.sub(r"\A(\d{8})(\d{4}|\d{6})\Z", r"\1T\2", text), _in_words(text)):
        with contextlib.suppress(ValueError):
            return (dt.datetime if len(form) > 10 else dt.date).fromisoformat(form).isoformat()
    return None


def _in_words(text: str) -> str:
    """Return a date in words, and a time in any form, in the form of ISO 8601; "" if it is none."""
    match = _VALUE.fullmatch(text) if len(text) <= 100 else None
    if not match or not match["hour"]:
        return _day_of(match) if match else ""
    half = (match["before"] or match["half"] or "").lower()
    hour = int(match["hour"]) % 12 + 12 * (half[0] == "p" or half in "오후 午後 下午") if half else int(match["hour"])
    zone = match["zone"] or ("Z" if match["utc"] else "")
    return f"{_day_of(match)}T{hour:02}:{match['minute']:0>2}:{match['second'] or '00'}{zone}"


@cache
def _keys() -> Mapping[str, str]:
    """Return the name of its table in date_keys.toml for each key, in small letters without blanks and marks."""
    rows = ((name, row) for name in (*CREATED, *UPDATED) for row in chain(*table("date_keys.toml")[name].values()))
    return {
        "".join(parts): name for name, row in rows for parts in product(*(word.split("|") for word in row.split(" ")))
    }


@lru_cache(maxsize=1_000)
def is_of(key: str, tables: Sequence[str]) -> bool:
    """Return whether a key of the frontmatter is in one of `tables` (CREATED or UPDATED)."""
    return _keys().get(re.sub(r"[\W_]", "", folded(key))) in tables


def is_alike(key: str) -> bool:
    """Return whether a key, in small letters, sounds like the date of a note, and is not read as such."""
    return bool(re.match(table("date_keys.toml")["alike"]["keys"], key)) and not is_of(key, (*CREATED, *UPDATED))


def find(meta: Mapping[str, Any], tables: Sequence[str]) -> tuple[str, str]:
    """Return the key of `meta` that dates a note by `tables` (CREATED or UPDATED), and its date in ISO 8601, or ""s."""
    inner = meta.get("date")
    whole = {**inner, **meta} if isinstance(inner, Mapping) else meta  # Material for MkDocs: `date: {created: …}`
    dated = ((key, iso(whole[key])) for name in tables for key in whole if is_of(key, (name,)))
    return next(((key, date) for key, date in dated if date), ("", ""))


def unread(meta: Mapping[str, Any]) -> list[str]:
    """Return the keys of `meta` that should hold a date and do not."""
    named = (key for key in meta if is_of(key, (*CREATED[:-1], *UPDATED[:-1])) and meta[key] not in (None, "", []))
    return [key for key in named if not isinstance(meta[key], bool | Mapping) and iso(meta[key]) is None]


# -- the date in the name of a daily note, by Obsidian's formats or as people write dates, and Logseq's names

RULE = 3
"""The version of the rule; a new one has every note read again, and none embedded."""

Formats = Sequence[tuple[str, str]]
"""Folders, "" for the whole vault, each with the format of the names in it, in the tokens of moment.js."""

_DAY = day_pattern(
    r"Y(?P<mark>[-._])MM(?P=mark)DD",
    # With a time after it, as Obsidian names unique notes.
    r"YMMDD(?:[01]\d[0-5]\d(?:[0-5]\d)?|2[0-3][0-5]\d(?:[0-5]\d)?)?",
    r"Y\. M\. D\.?",
    *SPELLED_DAYS,
)
# A number goes on behind it (2026.10.15.3), or ends before it (010-2026-10-15): then it is no date.
_FIRST = regex(rf"(?:{_DAY})(?![0-9A-Za-z])(?!\.\d)", re.I)
_LAST = regex(rf"(?<![0-9A-Za-z])(?<!\d[-.])(?:{_DAY})(?:\s?[гр]?\.)?\Z", re.I)

_TOKEN = regex(
    r"\[(?P<quoted>[^\]]*)\]|(?P<token>YYYY|YY|Y|MMMM|MMM|MM|M|DDDD|DDD|DD|Do|D|dddd|ddd|dd|d|gggg|gg|GGGG|GG"
    r"|ww|w|WW|W|Q|HH|H|hh|h|mm|m|ss|s|A|a|E|e)|(?P<literal>.)",
    re.S,
)
_PAGE = regex(r"(?:^|/)pages/((?:(?!%[01])[^/])+)\.(?:md|markdown)$")
_DAYS = "%b {0}, %Y|%B {0}, %Y|{0} %b %Y|{0} %B %Y|%Y-%m-%d|%Y/%m/%d|%m/%d/%Y|%Y%m%d|%Y年%m月%d日|%Y-%m-%d %A"
_NAMED_DAYS = "%a, %d-%m-%Y|%a, %d.%m.%Y|%a, %m/%d/%Y|%a, %Y/%m/%d|%A, %d-%m-%Y|%A, %d.%m.%Y|%A, %m/%d/%Y|%A, %Y/%m/%d"
"""Logseq's forms of a day in links, but for `dd-MM-yyyy` and `MM-dd-yyyy`, which may be two days."""

_PARTS = {
    **dict.fromkeys(("YYYY", "Y", "gggg", "GGGG"), ("year", r"\d{4}")),
    **dict.fromkeys(("YY", "gg", "GG"), ("short", r"\d\d")),
    **dict.fromkeys(("MMMM", "MMM"), ("month_name", NAME)),
    "MM": ("month", r"\d\d"),
    "M": ("month", r"\d\d?"),
    "DD": ("day", r"\d\d"),
    "D": ("day", r"\d\d?"),
    "Do": ("day_th", r"\d\d?(?:st|nd|rd|th|er|e|[.ºª일日号])"),
    "DDDD": ("of_year", r"\d{3}"),
    "DDD": ("of_year", r"\d{1,3}"),
    **dict.fromkeys(("ww", "WW"), ("week", r"\d\d")),
    **dict.fromkeys(("w", "W"), ("week", r"\d\d?")),
    "Q": ("quarter", "[1-4]"),
    "E": ("weekday", "[1-7]"),
    "e": ("after_monday", "[0-6]"),
    "d": ("after_sunday", "[0-6]"),
    **dict.fromkeys(("dddd", "ddd", "dd"), ("day_name", NAME)),
    **dict.fromkeys(("HH", "hh", "mm", "ss"), ("", r"\d\d")),
    **dict.fromkeys(("H", "h", "m", "s"), ("", r"\d\d?")),
    **dict.fromkeys(("A", "a"), ("", "am|pm|오전|오후")),
}
"""For each token the part of a date that it names, "" if it does not decide the day, and its pattern."""


def day_in(path: str, formats: Formats = ()) -> str | None:
    """Return the day in a note's name, by its folders' formats or at its beginning or end, in ISO 8601, or None."""
    path = without_ending(plain(path))
    name = path.rpartition("/")[2]
    for folder, format in ((plain(folder), format) for folder, format in formats):
        if folder and not path.startswith(f"{folder}/"):
            continue
        pattern = _format_pattern(format)
        inside = path[len(folder) :].lstrip("/")
        # In a folder of daily notes, a person may sort them into folders by hand.
        match = pattern and (pattern.fullmatch(inside) or (folder and pattern.fullmatch(name)))
        if match and (day := _day(match)):
            return day
    # All forms have a year.
    matches = (_FIRST.match(name), _LAST.search(name)) if "19" in name or "20" in name else ()
    return next(filter(None, map(_day_of, filter(None, matches))), None)


def is_day(target: str, formats: Formats = ()) -> bool:
    """Say whether the target of a link is the name of a daily note and nothing more, written or not."""
    target, anywhere = without_ending(plain(target)), [("", format) for _, format in formats]
    patterns = [_FIRST, *filter(None, (_format_pattern(format) for _, format in formats))]
    names = (target, target.rpartition("/")[2])
    whole = (name for name in names if any(pattern.fullmatch(name) for pattern in patterns))
    return any(day_in(f"{name}.md", anywhere) for name in whole)


def page(path: str) -> str:
    """Return Logseq's name of a file in `pages/`: `A/B` for `A___B.md` or `A%2FB.md`; "" for a file elsewhere."""
    match = _PAGE.search(path) if "pages/" in path else None
    return unquote(match[1].replace("___", "/")) if match else ""


def logseq_names(path: str) -> tuple[str, ...]:
    """Return the names of a page or a day in links of a Logseq graph, nothing for a file elsewhere."""
    if title := page(path):
        return (title,)
    if not (day := day_in(path) if "journals/" in path else None):
        return ()
    date = dt.date.fromisoformat(day)
    nth = f"{date.day}{'th' if 10 < date.day < 14 else {1: 'st', 2: 'nd', 3: 'rd'}.get(date.day % 10, 'th')}"
    return tuple(date.strftime(f"{_DAYS}|{_NAMED_DAYS}".format(nth)).split("|"))


@lru_cache(maxsize=100)
def _format_pattern(format: str) -> re.Pattern[str] | None:
    """Return a pattern of the names of a format; None for a format without a year."""
    seen: set[str] = set()
    # Only the first name is tried in several lengths: a row of such tokens would take exponential time.
    pattern = re.compile("".join(_pieces(format, seen)), re.I)
    return pattern if seen & {"year", "short"} else None


def _pieces(format: str, seen: set[str]) -> Iterator[str]:
    for match in _TOKEN.finditer(plain(format)):
        part, letters = _PARTS.get(match["token"], ("", re.escape(match["quoted"] or match["literal"] or "")))
        if part in seen:
            yield rf"(?>{_WORD})\.?" if letters == NAME else f"(?P={part})"
        elif part:
            yield f"(?P<{part}>{letters})" if letters == NAME else f"(?P<{part}>(?>{letters}))"
            seen.add(part)
        else:
            yield f"(?>{letters})"


def _day(match: re.Match[str]) -> str | None:
    """Return the first day of the day, week, month, quarter or year in a match."""
    parts = {key: value for key, value in match.groupdict().items() if value}
    numbers = {key: int(digits) for key, value in parts.items() if (digits := re.sub(r"\D", "", value))}
    year = numbers["year"] if "year" in numbers else 2000 + numbers["short"]
    month = parts.get("month") or parts.get("month_name") or str(3 * numbers.get("quarter", 1) - 2)
    weekday = numbers.get("weekday", numbers.get("after_monday", 0) + 1)
    try:
        if "week" in parts:
            if "day_name" in parts:
                weekday = meanings("days", parts["day_name"])[0] or weekday
            return dt.date.fromisocalendar(year, numbers["week"], numbers.get("after_sunday", weekday) or 7).isoformat()
        if "of_year" in parts:
            day = dt.date(year, 1, 1) + dt.timedelta(days=numbers["of_year"] - 1)
            return day.isoformat() if day.year == year else None
        return _date(year, month, numbers.get("day") or numbers.get("day_th", 1), match.string).isoformat()
    except (ValueError, OverflowError):
        return None
