"""
An index with its cache for questions: vectors of chunks and of whole notes, and how many chunks have a word.

The chunks nearest to a vector are found exactly, from a matrix in memory, or by Chroma in a larger vault. Vectors that
Chroma lacks are read from the catalog and compared exactly, a block at a time; if these are many, the answer says so.
Either way only existing chunks that meet a filter count, and all of them do.
"""

from __future__ import annotations

import threading
import time
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice
from typing import NamedTuple

from spellbook.index.catalog.rows import NO_TEXT, StoredChunk
from spellbook.index.catalog.vectors import OF_CHUNKS, OF_LABELS
from spellbook.index.filters import Condition
from spellbook.index.opened import Index
from spellbook.index.vectors.chroma import EF_SEARCH, QUESTION_SECONDS, Unavailable
from spellbook.models.base import Bytes, Vectors, unit
from spellbook.system.lazy import np, npt
from spellbook.text.quoting import counted
from spellbook.text.terms import Expression

Near = list[tuple[str, float]]
"""Keys of vectors and their cosines, nearest first."""

Texts = list[tuple[tuple[StoredChunk, ...], float]]
"""Texts, nearest first: the chunks that have it, and its cosine."""

Row = tuple[str, bytes, int]
"""Key, vector as float32 bytes, seq."""

_BATCH = 1_000
"""Rows that are taken in at a time: one copy of 1.5 MB."""

Find = Callable[[int, Sequence[str] | None], Near]
"""A search by a vector: so many nearest keys, of the given keys alone if there are any, nearest first."""

_OVERFETCH = 8
"""Factor by which more keys are asked for than wanted, before the keys that meet a filter are listed and searched
alone."""

BLOCK = 10_000
"""Stored vectors that are compared at a time: 15 MB."""

_AT_ONCE = 500
"""Vectors that are read at a time where their number is bounded."""

BEHIND = 1_000
"""Most vectors that Chroma may lack before an answer says so. Chroma is usually kept nearer than that."""

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


class Reasons(list[str]):
    """Why the answer to a question may lack something; `waited` is how long it waited for Chroma, in seconds."""

    waited = 0.0


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
                matrix = _grown(self._matrix, self.index, self.catalog.labels.count(), OF_LABELS)
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
        missing = [path for path in firsts if path not in notes]
        if not missing:
            return notes
        members: dict[str, list[tuple[int, str]]] = {}
        for path, number, key in self.catalog.labels.chunks(missing):
            members.setdefault(path, []).append((number, key))
        labels: dict[str, list[tuple[str, str]]] = {}
        for path, kind, key in self.catalog.labels.of(missing):
            labels.setdefault(path, []).append((kind, key))
        wanted = (key for rows in members.values() for _, key in rows if key != NO_TEXT)
        read = self.nearest.vectors(wanted, _MOST_READ)  # in one call for all
        if len(kept) > _REMEMBERED:
            kept = self._notes = {}
        for path, rows in members.items():
            keys = {key for _, key in rows if key != NO_TEXT}
            vectors = [read[key] for key in keys if key in read]
            mean = np.sum(vectors, axis=0) if vectors else None
            mean = mean if mean is None else (mean / (np.linalg.norm(mean) or 1.0)).astype(np.float32)
            note = _VectorsOfNote(rows[0][0], rows[-1][0], mean, tuple(labels.get(path, ())))
            notes[path] = note
            if len(vectors) == len(keys) and len(note.labels) <= _MOST_LABELS:  # else more vectors come
                kept[path] = note
        return notes


