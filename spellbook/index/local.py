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
from spellbook.text.expressions import Expression, Phrase, Without, alternatives
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


class Local:
    """See `engine.Engine` for each method. It keeps vectors in memory as long as it is there."""

    def __init__(self, index: Index) -> None:
        catalog = self._catalog = index.catalog
        self._exact_most = index.config.exact_most
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

    @property
    def fingerprint(self) -> str:
        return self._catalog.fingerprint

    @property
    def second_fingerprint(self) -> str:
        return self._catalog.second.fingerprint

    def frequencies(self, phrases: Sequence[Phrase], unprompted: bool, guides: int = 0) -> Callable[[Expression], int]:
        # One by one as they are asked for: a look into the index costs little here, and few of them are needed.
        change, most = self._kept()

        def count(part: Expression) -> int:
            return self._frequency(change, str(Without("questions", part) if unprompted else part), guides, most)

        return count

    def _kept(self) -> tuple[object, int]:
        """Return the last change of a note, and the most chunks of a word whose numbers are kept until the next."""
        chunks = self._catalog.counts().chunks
        is_large = chunks > self._exact_most
        changes = self._catalog.changes
        # One that was begun anew counts its changes from the beginning.
        return (changes.catalog, changes.last), max(MOST_NUMBERED, chunks // COMMON if is_large else 0)

    def match(
        self, expression: Expression, limits: Sequence[Condition], limit: int, also: Sequence[int] = ()
    ) -> list[tuple[int, float]]:
        if (among := self._weightiest(expression, limit)) is not None:
            rows, chosen = self._catalog.match(str(expression), limits, limit, also, among), set(among)
            if sum(number in chosen for number, _ in rows) >= limit:  # else a filter leaves few of them
                return rows
        return self._catalog.match(str(expression), limits, limit, also)

    def _weightiest(self, expression: Expression, limit: int) -> list[int] | None:
        """
        Return the chunks among which alone bm25 looks for the `limit` best that have any of some words; None for all.

        In a large vault these are all that have the words which are worth most together.
        """
        total, parts = self._catalog.counts().chunks, alternatives(expression)
        if total <= self._exact_most or not parts:
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

    def match_among(self, expression: Expression, numbers: Sequence[int]) -> list[tuple[int, float]]:
        return self._catalog.match_among(str(expression), numbers)

    def holding(self, expressions: Sequence[Expression], notes: Sequence[tuple[int, int]]) -> list[list[bool]]:
        first = np.array([first for first, _ in notes])
        last = np.array([last for _, last in notes])
        rows, (change, most) = [], self._kept()
        for expression in expressions:
            numbers = self._numbers(change, str(expression), most)
            if len(numbers) > most:
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
