"""Packing: complete the chosen hits, and fit them into a token budget; one without room becomes a pointer by its id."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeVar

from spellbook.index.catalog.catalog import Catalog
from spellbook.index.catalog.rows import StoredChunk, framed
from spellbook.index.privacy import is_session
from spellbook.index.question_cache import LoadedIndex
from spellbook.notes import dialogue, splitter
from spellbook.search import related
from spellbook.search.candidates import Gathering
from spellbook.search.presentation import beside, head, labels, named, pointer, spoken
from spellbook.search.scores import Candidate, Hit, hit_of
from spellbook.search.words import words_in
from spellbook.text import terms
from spellbook.text.quoting import quoted, shortened
from spellbook.text.terms import estimate_tokens as count

T = TypeVar("T")
Weigh = Callable[[Sequence[str]], Sequence[float]]

_AROUND = 60
"""Tokens of an answer's other lines: the number of hits, and the state of the index."""
_BETWEEN = 16
"""Tokens between hits: the number, the blank line, and the note that a text is an excerpt."""
_LEAST_EXCERPT = 48
"""Tokens that an excerpt needs; with less room a hit is a pointer."""
_FIRST = 120
"""Tokens of the first hit's text that are more important than the names of all other hits."""
PASSAGE = 60
"""Most tokens of the passage that is shown of a note where nothing clearly answers: two or three sentences."""
_POINTERS = 0.3
"""Largest share of the budget that is kept for pointers."""
_GAP = "…"
_NUMBERED = 4
"""Tokens of the number of a line, or of a gap."""
_BESIDE, _LETTERS = 20, 120
"""Chunks on each side of a hit that are read for its neighbours, and letters of a neighbour's line. By hand."""


def completed(
    loaded: LoadedIndex, ranked: Gathering, passed: Sequence[Candidate], chosen: Sequence[Candidate]
) -> list[Hit]:
    """Return the chosen as hits with their words, backlinks, neighbours, and what else passed of their notes."""
    if not chosen:
        return []
    numbers = [one.chunk.number for one in chosen]
    firsts = {one.chunk.path: one for one in reversed(chosen)}
    further: dict[str, list[StoredChunk]] = defaultdict(list)
    for one in passed:
        if one.chunk.number not in numbers:
            further[one.chunk.path].append(one.chunk)
    with loaded.catalog.reading():
        linked = related.counts(loaded.catalog.links, firsts)
        words = _words_of(loaded, ranked, numbers)
        return [
            replace(
                hit,
                why={**hit.why, "words": words[hit.chunk.number]},
                backlinks=linked[hit.path],
                further=tuple(further.pop(hit.path, ())),
                properties=hit.marks.properties if one is firsts[hit.path] else "",
                neighbours=_neighbours(loaded.catalog, hit.chunk, numbers),
            )
            for one, hit in zip(chosen, map(hit_of, chosen), strict=True)
        ]


def _words_of(loaded: LoadedIndex, ranked: Gathering, numbers: Sequence[int]) -> dict[int, list[list[str]]]:
    """Return which words of the question these chunks have, by number."""
    asked, words = ranked.first.words, dict[int, list[list[str]]]()
    for listed, is_inflected in ((ranked.words, False), (asked.stems, True)):
        those = [number for number in numbers if (number in asked.inflected) is is_inflected]
        words |= zip(those, words_in(loaded, listed, those), strict=True)
    return words


def _neighbours(catalog: Catalog, chunk: StoredChunk, hits: Collection[int]) -> dict[str, dict[str, str]]:
    """Return the exchanges `before` and `after` a chunk of a conversation or session that are no `hits`: id, line."""
    if not (is_session(chunk.meta) or dialogue.is_conversation(chunk.meta)):
        return {}
    near, own = catalog.at(chunk.path, chunk.ordinal - _BESIDE, chunk.ordinal + _BESIDE), chunk.suffix.partition("~")[0]
    # An exchange is a section, named by its first part; in a note of one section it is a part.
    named = [one for one in near if "~" not in one.suffix and one.suffix != own] or near
    sides = [("before", one) for one in named if one.ordinal < chunk.ordinal][-1:]
    sides += [("after", one) for one in named if one.ordinal > chunk.ordinal][:1]
    return {side: {"id": one.id, "line": _line(one)} for side, one in sides if one.number not in hits}


