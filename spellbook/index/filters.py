"""Filters of a search: a key with a text, a list (any of them), or a range; `!` at its end negates. Pure."""

from __future__ import annotations

import datetime as dt
import fnmatch
import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from spellbook.notes import labels
from spellbook.notes.dates import VALID
from spellbook.notes.frontmatter import LABELS, importance_of, label_of
from spellbook.settings.limits import MOST_GLOB, MOST_GLOBS
from spellbook.system.errors import InvalidInput
from spellbook.system.lazy import calendar, regex

DATES = ("created", "updated", "when")
DATE_FORMS = "Dates are 2026-11-21, 2026-11, 2026, or 2026-11-21T20:15:00+09:00."

_MOST_KEY = 1_000
"""Letters of a frontmatter key that can be filtered by: far more than people write."""

_RANGE = regex(r"(?:[<>]=|\.\.)\s*\d{4}(?!\d)|\d{4}(?:-\d\d?){0,2}(?:T[\d:.+-]+)?\s*\.\.\s*(?:\d{4}|$)")
"""A range of dates, which any key takes."""

Filter = Mapping[str, object]


class Condition(NamedTuple):
    """
    One part of a filter; a note must meet all of them.

    `values` are folded texts, any of which will do. `low` and `high` bound an importance, or seconds since 1970. With
    `or_absent`, a note without the key meets it too.
    """

    key: str
    values: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    negated: bool = False
    or_absent: bool = False


NO_GUIDES = Condition("guide of Spellbook", ("chunking", "metadata", "examples", "welcome"), negated=True)
"""Leaves out Spellbook's own guides and welcome notes: notes of category `system` whose `guide` is one of these."""

TIERS = "unverified", "machine-confirmed", "human-reviewed"
"""How a note was confirmed, by its key `verified`: a filter by `tier` has one of them, or `changed since`."""
MACHINE, PERSON = TIERS[1:]
CHANGED = "changed since"
"""The tier of a note whose text was changed after it was confirmed."""
STABLE = "stable"
"""The status of a note that says nothing else."""

HELD = "as_of, what held then"  # a condition's key: to hold at `low`; `values` are the paths of what was superseded

WAITS = "waits for a person's review"
"""A condition's key: to be a draft of an agent that is none of the notes whose ids are its `values`."""

_NAMES_NOTES = frozenset({"category", "guide", "id", "path", "title", "topic"})
"""Keys of filters that name certain notes. A guide must have the value that is asked for, so no others are found."""


def without_guides(conditions: Sequence[Condition]) -> tuple[Condition, ...]:
    """Return the condition that excludes guides, unless `conditions` name notes (an exclusion, or `*`, names none)."""
    named = any(
        one.key in _NAMES_NOTES and not one.negated and not all(value.startswith("*") for value in one.values)
        for one in conditions
    )
    return () if named else (NO_GUIDES,)


class Unmatched(NamedTuple):
    """A value of a filter that no note has, as it is compared, and the nearest existing values."""

    key: str
    value: str
    suggestions: tuple[str, ...] = ()

    def __str__(self) -> str:
        return with_suggestions(f"No note has {self.key} {self.value:.80}", self.suggestions)

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON shows it."""
        return {"key": self.key, "value": self.value, "suggestions": list(self.suggestions)}


def with_suggestions(sentence: str, suggestions: Sequence[str]) -> str:
    """Return a sentence, without its full stop given, that asks whether one of these was meant, if there are any."""
    return f"{sentence}; did you mean {' or '.join(suggestions)}?" if suggestions else f"{sentence}."


def alike(value: str, among: Iterable[str], most: int = 3) -> tuple[str, ...]:
    """Return up to `most` texts of `among`, likeliest first, of which `value` may be a misspelling or the beginning."""
    from difflib import get_close_matches

    # In letters of Hangul, not syllables: 결졍 and 결정 share five of six.
    spelled = {unicodedata.normalize("NFD", fold(each)): each for each in among}
    meant = unicodedata.normalize("NFD", fold(value))
    close = get_close_matches(meant, spelled, n=most, cutoff=0.65)
    begun = [each for each in spelled if len(meant) >= 3 and each.startswith(meant)]
    return tuple(spelled[each] for each in list(dict.fromkeys([*close, *begun]))[:most])


def conditions(filter: Filter | None) -> tuple[Condition, ...]:
    """
    Read a filter. Raises InvalidInput, naming the key, for an invalid value.

    `importance` means at least; `path` is a glob; `created`, `updated` and `when` take `2026-11-01`, `2026-11`,
    `2026-11-01..2026-11-15`, open ranges `2026-11-01..`, or `{"from": …, "to": …}`; other keys take a text, a list, or
    such a range.
    """
    if filter is None:
        return ()
    if not isinstance(filter, Mapping):
        raise InvalidInput(
            f"The filter must map keys to values, not be {filter!r:.80}.", 'Give it as {"category": "project"}.'
        )
    return tuple(_condition(str(key), value) for key, value in filter.items())


def from_pairs(pairs: Iterable[str]) -> dict[str, object]:
    """Read the command line's `K=V` and `K!=V`; a key given twice takes any of its values."""
    result: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip()
        if not equals or not key.strip("!"):
            raise InvalidInput(f"The filter {pair!r} is not KEY=VALUE.", "For example: --filter category=project")
        before = result.get(key)
        result[key] = value if before is None else [*(before if isinstance(before, list) else [before]), value]
    return result


