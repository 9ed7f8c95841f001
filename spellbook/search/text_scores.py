"""
Scoring: what one text of a question says of one chunk, by meaning, by words, and as evidence of an answer.

All scores are in 0..1. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from spellbook.search import weights
from spellbook.search.weights import Blend

TEXT, NOTE, TITLE, QUESTION = "text", "note", "title", "question"
"""Names of the parts of a leg's share: what the chunk, its note, its title and a question of the note add."""

Parts = tuple[tuple[str, ...], tuple[float, ...]]
"""The parts of a score: their names and their values."""

NO_PARTS: Parts = ((), ())
_TEXT, _TITLED, _ASKED, _WITH_NOTE = (TEXT,), (TEXT, TITLE), (QUESTION,), (TEXT, NOTE)


class Leg(NamedTuple):
    """
    What one leg says of a chunk: its rank from 1 (0 outside the leg's own best) and its score.

    `beyond` is how far the score would exceed 1 if it were not cut there. `same` tells the synonyms that the chunk has.
    """

    rank: int
    score: float
    beyond: float = 0.0
    same: tuple[str, ...] = ()


def joined(first: float | None, second: float | None, share: float, cost: float) -> float | None:
    """
    Return one score of a text by the embedder and the second encoder, None where one did not read it.

    `share` of it is the first's. What the second does not know costs `cost` at most.
    """
    if first is None or second is None:
        return second if first is None else first
    return max(first - cost, share * first + (1 - share) * second)


class OfNote(NamedTuple):
    """
    Scores of a candidate's note: its title, the nearest of the questions it names, and its whole text by meaning; the
    question's words that any of its chunks contains. None where it has no vector, or where there are no words.
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

    def meaning(self, blend: Blend = weights.SCORE) -> Parts:
        """
        Return the score by meaning as its parts: the text, its note's title or a question of it, the whole note.

        Where one of them has no vector, the others count in its place; no parts if none has one.
        """
        title, question, whole, _ = self.note
        first = self.semantic.score if self.semantic else None
        own = joined(first, self.second, blend.first, blend.unknown_cost)
        best = -1.0 if own is None else own
        names, values = NO_PARTS if own is None else (_TEXT, (own,))
        if title is not None:
            of_text = 0.0 if own is None else (1 - blend.titled) * own
            of_title = (title if own is None else blend.titled * title) - blend.title_cost
            if of_text + of_title > best:
                best, names, values = of_text + of_title, _TITLED, (of_text, of_title)
        if question is not None and question - weights.QUESTION_COST > best:
            names, values = _ASKED, (question - weights.QUESTION_COST,)
        if not names or whole is None:
            return names, values
        share, of_note = 1 - blend.whole, blend.whole * whole
        if len(values) == 1:
            return (*names, NOTE), (share * values[0], of_note)
        return (*names, NOTE), (share * values[0], share * values[1], of_note)

    def words(self) -> Parts:
        """Return the score by words as its parts: the chunk, and its whole note. None if neither has any."""
        here, of_note = self.keyword.score if self.keyword else 0.0, self.note.words
        if of_note is None:
            return (_TEXT, (here,)) if self.keyword else NO_PARTS
        if not (self.keyword or of_note):
            return NO_PARTS
        return _WITH_NOTE, ((1 - weights.NOTE_WORDS) * here, weights.NOTE_WORDS * of_note)

    def evidence(self) -> float:
        """
        Return the evidence that this chunk answers the question; `ranking.least` says how much is enough.

        Evidence is the score by meaning, raised or lowered by the words. If the vault has the words, a chunk that
        answers contains most of them, or its note does. If it has none of them, as with another language, their absence
        means nothing, and the meaning counts a little more.
        """
        words = sum(self.words()[1])
        names, parts = self.meaning(weights.EVIDENCE)
        if not names:
            return words
        meaning = sum(parts)
        if self.expected is None:
            return meaning
        missing = weights.EXPECTED * self.expected * (1 - self.foreign)
        meaning += weights.ACROSS * self.foreign
        return max(meaning + weights.CONFIRMING * (words - missing), words * weights.BY_WORDS_ALONE)


class Share(NamedTuple):
    """A leg's share in a score: `weight` times the sum of its `parts`."""

    leg: Leg | None
    parts: Parts
    weight: float

    @property
    def share(self) -> float:
        """The share itself, rounded."""
        return round(self.weight * sum(self.parts[1]), 4)

    def as_dict(self) -> dict[str, Any]:
        """Return it as an answer shows it; the rounded parts add up to the share."""
        rounded = {name: round(self.weight * part, 4) for name, part in zip(*self.parts, strict=True)}
        most = max(rounded, key=lambda name: rounded[name])
        rounded[most] = round(rounded[most] + self.share - sum(rounded.values()), 4)
        return {
            "rank": (self.leg.rank or None) if self.leg else None,
            "score": round(sum(self.parts[1]), 4),
            "share": self.share,
            "parts": {name: part for name, part in rounded.items() if part},
            **({"synonyms": list(self.leg.same)} if self.leg and self.leg.same else {}),
        }
