"""
Differences between two texts that say nearly the same.

Numbers with units, and negations, turn a repetition into a contradiction, and embeddings do not see them. Words are
compared as written, in Korean and English. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from spellbook.text.quoting import counted, one_line

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
_MOST_ALIGNED = 2_000
"""Items on either side that are aligned as `SequenceMatcher` does it, whose time may grow with their square."""

_MOST_PAIRS = 200_000
"""Most equal pairs among them, for the same reason."""

_MOST_EDITS = 200
"""Most single edits that are searched for where no item is unique."""

MOST_STEPS = 2_000_000
"""Most pairs that are compared for one difference, in addition to those its length needs."""

_MOST_ITEMS = 300_000
"""Texts with more items have one difference: the whole of one replaces the whole of the other."""

_DEEPEST = 12

Span = tuple[int, int, int, int]
"""Start and end in one sequence, and start and end in the other; ends are exclusive."""


def unified(before: str, after: str, a: str = "there", b: str = "new") -> str:
    """Return the difference between two texts named `a` and `b` as `diff -U1` shows it, at most 200 lines."""
    old, new = before.splitlines(), after.splitlines()
    found: list[str] = [f"--- {one_line(a)}", f"+++ {one_line(b)}"]
    for hunk in _hunks(changed_spans(old, new)):
        shift = hunk[0][2] - hunk[0][0]
        start, end = max(0, hunk[0][0] - 1), min(len(old), hunk[-1][1] + 1)
        last = end + hunk[-1][3] - hunk[-1][1]
        found.append(f"@@ -{_range(start, end)} +{_range(start + shift, last)} @@")
        for i, j, k, m in hunk:
            found += [f" {line}" for line in old[start:i]]
            found += [f"-{line}" for line in old[i:j]]
            found += [f"+{line}" for line in new[k:m]]
            start = j
        found += [f" {line}" for line in old[start:end]]
    if len(found) == 2:
        return ""
    more = [f"… {counted(len(found) - _MOST_LINES, 'more line')}"] if len(found) > _MOST_LINES else []
    return "\n".join([*found[:_MOST_LINES], *more])


def _hunks(spans: Iterable[Span]) -> Iterator[list[Span]]:
    """Yield groups of spans with at most two lines between them, which are shown together."""
    hunk: list[Span] = []
    for span in spans:
        if hunk and span[0] - hunk[-1][1] > 2:
            yield hunk
            hunk = []
        hunk.append(span)
    if hunk:
        yield hunk


def _range(start: int, end: int) -> str:
    """Return a range of lines as a unified diff writes it."""
    if end - start == 1:
        return str(start + 1)
    return f"{start + (end > start)},{end - start}"


def changed_spans(old: Sequence[str], new: Sequence[str]) -> list[Span]:
    """Return where two sequences differ, in order and linear time; spans of long ones may be larger than necessary."""
    left = [MOST_STEPS + 4 * (len(old) + len(new))]
    spans: list[Span] = []
    for span in _changed(old, new, (0, len(old), 0, len(new)), left, 0):
        if spans and spans[-1][1] == span[0] and spans[-1][3] == span[2]:
            spans[-1] = (spans[-1][0], span[1], spans[-1][2], span[3])
        else:
            spans.append(span)
    return spans


def _changed(old: Sequence[str], new: Sequence[str], within: Span, left: list[int], depth: int) -> Iterator[Span]:
    """Yield where two sequences differ within a span; `left` are the steps that may still be taken."""
    i, j, k, m = within
    while i < j and k < m and old[i] == new[k]:
        i, k = i + 1, k + 1
    while i < j and k < m and old[j - 1] == new[m - 1]:
        j, m = j - 1, m - 1
    if i == j or k == m:
        yield from [(i, j, k, m)] if i < j or k < m else ()
        return
    here, there = Counter(old[i:j]), Counter(new[k:m])
    pairs = sum(count * there[item] for item, count in here.items())
    if not pairs:
        yield i, j, k, m
    elif max(j - i, m - k) <= _MOST_ALIGNED and pairs <= min(_MOST_PAIRS, left[0]):
        left[0] -= pairs
        for kind, a, b, c, d in SequenceMatcher(None, old[i:j], new[k:m], autojunk=False).get_opcodes():
            if kind != "equal":
                yield i + a, i + b, k + c, k + d
    elif edits := _fewest(old, new, (i, j, k, m), left):
        yield from edits
    else:
        is_deep = depth == _DEEPEST or max(j - i, m - k) > _MOST_ITEMS
        for span in _between([] if is_deep else _anchors(old, new, (i, j, k, m)), (i, j, k, m)):
            if span == (i, j, k, m):
                yield span
            else:
                yield from _changed(old, new, span, left, depth + 1)


def _fewest(old: Sequence[str], new: Sequence[str], within: Span, left: list[int]) -> list[Span]:
    """Return the fewest single edits (Myers, An O(ND) Difference Algorithm, 1986), none if they are too many."""
    i, j, k, m = within
    reach = {1: i}  # the furthest point reached on each diagonal
    steps: list[dict[int, int]] = []
    for count in range(_MOST_EDITS + 1):
        steps.append(dict(reach))
        for diagonal in range(-count, count + 1, 2):
            is_added = diagonal == -count or (diagonal != count and reach[diagonal - 1] < reach[diagonal + 1])
            begin = reach[diagonal + 1] if is_added else reach[diagonal - 1] + 1
            at, place = begin, begin - i - diagonal + k
            while at < j and place < m and old[at] == new[place]:
                at, place = at + 1, place + 1
            reach[diagonal] = at
            left[0] -= at - begin + 1
            if at >= j and place >= m:
                return _retraced(steps, within)
        if left[0] < 0:
            break
    return []


def _retraced(steps: Sequence[Mapping[int, int]], within: Span) -> list[Span]:
    """Return the edits that lead to the end of a span."""
    i, j, k, m = within
    diagonal, edits = (j - i) - (m - k), []
    for count in range(len(steps) - 1, 0, -1):
        reach = steps[count]
        is_added = diagonal == -count or (diagonal != count and reach[diagonal - 1] < reach[diagonal + 1])
        diagonal += 1 if is_added else -1
        at = reach[diagonal]
        place = at - i - diagonal + k
        edits.append((at, at, place, place + 1) if is_added else (at, at + 1, place, place))
    return edits[::-1]


def _anchors(old: Sequence[str], new: Sequence[str], within: Span) -> list[tuple[int, int]]:
    """Return pairs of aligned places, in order: of items unique on each side (patience sorting), else of all."""
    i, j, k, m = within
    ours, theirs = _places(old, i, j), _places(new, k, m)
    once = [(at[0], theirs[item][0]) for item, at in ours.items() if len(at) == 1 == len(theirs.get(item, ()))]
    return _rising(once or [pair for item, at in ours.items() for pair in zip(at, theirs.get(item, ()), strict=False)])


def _places(items: Sequence[str], start: int, end: int) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for at in range(start, end):
        found.setdefault(items[at], []).append(at)
    return found


def _rising(pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the most of these pairs, no two of which cross (the longest increasing subsequence)."""
    tops: list[int] = []  # the smallest last number of an increasing row of each length
    ends: list[Any] = []  # that row: its last pair, and the row before it
    for at, place in sorted(pairs):
        length = bisect_left(tops, place)
        tops[length : length + 1] = [place]
        ends[length : length + 1] = [(at, place, ends[length - 1] if length else None)]
    found: list[tuple[int, int]] = []
    row = ends[-1] if ends else None
    while row:
        found.append(row[:2])
        row = row[2]
    return found[::-1]