class Nearest:
    """Search by vectors in an index; keeps its vectors in memory, for any number of threads."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.matrix = Matrix()
        self._standing_in, self._of = Matrix(), ("", "", "")
        self._guard = threading.Lock()

    def chunks(self, vector: Vectors, limits: Sequence[Condition], wanted: int, reasons: Reasons) -> Texts:
        """Return the `wanted` texts nearest to a unit vector; why Chroma did not answer alone is added to `reasons`."""
        with self._guard:
            matrix = _grown(self.matrix, self._index, self._index.catalog.counts().chunks)
            self.matrix = Matrix() if matrix is None else matrix
        find = partial(matrix.nearest, vector) if matrix is not None else self._beyond_memory(vector, reasons)
        return self._filled(find, limits, wanted)

    def cosines(self, vector: Vectors, keys: Iterable[str], matrix: Matrix | None = None) -> dict[str, float]:
        """Return the cosines of these keys' vectors, from `matrix` (or that of chunks) or stored, to a unit vector."""
        listed = list(keys)
        known = (self.matrix if matrix is None else matrix).cosines(vector, listed)
        return known | _cosines(self._index.catalog.vectors.of([key for key in listed if key not in known]), vector)

    def vectors(self, keys: Iterable[str], most: int) -> dict[str, Vectors]:
        """Return the vectors of these keys; of those that are not in memory about `most` are read, the first ones."""
        listed = list(dict.fromkeys(keys))
        found = self.matrix.vectors(listed)
        missing, read = iter([key for key in listed if key not in found]), 0
        while read < most and (some := list(islice(missing, _AT_ONCE))):
            blobs = self._index.catalog.vectors.of(some)
            found |= {key: np.frombuffer(blob, dtype="<f4") for key, blob in blobs.items()}
            read += len(blobs)
        return found

    def standing_in(self, question: Bytes, limits: Sequence[Condition], wanted: int) -> Texts:
        """Return the `wanted` texts nearest to a question (int8) by the second encoder, of pending ones."""
        # Some keys may have been embedded or gone out of use since: they have no chunks, and are dropped.
        return self._filled(partial(self._refresh_second().nearest, unit(question.reshape(-1))), limits, wanted)

    def _refresh_second(self) -> Matrix:
        """Bring the second encoder's vectors of pending texts up to the catalog, and return them."""
        catalog, most = self._index.catalog, self._index.config.exact_most or BLOCK
        pending = catalog.counts().pending
        # Another embedder has other keys, another encoder other numbers, and a catalog begun anew another seq.
        of = catalog.fingerprint, catalog.second.fingerprint, catalog.version[0]
        with self._guard:
            matrix = self._standing_in
            if of != self._of or not pending or len(matrix) > 2 * pending + 1_000:
                matrix = Matrix()
            if pending and len(matrix) < most:
                matrix.add(islice(catalog.second.standing_in(matrix.seq, pending), most - len(matrix)))
            self._standing_in, self._of = matrix, of
            return matrix

    def _filled(self, find: Find, limits: Sequence[Condition], wanted: int) -> Texts:
        """Return the first `wanted` texts that `find` finds whose chunks meet `limits`, with these."""
        # Most filters leave much, and most keys are in use. So it is cheaper to look at what is near than to list all
        # that may match.
        near = find(wanted * _OVERFETCH, None)
        texts = self._chunks_of(near, limits, wanted)
        if len(texts) >= wanted or len(near) < wanted * _OVERFETCH:  # fewer than asked for: no more vectors exist
            return texts
        return self._chunks_of(find(wanted, self._index.catalog.keys(limits)), limits, wanted)

    def _chunks_of(self, near: Near, limits: Sequence[Condition], wanted: int) -> Texts:
        """Return the first `wanted` of `near` that have chunks which meet `limits`, with these."""
        texts: Texts = []
        for start in range(0, len(near), wanted):
            some = near[start : start + wanted]
            chunks: dict[str, tuple[StoredChunk, ...]] = {}
            for chunk in self._index.catalog.by_key([key for key, _ in some], limits):
                chunks[chunk.key] = (*chunks.get(chunk.key, ()), chunk)
            texts += [(chunks[key], cosine) for key, cosine in some if key in chunks]
            if len(texts) >= wanted:
                break
        return texts[:wanted]

    def _beyond_memory(self, vector: Vectors, reasons: Reasons) -> Find:
        """Return a function that asks Chroma, and compares the vectors that Chroma lacks exactly."""
        chroma, vectors = self._index.chroma, self._index.catalog.vectors

        def find(most: int, keys: Sequence[str] | None) -> Near:
            if keys is not None:
                blocks = (vectors.of(keys[start : start + BLOCK]) for start in range(0, len(keys), BLOCK))
                return _exactly(vector, (row for block in blocks for row in block.items()), most)
            near, seen = list[str](), chroma.seq
            if seen or self._index.config.chroma_url:
                began = time.monotonic()
                try:
                    # On a server the vectors of other vaults take places, all of which sort last here.
                    share = 1 + chroma.rows // (self._index.catalog.counts().chunks or 1)
                    asked = max(most, min(most * share, EF_SEARCH))
                    near = chroma.nearest(vector, asked, seen, QUESTION_SECONDS - reasons.waited)
                except Unavailable as error:
                    reasons.append(f"searched without Chroma: {error}")
                    return _exactly(vector, ((key, blob) for key, blob, _ in vectors.since(0)), most)
                finally:
                    reasons.waited += time.monotonic() - began
            if (lacks := vectors.count_changes(seen)) > BEHIND:
                reasons.append(f"Chroma lacks {counted(lacks, 'vector')}, which were read one by one")
            lacking = _exactly(vector, ((key, blob) for key, blob, _ in vectors.since(seen)), most)
            found = dict.fromkeys(near, -1.0) | _cosines(vectors.of(near), vector) | dict(lacking)
            if len(found) < most:  # few exist, or Chroma's graph lost the way past deleted ones
                return _exactly(vector, ((key, blob) for key, blob, _ in vectors.since(0)), most)
            return sorted(found.items(), key=lambda pair: -pair[1])[:most]

        return find


