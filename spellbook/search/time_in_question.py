"""
The time in a question, as a range of days or as "the newest", in Korean and English. Pure.

Only a clear time is read: "in May" and "지난주" are, "May I" and "지난 버전" are not. Words of time are removed from
the question, which would otherwise find notes about weeks. The date of a note is its `created`, else its `updated`,
or file's time. A date only adds to a score, so that a wrong guess hides nothing.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.filters import Condition, instant, validity
from spellbook.search import weights
from spellbook.search.related import Superseded
from spellbook.search.scores import STEP, Candidate
from spellbook.system.lazy import regex

Days = tuple[dt.date, dt.date]
"""The first and the last day of a range."""
Span = tuple[int, int]
"""Where words of time begin and end in a question."""


class When(NamedTuple):
    """
    The `words` of time in a question, the `rest` of it, and the range of days, None where it is open.

    With `newest`, the newest of the related notes is preferred. `is_all`: it asks for all notes of that range.
    """

    words: str
    rest: str
    first: dt.date | None = None
    last: dt.date | None = None
    newest: bool = False
    is_all: bool = False

    @property
    def reason(self) -> str:
        """Return in one line the reason why a note was preferred."""
        if self.newest:
            return f"newest: {self.words}"
        if self.first is None:
            return f"until {self.last}: {self.words}"
        if self.last is None:
            return f"since {self.first}: {self.words}"
        return f"from {self.first} to {self.last}: {self.words}"

    @property
    def condition(self) -> Condition:
        """The range as a condition on the notes."""
        end = self.last and dt.datetime.combine(self.last, dt.time.max)
        return Condition(
            "when", low=instant(self.first and self.first.isoformat()), high=instant(end and end.isoformat())
        )


def read(text: str, today: dt.date) -> When | None:
    """Return the time in a question asked on `today`, None if it names none or contradicts itself."""
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    named = _times_in(text, today, quoted)
    if not named:
        newest = [match.span() for match in _NEWEST.finditer(text) if not _overlaps(match, quoted)]
        return When(_words(text, newest), _without(text, newest), newest=True) if newest else None
    relations = {relation for relation, _ in named.values()}
    is_span = bool(_FROM & relations and _UNTIL & relations)
    if not is_span and _TO & relations:
        return None  # last week and last month; what one can and may do
    bounds = [_bounds(relation, days, is_span=is_span) for relation, days in named.values()]
    first = max((first for first, _ in bounds if first), default=None)
    last = min((last for _, last in bounds if last), default=None)
    if first and last and first > last:
        return None
    is_all = all(map(_ANY_NOTE.fullmatch, re.findall(r"\w+", _cut_out(text, named, ""))))
    return When(_words(text, named), _without(text, named), first, last, is_all=is_all)


def _times_in(text: str, today: dt.date, quoted: Sequence[Span]) -> dict[Span, tuple[str, Days]]:
    """Return where a text names a time outside of what is `quoted`, with its relation (`since`, …) and its days."""
    named: dict[Span, tuple[str, Days]] = {}
    for pattern, days_of in _RULES:
        for match in re.finditer(pattern, text, re.I):  # compiled at the first question, which `find` is not
            if _overlaps(match, [*quoted, *named]):
                continue
            try:
                days = days_of(match, today)
            except (ValueError, OverflowError):  # 2025년 13월, 999 years ago
                continue
            if dt.date.min < days[0] <= days[1] < dt.date.max:  # else the day before or after is none
                groups = match.groupdict()
                named[match.span()] = (groups.get("how") or groups.get("then") or "").lower(), days
    return named


def prefer(candidates: Sequence[Candidate], when: When, old: Mapping[str, Superseded], now: float) -> list[Candidate]:
    """Return the candidates, with a gain for notes from the time that the question names; `old` are superseded."""
    if when.newest:
        return _prefer_newest(candidates, when)
    # A note's time of validity ends where that of its successor begins, which itself has one then.
    ends: dict[str, float | None] = {by: None for known in old.values() if known.ends is not None for by in known.above}
    ends |= {path: known.ends for path, known in old.items() if known.ends is not None}

    def preferred(candidate: Candidate) -> Candidate:
        share = _share_in(when, candidate.chunk, ends, now)
        if not share or not (candidate.score or when.is_all):
            return candidate
        return candidate.plus(when.reason, weights.DATED * share)

    return [*map(preferred, candidates)]


def _prefer_newest(candidates: Sequence[Candidate], when: When) -> list[Candidate]:
    best = max((candidate.score for candidate in candidates), default=0.0)
    least = max(best - weights.NEWEST_AMONG, STEP)
    days = sorted({one.chunk.day for one in candidates if one.score >= least}, reverse=True)
    gains = {day: weights.NEWEST * 0.5**nth for nth, day in enumerate(days)}
    return [one.plus(when.reason, gains[one.chunk.day]) if one.score >= least else one for one in candidates]


def _share_in(when: When, chunk: StoredChunk, ends: Mapping[str, float | None], now: float) -> float:
    """
    Return the share of the named time that a note is from, 0..1: all or nothing, unless it says when it holds.

    A note with a validity, or with a dated successor among `ends`, counts by the share of that time in which it held.
    """
    low, high = when.condition.low, when.condition.high
    if when.is_all or not (chunk.path in ends or validity(chunk.meta)[2]):
        return float((low is None or low <= chunk.when) and (high is None or chunk.when <= high))
    begins, until, _ = validity(chunk.meta, chunk.created, ends.get(chunk.path))
    start, end = low or 0.0, high or now
    share = max(0.0, min(until, end) - max(begins, start)) / max(1.0, end - start)
    return share if low is not None and high is not None else float(share > 0)


# -- the tables

_MONTHS = ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
           "december")  # fmt: skip
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {
    **{"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8},
    **{"nine": 9, "ten": 10, "eleven": 11, "twelve": 12},
    **{"한": 1, "두": 2, "세": 3, "네": 4, "다섯": 5, "여섯": 6, "일곱": 7, "여덟": 8},
}
_IN_DAYS = {"하루": 1, "이틀": 2, "사흘": 3, "나흘": 4, "일주일": 7, "보름": 15}
_COUNT = rf"(?P<n>\d{{1,3}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"

_QUOTED = regex(r'"[^"]*"|“[^”]*”|「[^」]*」|『[^』]*』|`[^`]*`')
_BEFORE = r"(?<![\w-])(?:(?P<how>since|after|before|until|till|from|to|and|in|during|on|of|over|within|between)\s+)?"
_NEEDED = r"(?<![\w-])(?P<how>since|after|before|until|till|from|to|in|during|between|and)\s+"
_END = r"(?:['’]s)?(?![\w-])"
# What follows a Korean word of time: a relation, or a particle that says nothing more.
_AFTER = (
    r"(?:\s*(?P<then>부터|이후로?|이래로?|까지|이전)(?:는|은|의|에)?|에서|에는|에도|에|의|은|는|도|엔|자|중에|중|간|동안|쯤)?"
    r"(?![\w-])"
)
_SINCE = frozenset({"since", "부터", "이후", "이후로", "이래", "이래로"})
_FROM, _TO = frozenset({"from", "between"}), frozenset({"to", "and"})
_UNTIL = frozenset({"until", "till", "까지", *_TO})
# After "in" and the like, a number before one of these is no year.
_COUNTED = (
    r"(?!\s*(?:[%\d]|(?:words?|m?s|seconds?|minutes|tokens?|chunks?|notes?|rows?|lines?|bytes?|[kmg]b|files?|items?|"
    r"users?|people|letters?|characters?|dollars?|euros?|steps?|times|px|pages?)\b))"
)

_RECORDS = (
    "decisions?|meetings?|minutes|notes?|memor(?:y|ies)|stand-?ups?|entr(?:y|ies)|interviews?|incidents?|reports?|"
    "discussions?|reviews?|expenses?|retros?|retrospectives?|conversations?|calls?|talks?"
)
_KOREAN_RECORDS = "결정|회의|회의록|기록|메모|노트|논의|보고|인터뷰|면담|장애|사고|일기|회고|통화|대화|지출|합의"
_DONE = "정한|결정한|합의한|논의한|적은|쓴|읽은|본|만난|기록한|말한|이야기한|얘기한|한"
_NEWEST = regex(
    rf"(?<![\w-])(?:last|latest|newest|most recent|recent)(?=\s+(?:\w+\s+)?(?:{_RECORDS})(?!\w))"
    r"|(?<![\w-])(?:most recently|recently)(?!\w)"
    r"|(?<!\w)(?:가장|제일)\s*최근(?:에|의)?(?!\w)|(?<!\w)최근에(?!\w)"
    rf"|(?<!\w)(?:최근|마지막|최신)(?:의)?(?=\s+(?:{_KOREAN_RECORDS}))"
    rf"|(?<!\w)(?:최근|마지막으로)(?=\s+(?:{_DONE})(?!\w))",
    re.I,
)


def _day(day: dt.date) -> Days:
    return day, day


def _month(year: int, month: int) -> Days:
    """Return the days of a month, which may be counted beyond 1 to 12."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    after = dt.date(year + month // 12, month % 12 + 1, 1)
    return dt.date(year, month, 1), after - dt.timedelta(days=1)


