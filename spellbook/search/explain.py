"""
Explain: how a question got its answer, and why a certain chunk is or is not a hit.

Nothing is decided here: the search runs as always, and this reports what it did.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from spellbook.index.catalog.schema import NO_TEXT, Place
from spellbook.index.engine import Engine
from spellbook.index.filters import NO_GUIDES, Unmatched, conditions, without_guides
from spellbook.index.lookup import chunks_of
from spellbook.index.opened import Index
from spellbook.search import ranking, weights
from spellbook.search.question import QueryWord, Question, Ranked
from spellbook.search.ranking import Candidate
from spellbook.search.searcher import Searcher, compared, hits, nearly
from spellbook.text import terms
from spellbook.text.quoting import counted

_SHOWN = 10
_MOST_SHOWN = 100


@dataclass(frozen=True, slots=True)
class ExplainedChunk(Place):
    """
    What the search made of one chunk.

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
    """
    How a question was answered: its words, the number of candidates, and a row for each chunk shown.

    `when` is what the question says of time, "" if it says nothing.
    """

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
        return {**asdict(self), "words": tuple(each.as_dict() for each in self.words)}


def why(index: Index, searcher: Searcher, question: Question, id: str | None = None) -> Explanation:
    """
    Explain the answer to `question`, or why the chunk or note `id` is or is not in it.

    Raises MemoryNotFound for an unknown id, InvalidInput for a filter that makes no sense.
    """
    wanted = [each.number for each in chunks_of(index, id)] if id else []
    found = searcher.rank(question, wanted)
    refused = {
        each.chunk.number: _refused_by(index, question, each.chunk.path)
        for each in found.candidates
        if each.chunk.number in wanted
    }
    passed = [
        each for each in hits(question, found) if each.chunk.key != NO_TEXT and not refused.get(each.chunk.number)
    ]
    chosen = ranking.choose(passed, question.limit, question.per_note)
    full = {path for path, count in Counter(each.chunk.path for each in chosen).items() if count == question.per_note}
    places = {each.chunk.number: place for place, each in enumerate(chosen, 1)}
    closest = {each.chunk.number for each in ([] if chosen else nearly(question, found))}
    if wanted:
        shown = [each for each in found.candidates if each.chunk.number in wanted]
    else:
        rest = [each for each in found.candidates if each.chunk.number not in places]
        shown = [*chosen, *rest[: max(0, _SHOWN - len(chosen))]]
    rows = []
    for each in shown[:_MOST_SHOWN]:
        number = each.chunk.number
        if key := refused.get(number):
            is_guide = key == NO_GUIDES.key
            verdict = "a guide of Spellbook: name it by a filter" if is_guide else f"excluded by the filter {key}"
        elif each.chunk.key == NO_TEXT:
            verdict = "it has no text but a title"
        elif place := places.get(number):
            verdict = f"hit {place}"
        elif each.instead:
            verdict = f"shown as its translation {each.instead}"
        elif each.chunk.path in full and any(one is each for one in passed):
            verdict = f"beyond {counted(question.per_note, 'chunk')} of one note"
        elif any(one is each for one in passed):
            verdict = f"beyond the limit of {question.limit}"
        else:
            verdict = _refusal(
                question, found, each, weights.WEAK if passed else ranking.least(compared(question, found))
            )
            if number in closest:
                verdict = f"a closest note: {verdict}"
        rows.append(_row(searcher.engine, found, each, verdict, places.get(number)))
    return Explanation(
        question.text,
        question.mode,
        found.words,
        found.expected,
        len(found.candidates),
        tuple(rows),
        searcher.state(found).as_dict(),
        searcher.unmatched(question),
        found.when,
    )


def _row(engine: Engine, found: Ranked, each: Candidate, verdict: str, place: int | None) -> ExplainedChunk:
    words = {_label(word): word.expression for word in found.words}
    # Ask the index: it matches a word by its stem, or by a part of a name.
    has = [label for label, expression in words.items() if engine.match_among(expression, [each.chunk.number])]
    return ExplainedChunk(
        **asdict(each.chunk.place),
        place=place,
        verdict=verdict,
        score=each.score,
        evidence=round(each.evidence(), 4) if found.vector is not None else None,
        legs=each.legs,
        adjustments=each.adjustments,
        words=tuple(has),
        lacks=tuple(label for label in words if label not in has),
    )


def _label(word: QueryWord) -> str:
    return terms.readable(" = ".join(map(str, (word.part, *word.same))).replace('"', ""))


def _refusal(question: Question, found: Ranked, each: Candidate, least: float) -> str:
    """Return why a chunk within the filter is no hit; `least` is the evidence that it needed."""
    note = "; its text is not embedded yet" if each.semantic is None and found.vector is not None else ""
    if not each.score:
        return f"neither its meaning nor its words match{note}"
    if found.quotes and not each.keyword:
        return "it does not contain the quoted text"
    if question.min_score is not None:
        return f"its score is below {question.min_score:g}"
    return f"its evidence {each.evidence():.2f} is below the minimum {least:.2f}{note}"


def _refused_by(index: Index, question: Question, path: str) -> str:
    """Return the key of the first condition that the note at `path` does not meet, "" if it meets all."""
    asked = conditions(question.filter)
    return next(
        (
            each.key
            for each in (*asked, *without_guides(asked), *index.visible)
            if path not in index.catalog.paths([each])
        ),
        "",
    )