def fold(value: object) -> str:
    """Return a value as filters compare it: NFC, without case, without blanks around it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return unicodedata.normalize("NFC", str(value)).casefold().strip()


def spelled(value: str, written: object) -> str:
    """Return a filter's value as a note spells it; `written` is the value of its key there."""
    texts = written if isinstance(written, list) else [written]
    return next((str(text) for text in texts if fold(text) == value), value)


def flat(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield a key of the frontmatter with each value as filters have it: a text, folded; of mappings `key.name`."""
    if len(key) > _MOST_KEY:
        return  # each value in it would be stored with the key
    if isinstance(value, str):  # most are
        yield key, fold(value)
        if (name := label_of(value)) != value:
            yield key, fold(name)
    elif isinstance(value, list):
        for item in value:
            yield from flat(key, item)
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from flat(f"{key}.{fold(name)}", item)
    elif isinstance(value, dt.datetime | dt.date):
        yield key, fold(value.isoformat())
    else:
        yield key, fold("" if value is None else value)


@lru_cache(maxsize=4_000)  # a search asks for the dates of all its candidates
def instant(text: str | None) -> float | None:
    """Return an ISO date or time as seconds since 1970 (local time where it names no zone), None if it is none."""
    if not text:
        return None
    try:
        return _seconds(dt.datetime.fromisoformat(text))
    except ValueError:
        return None


def moment(created: str | None, updated: str | None, mtime_ns: int) -> float:
    """Return the time of a note (`when`), in seconds since 1970: `created`, else `updated`, else the file's time."""
    dated = instant(created)
    if dated is None:
        dated = instant(updated)
    return mtime_ns / 1e9 if dated is None else dated


def validity(
    meta: Mapping[str, Any], created: str | None = None, ends: float | None = None
) -> tuple[float, float, str]:
    """
    Return when a note begins and ends to hold (seconds since 1970, inclusive, infinite if open), and that in words.

    It begins with its `valid_from`, else its `created`; a file's time never counts. It ends with its `valid_until` (the
    whole day, month or year), else right before `ends`, the beginning of its first successor. The catalog has the same
    rule in SQL, for `HELD`.
    """
    begin, end = (str(meta.get(key) or "") for key in VALID)
    first, last = bound(begin), bound(end, True)
    if first is None:
        first, begin = instant(created), (created or "")[:10]
    if last is None:
        last, end = ends and math.nextafter(ends, -math.inf), "" if ends is None else day_of(int(ends * 1e9))
    words = (f"from {begin} until {end}", f"until {end}", f"from {begin}", "")[2 * (not end) + (not begin)]
    return -math.inf if first is None else first, math.inf if last is None else last, words


def as_of_moment(as_of: str, now: float) -> float:
    """Return the end of a day, a month, a year or a time; a month or a year that is not over ends `now`."""
    first, last = (_moment("as_of", as_of, is_end) for is_end in (False, True))
    return now if len(as_of.strip()) < len("2026-3-1") and first <= now <= last else last


def _seconds(moment: dt.datetime) -> float:
    try:
        return moment.timestamp()
    except (ValueError, OverflowError, OSError):
        # The system knows no local time for that year; Windows, for none before 1970.
        return (moment.replace(tzinfo=None) - dt.datetime(1970, 1, 1)).total_seconds()


def day_of(mtime_ns: int) -> str:
    """Return the day of a file's time, in local time where the system knows it for that year, as ISO 8601."""
    try:
        return dt.datetime.fromtimestamp(mtime_ns / 1e9).date().isoformat()
    except (ValueError, OverflowError, OSError):  # Windows knows no time before 1970
        days = min(max(mtime_ns // 86_400_000_000_000, -719_162), 2_932_896)  # from year 1 to 9999
        return (dt.date(1970, 1, 1) + dt.timedelta(days=days)).isoformat()


def _condition(name: str, value: object) -> Condition:
    key = fold(name.strip().rstrip("!"))
    negated = name.strip().endswith("!")
    if not key:
        raise InvalidInput(f"The filter has a key without a name: {name!r}.", "Give it as key and value.")
    if key == "importance":
        if not 0 <= (number := importance_of(value)) <= 1:
            usage = "Give low, medium, high, or a number from 0 to 1."
            raise InvalidInput(f"The filter importance={value!r:.80} makes no sense.", usage)
        return Condition(key, low=number, negated=negated)
    if key in DATES or isinstance(value, Mapping) or (isinstance(value, str) and _RANGE.match(value.strip())):
        low, high = _range(key, value)
        return Condition(key, low=low, high=high, negated=negated)
    values = _values(key, value)
    if key == "path":
        return Condition(key, _globs(values), negated=negated)
    if key == "tags":  # `two words` also as a tag is written
        values = [*values, *labels.tags([*values])]
    return _of_words(key, tuple(dict.fromkeys(fold(_bare(key, each)) for each in values)), negated)


def _values(key: str, value: object) -> Collection[object]:
    """Return the texts that a filter names, a list of one for a text that is no list. Raises InvalidInput."""
    if isinstance(value, str):
        value = labels.listed(value, labels.COMMAS if key in {"tags", "keywords"} else "") or value
    values = value if isinstance(value, list | tuple | set) else [value]
    if not values or any(isinstance(each, Mapping) or each is None for each in values):
        raise InvalidInput(f"The filter {key}={value!r:.80} makes no sense.", "Give a text, or a list of texts.")
    return values


def _globs(values: Collection[object]) -> tuple[str, ...]:
    """Return globs of paths, composed. Raises InvalidInput for too many, and for a long one."""
    if len(values) > MOST_GLOBS or any(len(str(each)) > MOST_GLOB for each in values):
        raise InvalidInput(
            "The filter path has too much in it.",
            f"Name folders: {MOST_GLOBS:,} globs of {MOST_GLOB:,} letters are the most.",
        )
    return tuple(unicodedata.normalize("NFC", str(each)) for each in values)


def _of_words(key: str, folded: tuple[str, ...], negated: bool) -> Condition:
    """Return the condition to have one of some values, of which some are what a note says that says nothing."""
    if key == "tier" and TIERS[0] in folded:  # as most notes are, which the catalog does not say of each
        return Condition(key, tuple({*TIERS, CHANGED} - {*folded}), negated=not negated)
    return Condition(key, folded, negated=negated, or_absent=key == "status" and STABLE in folded and not negated)


def _bare(key: str, value: object) -> object:
    if not isinstance(value, str):
        return value
    if key in LABELS:
        value = label_of(value)
    # The id of what a note begins with, as a hit names it, is that of the note and a `#`.
    return value.lstrip("#") if key == "tags" else value.removesuffix("#") if key == "id" else value


def _range(key: str, value: object) -> tuple[float | None, float | None]:
    if isinstance(value, Mapping):
        if not value or not value.keys() <= {"from", "to"}:
            raise InvalidInput(
                f"The filter {key}={value!r:.80} makes no sense.",
                'A range is {"from": "2026-01-01", "to": "2026-12-31"}.',
            )
        first, last = value.get("from") or "", value.get("to") or ""
    else:
        text = str(value).strip()
        first, dots, last = (part.strip() for part in text.partition(".."))
        if not dots and text.startswith(">="):
            first = text[2:]
        elif not dots:
            first, last = ("", text[2:]) if text.startswith("<=") else (text, text)
    if not first and not last:
        raise InvalidInput(
            f"The filter {key}={value!r:.80} names no date.", f"For example: {key}=2026-11-01..2026-11-30"
        )
    return _moment(key, first, False) if first else None, _moment(key, last, True) if last else None


def _moment(key: str, value: object, end: bool) -> float:
    text = value.isoformat() if isinstance(value, dt.date) else str(value).strip()
    if (at := bound(text, end)) is None:
        raise InvalidInput(f"The filter {key}: {text!r:.80} is not a date.", DATE_FORMS)
    return at


@lru_cache(maxsize=4_000)
def bound(text: str, end: bool = False) -> float | None:
    """
    Return the beginning or the `end` of a day, a month, a year or a time, in seconds since 1970; None for another text.
    """
    text = str(text).strip()
    try:
        if len(text) > 10:
            return _seconds(dt.datetime.fromisoformat(text.upper()))
        parts = [int(part) for part in text.split("-") if re.fullmatch(r"\d{4}(-\d\d?){0,2}", text)]
        year, month, day = [*parts, *((12, 31) if end else (1, 1))[len(parts) - 1 :]]
        if end and len(parts) == 2:
            day = calendar.monthrange(year, month)[1]
        return _seconds(dt.datetime.combine(dt.date(year, month, day), dt.time.max if end else dt.time.min))
    except (ValueError, OverflowError):
        return None


def path_glob(path: str, pattern: str) -> bool:
    """Say whether a path matches a glob; a folder, with or without `/` at its end, matches everything in it."""
    return bool(_glob(pattern).match(unicodedata.normalize("NFC", path)))


# More than a filter and the scopes of a vault have together: each is compared with every path.
@lru_cache(maxsize=4_000)
def _glob(pattern: str) -> re.Pattern[str]:
    # Since Python 3.11 what fnmatch makes of `*` takes its first match and no other, so no pattern takes long.
    inside = fnmatch.translate(f"{pattern.removesuffix('/')}/*")
    return re.compile(inside if pattern.endswith("/") else f"{fnmatch.translate(pattern)}|{inside}")
