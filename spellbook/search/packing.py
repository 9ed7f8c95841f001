"""
Packing: hits made to fit a budget of tokens, the best of them longest.

Counted by the embedder's own tokeniser. What an answer cannot show it names: a
pointer has the id to read it by, and its size. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from spellbook.index.catalog.schema import framed
from spellbook.search.presentation import head, named, pointer
from spellbook.search.ranking import Hit
from spellbook.text import terms
from spellbook.text.quoting import quoted

Count = Callable[[str], int]
Weigh = Callable[[Sequence[str]], Sequence[float]]

_AROUND = 60
"""Tokens of what an answer says besides its hits: how many there are, and the state of the index."""

_BETWEEN = 16
"""Tokens between hits: the number, the blank line, and that a text is an excerpt."""

_LEAST_EXCERPT = 48
_FIRST = 120
"""Tokens of the first hit's text that come before the names of all others."""

_POINTERS = 0.3
"""Largest share of the budget that is kept for pointers."""

_MOST_A_LETTER, _MOST_BESIDES = 1.2, 2
"""No `count` says more of a text than this: see `models.base.Embedder.count_tokens`."""

_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")
_GAP = "…"
_NUMBERED = 4
"""Tokens of the number of a line, or of a gap."""
_MARK = 1
"""Tokens of the mark in front of a line of a note's text."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, a row of a table, a line of code: the least that an excerpt shows; `line` counts from 1."""

    text: str
    line: int