def _year(year: int) -> Days:
    return dt.date(year, 1, 1), dt.date(year, 12, 31)


def _back(unit: str, count: int, today: dt.date) -> Days:
    """Return the day, week (from Monday), month or year that is `count` before today's."""
    match unit:
        case "day":
            return _day(today - dt.timedelta(days=count))
        case "week":
            monday = today - dt.timedelta(weeks=count, days=today.weekday())
            return monday, monday + dt.timedelta(days=6)
        case "month":
            return _month(today.year, today.month - count)
    return _year(today.year - count)


def _named_month(month: int, year: int | None, today: dt.date) -> Days:
    """Return the days of a month; without a year it is the newest one that has begun."""
    if not 1 <= month <= 12:
        raise ValueError(month)
    return _month(year or today.year - (month > today.month), month)


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _NUMBERS[text.lower()]


_UNITS = {"일": "day", "주": "week", "주일": "week", "달": "month", "개월": "month", "년": "year", "해": "year"}
_YEARS = {"올해": 0, "금년": 0, "작년": 1, "지난해": 1, "재작년": 2}
_BACK = {
    **{"그저께": ("day", 2), "그제": ("day", 2), "어제": ("day", 1), "오늘": ("day", 0)},
    **{"지지난주": ("week", 2), "지난주": ("week", 1), "저번주": ("week", 1)},
    **{"이번주": ("week", 0), "금주": ("week", 0)},
    **{"지지난달": ("month", 2), "지난달": ("month", 1), "저번달": ("month", 1), "이번달": ("month", 0)},
    **{word: ("year", count) for word, count in _YEARS.items()},
    **{"the day before yesterday": ("day", 2), "yesterday": ("day", 1), "earlier today": ("day", 0)},
    "today's": ("day", 0),
}
_KOREAN_BACK = "|".join(
    re.sub("(?<=[난번])([주달])", r"\\s?\1", word)
    for word in sorted(_BACK, key=len, reverse=True)
    if not word.isascii()
)


