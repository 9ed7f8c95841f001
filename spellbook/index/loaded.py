"""
An index with what a question keeps of it in memory: vectors, and how many chunks have a word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from spellbook.index.filters import Condition
from spellbook.index.opened import Index
from spellbook.index.vectors.about import NoteVectors
from spellbook.index.vectors.nearest import Nearest
from spellbook.system.lazy import np, npt
from spellbook.text.expressions import Expression, Without, alternatives
from spellbook.text.terms import idf

_COUNTED = 4_000
"""Words whose counts are kept."""

_NUMBERED = 64
"""Words whose chunks are kept."""
MOST_NUMBERED = 4_000
"""The most chunks of a word that is counted by their numbers, which are asked for later: `weights.MOST_COMMON`."""

COMMON = 8
"""In a vault with more than `exact_most` chunks, a word in more than one of so many finds none beside rarer words."""

WEIGHED = 1_000
"""
There, at least so many chunks are weighed by bm25, if words are in eight times as many: those whose words are worth
most by their idf. Of 320 questions over 195,000 and 781,000 chunks all find the same ten so, and all but one the same
fifty.
"""


class LoadedIndex:
    """For any number of threads; the memory is free once nobody has this object any more."""

    def __init__(self, index: Index) -> None:
        self.index = index
        catalog = self.catalog = index.catalog
        self.nearest = Nearest(index)
        self.notes = NoteVectors(index, self.nearest)

        # By the last change of a note: the texts of a question, and the questions of a session, share words. No method
        # of this object, or it would outlive its release together with its vectors.
        @lru_cache(_NUMBERED)
        def numbers(change: object, text: str, most: int) -> npt.NDArray[np.int64]:
            return catalog.numbers(text, most + 1)

        @lru_cache(_COUNTED)
        def frequency(change: object, text: str, guides: int, most: int) -> int:
            count = len(numbers(change, text, most))
            return catalog.frequency(text, guides, count if count <= most else None)

        self._numbers, self._frequency = numbers, frequency

    def frequencies(self, unprompted: bool, guides: int = 0) -> Callable[[Expression], int]:
        """
        Return a function that counts the chunks which match an expression.

        With `unprompted` the column `questions` does not count. A search that leaves guides out gives `guides`, the
        number of their chunks: then an expression that only guides have counts 0.
        """
        change, most = self._kept()

        def count(part: Expression) -> int:
            return self._frequency(change, str(Without("questions", part) if unprompted else part), guides, most)

        return count

    def holding(self, expressions: Sequence[Expression], notes: Sequence[tuple[int, int]]) -> list[list[bool]]:
        """Return for each expression which notes, by the numbers of their first and last chunk, have it."""
        first = np.array([first for first, _ in notes])
        last = np.array([last for _, last in notes])
        rows, (change, most) = [], self._kept()
        for expression in expressions:
            numbers = self._numbers(change, str(expression), most)
            if len(numbers) > most:
                numbers = self.catalog.numbers(str(expression))
            has = np.searchsorted(numbers, last, "right") > np.searchsorted(numbers, first)
            rows.append(has.tolist())
        return rows

    def match(
        self, expression: Expression, limits: Sequence[Condition], limit: int, also: Sequence[int] = ()
    ) -> list[tuple[int, float]]:
        """See `Catalog.match`; in a large vault bm25 weighs only the chunks whose words are worth most together."""
        if (among := self._weightiest(expression, limit)) is not None:
            rows, chosen = self.catalog.match(str(expression), limits, limit, also, among), set(among)
            if sum(number in chosen for number, _ in rows) >= limit:  # else a filter leaves few of them
                return rows
        return self.catalog.match(str(expression), limits, limit, also)

    def _kept(self) -> tuple[object, int]:
        """Return the last change of a note, and the most chunks of a word whose numbers are kept until the next."""
        chunks = self.catalog.counts().chunks
        is_large = chunks > self.index.config.exact_most
        changes = self.catalog.changes
        # One that was begun anew counts its changes from the beginning.
        return (changes.catalog, changes.last), max(MOST_NUMBERED, chunks // COMMON if is_large else 0)

    def _weightiest(self, expression: Expression, limit: int) -> list[int] | None:
        """
        Return the chunks among which alone bm25 looks for the `limit` best that have any of some words; None for all.

        In a large vault these are all that have the words which are worth most together.
        """
        total, parts = self.catalog.counts().chunks, alternatives(expression)
        if total <= self.index.config.exact_most or not parts:
            return None
        change, most = self._kept()
        words = [self._numbers(change, str(part), most) for part in parts]
        rare = [numbers for numbers in words if 0 < len(numbers) <= most]
        if not rare or sum(map(len, words)) <= 8 * WEIGHED:
            return None
        worth = np.zeros(1 + max(int(numbers[-1]) for numbers in rare), np.float32)
        for numbers in rare:
            worth[numbers] += idf(total, len(numbers))
        chosen = having = np.flatnonzero(worth > 0)
        if len(having) > WEIGHED:
            worth = worth[having]
            chosen = having[worth >= np.sort(worth)[-WEIGHED]]  # so many are alike that to partition takes longer
        is_common = any(len(numbers) > most for numbers in words)
        if len(chosen) < limit or not (is_common or 2 * len(chosen) < len(having)):
            return None
        listed: list[int] = chosen.tolist()
        return listed
