"""Where a text may be split, and at what cost: never in a grapheme, late in code spans and links. Linear, pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from spellbook.notes.markdown import literals
from spellbook.system.lazy import regex
from spellbook.text.terms import token_weight
from spellbook.text.unicode import MOST_MARKS, joined_at

SECTION, BLOCK, ITEM, SENTENCE, LINE, WORD, LETTER, NEVER = range(8)
"""Costs of a cut at each place, in rising order: a cut between sections costs least."""

# After a mark and what closes a quotation; not after an initial or `e.g.`. Chinese and Japanese leave no blank.
_SENTENCE_END = regex(
    r"(?:(?<=[.!?…।॥؟۔])(?<![\s.(][A-Za-z]\.)|(?<=[.!?…][\"'”’»)\]*_]))\s+"
    r"|(?<=[。！？])(?![。！？」』”’）])|(?<=[。！？][」』”’）])(?![。！？」』”’）])"
)
_LINE_END = regex(r"(?:\r\n|\r|\n)(?:[ \t>]*(?:\r\n|\r|\n))*")
_CLAUSE_END = regex(r"[,;:)\]}|]\s+|[,;](?=[\"'{\[(])|[、，；：]|[،؛]\s*")
_BLANKS = regex(r"\s+")
_LINK = regex(
    r"!?\[\[[^\[\]\n]+\]\]|!?\[[^\[\]\n]*\]\([^()\s]*(?:\s+\"[^\"\n]*\")?\)|<[a-z]+:[^<>\s]+>|https?://[^\s<>\"'`\]。！？、，]+"
)
_MARKER = regex(r"(?:[-+*]|\d{1,9}[.)])[ \t]")
_CLOSER = regex(r"[)\]}]|(?:end|else|elif|except|finally|then|fi|done)\b")


class Frame(NamedTuple):
    """A table or a code block: the text to repeat before its later parts (header, fence), and after earlier ones."""

    lead: str
    tail: str = ""


class Piece(NamedTuple):
    """Characters `start` to `end`, their tokens, the `cost` of a split before it, and what that splits (`inside`)."""

    start: int
    end: int
    weight: float
    cost: int
    inside: Frame | None = None


def prose(text: str, start: int, end: int, most: int, cost: int, inside: Frame | None = None) -> Iterator[Piece]:
    """Yield running text in pieces of at most `most` tokens: whole, sentences, lines, words; `cost` is of the first."""
    run = text[start:end]
    weight = token_weight(run)
    if weight <= most:
        yield Piece(start, end, weight, cost, inside)
        return
    whole = _whole_spans(run)
    ends = {match.end(): LINE for match in _LINE_END.finditer(run)} | {
        match.end(): SENTENCE for match in _SENTENCE_END.finditer(run)
    }
    bounds = sorted(at for at in ends if 0 < at < len(run) and not _within(whole, at))
    for a, b in pairwise([0, *bounds, len(run)]):
        here = ends[a] if a else cost
        weight = token_weight(run[a:b])
        if weight <= most:
            yield Piece(start + a, start + b, weight, here, inside)
        else:
            for at, stop, price in _words(run, a, b, most, whole):
                yield Piece(start + at, start + stop, token_weight(run[at:stop]), price if at > a else here, inside)


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each sentence of running text, without the whitespace between them."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    if ends:
        whole = _whole_spans(text)
        ends = [end for end in ends if not _within(whole, end)]
    for start, end in pairwise([0, *ends, len(text)]):
        sentence = text[start:end]
        if sentence.strip():
            yield start + len(sentence) - len(sentence.lstrip()), start + len(sentence.rstrip())


def line_costs(source: Sequence[str], *, code: bool) -> list[int]:
    """
    Return the cost of a split before each line; NEVER before a blank one.

    In code, an unindented line after a blank one starts a unit; in lists and quotes an item, or a line after a
    sentence's end.
    """
    bodies = [line.lstrip(" \t>") for line in source]
    edges = [len(line) - len(body) for line, body in zip(source, bodies, strict=True)]
    begins = [not code and bool(_MARKER.match(body)) for body in bodies]
    is_blank = [not body.strip() for body in bodies]
    counted = [edges[i] for i in range(1, len(source)) if not is_blank[i] and (code or begins[i])]
    edge_of_all = min(counted, default=0)

    def cost(i: int) -> int:
        is_outer, follows_end = edges[i] <= edge_of_all, is_blank[i - 1]
        if code:
            is_outer = is_outer and not _CLOSER.match(bodies[i])
        else:
            is_outer = is_outer and begins[i]
            follows_end = follows_end or begins[i] or bool(_SENTENCE_END.search(source[i - 1][-4:]))
        if is_outer and follows_end:
            return ITEM
        return SENTENCE if is_outer or follows_end else LINE

    return [NEVER if blank else cost(i) if i else LINE for i, blank in enumerate(is_blank)]


def joined(pieces: Iterable[Piece], most: int) -> list[Piece]:
    """Join pieces that must not be separated, as long as the text before is at most `most` tokens."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else piece
        if joined and piece.cost == NEVER and (last.weight <= most or not piece.weight):
            joined[-1] = Piece(last.start, piece.end, last.weight + piece.weight, last.cost, last.inside)
        else:
            joined.append(piece)
    return joined


