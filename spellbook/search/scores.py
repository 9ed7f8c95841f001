"""Scores of a chunk for each text of a question, absolute, 0..1, in named shares; and the hit it becomes. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from spellbook.index.catalog.rows import NO_TEXT, StoredChunk
from spellbook.index.filters import fold
from spellbook.search import note_marks, weights
from spellbook.search.related import Superseded, is_superseded
from spellbook.text.quoting import filled

Mode = Literal["semantic", "keyword", "both"]
T = TypeVar("T")

TEXT, NOTE, TITLE, QUESTION = "text", "note", "title", "question"
"""Names of the parts of a leg's share: the chunk's, its note's, its title's and a question of the note's."""

FOREIGN = "in another language"
"""The reason of the credit for a text in another language than the question."""

Parts = Mapping[str, float]
"""The parts of a score by their names."""

STEP = 0.0001
"""By how much a score is below another one at least: scores have four digits."""

_BACKWARDS = {letter: 0x10FFFF - letter for letter in range(128)}
"""Inverts the digits of an ISO date, so that newer dates sort first."""


class Leg(NamedTuple):
    """
    The result of one leg for a chunk: its rank from 1 (0 outside the leg's own best) and its score.

    `beyond` is how far the score would exceed 1 if it were not cut there. `same` has the synonyms in the chunk.
    """

    rank: int
    score: float
    beyond: float = 0.0
    same: tuple[str, ...] = ()


def joined(first: float | None, second: float | None, share: float, cost: float) -> float | None:
    """Return one score by embedder (`share`) and second encoder, None without both; an unknown text loses `cost`."""
    if first is None or second is None:
        return second if first is None else first
    return max(first - cost, share * first + (1 - share) * second)


class OfNote(NamedTuple):
    """
    Scores of a candidate's note: its title, the nearest of its questions, and its whole text by meaning; and the share
    of the question's words in any of its chunks. None without a vector, or without words.
    """

    title: float | None = None
    question: float | None = None
    whole: float | None = None
    words: float | None = None


NOTHING = OfNote()
"""Nothing is known of the note: its chunk counts alone."""


@dataclass(slots=True)
class Match:
    """
    The scores of a chunk for one `text` of a question.

    `foreign`, 0..1, is how much of the chunk is in another script or language than the text: that part cannot contain
    the text's words. `second` is its score by the second encoder, None without one. `expected` is the share, 0..1 by
    weight, of the text's words that the vault has; None if it was not asked by words.
    """

    semantic: Leg | None
    keyword: Leg | None
    foreign: float = 0.0
    note: OfNote = NOTHING
    second: float | None = None
    expected: float | None = None
    text: str = ""

    def meaning(self, blend: weights.Blend = weights.SCORE) -> Parts:
        """
        Return the score by meaning as its parts: the text, its note's title or question, the whole note; none without
        vectors.

        Where one of them has no vector, the others count in its place.
        """
        title, question, whole, _ = self.note
        first = self.semantic.score if self.semantic else None
        own = joined(first, self.second, blend.first, blend.unknown_cost)
        best, parts = (-1.0, {}) if own is None else (own, {TEXT: own})
        if title is not None:
            of_text = 0.0 if own is None else (1 - blend.titled) * own
            of_title = (title if own is None else blend.titled * title) - blend.title_cost
            if of_text + of_title > best:
                best, parts = of_text + of_title, {TEXT: of_text, TITLE: of_title}
        if question is not None and question - weights.QUESTION_COST > best:
            parts = {QUESTION: question - weights.QUESTION_COST}
        if not parts or whole is None:
            return parts
        return {name: (1 - blend.whole) * value for name, value in parts.items()} | {NOTE: blend.whole * whole}

    def words(self) -> Parts:
        """Return the score by words as its parts: the chunk, and its whole note. None if neither has any."""
        here, of_note = self.keyword.score if self.keyword else 0.0, self.note.words
        if not (self.keyword or of_note):
            return {}
        if of_note is None:
            return {TEXT: here}
        return {TEXT: (1 - weights.NOTE_WORDS) * here, NOTE: weights.NOTE_WORDS * of_note}

    def evidence(self) -> float:
        """
        Return the evidence that this chunk answers the question; `choice.least` says how much is enough.

        Evidence is the score by meaning, raised or lowered by the words. If the vault has the words, a chunk that
        answers contains most of them, or its note does. If it has none of them, as with another language, their absence
        means nothing, and the meaning counts a little more.
        """
        words = sum(self.words().values())
        parts = self.meaning(weights.EVIDENCE)
        if not parts:
            return words
        meaning = sum(parts.values())
        if self.expected is None:
            return meaning
        missing = weights.EXPECTED * self.expected * (1 - self.foreign)
        meaning += weights.ACROSS * self.foreign
        return max(meaning + weights.CONFIRMING * (words - missing), words * weights.BY_WORDS_ALONE)


