"""An index with its cache for questions: means and labels of whole notes, and how many chunks have a word."""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from spellbook.index.catalog.rows import NO_TEXT, StoredChunk
from spellbook.index.catalog.vectors import OF_LABELS
from spellbook.index.filters import Condition
from spellbook.index.nearest import Matrix, Nearest, grown
from spellbook.index.opened import Index
from spellbook.models.base import Vectors
from spellbook.system.lazy import np
from spellbook.text.terms import Expression

_COUNTED = 4_000
"""Words whose counts are kept."""

_NUMBERED = 64
"""Words whose chunks are kept."""
MOST_NUMBERED = 4_000
"""The most chunks of a word that is counted by their numbers, which are asked for later: `weights.MOST_COMMON`."""

NEAR = 4
"""Notes whose chunks become candidates because a title or a question of theirs is near. By hand."""

EACH = 3
"""Chunks that such a note gives: those nearest to the question. By hand."""

_REMEMBERED = 4_000
"""Notes whose means and labels are kept, 2 to 5 KB each."""

_MOST_LABELS = 20
"""Labels of a note up to which it is kept."""

_MOST_READ = 2_000
"""Most vectors that are read for the means of one question where they are not in memory."""


class NoteCosines(NamedTuple):
    """
    Cosines of a question with a note: of its whole text (a unit mean), and of its labels: kind, key, cosine.

    None means no vector. `first` to `last` are the numbers of the note's chunks, of a very long note the first ones.
    """

    first: int
    last: int
    whole: float | None = None
    labels: tuple[tuple[str, str, float | None], ...] = ()


class _VectorsOfNote(NamedTuple):
    first: int
    last: int
    mean: Vectors | None
    labels: tuple[tuple[str, str], ...]


class LoadedIndex:
    """
    Also searches by the labels of notes, and compares whole notes with a question; for any number of threads.

    The memory is free once nobody has this object any more.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        catalog = self.catalog = index.catalog
        self.nearest = Nearest(index)
        self._matrix = Matrix()  # of labels
        self._notes: dict[str, _VectorsOfNote] = {}
        self._guard = threading.Lock()

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

    def near_labels(self, vector: Vectors, limits: Sequence[Condition]) -> list[int]:
        """Return some chunks, by number, of the notes whose title or question is nearest to a unit vector."""
        with self._guard:
            matrix: Matrix | None = self._matrix
            if self._matrix.seq != self.catalog.vectors.seq:
                matrix = grown(self._matrix, self.index, self.catalog.labels.count(), OF_LABELS)
                self._matrix = Matrix() if matrix is None else matrix
        if matrix is None:
            return []
        keys = [key for key, _ in matrix.nearest(vector, NEAR * (4 if limits else 2))]
        rank = {key: i for i, key in enumerate(keys)}
        named = sorted(self.catalog.labels.notes(keys, limits), key=lambda pair: rank[pair[0]])
        paths = list(dict.fromkeys(path for _, path in named))[:NEAR]
        rows = self.catalog.labels.chunks(paths, limits=limits)
        cosines = self.nearest.cosines(vector, {key for _, _, key in rows})
        best: dict[str, list[tuple[float, int]]] = {}
        counts = Counter(path for path, _, _ in rows)
        for path, number, key in rows:
            if key != NO_TEXT or counts[path] == 1:  # a whole note without text, by its title
                best.setdefault(path, []).append((-cosines.get(key, -1.0), number))
        return [number for some in best.values() for _, number in sorted(some)[:EACH]]

    def cosines_of_notes(self, vector: Vectors | None, chunks: Iterable[StoredChunk]) -> dict[str, NoteCosines]:
        """Return the cosines of a question's unit vector with the notes of `chunks`, by path."""
        firsts = {chunk.path: chunk.number - chunk.ordinal for chunk in chunks}
        notes = self._of(firsts)
        if vector is None:
            return {path: NoteCosines(note.first, note.last) for path, note in notes.items()}
        means = {path: note.mean for path, note in notes.items() if note.mean is not None}
        whole = dict(zip(means, (np.stack([*means.values()]) @ vector).tolist(), strict=True)) if means else {}
        near = self.nearest.cosines(vector, {key for each in notes.values() for _, key in each.labels}, self._matrix)
        return {
            path: NoteCosines(first, last, whole.get(path), tuple([(kind, key, near.get(key)) for kind, key in labels]))
            for path, (first, last, _, labels) in notes.items()
        }

    def _of(self, firsts: dict[str, int]) -> dict[str, _VectorsOfNote]:
        """Return notes by path; `firsts` has the number of each one's first chunk, which each version has anew."""
        kept = self._notes
        notes = {path: kept[path] for path, first in firsts.items() if path in kept and kept[path].first == first}
        return notes | self._read([path for path in firsts if path not in notes])

    def _read(self, paths: list[str]) -> dict[str, _VectorsOfNote]:
        """Return the notes at `paths` as the catalog has them, and keep those to which no more vectors will come."""
        members: dict[str, list[tuple[int, str]]] = {}
        for path, number, key in self.catalog.labels.chunks(paths):
            members.setdefault(path, []).append((number, key))
        labels: dict[str, list[tuple[str, str]]] = {}
        for path, kind, key in self.catalog.labels.of(paths):
            labels.setdefault(path, []).append((kind, key))
        wanted = (key for rows in members.values() for _, key in rows if key != NO_TEXT)
        read = self.nearest.vectors(wanted, _MOST_READ)  # in one call for all
        if len(self._notes) > _REMEMBERED:
            self._notes = {}
        notes: dict[str, _VectorsOfNote] = {}
        for path, rows in members.items():
            keys = {key for _, key in rows if key != NO_TEXT}
            vectors = [read[key] for key in keys if key in read]
            mean = np.sum(vectors, axis=0) if vectors else None
            mean = mean if mean is None else (mean / (np.linalg.norm(mean) or 1.0)).astype(np.float32)
            note = _VectorsOfNote(rows[0][0], rows[-1][0], mean, tuple(labels.get(path, ())))
            notes[path] = note
            if len(vectors) == len(keys) and len(note.labels) <= _MOST_LABELS:  # else more vectors come
                self._notes[path] = note
        return notes