def cuts(pieces: Sequence[Piece], most: int) -> Iterator[int]:
    """Yield which pieces begin a new part: the cheapest cuts, of equals the last, that leave parts half full."""
    begin, filled, at = 0, 0.0, 0
    room = float(most)
    while at < len(pieces):
        if at > begin and filled + pieces[at].weight > room:
            best = i = at
            while i - 1 > begin:
                i -= 1
                filled -= pieces[i].weight
                if filled < room / 2:
                    break
                best = i if pieces[i].cost < pieces[best].cost else best
            yield best
            begin, filled, at = best, 0.0, best
            frame = pieces[best].inside
            # A table's header takes up room of a part, but never more than half of it.
            room = most - min(token_weight(frame.lead) if frame else 0.0, most / 2)
        else:
            filled += pieces[at].weight
            at += 1


def beginning(text: str, most: int) -> str:
    """Return the start of `text` on one line, at most `most` tokens, cut at a sentence or a word if possible."""
    line = " ".join(text[: 8 * most].split())
    if len(line) >= len(text.strip()) and token_weight(line) <= most:
        return line
    kept = 0
    for piece in prose(line, 0, len(line), max(8, most // 4), SENTENCE):
        if token_weight(line[: piece.end]) > most:
            break
        kept = piece.end
    return line[:kept].rstrip()


def ending(text: str, most: int) -> str:
    """Return the last whole sentences of `text` on one line, at most `most` tokens of them."""
    line = " ".join(text[-8 * most :].split())
    kept = len(line)
    bounds = [0] if len(line) >= len(text.strip()) else []
    for at in reversed([*bounds, *(match.end() for match in _SENTENCE_END.finditer(line) if match.end() < len(line))]):
        if token_weight(line[at:]) > most:
            break
        kept = at
    return line[kept:]


def _whole_spans(text: str) -> list[tuple[int, int]]:
    """Return the spans that should not be cut, in order; none contains another."""
    candidates = [*literals(text)]
    candidates += (match.span() for match in _LINK.finditer(text))
    spans: list[tuple[int, int]] = []
    for span in sorted(candidates):
        if not spans or span[0] >= spans[-1][1]:
            spans.append(span)
    return spans


def _within(spans: list[tuple[int, int]], at: int) -> tuple[int, int] | None:
    """Return the span that a cut at `at` would go through."""
    i = bisect_right(spans, (at, -1)) - 1
    return spans[i] if i >= 0 and spans[i][0] < at < spans[i][1] else None


def _words(text: str, start: int, end: int, most: int, whole: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Split text without marks into short runs of words, or of letters where there are no spaces."""
    # A letter is at most one token, so this many letters always fit.
    step = max(2, most // 2)
    at, cost = start, WORD
    while end - at > step:
        low = at + step // 2
        window = text[low : at + step]
        marks = [match.end() for match in _CLAUSE_END.finditer(window)] or [
            match.end() for match in _BLANKS.finditer(window)
        ]
        stop, price = (low + marks[-1], WORD) if marks else (at + step, LETTER)
        if not marks:  # the last place that splits no grapheme, if there is one near
            near = range(at + step, max(at, at + step - MOST_MARKS), -1)
            stop = next((place for place in near if not joined_at(text, place)), stop)
        span = _within(whole, stop)
        if span and span[0] > at:
            stop, price = span[0], WORD
        elif span and span[1] - at <= most:
            stop, price = span[1], WORD
        yield at, stop, cost
        at, cost = stop, price
    if at < end:
        yield at, end, cost
