"""
The engine on this machine: the catalog for words and rows, vectors in memory, sketches or Chroma for what is near.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache

from spellbook.index.catalog.links import Links
from spellbook.index.catalog.schema import Counts, StoredChunk
from spellbook.index.catalog.usage import Use
from spellbook.index.filters import Condition, Unmatched
from spellbook.index.opened import Index
from spellbook.index.vectors.about import NoteCosines, NoteVectors
from spellbook.index.vectors.nearest import Nearest, Texts
from spellbook.models.base import Bytes, Vectors
from spellbook.system.lazy import np
from spellbook.text.expressions import Expression, Phrase, Without

_COUNTED, _NUMBERED = 4_000, 64
"""Words whose counts are kept, and words whose chunks are: of each at most `weights.MOST_COMMON`."""


class Local:
    """See `engine.E5Engine` for each method. It keeps vectors in memory as long as it is there."""

    def __init__(self, index: Index) -> None:
        self._catalog = index.catalog
        self._nearest = Nearest(index)
        self._notes = NoteVectors(index, self._nearest)
        # By the catalog's generation: the texts of a question, and the questions of a session, share words.
        catalog = index.catalog
        self._frequency = lru_cache(_COUNTED)(lambda generation, text, guides: catalog.frequency(text, guides))
        self._numbers = lru_cache(_NUMBERED)(lambda generation, text: catalog.numbers(text))

    @property
    def links(self) -> Links:
        return self._catalog.links

    @property
    def fingerprint(self) -> str:
        return self._catalog.fingerprint

    @property
    def second_fingerprint(self) -> str:
        return self._catalog.second.fingerprint

    def reading(self) -> AbstractContextManager[None]:
        return self._catalog.reading()

    def counts(self) -> Counts:
        return self._catalog.counts()

    def guides(self) -> int:
        return self._catalog.guides()

    def frequencies(self, phrases: Sequence[Phrase], unprompted: bool, guides: int = 0) -> Callable[[Expression], int]:
        # One by one as they are asked for: a look into the index costs little here, and few of them are needed.
        generation = self._catalog.generation

        def count(asked: Expression) -> int:
            return self._frequency(generation, str(Without("questions", asked) if unprompted else asked), guides)

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
        found, generation = [], self._catalog.generation
        for each in expressions:
            numbers = np.array(self._numbers(generation, str(each)), dtype=np.int64)
            has = np.searchsorted(numbers, last, "right") > np.searchsorted(numbers, first)
            found.append(has.tolist())
        return found

    def nearest(self, vector: Vectors, limits: Sequence[Condition], wanted: int, reasons: list[str]) -> Texts:
        return self._nearest.chunks(vector, limits, wanted, reasons)

    def standing_in(self, vector: Bytes, limits: Sequence[Condition], wanted: int) -> list[int]:
        return [chunk.number for chunks, _ in self._nearest.standing_in(vector, limits, wanted) for chunk in chunks]

    def named(self, vector: Vectors, limits: Sequence[Condition]) -> list[int]:
        return self._notes.near(vector, limits)

    def cosines(self, vector: Vectors, keys: Iterable[str]) -> dict[str, float]:
        return self._nearest.cosines(vector, keys)

    def about(self, vector: Vectors | None, chunks: Iterable[StoredChunk]) -> dict[str, NoteCosines]:
        return self._notes.of(vector, chunks)

    def vectors(self, keys: Iterable[str]) -> dict[str, Vectors]:
        blobs = self._catalog.vectors.of(list(keys))
        return {key: np.frombuffer(blob, dtype="<f4") for key, blob in blobs.items()}

    def seconds(self, keys: Iterable[str]) -> dict[str, bytes]:
        return self._catalog.second.of(list(keys))

    def by_number(self, numbers: Sequence[int]) -> list[StoredChunk]:
        return self._catalog.by_number(numbers)

    def at(self, path: str) -> list[StoredChunk]:
        return self._catalog.at(path)

    def among(self, paths: Collection[str], conditions: Sequence[Condition]) -> set[str]:
        return self._catalog.among(paths, conditions)

    def unmatched(
        self, asked: Sequence[Condition], visible: Sequence[Condition], *, paths: bool = True
    ) -> tuple[Unmatched, ...]:
        return self._catalog.unmatched(asked, visible, paths=paths)

    def uses(self, notes: Iterable[str]) -> Mapping[str, Use]:
        return self._catalog.usage.of(notes)

    def tokens(self, numbers: Sequence[int], tokeniser: str) -> dict[int, int]:
        return self._catalog.counted.of(numbers, tokeniser)

    def embed_next(self, keys: Iterable[str]) -> None:
        self._catalog.waiting.ask_for(keys)
