"""The date in the name of a daily note, by Obsidian's formats or as people write dates, and Logseq's names. Pure."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from urllib.parse import unquote

from spellbook.notes import dates
from spellbook.text.unicode import composed

RULE = 2
"""The version of the rule; a new one has every note read again, and none embedded."""

Formats = Sequence[tuple[str, str]]
"""Folders, "" for the whole vault, each with the format of the names in it, in the tokens of moment.js."""

_MOST_FORMAT = 100
"""Letters of a format; a longer one is not used."""

_DAY = dates.pattern(
    r"Y(?P<mark>[-._])MM(?P=mark)DD",
    # With a time after it, as Obsidian names unique notes.
    r"YMMDD(?:[01]\d[0-5]\d(?:[0-5]\d)?|2[0-3][0-5]\d(?:[0-5]\d)?)?",
    r"Y\. M\. D\.?",
    *dates.SPELLED,
)
# A number goes on behind it (2026.10.15.3), or ends before it (010-2026-10-15): then it is no date.
_FIRST = re.compile(rf"(?:{_DAY})(?![0-9A-Za-z])(?!\.\d)", re.I)
_LAST = re.compile(rf"(?<![0-9A-Za-z])(?<!\d[-.])(?:{_DAY})\Z", re.I)

_TOKEN = re.compile(
    r"\[(?P<quoted>[^\]]*)\]|(?P<token>YYYY|YY|Y|MMMM|MMM|MM|M|DDDD|DDD|DD|Do|D|dddd|ddd|dd|d|gggg|gg|GGGG|GG"
    r"|ww|w|WW|W|Q|HH|H|hh|h|mm|m|ss|s|A|a|E|e)|(?P<literal>.)",
    re.S,
)
_PAGE = re.compile(r"(?:^|/)pages/((?:(?!%[01])[^/])+)\.md$")
_DAYS = "%b {0}, %Y|%B {0}, %Y|{0} %b %Y|{0} %B %Y|%Y-%m-%d|%Y/%m/%d|%m/%d/%Y|%Y%m%d|%Y年%m月%d日|%Y-%m-%d %A"
_NAMED_DAYS = "%a, %d-%m-%Y|%a, %d.%m.%Y|%a, %m/%d/%Y|%a, %Y/%m/%d|%A, %d-%m-%Y|%A, %d.%m.%Y|%A, %m/%d/%Y|%A, %Y/%m/%d"
"""Logseq's forms of a day in links, but for `dd-MM-yyyy` and `MM-dd-yyyy`, which may be two days."""

_TWO, _ONE = r"\d\d", r"\d\d?"
_PARTS = {
    **dict.fromkeys(("YYYY", "Y", "gggg", "GGGG"), ("year", r"\d{4}")),
    **dict.fromkeys(("YY", "gg", "GG"), ("short", _TWO)),
    **dict.fromkeys(("MMMM", "MMM"), ("named", rf"tháng \d\d?|\d\d?[월月]|{dates.WORD}")),
    "MM": ("month", _TWO),
    "M": ("month", _ONE),
    "DD": ("day", _TWO),
    "D": ("day", _ONE),
    "Do": ("day_th", r"\d\d?(?:st|nd|rd|th|er|e|[.ºª일日号])"),
    "DDDD": ("of_year", r"\d{3}"),
    "DDD": ("of_year", r"\d{1,3}"),
    **dict.fromkeys(("ww", "WW"), ("week", _TWO)),
    **dict.fromkeys(("w", "W"), ("week", _ONE)),
    "Q": ("quarter", "[1-4]"),
    "E": ("weekday", "[1-7]"),
    "e": ("after_monday", "[0-6]"),
    "d": ("after_sunday", "[0-6]"),
}
"""For each token the part of a date that it names, and its pattern."""

_OTHERS = {
    **dict.fromkeys(("dddd", "ddd", "dd"), dates.WORD),
    **dict.fromkeys(("HH", "hh", "mm", "ss"), _TWO),
    **dict.fromkeys(("H", "h", "m", "s"), _ONE),
    **dict.fromkeys(("A", "a"), "am|pm|오전|오후"),
}
"""Patterns of tokens that do not decide the day."""

_SHORT = {"MMM", "ddd", "dd"}  # names that some languages end in a full stop


def day_in(path: str, formats: Formats = ()) -> str | None:
    """
    Return the day in the name of a note, by its folders' formats or at its beginning or end, in ISO 8601, or None.
    """
    path = composed(path)[:-3]  # without `.md`
    name = path.rpartition("/")[2]
    for folder, format in formats:
        if folder and not path.startswith(f"{folder}/"):
            continue
        pattern = _pattern(format)
        inside = path[len(folder) :].lstrip("/")
        # In a folder of daily notes, a person may sort them into folders by hand.
        match = pattern and (pattern.fullmatch(inside) or (folder and pattern.fullmatch(name)))
        if match and (day := _day(match)):
            return day
    found = (dates.day(match) for match in (_FIRST.match(name), _LAST.search(name)) if match)
    return next(filter(None, found), None)


def is_day(target: str, formats: Formats = ()) -> bool:
    """Say whether the target of a link is the name of a daily note and nothing more, written or not."""
    target, anywhere = composed(target).removesuffix(".md"), [("", format) for _, format in formats]
    patterns = [_FIRST, *filter(None, (_pattern(format) for _, format in formats))]
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
def _pattern(format: str) -> re.Pattern[str] | None:
    """Return a pattern of the names of a format; None for a format without a year, or a long one."""
    if len(format) > _MOST_FORMAT:
        return None
    seen: set[str] = set()
    # No token is tried in two lengths: a row of them would take exponential time.
    pattern = re.compile("".join(_pieces(format, seen)), re.I)
    return pattern if seen & {"year", "short"} else None


def _pieces(format: str, seen: set[str]) -> Iterator[str]:
    for match in _TOKEN.finditer(composed(format)):
        token = match["token"] or ""
        if token in _PARTS:
            part, digits = _PARTS[token]
            yield f"(?P={part})" if part in seen else f"(?P<{part}>(?>{digits}))"
            seen.add(part)
        else:
            yield f"(?>{_OTHERS[token]})" if token else re.escape(match["quoted"] or match["literal"] or "")
        if token in _SHORT:
            yield r"\.?"


def _day(match: re.Match[str]) -> str | None:
    """Return the first day of the day, week, month, quarter or year in a match."""
    parts = {key: value for key, value in match.groupdict().items() if value}
    numbers = {key: int(digits) for key, value in parts.items() if (digits := re.sub(r"\D", "", value))}
    year = numbers["year"] if "year" in numbers else 2000 + numbers["short"]
    month = 3 * numbers.get("quarter", 1) - 2
    if named := parts.get("named"):
        month = numbers.get("named") or dates.month(named)
    weekday = numbers.get("weekday", numbers.get("after_monday", 0) + 1)
    try:
        if "week" in parts:
            return dt.date.fromisocalendar(year, numbers["week"], numbers.get("after_sunday", weekday) or 7).isoformat()
        if "of_year" in parts:
            day = dt.date(year, 1, 1) + dt.timedelta(days=numbers["of_year"] - 1)
            return day.isoformat() if day.year == year else None
        return dt.date(year, numbers.get("month", month), numbers.get("day") or numbers.get("day_th", 1)).isoformat()
    except (ValueError, OverflowError):
        return None
