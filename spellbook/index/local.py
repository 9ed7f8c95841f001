"""
The engine on this machine: the catalog for words and rows, vectors in memory, sketches or Chroma for what is near.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from spellbook.index.catalog.links import Links
from spellbook.index.filters import Condition
from spellbook.index.opened import Index
from spellbook.index.vectors.about import NoteVectors
from spellbook.index.vectors.nearest import Nearest
from spellbook.models.base import Bytes, Vectors
from spellbook.system.lazy import np, npt
from spellbook.text.expressions import Expression, Phrase, Without

_COUNTED = 4_000
"""Words whose counts are kept."""

_NUMBERED = 64
"""Words whose chunks are kept."""
_MOST_NUMBERED = 4_000
"""The most chunks of a word that is counted by their numbers, which are asked for later: `weights.MOST_COMMON`."""


class Local:
    """See `engine.Engine` for each method. It keeps vectors in memory as long as it is there."""

    def __init__(self, index: Index) -> None:
        catalog = self._catalog = index.catalog
        self._nearest = Nearest(index)
        notes = NoteVectors(index, self._nearest)
        self.links: Links = catalog.links
        self.reading = catalog.reading
        self.counts = catalog.counts
        self.guides = catalog.guides
        self.nearest = self._nearest.chunks
        self.cosines = self._nearest.cosines
        self.named = notes.near
        self.about = notes.of
        self.by_number = catalog.by_number
        self.at = catalog.at
        self.among = catalog.among
        self.unmatched = catalog.unmatched
        self.uses = catalog.usage.of
        self.tokens = catalog.counted.of
        self.embed_next = catalog.waiting.ask_for

        # By the catalog's generation: the texts of a question, and the questions of a session, share words. No method
        # of this object, or it would outlive its release together with its vectors.
        @lru_cache(_NUMBERED)
        def numbers(generation: int, text: str) -> npt.NDArray[np.int64]:
            return catalog.numbers(text, _MOST_NUMBERED + 1)

        @lru_cache(_COUNTED)
        def frequency(generation: int, text: str, guides: int) -> int:
            count = len(numbers(generation, text))
            return catalog.frequency(text, guides, count if count <= _MOST_NUMBERED else None)

        self._numbers, self._frequency = numbers, frequency

    @property
    def fingerprint(self) -> str:
        return self._catalog.fingerprint

    @property
    def second_fingerprint(self) -> str:
        return self._catalog.second.fingerprint

    def frequencies(self, phrases: Sequence[Phrase], unprompted: bool, guides: int = 0) -> Callable[[Expression], int]:
        # One by one as they are asked for: a look into the index costs little here, and few of them are needed.
        generation = self._catalog.generation

        def count(part: Expression) -> int:
            return self._frequency(generation, str(Without("questions", part) if unprompted else part), guides)

        return count

    def match(
        self, expression: Expression, limits: Sequence[Condition], limit: int, also: Sequence[int] = ()
    ) -> list[tuple[int, float]]:
        return self._catalog.match(str(expression), limits, limit, also)

    def match_among(self, expression: Expression, numbers: Sequence[int]) -> list[tuple[int, float]]:
        return self._catalog.match_among(str(expression), numbers)

    def holding(self, expressions: Sequence[Expression], notes: Sequence[tuple[int, int]]) -> list[list[bool]]:
        first = np.array([first for first, _ in notes])
        last = np.array([last for _, last in notes])
        rows, generation = [], self._catalog.generation
        for expression in expressions:
            numbers = self._numbers(generation, str(expression))
            if len(numbers) > _MOST_NUMBERED:
                numbers = self._catalog.numbers(str(expression))
            has = np.searchsorted(numbers, last, "right") > np.searchsorted(numbers, first)
            rows.append(has.tolist())
        return rows

    def standing_in(self, vector: Bytes, limits: Sequence[Condition], wanted: int) -> list[int]:
        return [chunk.number for chunks, _ in self._nearest.standing_in(vector, limits, wanted) for chunk in chunks]

    def vectors(self, keys: Iterable[str]) -> dict[str, Vectors]:
        blobs = self._catalog.vectors.of(list(keys))
        return {key: np.frombuffer(blob, dtype="<f4") for key, blob in blobs.items()}

    def seconds(self, keys: Iterable[str]) -> dict[str, bytes]:
        return self._catalog.second.of(list(keys))
