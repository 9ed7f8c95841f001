"""
Why: how a question came to its answer, and what became of a chunk that somebody misses in it.

Nothing here decides anything: it runs the search and tells what it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from spellbook import ranking, terms
from spellbook.catalog import Found
from spellbook.filters import conditions
from spellbook.index import Index
from spellbook.ranking import Candidate
from spellbook.search import Question, Ranked, Searcher, Word, hits, state
from spellbook.write import resolve

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Row:
    """
    What became of one chunk.

    `place` is that of the hit, None if it is none; `evidence` how sure it has
    to do with the question, if that was asked; `legs` and `adjustments` add up
    to `score`; `words` of the question are in it, and it `lacks` others.
    """

    id: str
    path: str
    line: int
    title: str
    heading: str
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
    """How a question was answered: by which words, from how many chunks, and what became of `rows`."""

    query: str
    mode: str
    words: tuple[Word, ...]
    known: float | None
    candidates: int
    rows: tuple[Row, ...]
    index: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return it as the command line's JSON shows it."""
        return asdict(self)


def why(index: Index, searcher: Searcher, question: Question, id: str | None = None) -> Explanation:
    """
    Explain what `question` finds, or what became of the chunk or note `id` in it.

    Raises MemoryNotFound for an unknown id, InvalidInput for a filter that makes no sense.
    """
    wanted = _chunks(index, id) if id else []
    found = searcher.rank(question, [each.chunk for each in wanted])
    refused = {each.path: _refused_by(index, question, each.path) for each in wanted[:1]}
    passed = [each for each in hits(question, found) if not refused.get(each.found.path)]
    chosen = ranking.choose(passed, question.limit)
    if wanted:
        by_number = {each.found.chunk: each for each in found.candidates}
        shown = sorted((by_number[each.chunk] for each in wanted), key=lambda each: each.order)
    else:
        rest = [each for each in found.candidates if each not in chosen]
        shown = [*chosen, *rest[: max(0, _SHOWN - len(chosen))]]
    rows = tuple(_row(index, question, found, passed, chosen, each) for each in shown[:100])
    return Explanation(question.text, question.mode, found.words, found.expected, len(found.candidates), rows, state(found).as_dict())


def _chunks(index: Index, id: str) -> list[Found]:
    whole = index.catalog.note(id)
    return whole or [resolve(index, id)]


def _row(index: Index, question: Question, found: Ranked, passed: Sequence[Candidate], chosen: Sequence[Candidate], each: Candidate) -> Row:
    place = next((number for number, one in enumerate(chosen, 1) if one is each), None)
    evidence = None if found.vector is None or question.mode == "keyword" else round(each.evidence(found.expected), 4)
    form = terms.index_form(" ".join((each.found.title, each.found.heading, *each.found.keywords, each.found.text))).casefold()
    has = [word for word in dict.fromkeys(found.words) if word.text.strip('"*').casefold() in form]
    return Row(
        id=each.found.id,
        path=each.found.path,
        line=each.found.line,
        title=each.found.title,
        heading=each.found.heading,
        place=place,
        verdict=f"hit {place}" if place else _refusal(index, question, found, passed, each),
        score=each.score,
        evidence=evidence,
        legs=each.legs,
        adjustments=each.adjustments,
        words=tuple(word.text.replace('"', "") for word in has),
        lacks=tuple(word.text.replace('"', "") for word in dict.fromkeys(found.words) if word not in has),
    )


def _refusal(index: Index, question: Question, found: Ranked, passed: Sequence[Candidate], each: Candidate) -> str:
    """Say why a chunk is no hit, the first reason that would have done."""
    if key := _refused_by(index, question, each.found.path):
        return f"the filter {key} leaves its note out"
    if any(one is each for one in passed):
        return f"beyond the limit of {question.limit}"
    if question.min_score is not None:
        return f"its score is below {question.min_score:g}"
    pending = each.semantic is None and found.vector is not None and question.mode != "keyword"
    note = "; its text is not embedded yet" if pending else ""
    if not each.legs or not each.score:
        return f"neither meaning nor words find anything of the question in it{note}"
    evidence = each.evidence(found.expected)
    if evidence >= ranking.RELATED or (passed and evidence >= ranking.WEAK):
        return f"not among the best of its leg{note}"
    least = ranking.WEAK if passed else ranking.RELATED
    return f"too little to do with the question: {evidence:.2f}, and {least:g} is the least{note}"


def _refused_by(index: Index, question: Question, path: str) -> str:
    """Return the key of the first condition that the note at `path` does not meet, "" if it meets all."""
    return next((each.key for each in conditions(question.filter) if path not in index.catalog.paths([each])), "")
