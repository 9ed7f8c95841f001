"""An index with its cache for questions: vectors, and how many chunks have a word."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache

from spellbook.index.opened import Index
from spellbook.index.vectors.about import NoteVectors
from spellbook.index.vectors.nearest import Nearest
from spellbook.text.terms import Expression

_COUNTED = 4_000
"""Words whose counts are kept."""

_NUMBERED = 64
"""Words whose chunks are kept."""
MOST_NUMBERED = 4_000
"""The most chunks of a word that is counted by their numbers, which are asked for later: `weights.MOST_COMMON`."""


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
        def numbers(change: object, text: str) -> array[int]:
            return catalog.numbers(text, MOST_NUMBERED + 1)

        @lru_cache(_COUNTED)
        def frequency(change: object, text: str, guides: int) -> int:
            count = len(numbers(change, text))
            return catalog.frequency(text, guides, count if count <= MOST_NUMBERED else None)

        self._numbers, self._frequency = numbers, frequency

    def frequencies(self, guides: int = 0) -> Callable[[Expression], int]:
        """Return a function that counts the chunks of an expression; 0 if only guides, `guides` chunks, have it."""
        change = self.catalog.version
        return lambda part: self._frequency(change, str(part), guides)

    def holding(self, expressions: Sequence[Expression], notes: Sequence[tuple[int, int]]) -> list[list[bool]]:
        """Return for each expression which notes, by the numbers of their first and last chunk, have it."""
        rows, change = [], self.catalog.version
        for expression in expressions:
            numbers = self._numbers(change, str(expression))
            if len(numbers) > MOST_NUMBERED:
                numbers = self.catalog.numbers(str(expression))
            rows.append([bisect_right(numbers, last) > bisect_left(numbers, first) for first, last in notes])
        return rows