class _Scored(NamedTuple):
    """A text's score of a chunk; in it, the credit for another language and the parts of both legs."""

    score: float
    credit: float
    match: Match
    meaning: Parts
    words: Parts


class Candidate(NamedTuple):
    """
    A chunk that may become a hit; `score` is the sum of the shares of `legs` and `adjustments`.

    `matches` are its scores for each text of the question, the question itself first. `fused` are the weights of its
    legs, and `changes` the reasons and shares of its adjustments. `superseded` has its note's successors, if any, and
    `replaces` the paths of its predecessors.
    """

    chunk: StoredChunk
    matches: Sequence[Match]
    score: float = 0.0
    fused: tuple[float, float] = (0.0, 0.0)
    changes: tuple[tuple[str, float], ...] = ()
    superseded: Superseded | None = None
    replaces: frozenset[str] = frozenset()

    @property
    def semantic(self) -> Leg | None:
        """The leg of the question itself by meaning."""
        return self.matches[0].semantic

    @property
    def keyword(self) -> Leg | None:
        """The leg of the question itself by words."""
        return self.matches[0].keyword

    @property
    def legs(self) -> dict[str, dict[str, Any]]:
        """Return the legs as an answer shows them: rank, score, share, and the parts that add up to the share."""
        legs = zip(("semantic", "keyword"), _legs(self._best(*self.fused)), self.fused, strict=True)
        return {name: _shown(leg, parts, weight) for name, (leg, parts), weight in legs if parts}

    @property
    def texts(self) -> list[dict[str, Any]]:
        """The score by each text of a question of several, as an answer shows them."""
        several = self._scored(*self.fused) if len(self.matches) > 1 else ()
        return [{"text": one.match.text, "score": round(one.score, 4)} for one in several]

    @property
    def adjustments(self) -> list[dict[str, Any]]:
        """Return the adjustments as an answer shows them."""
        return [{"reason": reason, "share": share} for reason, share in self.changes]

    def weighed(self, semantic: float, keyword: float) -> Candidate:
        """Return it with the weighted sum of its legs as its score, and credit for another language."""
        best = self._best(semantic, keyword)
        (_, meaning), (_, words) = _legs(best)
        score = round(round(semantic * sum(meaning.values()), 4) + round(keyword * sum(words.values()), 4), 4)
        fused = Candidate(self.chunk, self.matches, score, (semantic, keyword))
        return fused.plus(FOREIGN, _mean([one.credit for one in best]))

    def plus(self, reason: str, share: float, *, even_nothing: bool = False) -> Candidate:
        """Return it with `share` added to its score, within 0..1, and the reason unless it adds nothing."""
        share = round(min(1.0, max(0.0, self.score + share)) - self.score, 4)
        if not (share or even_nothing):
            return self
        return self._replace(changes=(*self.changes, (reason, share)), score=round(self.score + share, 4))

    def below(self, reason: str, most: float, scores: Iterable[float]) -> Candidate:
        """Return it with a score of at most `most`, and just below each of `scores`."""
        return self.plus(reason, min([most, *(score - STEP for score in scores)]) - self.score)

    def has(self, reason: str) -> bool:
        """Say whether an adjustment was made for this reason."""
        return any(reason == one for one, _ in self.changes)

    def evidence(self) -> float:
        """Return the evidence, 0..1, that it answers; of several texts the mean of the best two. See `Match`."""
        return _mean(sorted((match.evidence() for match in self.matches), reverse=True)[: weights.JOINED])

    @property
    def is_listing(self) -> bool:
        """Whether it lists a folder's notes or changes: a page of these names with frontmatter of its own is a note."""
        path = self.chunk.path.lower()
        return (
            path.endswith(weights.LISTINGS)
            and path.rpartition("/")[2] in weights.LISTINGS
            and self.chunk.meta.keys() <= weights.KEYS_OF_LISTINGS
        )

    @property
    def order(self) -> tuple[float, bool, float, float, str, str]:
        """Sort key: best first, and of equals texts before titles alone and listings, and the newest first."""
        semantic, keyword = self.semantic, self.keyword
        newest = (self.chunk.updated or self.chunk.created or "").translate(_BACKWARDS) or "\U0010ffff"
        # Titles lift equal notes to 1 together. The last digits of a cosine say nothing.
        text = round(semantic.score, 4) if semantic else 0.0
        says_less = self.chunk.key == NO_TEXT or self.is_listing
        return -self.score, says_less, -keyword.beyond if keyword else 0.0, -text, newest, self.chunk.id

    def _scored(self, semantic: float, keyword: float) -> list[_Scored]:
        """Return the scores by each text, for these weights of the legs."""
        scored = list[_Scored]()
        for match in self.matches:
            meaning, words = match.meaning() if semantic else {}, match.words() if keyword else {}
            by_meaning, by_words, credit = sum(meaning.values()), sum(words.values()), 0.0
            if semantic and keyword and match.foreign and meaning:
                # The estimated score by words, if the chunk were in the question's language.
                credit = keyword * max(0.0, match.foreign * weights.CREDITED * by_meaning - by_words)
            scored.append(_Scored(semantic * by_meaning + keyword * by_words + credit, credit, match, meaning, words))
        return scored

    def _best(self, semantic: float, keyword: float) -> list[_Scored]:
        """Return the scores that count: of several texts the best ones."""
        scored = self._scored(semantic, keyword)
        return scored if len(scored) == 1 else sorted(scored, key=lambda one: -one.score)[: weights.JOINED]


