"""
Differences between two texts that say nearly the same.

Numbers with units, and negations, turn a repetition into a contradiction, and embeddings do not see them. Words are
compared as written, in Korean and English. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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
"""The most lines of a difference that is shown."""

MOST_STEPS = 300_000
"""Most steps of the search for one difference, in addition to those its length needs; each takes some microseconds."""

_MOST_EDITS = 300
"""Single edits after which the furthest path is taken, and the search begins anew at its end."""

Span = tuple[int, int, int, int]
"""Start and end in one sequence, and start and end in the other; ends are exclusive."""

_Place = tuple[int, int]
"""A place in one sequence, and one in the other."""


def unified(before: str, after: str, a: str = "there", b: str = "new") -> str:
    """Return the difference between two texts named `a` and `b` as `diff -U1` shows it, at most 200 lines."""
    old, new = before.splitlines(), after.splitlines()
    lines: list[str] = [f"--- {one_line(a)}", f"+++ {one_line(b)}"]
    for hunk in _hunks(changed_spans(old, new)):
        shift = hunk[0][2] - hunk[0][0]
        start, end = max(0, hunk[0][0] - 1), min(len(old), hunk[-1][1] + 1)
        last = end + hunk[-1][3] - hunk[-1][1]
        lines.append(f"@@ -{_range(start, end)} +{_range(start + shift, last)} @@")
        for i, j, k, m in hunk:
            lines += [f" {line}" for line in old[start:i]]
            lines += [f"-{line}" for line in old[i:j]]
            lines += [f"+{line}" for line in new[k:m]]
            start = j
        lines += [f" {line}" for line in old[start:end]]
    if len(lines) == 2:
        return ""
    more = [f"… {counted(len(lines) - _MOST_LINES, 'more line')}"] if len(lines) > _MOST_LINES else []
    return "\n".join([*lines[:_MOST_LINES], *more])


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
    length = min(len(old), len(new))
    head = next((n for n in range(length) if old[n] != new[n]), length)
    tail = next((n for n in range(length - head) if old[-1 - n] != new[-1 - n]), length - head)
    spans: list[Span] = []
    at = to = head
    for i, k in (*_align(old, new, head, tail), (len(old) - tail, len(new) - tail)):
        if i > at or k > to:
            _add(spans, (at, i, to, k), old, new)
        at, to = i + 1, k + 1
    return spans


def _add(spans: list[Span], span: Span, old: Sequence[str], new: Sequence[str]) -> None:
    """Add a span; one in which items were only added, or only removed, becomes one with the span before if it may."""
    i, j, k, m = span
    items, first, end = (new, k, m) if i == j else (old, i, j)
    room = i - spans[-1][1] if spans and (i == j or k == m) else 0
    # The same change stands that many items further up if these end it too.
    if room and all(items[first - n] == items[end - n] for n in range(1, room + 1)):
        spans[-1] = (spans[-1][0], j - room, spans[-1][2], m - room)
    else:
        spans.append(span)


def _align(old: Sequence[str], new: Sequence[str], head: int, tail: int) -> list[_Place]:
    """Return the places of equal items between `head` and `tail`: the most there can be, unless that takes too long."""
    inside = range(head, len(old) - tail), range(head, len(new) - tail)
    both = {old[at] for at in inside[0]} & {new[at] for at in inside[1]}  # what one side alone has differs in any case
    ours, theirs = [at for at in inside[0] if old[at] in both], [at for at in inside[1] if new[at] in both]
    shared = [old[at] for at in ours], [new[at] for at in theirs]
    here, ends = (0, 0), (len(ours), len(theirs))
    left = MOST_STEPS + 4 * (len(old) + len(new))
    places: list[_Place] = []
    while here != ends and left > 0:
        same, here, steps = _furthest(*shared, here, ends)
        places += [(ours[i], theirs[k]) for i, k in same]
        left -= steps
    return places


def _furthest(old: Sequence[str], new: Sequence[str], start: _Place, ends: _Place) -> tuple[list[_Place], _Place, int]:
    """
    Follow the path of the fewest single edits (Myers, An O(ND) Difference Algorithm, 1986).

    Return the equal places on it, where it ends, which is before `ends` if it has too many edits, and the steps taken.
    """
    (i, k), (j, m) = start, ends
    reach: dict[int, tuple[int, Any]] = {1: (i, None)}  # on each diagonal the furthest place, and the runs on its path
    steps = 0
    for count in range(_MOST_EDITS + 1):
        for diagonal in range(-count, count + 1, 2):
            is_added = diagonal == -count or (diagonal != count and reach[diagonal - 1][0] < reach[diagonal + 1][0])
            at, runs = reach[diagonal + 1] if is_added else reach[diagonal - 1]
            begin = at = at if is_added else at + 1
            shift = k - i - diagonal
            while at < j and at + shift < m and old[at] == new[at + shift]:
                at += 1
            reach[diagonal] = at, ((begin, at, shift), runs) if at > begin else runs
            steps += at - begin + 1
            if (at, at + shift) == ends:
                return _expand(reach[diagonal][1]), ends, steps
    inside = [(2 * at + k - i - diagonal, at, diagonal) for diagonal, (at, _) in reach.items()]
    _, at, diagonal = max(place for place in inside if place[1] <= j and place[0] - place[1] <= m)
    return _expand(reach[diagonal][1]), (at, at + k - i - diagonal), steps


def _expand(runs: Any) -> list[_Place]:
    """Return the places in runs of equal items; the last run comes first, with the runs before it."""
    groups: list[list[_Place]] = []
    while runs:
        (begin, end, shift), runs = runs
        groups.append([(at, at + shift) for at in range(begin, end)])
    return [place for places in reversed(groups) for place in places]


def weave(
    base: Sequence[str], ours: Sequence[str], theirs: Sequence[str], *, touching: bool = False
) -> Iterator[tuple[slice, slice, slice]]:
    """
    Yield the parts of three sequences that belong together, in order; together they are the whole sequences.

    Changes of the two sides are one part if they overlap, or if both insert at one place; with `touching` also if they
    follow each other.
    """
    spans = sorted(
        (*span, side) for side, changed in enumerate((ours, theirs)) for span in changed_spans(base, changed)
    )
    regions: list[list[tuple[int, int, int, int, int]]] = []
    for span in spans:
        last = regions[-1] if regions else []
        reach = max((other[1] for other in last), default=-1)
        inserts = any(other[0] == other[1] == span[0] == span[1] for other in last)
        if last and (span[0] < reach + touching or inserts):
            last.append(span)
        else:
            regions.append([span])
    at = [0, 0, 0]
    for region in regions:
        start, end = min(span[0] for span in region), max(span[1] for span in region)
        same = start - at[0]
        yield slice(at[0], start), slice(at[1], at[1] + same), slice(at[2], at[2] + same)
        at = [start, at[1] + same, at[2] + same]
        longer = [sum((m - k) - (j - i) for i, j, k, m, side in region if side == number) for number in (0, 1)]
        to = [end, at[1] + end - start + longer[0], at[2] + end - start + longer[1]]
        yield slice(at[0], to[0]), slice(at[1], to[1]), slice(at[2], to[2])
        at = to
    yield slice(at[0], len(base)), slice(at[1], len(ours)), slice(at[2], len(theirs))


def woven(
    base: Sequence[str],
    ours: Sequence[str],
    theirs: Sequence[str],
    both: Callable[[Sequence[str], Sequence[str], Sequence[str]], Sequence[str] | None],
    *,
    touching: bool = False,
) -> str | None:
    """
    Return the merge of three texts in parts. `both` says what stands where both sides changed one place.

    None if `both` says None of a place.
    """
    merged: list[str] = []
    for a, b, c in weave(base, ours, theirs, touching=touching):
        old, left, right = base[a], ours[b], theirs[c]
        part = left if right in (old, left) else right if left == old else both(old, left, right)
        if part is None:
            return None
        merged += part
    return "".join(merged)


@dataclass(frozen=True, slots=True)
class _WordToken:
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
    """
    Return the parts in which two texts differ, side by side with a few words around them.

    Empty unless they differ only in numbers, units and negations: else one repeats the other, or they are unrelated.
    """
    a, b = composed(a), composed(b)
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
        if _differ_by_negation(left[i:j], right[k:m]):
            spans.append((i, j, k, m))
        elif i < j or k < m:
            return ()
        parts += [(_with_context(a, left, *span[:2]), _with_context(b, right, *span[2:])) for span in spans]
        at = (j, m)
    return tuple(parts)


def overturns(new: str, old: str) -> bool:
    """Say whether a text that means nearly the same says otherwise: another number each, or a negation."""
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
    tokens = []
    for match in _TOKEN.finditer(text):
        if match["quantity"] is None:
            tokens.append(_WordToken(match[0].casefold().replace("\u2019", "'"), "", match.start(), match.end()))
        else:
            sign = _sign(text, match.start())
            tokens.append(_WordToken("0", _quantity(text, match), match.start() - len(sign), match.end()))
    return tokens


def _quantity(text: str, match: re.Match[str]) -> str:
    written = _sign(text, match.start()) + _THOUSANDS.sub("", match[0])
    return "".join(written.split()).casefold().replace("\u2212", "-")


def _sign(text: str, at: int) -> str:
    """Return the sign and currency in front of a number; a hyphen after a word or a number is not a sign."""
    match = _SIGN.search(text, max(0, at - 3), at)
    return match[0] if match else ""
