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
from functools import lru_cache
from itertools import count
from typing import Any
from urllib.parse import unquote

from spellbook.notes.frontmatter import label_of
from spellbook.system.lazy import regex
from spellbook.text.unicode import composed

CREATED = ("created", "datecreated|creat(?:ed|ion)(?:at|on|date|time)|작성일|생성일", "date|날짜")
_CHANGED = "(?:date|last){0}(?:at|on|date|time)?|{0}(?:at|on|date|time)|{1}"
UPDATED = ("updated", _CHANGED.format("updated?", "수정일"), _CHANGED.format("(?:mod|modifi[a-z]+|edited)", "modified"))
"""Patterns of keys without blanks, `-`, `_` and capitals, the most telling first."""
VALID = ("valid_from", "valid_until")  # the keys that say when a note holds; see `filters.validity`

_MONTHS = (
    r"jan(uary?|uari|vier|eiro)?|jänner|ene(ro)?|gen(naio)?|янв(ар[ья])?|січ(ень|ня)|sty(czeń|cznia)|led(en|na)|ocak|一月",
    r"feb(ruary?|ruari|rero|braio)?|fév(r|rier)?|fev(ereiro)?|фев(р|рал[ья])?|лют(ий|ого)|lut(y|ego)|února?|şubat|二月",
    r"mar(ch|s|ts|zo|et|zec|ca|t)?|märz?|mrz|março|maart|mrt|март?а?|берез(ень|ня)|březen|března|三月",
    r"apr(il|ile)?|avr(il)?|abr(il)?|апр(ел[ья])?|квіт(ень|ня)|kwie(cień|tnia)|duben|dubna|nisan|四月",
    r"may(o|ıs)?|maio?|mei|maja?|mag(gio)?|ма[йя]|трав(ень|ня)|květ(en|na)|五月",
    r"june?|juni|juin|jun[ih]?o|giu(gno)?|июн[ья]?|черв(ень|ня)|czerw(iec|ca)|června?|červen|haziran|六月",
    r"july?|juli|juil(let)?|jul[ih]o|lug(lio)?|июл[ья]?|лип(ень|ня)|lip(iec|ca)|července|červenec|temmuz|七月",
    r"aug(ust|usti|ustus)?|août?|ago(sto)?|agustus|авг(уст|уста)?|серп(ень|ня)|sierp(ień|nia)|srpen|srpna|ağustos|八月",
    r"sept?(ember|embre|iembre)?|set(embro|iembre|tembre)?|сент?(ябр[ья])?|верес(ень|ня)|wrze(sień|śnia)|září|eylül|九月",
    r"o[ck]t(ober|obre|ubre)?|ott(obre)?|out(ubro)?|окт(ябр[ья])?|жовт(ень|ня)|październik|października|říj(en|na)|ekim|十月",
    r"nov(ember|embre|iembre|embro)?|ноя(б|бр[ья])?|листопада?|listopad[au]?|kasım|十一月",
    r"de[cs](ember)?|déc(embre)?|dez(ember|embro)?|dic(embre|iembre)?|дек(абр[ья])?|груд(ень|ня)|grud(zień|nia)|aralık|"
    "prosin(ec|ce)|十二月",
)
_DAY_PARTS = {"Y": r"(?:19|20)\d\d", "M": r"\d\d?", "D": r"\d\d?", "N": r"[^\W\d_]{2,12}", "MM": r"\d\d", "DD": r"\d\d"}
_DAY_PARTS["NE"] = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_GAP = r"[\s.,_-]{0,3}"
_SPELLED = (
    rf"D(?:st|nd|rd|th|er|[ºª°])?{_GAP}(?:de |of |d['’])?N{_GAP}(?:del? )?Y",
    *(rf"NE{_GAP}D(?:st|nd|rd|th)?{_GAP}Y", rf"Y{_GAP}N{_GAP}D", r"Y[년年] ?M[월月] ?D[일日号]"),
)
"""Forms for `_pattern` that nothing but a date has."""