def _between(anchors: Sequence[tuple[int, int]], within: Span) -> Iterator[Span]:
    """Yield the parts of a span between anchors."""
    i, j, k, m = within
    for a, b in (*anchors, (j, m)):
        if a > i or b > k:
            yield i, a, k, b
        i, k = a + 1, b + 1


@dataclass(frozen=True, slots=True)
class _Token:
    """A word as it is compared, and its place in the text. A number is compared as "0"; `number` has its value."""

    word: str
    number: str
    start: int
    end: int


def masked(text: str) -> tuple[str, tuple[str, ...]]:
    """Return `text` with each number and its unit as 0, and the numbers in order: 1,234.5 kB is `1234.5kb`."""
    text = unicodedata.normalize("NFC", text)
    numbers: list[str] = []

    def mask(found: re.Match[str]) -> str:
        numbers.append(_quantity(text, found))
        return "0"

    return _QUANTITY.sub(mask, text), tuple(numbers)


def contradiction(a: str, b: str) -> tuple[tuple[str, str], ...]:
    """
    Return the parts in which two texts differ, side by side with a few words around them.

    Empty unless they differ only in numbers, units and negations: else one repeats the other, or they are unrelated.
    """
    a, b = unicodedata.normalize("NFC", a), unicodedata.normalize("NFC", b)
    left, right = _tokens(a), _tokens(b)
    parts: list[tuple[str, str]] = []
    # Aligned by their words, so that a number is compared with the one in its place.
    at = (0, 0)
    for i, j, k, m in (
        *changed_spans([token.word for token in left], [token.word for token in right]),
        (len(left),) * 2 + (len(right),) * 2,
    ):
        other = [n for n in range(i - at[0]) if left[at[0] + n].number != right[at[1] + n].number]
        spans = [(at[0] + n, at[0] + n + 1, at[1] + n, at[1] + n + 1) for n in other]
        if _negated(left[i:j], right[k:m]):
            spans.append((i, j, k, m))
        elif i < j or k < m:
            return ()
        parts += [(_around(a, left, *span[:2]), _around(b, right, *span[2:])) for span in spans]
        at = (j, m)
    return tuple(parts)


def overturns(new: str, old: str) -> bool:
    """Say whether a text that means nearly the same says otherwise: another number each, or a negation."""
    numbers, before = (set(_QUANTITY.findall(unicodedata.normalize("NFC", text))) for text in (new, old))
    return bool(numbers - before and before - numbers) or bool(contradiction(old, new))


def _negated(left: Sequence[_Token], right: Sequence[_Token]) -> bool:
    if max(len(left), len(right)) > _MOST_NEGATED or any(token.number for token in (*left, *right)):
        return False
    is_left, is_right = (any(_NEGATION.fullmatch(token.word) for token in tokens) for tokens in (left, right))
    return is_left != is_right


def _around(text: str, tokens: Sequence[_Token], first: int, last: int) -> str:
    """Return the text of the tokens `first` to `last`, exclusive, with two tokens before and one after."""
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
    """Return the sign and currency in front of a number; a hyphen after a word or a number is not a sign."""
    match = _SIGN.search(text, max(0, at - 3), at)
    return match[0] if match else ""
