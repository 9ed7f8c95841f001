"""
Differences: what two texts that say nearly the same do not agree on.

Numbers with their units, and negations, are what turns a repetition into a
contradiction; no embedding sees them. Words are compared as they are written,
in Korean and English; nothing here understands a sentence. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff

from spellbook.quoting import one_line

_UNITS = (
    "%|‰|°[CF]?|[kKMGTP]i?[bB]|[kKMGTP]bps|[kmg]?Hz|bytes?|bits?|tokens?|times|percent|dollars?|euros?|won|usd|eur|krw"
    "|ms|µs|us|ns|s|secs?|seconds?|mins?|minutes?|h|hrs?|hours?|days?|weeks?|months?|years?|am|pm|[kcm]?m|[km]?g"
)
_KOREAN_UNITS = (
    "퍼센트|프로|밀리초|초|분|시간|시|일|주일|주|개월|달|월|년|[천만억조]*\\s?(?:원|달러|유로|엔)|[천만억조]+"
    "|개|명|번|회|건|대|배|바이트|기가|메가"
)
_NUMBER = rf"\d+(?:[.,:/_'\u2019-]\d+)*(?:\s?(?:(?:{_UNITS})(?![^\W\d_])|(?:{_KOREAN_UNITS})))?"
_QUANTITY = re.compile(_NUMBER, re.I)
_TOKEN = re.compile(rf"(?P<quantity>{_NUMBER})|[^\W\d]+(?:['\u2019][^\W\d]+)*", re.I)
_SIGN = re.compile(r"(?:(?<![\w.)\]])[-+\u2212])?[$€£₩¥]?\Z")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NEGATION = re.compile(
    r"not|no|never|none|nor|neither|without|cannot|\w+n['\u2019]t|forbidden|prohibited|disallowed"
    # `안` and `못` before a verb or grown together with it; 안전, 안내 and their like are other words.
    r"|안|안(?:되|된|될|돼|됨|됩|하|한|할|함|합|해|써|쓴|씀|씁)\w*|못|못(?:하|한|할|함|합|해|쓰|씁|씀)\w*"
    r"|\w*(?:않|없|아니|아닌|아님|아닙|말아|말고|마세요|마라|마십시오|금지|불가|미지원)\w*",
    re.I,
)
_MOST_NEGATED = 4
"""Words that a negation may change around it: `쓴다` and `쓰지 않는다`, `deploys` and `does not deploy`."""


_MOST_LINES = 200


def unified(before: str, after: str, a: str = "there", b: str = "new") -> str:
    """Return the difference between two texts named `a` and `b` as `diff -U1` shows it, at most 200 lines of it."""
    found = list(unified_diff(before.splitlines(), after.splitlines(), one_line(a), one_line(b), lineterm="", n=1))
    more = [f"… {len(found) - _MOST_LINES} more lines"] if len(found) > _MOST_LINES else []
    return "\n".join([*found[:_MOST_LINES], *more])


@dataclass(frozen=True, slots=True)
class _Token:
    """A word as it is compared, "0" for a number, which is in `number` then; and where it stands."""

    word: str
    number: str
    start: int
    end: int


def masked(text: str) -> tuple[str, tuple[str, ...]]:
    """
    Return `text` with each number and its unit as 0, and the numbers in order: 1,234.5 kB is `1234.5kb`.

    Texts that differ in numbers alone have the first in common.
    """
    text = _even(text)
    numbers: list[str] = []

    def mask(found: re.Match[str]) -> str:
        numbers.append(_quantity(text, found))
        return "0"

    return _QUANTITY.sub(mask, text), tuple(numbers)


def contradiction(a: str, b: str) -> tuple[tuple[str, str], ...]:
    """
    Return the parts in which two texts differ, side by side with a few words around them.

    Empty unless they differ in nothing but numbers, units and negations: then
    one of them repeats the other, or they are two texts.
    """
    a, b = _even(a), _even(b)
    left, right = _tokens(a), _tokens(b)
    parts: list[tuple[str, str]] = []
    # Aligned by their words, so that a number is compared with the one in its place.
    matcher = SequenceMatcher(None, [token.word for token in left], [token.word for token in right], autojunk=False)
    for kind, i, j, k, m in matcher.get_opcodes():
        if kind == "equal":
            other = [n for n in range(j - i) if left[i + n].number != right[k + n].number]
            spans = [(i + n, i + n + 1, k + n, k + n + 1) for n in other]
        elif _negated(left[i:j], right[k:m]):
            spans = [(i, j, k, m)]
        else:
            return ()
        parts += [(_around(a, left, *span[:2]), _around(b, right, *span[2:])) for span in spans]
    return tuple(parts)


def _negated(left: Sequence[_Token], right: Sequence[_Token]) -> bool:
    if max(len(left), len(right)) > _MOST_NEGATED or any(token.number for token in (*left, *right)):
        return False
    return any(_NEGATION.fullmatch(token.word) for token in left) != any(_NEGATION.fullmatch(token.word) for token in right)


def _around(text: str, tokens: Sequence[_Token], first: int, last: int) -> str:
    """The tokens `first` to `last`, exclusive, with two before and one after."""
    shown = tokens[max(0, first - 2) : last + 1]
    start, end = (shown[0].start, shown[-1].end) if shown else (0, 0)
    words = " ".join(text[start:end].split())
    return ("… " if re.search(r"\w", text[:start]) else "") + words + (" …" if re.search(r"\w", text[end:]) else "")


def _tokens(text: str) -> list[_Token]:
    found = []
    for match in _TOKEN.finditer(text):
        if match["quantity"] is None:
            found.append(_Token(match[0].casefold().replace("\u2019", "'"), "", match.start(), match.end()))
        else:
            sign = _sign(text, match.start())
            found.append(_Token("0", _quantity(text, match), match.start() - len(sign), match.end()))
    return found


def _quantity(text: str, found: re.Match[str]) -> str:
    written = _sign(text, found.start()) + _THOUSANDS.sub("", found[0])
    return "".join(written.split()).casefold().replace("\u2212", "-")


def _sign(text: str, at: int) -> str:
    """The sign and currency in front of a number; what joins it to a word or a number before is none."""
    match = _SIGN.search(text, max(0, at - 3), at)
    return match[0] if match else ""


def _even(text: str) -> str:
    return unicodedata.normalize("NFC", text)