def fuse(candidates: Iterable[Candidate], mode: Mode, *, by_words_only: bool = False) -> list[Candidate]:
    """Return candidates scored by the weighted sum of their legs, of the best two texts."""
    legs = {"semantic": (1.0, 0.0), "keyword": (0.0, 1.0), "both": (weights.SEMANTIC, weights.KEYWORD)}[mode]
    return [candidate.weighed(*((0.0, 1.0) if by_words_only else legs)) for candidate in candidates]


def _legs(best: Sequence[_Scored]) -> Iterator[tuple[Leg | None, Parts]]:
    """Yield the best leg of the best texts, by meaning and by words, with the mean of each of their parts."""
    by_meaning = [(one.match.semantic, one.meaning) for one in best]
    for of_texts in (by_meaning, [(one.match.keyword, one.words) for one in best]):
        if len(of_texts) == 1:  # as nearly always
            yield of_texts[0]
            continue
        leg = min((leg for leg, _ in of_texts if leg), key=lambda leg: leg.rank or math.inf, default=None)
        names = dict.fromkeys(name for _, parts in of_texts for name in parts)
        yield leg, {name: _mean([parts.get(name, 0.0) for _, parts in of_texts]) for name in names}


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def _shown(leg: Leg | None, parts: Parts, weight: float) -> dict[str, Any]:
    """Return a leg as an answer shows it; its rounded parts add up to its share, `weight` times their sum."""
    share = round(weight * sum(parts.values()), 4)
    rounded = {name: round(weight * part, 4) for name, part in parts.items()}
    most = max(rounded, key=lambda name: rounded[name])
    rounded[most] = round(rounded[most] + share - sum(rounded.values()), 4)
    return {
        "rank": (leg.rank or None) if leg else None,
        "score": round(sum(parts.values()), 4),
        "share": share,
        "parts": {name: part for name, part in rounded.items() if part},
        **({"synonyms": list(leg.same)} if leg and leg.same else {}),
    }