def _line(chunk: StoredChunk) -> str:
    """Return the beginning of an exchange's own words on one line."""
    return shortened(" ".join((dialogue.words(chunk.text) or chunk.text).lstrip("# ").split()), _LETTERS)


class Sentence(NamedTuple):
    """The smallest part of an excerpt, such as a table row; its `line` counts from 1, `gap` stands before it there."""

    text: str
    line: int
    gap: str = " "


def pack(hits: Sequence[Hit], max_tokens: int, weigh: Weigh, *, explain: bool = False) -> tuple[Hit, ...]:
    """
    Return `hits` with texts that fit into `max_tokens`, their heads, reasons and line marks included.

    With `explain` heads have the arithmetic of the scores. `weigh` returns the worth of sentences to the question. The
    best hits are whole, a long one is its best excerpt, and a hit without room is a pointer: no text, but an id to read
    it by. `why["text"]` is whole, excerpt, pointer, or "unnamed" if not even the pointer fits; and "overturned" for a
    pointer to a note whose successor is a hit above it.
    """
    sizes = [_marked(hit.chunk.whole) for hit in hits]
    packed: list[Hit] = []
    above: set[str] = set()
    left = max_tokens - min(_AROUND, max_tokens // 4)
    frames = [count(head(hit, explain=explain)) + _BETWEEN for hit in hits]
    needed = accumulate((count("\n   ".join(["", *beside(hit)])) for hit in hits), initial=sum(frames + sizes))
    hits = [hit if need <= left else replace(hit, neighbours={}) for hit, need in zip(hits, [*needed][1:], strict=True)]
    # Pointers occur only in an answer that is too long.
    pointers = [count(pointer(hit)) + _BETWEEN for hit in hits] if sum(frames + sizes) > left else [0] * len(hits)
    for i, hit in enumerate(hits):
        # Most of the budget is for texts, the first one above all, however many hits follow.
        after = min(sum(pointers[i + 1 :]), int(max_tokens * _POINTERS))
        if i == 0:
            after = min(after, max(0, left - frames[0] - min(sizes[0], _FIRST)))
        is_overturned = hit.why.get("superseded_by", {}).get("path") in above
        text, form = ("", "overturned") if is_overturned else _fitting(hit, left - after - frames[i], weigh)
        spent = frames[i] + _marked(text) if text else pointers[i] or count(pointer(hit)) + _BETWEEN
        above.add(hit.path)
        if spent > left:
            form, spent, left = "unnamed", 0, 0
        left -= spent
        about = {"text": form, "tokens": count(hit.chunk.whole)}
        packed.append(replace(hit, text=spoken(text, hit), why={**hit.why, **about}))
    return tuple(packed)


def _fitting(hit: Hit, room: int, weigh: Weigh) -> tuple[str, str]:
    """Return what fits of a hit's text into `room` tokens, and its form: whole, excerpt, or pointer if nothing does."""
    chunk = hit.chunk
    if _marked(chunk.whole) <= room:
        return chunk.whole, "whole"
    room -= _marked(f"{chunk.lead}\n{chunk.tail}") if chunk.lead or chunk.tail else 0
    best = excerpt(hit.text, hit.line, room, weigh) if room >= _LEAST_EXCERPT else ""
    return (framed(best, chunk.lead, chunk.tail), "excerpt") if best else ("", "pointer")


def _marked(text: str) -> int:
    """Return the tokens of a text with its line marks, as an answer quotes it."""
    return count(quoted(text))


def closest(hits: Sequence[Hit], max_tokens: int, weigh: Weigh, *, explain: bool = False) -> tuple[Hit, ...]:
    """
    Return the first of `hits` as `pack` does, and the others whose names fit into an answer beside it.

    Each other has its best passage where there is room, and none of its neighbours.
    """
    fit = [hit for hit in pack(hits[:1], max_tokens, weigh, explain=explain) if hit.why["text"] != "unnamed"]
    room = max_tokens - _AROUND
    for hit in fit:
        room -= count("\n".join((head(hit, explain=explain), *beside(hit)))) + _BETWEEN + _marked(hit.text)
    if not fit:
        return ()
    for hit in hits[1:]:
        room -= count("\n".join((named(hit), *labels(hit)))) + _BETWEEN
        if room < 0:
            break
        best = excerpt(hit.chunk.text, hit.line, min(PASSAGE, room), weigh)
        room -= _marked(best) if best else 0
        fit.append(replace(hit, text=spoken(best, hit), neighbours={}))
    return tuple(fit)


def excerpt(text: str, first: int, max_tokens: int, weigh: Weigh) -> str:
    """Return the sentences of `text` that are worth most, in order, within `max_tokens`, numbered from line `first`."""
    pieces = [part for whole in sentences(text, first) for part in _short(whole, max_tokens // 2)]
    if not pieces:
        return ""
    sizes = [_marked(piece.text) + _NUMBERED for piece in pieces]
    worth = list(weigh([piece.text for piece in pieces]))
    # A sentence beside a good one explains it.
    beside = [0.4 * max(pair) for pair in zip([0.0, *worth], [*worth[1:], 0.0], strict=False)]
    lit = [*map(max, worth, beside)]
    kept, left = list[int](), max_tokens
    for i in sorted(range(len(pieces)), key=lambda i: (-lit[i], i)):
        if sizes[i] <= left:
            kept.append(i)
            left -= sizes[i]
        elif not lit[i]:
            break  # sentences that are worth nothing are read in order, not picked
    while kept and _marked(_numbered(pieces, kept)) > max_tokens:
        kept.pop()
    return _numbered(pieces, kept) if kept else ""


def _numbered(pieces: Sequence[Sentence], kept: Sequence[int]) -> str:
    """Return the kept pieces in order, each line with its number, and `…` where others are left out."""
    rows: list[str] = []
    for before, i in pairwise([-1, *sorted(kept)]):
        if i > before + 1:
            rows.append(_GAP)
        if rows and i == before + 1 and before >= 0 and pieces[i].line == pieces[before].line:
            rows[-1] += pieces[i].gap + pieces[i].text
        else:
            rows.append(f"{pieces[i].line}: {pieces[i].text}")
    return "\n".join(rows + ([] if len(pieces) - 1 in kept else [_GAP]))


def sentences(text: str, first: int) -> list[Sentence]:
    """Split `text` into sentences; `first` is the number of its first line that is not blank."""
    parts = []
    first -= text[: len(text) - len(text.lstrip())].count("\n")
    for number, line in enumerate(text.split("\n"), first):
        # The first of a line keeps its indentation.
        parts += [Sentence(line[i and start : end], number) for i, (start, end) in enumerate(splitter.sentences(line))]
    return parts


def by_words(words: Mapping[str, float]) -> Weigh:
    """Return a function that weighs sentences by the question's words in them; `words` have weights."""

    def weigh(texts: Sequence[str]) -> list[float]:
        forms = [terms.index_form(text).casefold() for text in texts]
        return [sum(weight for word, weight in words.items() if word in form) for form in forms]

    return weigh


def _short(sentence: Sentence, most: int) -> list[Sentence]:
    """Return a sentence, or its pieces if it is too long to be shown whole."""
    half = len(sentence.text) // 2
    if len(sentence.text) < most or not half or _marked(sentence.text) <= most:
        return [sentence]
    space = sentence.text.rfind(" ", half // 2, half)
    cut = space + 1 if space > 0 else half
    parts = (sentence._replace(text=sentence.text[:cut]), Sentence(sentence.text[cut:], sentence.line, gap=""))
    return [piece for part in parts if part.text.strip() for piece in _short(part, most)]