def _grown(matrix: Matrix, index: Index, in_use: int, which: str = OF_CHUNKS) -> Matrix | None:
    """Return `matrix` with all `in_use` vectors of chunks (or OF_LABELS); None if these are too many."""
    if in_use > index.config.exact_most:
        return None
    # A search that has begun goes on with the one it has. Vectors that went out of use are let go when many.
    matrix = matrix if len(matrix) <= 2 * in_use + 1_000 else Matrix()
    seq = index.catalog.vectors.seq
    matrix.add(index.catalog.vectors.since(matrix.seq, which))
    matrix.seq = max(matrix.seq, seq)  # the other vectors after it need not be looked at again
    return matrix


def _exactly(vector: Vectors, rows: Iterable[tuple[str, bytes]], wanted: int) -> Near:
    """Return the `wanted` of `rows` nearest to a unit vector; in blocks: memory does not grow with the vault."""
    best, left = list[tuple[str, float]](), iter(rows)
    while block := dict(islice(left, BLOCK)):
        best += _cosines(block, vector).items()
        best = sorted(best, key=lambda pair: -pair[1])[:wanted]
    return best


def _cosines(blobs: Mapping[str, bytes], vector: Vectors) -> dict[str, float]:
    """Return the cosines of stored vectors to a unit vector, by key; those of another width are left out."""
    alike = {key: blob for key, blob in blobs.items() if len(blob) == vector.nbytes}
    block = np.frombuffer(b"".join(alike.values()), dtype="<f4").reshape(-1, len(vector))
    return dict(zip(alike, np.vecdot(block, vector).tolist(), strict=True))


class Matrix:
    """
    Vectors in memory, one row a key, grown by difference; exact cosine search over them.

    `seq` is the last change taken in. Rows of unused keys stay; the caller drops them from results. The first row
    decides the width. One thread may add while others search.
    """

    def __init__(self) -> None:
        self.seq = 0
        self._rows: dict[str, int] = {}
        self._keys: list[str] = []
        self._data: npt.NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, rows: Iterable[Row]) -> None:
        """Take in rows, a few at a time; a key that is there already keeps its place, and gets its vector anew."""
        left = iter(rows)
        while some := list(islice(left, _BATCH)):
            for key, vector, _ in some:
                if key in self._rows and self._data is not None and len(vector) == self._data.shape[1] * 4:
                    self._data[self._rows[key]] = np.frombuffer(vector, dtype="<f4")
            if fresh := [(key, vector) for key, vector, _ in some if key not in self._rows]:
                if self._data is None:
                    self._data = np.empty((64, len(fresh[0][1]) // 4), dtype=np.float32)
                width = self._data.shape[1]
                fresh = [row for row in fresh if len(row[1]) == width * 4]
                count = len(self._keys)
                if (need := count + len(fresh)) > len(self._data):
                    grown = np.empty((max(need, count * 3 // 2), width), dtype=np.float32)
                    grown[:count] = self._data[:count]
                    self._data = grown
                block = np.frombuffer(b"".join(vector for _, vector in fresh), dtype="<f4").reshape(-1, width)
                self._data[count:need] = block
                for key, _ in fresh:
                    self._rows[key] = len(self._keys)
                    self._keys.append(key)
            self.seq = max([self.seq, *(seq for _, _, seq in some)])

    def nearest(
        self, query: npt.NDArray[np.float32], limit: int, keys: Sequence[str] | None = None
    ) -> list[tuple[str, float]]:
        """Return the `limit` keys nearest to the unit vector `query` with their cosines, among `keys` if given."""
        if keys is not None:
            among = self.cosines(query, keys)
            return sorted(among.items(), key=lambda pair: -pair[1])[:limit]
        count = len(self._keys)  # first: there are never fewer rows
        if self._data is None or not count:
            return []
        # Measured on two busy cores: as quick as BLAS with 80,000 rows, and five times as quick with 20,000.
        cosines = np.vecdot(self._data[:count], query)
        # Of as many blocks as are wanted each has one this near: few others are, and only they need to be sorted.
        blocks = cosines[: count - count % limit].reshape(-1, limit)
        top = np.flatnonzero(cosines >= np.fmax.reduce(blocks).min()) if count > limit else np.arange(count)
        top = top[np.argsort(-cosines[top], kind="stable")][:limit]
        return [(self._keys[row], cosine) for row, cosine in zip(top.tolist(), cosines[top].tolist(), strict=True)]

    def vectors(self, keys: Sequence[str]) -> dict[str, npt.NDArray[np.float32]]:
        """Return the vectors of those of `keys` that are here."""
        data = self._data
        return {} if data is None else {key: data[row] for key in keys if (row := self._rows.get(key)) is not None}

    def cosines(self, query: npt.NDArray[np.float32], keys: Sequence[str]) -> dict[str, float]:
        """Return the cosines to the unit vector `query` of those of `keys` that are here."""
        rows = {key: row for key in keys if (row := self._rows.get(key)) is not None}
        if self._data is None or not rows:
            return {}
        return dict(zip(rows, np.vecdot(self._data[list(rows.values())], query).tolist(), strict=True))
