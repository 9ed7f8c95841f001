"""
Dates as people and other programs write them, and the one rule for which key of the frontmatter dates a note.

The first date under CREATED, in their order, is a note's date; else the day in its name (`daily`), the first date under
UPDATED, the time of its file. Pure.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

from spellbook.notes.frontmatter import label_of
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
_PARTS = {"Y": r"(?:19|20)\d\d", "M": r"\d\d?", "D": r"\d\d?", "N": r"[^\W\d_]{2,12}", "MM": r"\d\d", "DD": r"\d\d"}
_PARTS["NE"] = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_GAP = r"[\s.,_-]{0,3}"
SPELLED = (
    rf"D(?:st|nd|rd|th|er|[ºª°])?{_GAP}(?:de |of |d['’])?N{_GAP}(?:del? )?Y",
    *(rf"NE{_GAP}D(?:st|nd|rd|th)?{_GAP}Y", rf"Y{_GAP}N{_GAP}D", r"Y[년年] ?M[월月] ?D[일日号]"),
)
"""Forms for `pattern` that nothing but a date has."""


def pattern(*forms: str) -> str:
    """Return a regular expression for any of `forms`, in which Y, M, D and N (a name) are the parts of a day."""
    numbers = count()
    group = "(?P<{0[0]}{1}>{2})".format
    return re.sub("MM|DD|NE|[YMDN]", lambda part: group(part[0], next(numbers), _PARTS[part[0]]), "|".join(forms))


def day(match: re.Match[str]) -> str:
    """Return the day that a match of `pattern` names in ISO 8601, "" if no calendar has it."""
    parts = {name[0]: text for name, text in match.groupdict().items() if text}
    try:
        return dt.date(int(parts["Y"]), int(parts.get("M") or month(parts["N"])), int(parts["D"])).isoformat()
    except ValueError:
        return ""


def month(name: str) -> int:
    """Return the number of a month by its name, whole or cut short, in one of a dozen languages; 0 if it is none."""
    return next((number for number, form in enumerate(_MONTHS, 1) if re.fullmatch(form, name.casefold())), 0)


WORD = r"[^\W\d_]{1,20}(?:-feira)?"
"""A day of the week in any language; in a date also "at", "um", "г."."""

_DAY = pattern(r"Y\s?[-/.]\s?M\s?[-/.]\s?D", r"D\.\s?M\.\s?Y", *SPELLED)
_TIME = (
    r"(?P<before>오전|오후|午前|午後|上午|下午)?\s?(?P<hour>\d\d?)[:시時]\s?(?P<minute>\d\d?)[분分]?(?::(?P<second>\d\d)"
    r"(?:[.,]\d+)?)?\s?(?P<half>[ap]\.?m\.?)?\s?(?P<utc>Z|UTC|GMT)?(?P<zone>[+-]\d\d:?\d\d)?"
)
_WORDS = rf"(?:[\s,.(]*{WORD}[.)]*){{0,3}}?[\s.,]*"
_VALUE = re.compile(rf"(?:{WORD}[.,]*\s+)??(?:{_DAY}){_WORDS}(?:{_TIME}(?:\s*\(.*\)|\s*{WORD})?)?", re.I)


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
        return day(match) if match else ""
    half = (match["before"] or match["half"] or "").lower()
    hour = int(match["hour"]) % 12 + 12 * (half[0] == "p" or half in "오후 午後 下午") if half else int(match["hour"])
    zone = match["zone"] or ("Z" if match["utc"] else "")
    return f"{day(match)}T{hour:02}:{match['minute']:0>2}:{match['second'] or '00'}{zone}"


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