def _pattern(*forms: str) -> str:
    """Return a regular expression for any of `forms`, in which Y, M, D and N (a name) are the parts of a day."""
    numbers = count()
    group = "(?P<{0[0]}{1}>{2})".format
    return re.sub("MM|DD|NE|[YMDN]", lambda part: group(part[0], next(numbers), _DAY_PARTS[part[0]]), "|".join(forms))


def _day_of(match: re.Match[str]) -> str:
    """Return the day that a match of `_pattern` names in ISO 8601, "" if no calendar has it."""
    parts = {name[0]: text for name, text in match.groupdict().items() if text}
    try:
        return dt.date(int(parts["Y"]), int(parts.get("M") or _month_of(parts["N"])), int(parts["D"])).isoformat()
    except ValueError:
        return ""


def _month_of(name: str) -> int:
    """Return the number of a month by its name, whole or cut short, in one of a dozen languages; 0 if it is none."""
    return next((number for number, form in enumerate(_MONTHS, 1) if re.fullmatch(form, name.casefold())), 0)


_WORD = r"[^\W\d_]{1,20}(?:-feira)?"
"""A day of the week in any language; in a date also "at", "um", "г."."""

_VALUE_DAY = _pattern(r"Y\s?[-/.]\s?M\s?[-/.]\s?D", r"D\.\s?M\.\s?Y", *_SPELLED)
_TIME = (
    r"(?P<before>오전|오후|午前|午後|上午|下午)?\s?(?P<hour>\d\d?)[:시時]\s?(?P<minute>\d\d?)[분分]?(?::(?P<second>\d\d)"
    r"(?:[.,]\d+)?)?\s?(?P<half>[ap]\.?m\.?)?\s?(?P<utc>Z|UTC|GMT)?(?P<zone>[+-]\d\d:?\d\d)?"
)
_WORDS = rf"(?:[\s,.(]*{_WORD}[.)]*){{0,3}}?[\s.,]*"
_VALUE = regex(rf"(?:{_WORD}[.,]*\s+)??(?:{_VALUE_DAY}){_WORDS}(?:{_TIME}(?:\s*\(.*\)|\s*{_WORD})?)?", re.I)


def iso(value: object) -> str | None:
    """Return a date or time, a text or a link of one, or seconds or milliseconds since 1970 in ISO 8601, else None."""
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, list) and len(value) == 1:  # `[[2024-01-05]]` without quotes
        return iso(value[0])
    text = composed(label_of(str(value)).strip()) if isinstance(value, str | int) else ""
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


@lru_cache(maxsize=1_000)
def is_of(key: str, keys: Sequence[str]) -> bool:
    """Return whether a key of the frontmatter is one of `keys` (CREATED or UPDATED)."""
    return bool(re.fullmatch("|".join(keys), composed(re.sub(r"[\s_-]", "", key)).casefold()))


def find(meta: Mapping[str, Any], keys: Sequence[str]) -> tuple[str, str]:
    """Return the key of `meta` that dates a note by `keys` (CREATED or UPDATED), and its date in ISO 8601, or ""s."""
    dated = ((key, iso(meta[key])) for pattern in keys for key in meta if is_of(key, (pattern,)))
    return next(((key, date) for key, date in dated if date), ("", ""))


def unread(meta: Mapping[str, Any]) -> list[str]:
    """Return the keys of `meta` that should hold a date and do not."""
    named = (key for key in meta if is_of(key, (*CREATED, *UPDATED)))
    return [key for key in named if meta[key] not in (None, "", []) and iso(meta[key]) is None]


# -- the date in the name of a daily note, by Obsidian's formats or as people write dates, and Logseq's names

RULE = 2
"""The version of the rule; a new one has every note read again, and none embedded."""

Formats = Sequence[tuple[str, str]]
"""Folders, "" for the whole vault, each with the format of the names in it, in the tokens of moment.js."""

