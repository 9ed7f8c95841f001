"""Explain how a question got its answer, and why a chunk is or is not a hit; the search runs as always."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
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
    verdicts = _Verdicts.of(index, ranked, wanted)
    shown = [one for one in ranked.candidates if one.chunk.number in wanted]
    if not wanted:
        rest = [one for one in ranked.candidates if one.chunk.number not in verdicts.chosen]
        shown = [*verdicts.chosen.values(), *rest[: max(0, _SHOWN - len(verdicts.chosen))]]
    return Explanation(
        question.text,
        question.mode,
        ranked.first.words.words,
        ranked.first.expected,
        len(ranked.candidates),
        tuple(_row(index, ranked, verdicts, one) for one in shown[:_MOST_SHOWN]),
        state(index, ranked.counts, ranked.reason).as_dict(),
        index.catalog.unmatched(question.conditions, index.visible),
        ranked.time.reason if ranked.time else "",
    )


@dataclass(frozen=True, slots=True)
class _Verdicts:
    """
    How candidates fared, by their chunks' numbers.

    `refused` has the key of the first condition that a chunk does not meet. Some `passed`, of which some were `chosen`,
    best first; where none was, some are `closest`.
    """

    ranked: Gathering
    refused: Mapping[int, str]
    passed: Set[int]
    chosen: Mapping[int, Candidate]
    closest: Set[int]

    @classmethod
    def of(cls, index: Index, ranked: Gathering, wanted: Sequence[int]) -> _Verdicts:
        """Return them; only the chunks `wanted` may be among the candidates without meeting the filter."""
        question, refused = ranked.question, {}
        for one in (each for each in ranked.candidates if each.chunk.number in wanted):
            unmet = (limit.key for limit in ranked.limits if one.chunk.path not in index.catalog.paths([limit]))
            refused[one.chunk.number] = next(unmet, "")
        # A title above the text of its note is a hit by its words alone.
        may = (
            one
            for one in choice.hits(ranked)
            if one.chunk.key != NO_TEXT or one.keyword or len(index.catalog.at(one.chunk.path)) == 1
        )
        passed = [one for one in may if not refused.get(one.chunk.number)]
        chosen = choice.choose(passed, question.limit, question.per_note, few=question.has_few_sessions)
        closest = [] if chosen else choice.nearly(ranked)
        numbers = ({one.chunk.number for one in some} for some in (passed, closest))
        return cls(ranked, refused, next(numbers), {one.chunk.number: one for one in chosen}, next(numbers))

    def place(self, number: int) -> int | None:
        """Return the rank of a chunk among the hits, None if it is none."""
        return [*self.chosen].index(number) + 1 if number in self.chosen else None

    def verdict(self, one: Candidate) -> str:
        """Return why a candidate is a hit, or why not."""
        question, number = self.ranked.question, one.chunk.number
        if key := self.refused.get(number):
            is_guide = key == NO_GUIDES.key
            return "a guide of Spellbook: name it by a filter" if is_guide else f"excluded by the filter {key}"
        if place := self.place(number):
            return f"hit {place}"
        if one.chunk.key == NO_TEXT:
            return "it has no text but a title"
        if number in self.passed:
            places = sum(each.chunk.path == one.chunk.path for each in self.chosen.values())
            if places and places == question.per_note:
                return f"beyond {counted(question.per_note, 'section')} of one note"
            is_full = len(self.chosen) == question.limit
            return f"beyond the limit of {question.limit}" if is_full else weights.SESSION
        least = weights.WEAK if self.passed else choice.least(choice.compared(self.ranked))
        reason = _refusal(question, self.ranked, one, least)
        return f"a closest note: {reason}" if number in self.closest else reason


def _row(index: Index, ranked: Gathering, verdicts: _Verdicts, candidate: Candidate) -> ExplainedChunk:
    words = {
        terms.readable(" = ".join(map(str, (word.part, *word.same))).replace('"', "")): word.expression
        for word in ranked.first.words.words
    }
    # Ask the index: it matches a word by its stem, or by a part of a name.
    number, match = candidate.chunk.number, index.catalog.match_among
    has = [label for label, expression in words.items() if match(str(expression), [number])]
    candidate = verdicts.chosen.get(number, candidate)  # whose score has the costs of its place
    return ExplainedChunk(
        **asdict(candidate.chunk.place),
        place=verdicts.place(number),
        verdict=verdicts.verdict(candidate),
        score=candidate.score,
        evidence=round(candidate.evidence(), 4) if ranked.first.text.vector is not None else None,
        legs=candidate.legs,
        adjustments=candidate.adjustments,
        words=tuple(has),
        lacks=tuple(label for label in words if label not in has),
    )


def _refusal(question: Question, ranked: Gathering, candidate: Candidate, least: float) -> str:
    """Return why a chunk within the filter is no hit; `least` is the evidence that it needed."""
    note = (
        "; its text is not embedded yet" if candidate.semantic is None and ranked.first.text.vector is not None else ""
    )
    if not candidate.score:
        return f"neither its meaning nor its words match{note}"
    if ranked.first.words.quotes and not candidate.keyword:
        return "it does not contain the quoted text"
    if question.min_score is not None:
        return f"its score is below {question.min_score:g}"
    if candidate.evidence() >= least:
        return "its score is far below the best"
    return f"its evidence {candidate.evidence():.2f} is below the minimum {least:.2f}{note}"
