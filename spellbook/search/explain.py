"""Explain how a question got its answer, and why a chunk is or is not a hit; the search runs as always."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from spellbook.index import lookup
from spellbook.index.catalog.rows import NO_TEXT, Place
from spellbook.index.filters import NO_GUIDES, Unmatched
from spellbook.index.opened import Index
from spellbook.search import choice, weights
from spellbook.search.candidates import Gathering
from spellbook.search.question import Question, state
from spellbook.search.scores import Candidate
from spellbook.search.searcher import Searcher
from spellbook.search.words import QueryWord
from spellbook.text import terms
from spellbook.text.quoting import counted

_SHOWN = 10
"""Candidates that are shown where no chunk is named."""
_MOST_SHOWN = 100
"""Chunks of a named note that are shown, at most."""


@dataclass(frozen=True, slots=True)
class ExplainedChunk(Place):
    """
    One chunk as the search scored it.

    `place` is its rank among the hits, None if it is no hit. `evidence` is 0..1, None for a question by words alone.
    The shares of `legs` and `adjustments` add up to `score`. The chunk contains `words` of the question and `lacks`
    others.
    """

    place: int | None
    verdict: str
    score: float
    evidence: float | None
    legs: dict[str, dict[str, Any]]
    adjustments: list[dict[str, Any]]
    words: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a question was answered: its words, its time, the number of candidates, and a row a chunk."""

    query: str
    mode: str
    words: tuple[QueryWord, ...]
    known: float | None
    candidates: int
    rows: tuple[ExplainedChunk, ...]
    index: dict[str, Any]
    unmatched: tuple[Unmatched, ...] = ()
    when: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return it as the command line's JSON shows it."""
        unmatched = [value.as_dict() for value in self.unmatched]
        return {**asdict(self), "words": tuple(word.as_dict() for word in self.words), "unmatched": unmatched}


def why(index: Index, searcher: Searcher, question: Question, id: str | None = None) -> Explanation:
    """Explain the answer to `question`, or why the chunk or note `id` is or is not in it. Raises MemoryNotFound."""
    wanted = [chunk.number for chunk in lookup.named(index, id)[0]] if id else []
    ranked = searcher.rank(question, wanted)
    refused = _refused(index, ranked, wanted)
    # A title above the text of its note is a hit by its words alone.
    may = (
        one
        for one in choice.hits(ranked)
        if one.chunk.key != NO_TEXT or one.keyword or len(index.catalog.at(one.chunk.path)) == 1
    )
    passed = {one.chunk.number: one for one in may if one.chunk.number not in refused}
    chosen = choice.choose([*passed.values()], question.limit, question.per_note, few=question.has_few_sessions)
    hits = {one.chunk.number: one for one in chosen}
    closest = {one.chunk.number for one in ([] if hits else choice.nearly(ranked))}
    shown = [one for one in ranked.candidates if one.chunk.number in wanted]
    if not wanted:
        rest = [one for one in ranked.candidates if one.chunk.number not in hits]
        shown = [*chosen, *rest[: max(0, _SHOWN - len(chosen))]]

    def verdict(one: Candidate) -> str:
        """Return why a candidate is no hit."""
        number = one.chunk.number
        if key := refused.get(number):
            is_guide = key == NO_GUIDES.key
            return "a guide of Spellbook: name it by a filter" if is_guide else f"excluded by the filter {key}"
        if one.chunk.key == NO_TEXT:
            return "it has no text but a title"
        if number in passed:
            return _beyond(question, one, chosen)
        reason = _refusal(ranked, one, weights.WEAK if passed else choice.least(choice.compared(ranked)))
        return f"a closest note: {reason}" if number in closest else reason

    def row(one: Candidate) -> ExplainedChunk:
        if hit := hits.get(one.chunk.number):  # whose score has the costs of its place
            place = chosen.index(hit) + 1
            return _row(index, ranked, hit, place, f"hit {place}")
        return _row(index, ranked, one, None, verdict(one))

    return Explanation(
        question.text,
        question.mode,
        ranked.first.words.words,
        ranked.first.expected,
        len(ranked.candidates),
        tuple(map(row, shown[:_MOST_SHOWN])),
        state(index, ranked.counts, ranked.reason).as_dict(),
        index.catalog.unmatched(question.conditions, index.visible),
        ranked.time.reason if ranked.time else "",
    )


def _refused(index: Index, ranked: Gathering, wanted: Sequence[int]) -> dict[int, str]:
    """Return the first condition that a chunk, by number, does not meet; only those `wanted` may meet none."""
    refused: dict[int, str] = {}
    for one in (each for each in ranked.candidates if each.chunk.number in wanted):
        for limit in ranked.limits:
            if one.chunk.path not in index.catalog.paths([limit]):
                refused.setdefault(one.chunk.number, limit.key)
    return refused


def _beyond(question: Question, one: Candidate, chosen: Sequence[Candidate]) -> str:
    """Return why a candidate that may be a hit is none beside those that were `chosen`."""
    places = sum(each.chunk.path == one.chunk.path for each in chosen)
    if places and places == question.per_note:
        return f"beyond {counted(question.per_note, 'section')} of one note"
    return f"beyond the limit of {question.limit}" if len(chosen) == question.limit else weights.SESSION


def _row(index: Index, ranked: Gathering, one: Candidate, place: int | None, verdict: str) -> ExplainedChunk:
    words = {
        terms.readable(" = ".join(map(str, (word.part, *word.same))).replace('"', "")): word.expression
        for word in ranked.first.words.words
    }
    # Ask the index: it matches a word by its stem, or by a part of a name.
    match, number = index.catalog.match_among, one.chunk.number
    has = [label for label, expression in words.items() if match(str(expression), [number])]
    return ExplainedChunk(
        **asdict(one.chunk.place),
        place=place,
        verdict=verdict,
        score=one.score,
        evidence=round(one.evidence(), 4) if ranked.first.text.vector is not None else None,
        legs=one.legs,
        adjustments=one.adjustments,
        words=tuple(has),
        lacks=tuple(label for label in words if label not in has),
    )


def _refusal(ranked: Gathering, candidate: Candidate, least: float) -> str:
    """Return why a chunk within the filter is no hit; `least` is the evidence that it needed."""
    note = (
        "; its text is not embedded yet" if candidate.semantic is None and ranked.first.text.vector is not None else ""
    )
    if not candidate.score:
        return f"neither its meaning nor its words match{note}"
    if ranked.first.words.quotes and not candidate.keyword:
        return "it does not contain the quoted text"
    if ranked.question.min_score is not None:
        return f"its score is below {ranked.question.min_score:g}"
    if candidate.evidence() >= least:
        return "its score is far below the best"
    return f"its evidence {candidate.evidence():.2f} is below the minimum {least:.2f}{note}"
