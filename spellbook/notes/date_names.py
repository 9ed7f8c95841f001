"""
The names of months and days of the week in all languages, and the forms in which a day is spelt with them.

The names are those of date_names.toml, which is read when one is first met.

A name that means two months in two languages, as `listopad` (November in Polish, October in Croatian), means that
of the language that scripts/date_names.py names first, or none of them; a day of the week beside it decides.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import count

from spellbook.system.lazy import regex, toml_in
from spellbook.text.unicode import composed, folded

_ERAS = {
    **{"令和": 2018, "平成": 1988, "昭和": 1925, "大正": 1911, "明治": 1867, "民國": 1911, "民国": 1911},
    **{"พ.ศ.": -543, "พุทธศักราช": -543, "ค.ศ.": 0},
}
"""The years between an era that stands before a year and the common one, by the calendars of the CLDR."""

_OF_ERA = regex(rf"({'|'.join(map(re.escape, _ERAS))})\s?(元|\d{{1,4}})")
_FOREIGN = regex(r"[\u200e\u200f\u061c]|(?![0-9])\d")  # marks of direction, digits of other scripts
_LEFT_OUT = regex(r"[\s.'’ʼʹ׳·•־‐‑\-~\u180e\u200b-\u200d\u0307]|(?<!\d)0(?=\d)")
"""Letters without which names are compared: blanks, marks, and a zero before a digit."""

LETTER = r"[^\s\d\x00-@\[-`{-\xa9\xab-\xb4\xb6-\xb9\xbb-\xbf\u060c\u061b\u061f‐-\u206f、-\u3020，]"
"""A letter or a mark that belongs to one, in any script."""

NAME = rf"(?:\d\d?[-\s]?)?{LETTER}{{1,24}}(?:[\s.'’·־-]{{1,2}}{LETTER}{{1,24}}){{0,5}}?(?:\s?\d\d?)??['’.]?"
"""A name of one or more words, perhaps with a number: `3월`, `tháng 3`, `มี.ค.`, `e hënë`."""


def plain(text: str) -> str:
    """Return a text in NFC with digits of every script as 0 to 9, without marks of direction, in common years."""
    if text.isascii():
        return text
    text = _FOREIGN.sub(lambda letter: str(unicodedata.decimal(letter[0], "")), composed(text))
    return _OF_ERA.sub(lambda year: str(_ERAS[year[1]] + int(year[2].replace("元", "1"))), text)


def key(name: str) -> str:
    """Return the form in which names are compared: small letters in NFC, without blanks, stops and hyphens."""
    return _LEFT_OUT.sub("", folded(plain(name))).replace("ı", "i")


@lru_cache(maxsize=1_000)
def meanings(kind: str, name: str) -> Sequence[int]:
    """Return the `months` (1 to 12) or `days` (1 is Monday) that a name may mean, the likely one first; 0 is none."""
    names, line = table("date_names.toml"), f"\n{key(name)}\n"
    found = [int(number) for number, listed in names[kind].items() if line in f"\n{listed}"]
    return found or names["several"][kind].get(key(name), [0])


table = partial(toml_in, __file__)
"""Returns the content of a TOML file beside this module."""


# -- the forms in which a day is spelt

_DAY_PARTS = {
    **{"Y": r"(?:19|20)\d\d", "M": r"\d\d?", "D": r"\d\d?", "MM": r"\d\d", "DD": r"\d\d", "N": rf"(?!\d){NAME}"},
    **{"NW": rf"{LETTER}{{2,24}}", "NE": "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"},
}
_GAP = r"[\s.,،_-]{0,3}"
_TH = r"(?:st|nd|rd|th|er|mh|[ºª°])?"
SPELLED_DAYS = (
    r"Y[년年] ?M[월月] ?D[일日号]",
    rf"D{_TH}{_GAP}(?:de |of |di |na |d['’]|ב)?N{_GAP}(?:del? |di |dal |năm )?Y",
    rf"(?:NE{_GAP}D{_TH}{_GAP}|NW D, ?)Y",
    rf"Y{_GAP}(?:(?:m|ж|թ|gada)\.? )?(?:N{_GAP}D|D{_GAP}N)",
)
"""Forms for `day_pattern` that nothing but a date has, with the words that the CLDR puts between its parts."""


def day_pattern(*forms: str) -> str:
    """Return a regular expression for any of `forms`, in which Y, M, D and N (a name) are the parts of a day."""
    numbers = count()
    group = "(?P<{0[0]}{1}>{2})".format
    return re.sub(
        "MM|DD|NE|NW|[YMDN]", lambda part: group(part[0], next(numbers), _DAY_PARTS[part[0]]), "|".join(forms)
    )
