"""
Scoring: what one text of a question says of one chunk, by meaning, by words, and as evidence of an answer.

All scores are in 0..1. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from spellbook.search import weights
from spellbook.search.weights import Blend

TEXT, NOTE, TITLE, QUESTION = "text", "note", "title", "question"
"""Names of the parts of a leg's share: what the chunk, its note, its title and a question of the note add."""


@dataclass(frozen=True, slots=True)
class Leg:
    """
    What one leg says of a chunk: its rank from 1 (0 outside the leg's own best) and its score.

    `beyond` is how far the score would exceed 1 if it were not cut there. `same` tells the synonyms that the chunk has,
    `kinds` the kinds of things that were asked for and that it names, and `of_kind` what that adds to its score.
    """

    rank: int
    score: float
    beyond: float = 0.0
    same: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    of_kind: float = 0.0


class Both(NamedTuple):
    """The scores of a text by the embedder and by the second encoder; None where one of them did not read it."""

    first: float | None
    second: float | None = None

    def joined(self, share: float, cost: float) -> float | None:
        """Return one score: `share` of it is the first's. What the second does not know costs `cost` at most."""
        if self.first is None or self.second is None:
            return self.second if self.first is None else self.first
        return max(self.first - cost, share * self.first + (1 - share) * self.second)


@dataclass(frozen=True, slots=True)
class OfNote:
    """
    Scores of a candidate's note: its title, the nearest of the questions it names, and its whole text by meaning; the
    question's words that any of its chunks contains. None where it has no vector, or where there are no words.
    """

    title: Both | None = None
    question: Both | None = None
    whole: float | None = None
    words: float | None = None


NOTHING = OfNote()
"""Nothing is known of the note: its chunk counts alone."""


@dataclass(slots=True)
class Match:
    """
    What one `text` of a question says of a chunk.

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

    def meaning(self, blend: Blend = weights.SCORE) -> dict[str, float]:
        """
        Return the score by meaning as its parts: the text, its note's title or a question of it, the whole note.

        Where one of them has no vector, the others count in its place; empty if none has one.
        """
        note = self.note
        text = Both(self.semantic.score if self.semantic else None, self.second)
        own = text.joined(blend.first, blend.unknown_cost)
        title = note.title and note.title.joined(blend.first, blend.unknown_label_cost)
        question = note.question and note.question.joined(blend.first, blend.unknown_label_cost)
        best, parts = (-1.0, {}) if own is None else (own, {TEXT: own})
        if title is not None:
            of_text = 0.0 if own is None else (1 - blend.titled) * own
            of_title = (title if own is None else blend.titled * title) - blend.title_cost
            if of_text + of_title > best:
                best, parts = of_text + of_title, {TEXT: of_text, TITLE: of_title}
        if question is not None and question - weights.QUESTION_COST > best:
            parts = {QUESTION: question - weights.QUESTION_COST}
        if not parts or note.whole is None:
            return parts
        return {**{name: (1 - blend.whole) * part for name, part in parts.items()}, NOTE: blend.whole * note.whole}

    def words(self) -> dict[str, float]:
        """Return the score by words as its parts: the chunk, and its whole note. Empty if neither has any."""
        here = self.keyword.score if self.keyword else 0.0
        if self.note.words is None:
            return {TEXT: here} if self.keyword else {}
        if not (self.keyword or self.note.words):
            return {}
        return {TEXT: (1 - weights.NOTE_WORDS) * here, NOTE: weights.NOTE_WORDS * self.note.words}

    def evidence(self) -> float:
        """
        Return the evidence that this chunk answers the question; `ranking.least` says how much is enough.

        Evidence is the score by meaning, raised or lowered by the words. If the vault has the words, a chunk that
        answers contains most of them, or its note does. If it has none of them, as with another language, their absence
        means nothing.
        """
        words = sum(self.words().values())
        parts = self.meaning(weights.EVIDENCE)
        if not parts:
            return words
        meaning = sum(parts.values())
        if self.expected is None:
            return meaning
        missing = weights.EXPECTED * self.expected * (1 - self.foreign)
        return max(meaning + weights.CONFIRMING * (words - missing), words * weights.BY_WORDS_ALONE)


class Share(NamedTuple):
    """A leg's share in a score: `weight` times the sum of its `parts`."""

    leg: Leg | None
    parts: Mapping[str, float]
    weight: float

    @property
    def share(self) -> float:
        """The share itself, rounded."""
        return round(self.weight * sum(self.parts.values()), 4)

    def as_dict(self) -> dict[str, Any]:
        """Return it as an answer shows it; the rounded parts add up to the share."""
        rounded = {name: round(self.weight * part, 4) for name, part in self.parts.items()}
        most = max(rounded, key=lambda name: rounded[name])
        rounded[most] = round(rounded[most] + self.share - sum(rounded.values()), 4)
        return {
            "rank": (self.leg.rank or None) if self.leg else None,
            "score": round(sum(self.parts.values()), 4),
            "share": self.share,
            "parts": {name: part for name, part in rounded.items() if part},
            **({"synonyms": list(self.leg.same)} if self.leg and self.leg.same else {}),
        }