def _korean_month(match: re.Match[str], today: dt.date) -> Days:
    year = int(match["year"]) if match["year"] else today.year - _YEARS[match["ago"]] if match["ago"] else None
    first, last = _named_month(int(match["month"]), year, today)
    return _day(first.replace(day=int(match["day"]))) if match["day"] else (first, last)


def _english_month(match: re.Match[str], today: dt.date) -> Days:
    month = next(i for i, name in enumerate(_MONTHS, 1) if name.startswith(match["month"].lower()[:3]))
    year = int(match["year"]) if match["year"] else None
    if (match.groupdict().get("last") or "").lower() == "last" and month == today.month:
        year = today.year - 1
    return _named_month(month, year, today)


def _recent(match: re.Match[str], today: dt.date, unit: str) -> Days:
    days = {"day": 1, "week": 7, "month": 30, "year": 365}[unit] * _number(match["n"])
    return today - dt.timedelta(days=days), today


_MONTH_NAMES = "|".join([*_MONTHS, *(name[:3] for name in _MONTHS if name != "may"), "sept"])
_Rule = tuple[str, Callable[[re.Match[str], dt.date], Days]]
_RULES: tuple[_Rule, ...] = (
    (rf"{_BEFORE}(?P<day>\d{{4}}-\d\d-\d\d){_AFTER}", lambda m, _: _day(dt.date.fromisoformat(m["day"]))),
    (rf"{_BEFORE}(?P<word>the day before yesterday|yesterday|earlier today|today's){_END}",
     lambda m, today: _back(*_BACK[m["word"].lower()], today)),
    (rf"{_BEFORE}(?:the\s+)?(?P<last>last|this)\s+(?P<unit>week|month|year){_END}(?!\s+of\b)",
     lambda m, today: _back(m["unit"].lower(), int(m["last"].lower() == "last"), today)),
    (rf"{_BEFORE}(?:the\s+)?(?:last|past)\s+{_COUNT}\s+(?P<unit>day|week|month|year)s?{_END}",
     lambda m, today: _recent(m, today, m["unit"].lower())),
    (rf"{_BEFORE}{_COUNT}\s+(?P<unit>day|week|month|year)s?\s+ago{_END}",
     lambda m, today: _back(m["unit"].lower(), _number(m["n"]), today)),
    (rf"{_BEFORE}last\s+(?P<day>{'|'.join(_WEEKDAYS)}){_END}",
     lambda m, today: _back("day", (today.weekday() - _WEEKDAYS.index(m["day"].lower()) - 1) % 7 + 1, today)),
    (rf"{_NEEDED}(?:(?P<last>last|this)\s+)?(?P<month>{_MONTH_NAMES})(?:\s+(?:of\s+)?(?P<year>(?:19|20)\d\d))?"
     rf"{_END}(?!\s+(?:of|I|we|you)\b)", _english_month),
    (rf"(?<![\w-])(?P<month>{_MONTH_NAMES})\s+(?P<year>(?:19|20)\d\d){_END}", _english_month),
    (rf"{_NEEDED}(?P<year>(?:19[7-9]|20\d)\d){_END}{_COUNTED}", lambda m, _: _year(int(m["year"]))),
    (rf"(?<!\w)최근\s*{_COUNT}\s*(?P<unit>개월|주일|[일주달년]){_AFTER}",
     lambda m, today: _recent(m, today, _UNITS[m["unit"]])),
    (rf"(?<!\w){_COUNT}\s*(?P<unit>개월|주일|[일주달년해])\s*전{_AFTER}",
     lambda m, today: _back(_UNITS[m["unit"]], _number(m["n"]), today)),
    (rf"(?<!\w)(?P<n>{'|'.join(_IN_DAYS)})\s*전{_AFTER}", lambda m, today: _back("day", _IN_DAYS[m["n"]], today)),
    (rf"(?<!\w)(?:(?P<year>(?:19|20)\d\d)년\s*|(?P<ago>{'|'.join(_YEARS)})\s*)?(?P<month>\d{{1,2}})월"
     rf"(?:\s*(?P<day>\d{{1,2}})일)?{_AFTER}", _korean_month),
    (rf"(?<!\w)(?P<year>(?:19|20)\d\d)년(?:도)?{_AFTER}", lambda m, _: _year(int(m["year"]))),
    (rf"(?<!\w)(?P<word>{_KOREAN_BACK}){_AFTER}",
     lambda m, today: _back(*_BACK["".join(m["word"].split())], today)),
)  # fmt: skip
"""The order matters: a day is looked for before its month, and a month before its year."""