class _OfChunk(Generic[T]):
    """An attribute that a hit takes from its chunk under the same name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, hit: Hit, owner: type) -> T:
        value: T = getattr(hit.chunk, self._name)
        return value


@dataclass(frozen=True, slots=True)
class Hit:
    """
    A chunk that was found, its score in 0..1, why (the shares of its legs and adjustments), and its note's marks.

    `text` is the shown text of the chunk, "" where an answer has no room for it. `backlinks` counts the notes that link
    to its note. On the first hit of a note, `further` are its other chunks that would be hits, best first, and
    `properties` its own properties on one line. `neighbours` are the exchanges before and after it: id and line.
    """

    chunk: StoredChunk
    score: float
    why: Mapping[str, Any]
    text: str
    marks: note_marks.Marks
    backlinks: int = 0
    further: tuple[StoredChunk, ...] = ()
    properties: str = ""
    neighbours: dict[str, dict[str, str]] = field(default_factory=dict)

    id = _OfChunk[str]()
    path = _OfChunk[str]()
    line = _OfChunk[int]()
    title = _OfChunk[str]()
    heading = _OfChunk[str]()
    topic = _OfChunk[str]()
    category = _OfChunk[str]()
    keywords = _OfChunk[tuple[str, ...]]()
    tags = _OfChunk[tuple[str, ...]]()
    created = _OfChunk[str | None]()
    updated = _OfChunk[str | None]()
    hash = _OfChunk[str]()
    source = _OfChunk[str]()

    @property
    def importance(self) -> str | float:
        """The importance as its note spells it, "medium" without one."""
        level = self.chunk.meta.get("importance")
        return level if isinstance(level, str | int | float) and not isinstance(level, bool) else "medium"

    @property
    def outcome(self) -> str:
        """The outcome of its note's decision; see `outcome`."""
        return outcome(self.chunk)

    def as_dict(self) -> dict[str, Any]:
        """Return the hit as the command line's JSON shows it."""
        values = {name: getattr(self, name) for name in _SHOWN} | self.marks.standing.as_dict() | self.neighbours
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


_SHOWN = (
    *("id", "path", "line", "title", "heading", "score", "text", "why", "topic", "category"),
    *("keywords", "tags", "importance", "created", "updated", "hash", "backlinks", "properties"),
)
"""The names of a hit in JSON."""


def hit_of(candidate: Candidate) -> Hit:
    """Return a candidate as a hit with its whole text."""
    chunk = candidate.chunk
    why = {**candidate.legs, "adjustments": candidate.adjustments, **filled(texts=candidate.texts)}
    if candidate.superseded or is_superseded(chunk):
        by = candidate.superseded.by if candidate.superseded else None
        why["superseded_by"] = dict(zip(("path", "id", "title"), by or (), strict=False))
    return Hit(chunk, candidate.score, why, chunk.text, note_marks.of(chunk))


def outcome(chunk: StoredChunk) -> str:
    """Return the outcome of a note's decision: a key of weights.OUTCOMES, "" for none."""
    declared = chunk.meta.get("outcome")
    result = "" if declared is None else fold(declared)
    return result if result in weights.OUTCOMES else ""