def pack(hits: Sequence[Hit], max_tokens: int, count: Count, weigh: Weigh) -> tuple[Hit, ...]:
    """
    Return `hits` with texts that together, names, reasons and the marks of their lines included, are within `max_tokens` by `count`.

    What is counted already, by the same tokeniser, says so itself: `Hit.tokens`.

    The best are whole, a long one is its best excerpt by `weigh` (what each of
    some sentences is worth to the question), and what no longer fits is a
    pointer: no text, but an id to read it by. `why["text"]` says which, and
    "unnamed" of those for which there was not even room to be named.
    """
    wholes = [hit.chunk.whole for hit in hits]
    plain = [count(text) if hit.tokens is None else hit.tokens for hit, text in zip(hits, wholes, strict=True)]
    sizes = [_marked(size, text, count) for size, text in zip(plain, wholes, strict=True)]

    def marked(text: str) -> int:
        return count(quoted(text))

    packed: list[Hit] = []
    left = max_tokens - min(_AROUND, max_tokens // 4)
    frames = _frames(hits, left - sum(sizes), count)
    # Only an answer that is too long has pointers.
    pointers = [count(pointer(hit)) + _BETWEEN for hit in hits] if sum(frames + sizes) > left else [0] * len(hits)
    for i, (hit, uncut, size) in enumerate(zip(hits, wholes, sizes, strict=True)):
        # However many follow, there is something better to do with most of the budget than to name them: above all to show the first.
        after = min(sum(pointers[i + 1 :]), int(max_tokens * _POINTERS))
        if i == 0:
            after = min(after, max(0, left - frames[0] - min(size, _FIRST)))
        room = left - after - frames[i]
        around = marked(f"{hit.chunk.lead}\n{hit.chunk.tail}") if hit.chunk.lead or hit.chunk.tail else 0
        if size <= room:
            text, form, used = uncut, "whole", size
        elif room - around >= _LEAST_EXCERPT and (best := excerpt(hit.text, hit.line, room - around, marked, weigh)):
            text, form = framed(best, hit.chunk.lead, hit.chunk.tail), "excerpt"
            used = marked(text)
        else:
            text, form, used = "", "pointer", 0
        spent = frames[i] + used if text else pointers[i]
        if spent > left:
            form, spent, left = "unnamed", 0, 0
        left -= spent
        packed.append(replace(hit, text=text, why={**hit.why, "text": form, "tokens": plain[i]}))
    return tuple(packed)


def _marked(tokens: int, text: str, count: Count) -> int:
    """Return the tokens of a text, `tokens` without its marks, as it is shown; counted anew only where more than marks comes to it."""
    shown = quoted(text)
    is_escaped = shown.count("\\") > text.count("\\")
    return count(shown) if is_escaped else tokens + _MARK * (shown.count("\n") + 1)


def _frames(hits: Sequence[Hit], room: int, count: Count) -> list[int]:
    """
    Return what the heads of `hits` take, or, where all of it is within `room` anyway, no less than that.

    Most of a head's words were never counted before, which takes as long as the text under it.
    """
    heads = list(map(head, hits))
    sizes = [_most(each, count) + _BETWEEN for each in heads]
    for i in sorted(range(len(heads)), key=lambda i: -sizes[i]):
        if sum(sizes) <= room:
            break
        sizes[i] = count(heads[i]) + _BETWEEN
    return sizes


def _most(text: str, count: Count) -> int:
    """Return no less than `count` does, at once where no letter of `text` is several to a tokeniser."""
    return int(_MOST_A_LETTER * len(text)) + _MOST_BESIDES if unicodedata.is_normalized("NFKC", text) else count(text)


def names(hits: Sequence[Hit], max_tokens: int, count: Count) -> tuple[Hit, ...]:
    """Return as many of `hits` as an answer of names alone has room for."""
    room, fit = max_tokens - _AROUND, []
    for hit in hits:
        room -= count(named(hit))
        if room < 0:
            break
        fit.append(hit)
    return tuple(fit)


def excerpt(text: str, first: int, max_tokens: int, count: Count, weigh: Weigh) -> str:
    """
    Return the sentences of `text` that are worth most, in order, within `max_tokens`.

    `first` is the number of the first line with text. Each line is numbered;
    `…` marks what was left out.
    """
    pieces = [part for each in sentences(text, first) for part in _short(each, max_tokens // 2, count)]
    if not pieces:
        return ""
    sizes = [count(piece.text) + _NUMBERED for piece in pieces]
    worth = list(weigh([piece.text for piece in pieces]))
    # What stands beside a good sentence explains it.
    lit = [max(own, 0.4 * max(worth[max(0, i - 1) : i] + worth[i + 1 : i + 2], default=0.0)) for i, own in enumerate(worth)]
    kept: list[int] = []
    left = max_tokens
    for i in sorted(range(len(pieces)), key=lambda i: (-lit[i], i)):
        if sizes[i] <= left:
            kept.append(i)
            left -= sizes[i]
        elif not lit[i]:
            break  # what says nothing to the question is read on as it stands, not picked from
    while kept and count(_numbered(pieces, kept)) > max_tokens:
        kept.pop()
    return _numbered(pieces, kept) if kept else ""


def _numbered(pieces: Sequence[Sentence], kept: Sequence[int]) -> str:
    """Return the pieces that are kept, in order, each line with its number, and marks where others are left out."""
    rows: list[str] = []
    for before, i in pairwise([-1, *sorted(kept)]):
        if i > before + 1:
            rows.append(_GAP)
        if rows and i == before + 1 and before >= 0 and pieces[i].line == pieces[before].line:
            rows[-1] += f" {pieces[i].text}"
        else:
            rows.append(f"{pieces[i].line}: {pieces[i].text}")
    return "\n".join(rows + ([] if len(pieces) - 1 in kept else [_GAP]))


def sentences(text: str, first: int) -> list[Sentence]:
    """Split `text`, whose first line with text is number `first`, into what an excerpt is made of."""
    found = []
    first -= text[: len(text) - len(text.lstrip())].count("\n")
    for number, each in enumerate(text.split("\n"), first):
        found += [Sentence(part.rstrip(), number) for part in _SENTENCE_END.split(each) if part.strip()]
    return found


def by_words(words: Mapping[str, float]) -> Weigh:
    """Return what weighs sentences by the words of a question they hold, each word by its weight."""

    def weigh(texts: Sequence[str]) -> list[float]:
        forms = [terms.index_form(text).casefold() for text in texts]
        return [sum(weight for word, weight in words.items() if word in form) for form in forms]

    return weigh


def _short(sentence: Sentence, most: int, count: Count) -> list[Sentence]:
    """A sentence, or the pieces of one too long to be shown whole."""
    if len(sentence.text) < most or count(sentence.text) <= most:
        return [sentence]
    half = len(sentence.text) // 2
    space = sentence.text.rfind(" ", half // 2, half)
    cut = space + 1 if space > 0 else half
    return [
        part
        for text in (sentence.text[:cut], sentence.text[cut:])
        if text.strip()
        for part in _short(Sentence(text, sentence.line), most, count)
    ]