_ANY_NOTE = regex(
    r"what|which|did|do|done|does|has|have|had|was|were|is|are|been|we|i|us|me|my|our|the|a|any|all|show|list|tell|of"
    r"|things?|notes?|memor(?:y|ies)|decisions?|decided?|ma[dk]e|happen(?:ed|s)?|written|wrote|said|learn(?:ed|t)"
    r"|chang(?:e[ds]?|es)"
    r"|우리[가는]?|내가|나는|제가|정한|정했던|정해진|결정한|결정했던|결정된|한|했던|하던|있던|있었던|쓴|썼던|적은|적어둔"
    r"|기록한|남긴|배운|바꾼|바뀐|일어난"
    r"|(?:것|거|일|내용|사항|결정|노트|메모|기록|기억)들?(?:[은는이가을를]|이야|이지)?|게|뭐[가야지]?|뭘|뭐였지|무엇[을이]?|무슨|어떤"
    r"|있[어나지]|있었[어나지]|[했정]했?[어나지]|결정했[어나지]|알려줘|보여줘",
    re.I,
)
"""A word beside which a time is all that a question asks for."""


def _bounds(how: str, days: Days, *, is_span: bool) -> tuple[dt.date | None, dt.date | None]:
    """Return the bounds that days with a relation mean; `from` means `since` only in a span: from May to July."""
    first, last = days
    if how in _SINCE or (is_span and how in _FROM):
        return first, None
    if how in _UNTIL:
        return None, last
    if how in {"before", "이전"}:
        return None, first - dt.timedelta(days=1)
    return (last + dt.timedelta(days=1), None) if how == "after" else (first, last)


def _overlaps(match: re.Match[str], spans: Sequence[Span]) -> bool:
    return any(match.start() < end and start < match.end() for start, end in spans)


def _words(text: str, spans: Iterable[Span]) -> str:
    return " ".join(" ".join(text[start:end].split()) for start, end in sorted(spans))


def _cut_out(text: str, spans: Iterable[Span], instead: str) -> str:
    """Return the text with `instead` in the place of each of these spans."""
    for start, end in sorted(spans, reverse=True):
        text = f"{text[:start]}{instead}{text[end:]}"
    return text


def _without(text: str, spans: Iterable[Span]) -> str:
    """Return the text without these spans; the text itself if no word to search for is left."""
    left = " ".join(_cut_out(text, spans, " ").split())
    return left if len(re.findall(r"\w", left)) > 1 else text
