"""
Differences between two texts that say nearly the same. Pure.

Numbers with units, and negations, turn a repetition into a contradiction, and embeddings do not see them. Words are
compared as written, in Korean and English.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import NamedTuple

from spellbook.system.lazy import regex
from spellbook.text.quoting import counted, one_line
from spellbook.text.unicode import composed

_UNITS = (
    "%|‰|°[CF]?|[kKMGTP]i?[bB]|[kKMGTP]bps|[kmg]?Hz|bytes?|bits?|tokens?|times|percent|dollars?|euros?|won|usd|eur|krw"
    "|ms|µs|us|ns|s|secs?|seconds?|mins?|minutes?|h|hrs?|hours?|days?|weeks?|months?|years?|am|pm|[kcm]?m|[km]?g"
)
_KOREAN_UNITS = (
    "퍼센트|프로|밀리초|초|분|시간|시|일|주일|주|개월|달|월|년|[천만억조]*\\s?(?:원|달러|유로|엔)|[천만억조]+"
    "|개|명|번|회|건|대|배|바이트|기가|메가"
)
_NUMBER = rf"\d+(?:[.,:/_'\u2019-]\d+)*(?:\s?(?:(?:{_UNITS})(?![^\W\d_])|(?:{_KOREAN_UNITS})))?"
_QUANTITY = regex(_NUMBER, re.I)
_TOKEN = regex(rf"(?P<quantity>{_NUMBER})|[^\W\d]+(?:['\u2019][^\W\d]+)*", re.I)
_SIGN = regex(r"(?:(?<![\w.)\]])[-+\u2212])?[$€£₩¥]?\Z")
_THOUSANDS = regex(r"(?<=\d),(?=\d{3}(?!\d))")
_NEGATION = regex(
    r"not|no|never|none|nor|neither|without|cannot|\w+n['\u2019]t|forbidden|prohibited|disallowed"
    # `안` and `못` before a verb or grown together with it; 안전, 안내 and their like are other words.
    r"|안|안(?:되|된|될|돼|됨|됩|하|한|할|함|합|해|써|쓴|씀|씁)\w*|못|못(?:하|한|할|함|합|해|쓰|씁|씀)\w*"
    r"|\w*(?:않|없|아니|아닌|아님|아닙|말아|말고|마세요|마라|마십시오|금지|불가|미지원)\w*",
    re.I,
)
_MOST_NEGATED = 4
"""Words that a negation may change around it: `쓴다` and `쓰지 않는다`, `deploys` and `does not deploy`."""

_MOST_LINES = 200
"""The most lines of a difference that is shown."""

_MOST_COMPARED = 4_000
"""The most items between the first and the last difference that are compared; by hand, as they take up to 5 s."""

Span = tuple[int, int, int, int]
"""Start and end in one sequence, and start and end in the other; ends are exclusive."""


def unified(before: str, after: str, a: str = "there", b: str = "new") -> str:
    """Return the difference between two texts named `a` and `b` as `diff -U1` shows it, at most 200 lines."""
    names = one_line(a), one_line(b)
    lines = [*difflib.unified_diff(before.splitlines(), after.splitlines(), *names, n=1, lineterm="")]
    more = [f"… {counted(len(lines) - _MOST_LINES, 'more line')}"] if len(lines) > _MOST_LINES else []
    return "\n".join([*lines[:_MOST_LINES], *more])


def changed_spans(old: Sequence[str], new: Sequence[str]) -> list[Span]:
    """Return where two sequences differ, in order; long ones with much in between are compared only at their ends."""
    length = min(len(old), len(new))
    head = next((n for n in range(length) if old[n] != new[n]), length)
    tail = next((n for n in range(length - head) if old[-1 - n] != new[-1 - n]), length - head)
    if max(len(old), len(new)) - head - tail > _MOST_COMPARED:
        return [(head, len(old) - tail, head, len(new) - tail)]
    matcher = difflib.SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail])
    return [(head + i, head + j, head + k, head + m) for tag, i, j, k, m in matcher.get_opcodes() if tag != "equal"]


class _WordToken(NamedTuple):
    """A word as it is compared, and its place in the text. A number is compared as "0"; `number` has its value."""

    word: str
    number: str
    start: int
    end: int


def masked(text: str) -> tuple[str, tuple[str, ...]]:
    """Return `text` with each number and its unit as 0, and the numbers in order: 1,234.5 kB is `1234.5kb`."""
    text = composed(text)
    numbers: list[str] = []

    def mask(match: re.Match[str]) -> str:
        numbers.append(_quantity(text, match))
        return "0"

    return _QUANTITY.sub(mask, text), tuple(numbers)


def contradiction(a: str, b: str) -> tuple[tuple[str, str], ...]:
    """Return differing parts of two texts with context; empty unless only numbers, units and negations differ."""
    a, b = composed(a), composed(b)
    left, right = _tokens(a), _tokens(b)
    parts: list[tuple[str, str]] = []
    # Aligned by their words, so that a number is compared with the one in its place.
    spans = changed_spans([token.word for token in left], [token.word for token in right])
    at, to = 0, 0
    for i, j, k, m in (*spans, (len(left), len(left), len(right), len(right))):
        pairs = zip(range(at, i), range(to, k), strict=True)
        differing = [(n, n + 1, o, o + 1) for n, o in pairs if left[n].number != right[o].number]
        if _differ_by_negation(left[i:j], right[k:m]):
            differing.append((i, j, k, m))
        elif i < j or k < m:
            return ()
        parts += [(_with_context(a, left, *each[:2]), _with_context(b, right, *each[2:])) for each in differing]
        at, to = j, m
    return tuple(parts)


def overturns(new: str, old: str) -> bool:
    """Say whether a text that means nearly the same contradicts: by another number each, or a negation."""
    numbers, before = (set(_QUANTITY.findall(composed(text))) for text in (new, old))
    return bool(numbers - before and before - numbers) or bool(contradiction(old, new))


def _differ_by_negation(left: Sequence[_WordToken], right: Sequence[_WordToken]) -> bool:
    if max(len(left), len(right)) > _MOST_NEGATED or any(token.number for token in (*left, *right)):
        return False
    is_left, is_right = (any(_NEGATION.fullmatch(token.word) for token in tokens) for tokens in (left, right))
    return is_left != is_right


def _with_context(text: str, tokens: Sequence[_WordToken], first: int, last: int) -> str:
    """Return the text of the tokens `first` to `last`, exclusive, with two tokens before and one after."""
    shown = tokens[max(0, first - 2) : last + 1]
    start, end = (shown[0].start, shown[-1].end) if shown else (0, 0)
    words = " ".join(text[start:end].split())
    return ("… " if re.search(r"\w", text[:start]) else "") + words + (" …" if re.search(r"\w", text[end:]) else "")


def _tokens(text: str) -> list[_WordToken]:
    return [
        _WordToken(match[0].casefold().replace("\u2019", "'"), "", *match.span())
        if match["quantity"] is None
        else _WordToken("0", _quantity(text, match), match.start() - len(_sign(text, match.start())), match.end())
        for match in _TOKEN.finditer(text)
    ]


def _quantity(text: str, match: re.Match[str]) -> str:
    written = _sign(text, match.start()) + _THOUSANDS.sub("", match[0])
    return "".join(written.split()).casefold().replace("\u2212", "-")


def _sign(text: str, at: int) -> str:
    """Return the sign and currency in front of a number; a hyphen after a word or a number is not a sign."""
    match = _SIGN.search(text, max(0, at - 3), at)
    return match[0] if match else ""