_DAY = _pattern(
    r"Y(?P<mark>[-._])MM(?P=mark)DD",
    # With a time after it, as Obsidian names unique notes.
    r"YMMDD(?:[01]\d[0-5]\d(?:[0-5]\d)?|2[0-3][0-5]\d(?:[0-5]\d)?)?",
    r"Y\. M\. D\.?",
    *_SPELLED,
)
# A number goes on behind it (2026.10.15.3), or ends before it (010-2026-10-15): then it is no date.
_FIRST = regex(rf"(?:{_DAY})(?![0-9A-Za-z])(?!\.\d)", re.I)
_LAST = regex(rf"(?<![0-9A-Za-z])(?<!\d[-.])(?:{_DAY})\Z", re.I)

_TOKEN = regex(
    r"\[(?P<quoted>[^\]]*)\]|(?P<token>YYYY|YY|Y|MMMM|MMM|MM|M|DDDD|DDD|DD|Do|D|dddd|ddd|dd|d|gggg|gg|GGGG|GG"
    r"|ww|w|WW|W|Q|HH|H|hh|h|mm|m|ss|s|A|a|E|e)|(?P<literal>.)",
    re.S,
)
_PAGE = regex(r"(?:^|/)pages/((?:(?!%[01])[^/])+)\.md$")
_DAYS = "%b {0}, %Y|%B {0}, %Y|{0} %b %Y|{0} %B %Y|%Y-%m-%d|%Y/%m/%d|%m/%d/%Y|%Y%m%d|%Y年%m月%d日|%Y-%m-%d %A"
_NAMED_DAYS = "%a, %d-%m-%Y|%a, %d.%m.%Y|%a, %m/%d/%Y|%a, %Y/%m/%d|%A, %d-%m-%Y|%A, %d.%m.%Y|%A, %m/%d/%Y|%A, %Y/%m/%d"
"""Logseq's forms of a day in links, but for `dd-MM-yyyy` and `MM-dd-yyyy`, which may be two days."""

_TWO, _ONE = r"\d\d", r"\d\d?"
_PARTS = {
    **dict.fromkeys(("YYYY", "Y", "gggg", "GGGG"), ("year", r"\d{4}")),
    **dict.fromkeys(("YY", "gg", "GG"), ("short", _TWO)),
    **dict.fromkeys(("MMMM", "MMM"), ("named", rf"tháng \d\d?|\d\d?[월月]|{_WORD}")),
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
    **dict.fromkeys(("dddd", "ddd", "dd"), _WORD),
    **dict.fromkeys(("HH", "hh", "mm", "ss"), _TWO),
    **dict.fromkeys(("H", "h", "m", "s"), _ONE),
    **dict.fromkeys(("A", "a"), "am|pm|오전|오후"),
}
"""Patterns of tokens that do not decide the day."""

_SHORT = {"MMM", "ddd", "dd"}  # names that some languages end in a full stop


def day_in(path: str, formats: Formats = ()) -> str | None:
    """Return the day in a note's name, by its folders' formats or at its beginning or end, in ISO 8601, or None."""
    path = composed(path)[:-3]  # without `.md`
    name = path.rpartition("/")[2]
    for folder, format in formats:
        if folder and not path.startswith(f"{folder}/"):
            continue
        pattern = _format_pattern(format)
        inside = path[len(folder) :].lstrip("/")
        # In a folder of daily notes, a person may sort them into folders by hand.
        match = pattern and (pattern.fullmatch(inside) or (folder and pattern.fullmatch(name)))
        if match and (day := _day(match)):
            return day
    found = (_day_of(match) for match in (_FIRST.match(name), _LAST.search(name)) if match)
    return next(filter(None, found), None)


def is_day(target: str, formats: Formats = ()) -> bool:
    """Say whether the target of a link is the name of a daily note and nothing more, written or not."""
    target, anywhere = composed(target).removesuffix(".md"), [("", format) for _, format in formats]
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
        month = numbers.get("named") or _month_of(named)
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
