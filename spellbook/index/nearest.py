"""
Search by vectors: exactly, from a matrix in memory, or by Chroma in a larger vault.

Vectors that Chroma lacks are read from the catalog and compared exactly, a block at a time; if these are many, the
answer says so. Either way only existing chunks that meet a filter count, and all of them do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice

from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.catalog.vectors import OF_CHUNKS
from spellbook.index.filters import Condition
from spellbook.index.opened import Index
from spellbook.index.vectors.chroma import EF_SEARCH, QUESTION_SECONDS, Unavailable
from spellbook.models.base import Bytes, Vectors, unit
from spellbook.system.lazy import np, npt
from spellbook.text.quoting import counted

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


class Reasons(list[str]):
    """Why the answer to a question may lack something; `waited` is how long it waited for Chroma, in seconds."""

    waited = 0.0


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
            matrix = grown(self.matrix, self._index, self._index.catalog.counts().chunks)
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


def grown(matrix: Matrix, index: Index, in_use: int, which: str = OF_CHUNKS) -> Matrix | None:
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
