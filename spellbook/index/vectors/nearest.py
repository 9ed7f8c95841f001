"""
The chunks nearest to a vector: exactly, from a matrix in memory, as long as the vault is small enough.

In a larger one Chroma says what is near, and as long as it is far behind or
does not answer, sketches in memory do.

Whatever answers, only chunks that are there and meet a filter count, and as
many of them come back as there are.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from spellbook.index.catalog.schema import StoredChunk
from spellbook.index.filters import Condition
from spellbook.index.opened import Index
from spellbook.index.vectors.chroma import LOOKED_AT, Unavailable
from spellbook.index.vectors.matrix import Matrix
from spellbook.index.vectors.simhash import Sketches
from spellbook.index.vectors.stand_in import StandIn
from spellbook.models.base import Bytes, Vectors
from spellbook.system.lazy import np

Near = list[tuple[str, float]]
"""Keys of vectors and their cosines, nearest first."""

Texts = list[tuple[tuple[StoredChunk, ...], float]]
"""Texts, nearest first: the chunks that have it, and its cosine."""

_OVERFETCH = (4, 20)
"""How many times what is wanted is asked for, before the keys that meet a filter are listed and searched alone."""

BLOCK = 10_000
"""Stored vectors that are searched at a time, and the most that are read for one question."""

_AT_ONCE = 500
"""Vectors that are read at a time where their number is bounded."""

BEHIND = 1_000
"""
Most vectors that Chroma may be behind; if it is further behind, it is not asked.

These vectors are searched exactly. Chroma is usually kept nearer than that.
"""

ASKED = 250_000
"""
Most vectors for which Chroma is asked in this process, unless it is a server: it takes 2.2 KB of memory for each.

Beyond, sketches answer. They find as many of the nearest, take 40 ms more, and 80 bytes of memory for each.
"""

COMPARED = 2_000
"""
Vectors with the most alike sketches that are compared exactly.

Of 780,000 vectors they contain 98 % of the five nearest, and 94 % of the fifty nearest.
"""

WORTH_KEEPING = 20_000
"""Sketches that take longer to make than to keep for the next process."""

_FILE = "sketches.npy"


class Nearest:
    """Search by vectors in an index; keeps its vectors in memory, for any number of threads."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self.matrix = Matrix()
        self.sketches: Sketches | None = None
        self._stand_in = StandIn(index)
        self._guard = threading.Lock()

    def chunks(self, vector: Vectors, limits: Sequence[Condition], wanted: int, reasons: list[str]) -> Texts:
        """
        Return the `wanted` texts nearest to a unit vector, each as its chunks that meet `limits`, with its cosine.

        The reason why Chroma did not answer is added to `reasons`; the search then took longer.
        """
        matrix = self._refresh()
        for times in _OVERFETCH:
            # Most filters leave much, and most keys are in use. So it is cheaper to look at what is near than to list
            # all that may match.
            most = wanted * times
            near = matrix.nearest(vector, most) if matrix is not None else self._approximately(vector, most, reasons)
            texts = self._chunks_of(near, limits, wanted)
            # If they are fewer there are no more vectors, but for a server, where those of other vaults take places.
            if len(texts) >= wanted or (len(near) < most and (matrix is not None or not self._index.config.chroma_url)):
                return texts
        keys = self._index.catalog.keys(limits)
        near = matrix.nearest(vector, wanted, keys) if matrix is not None else self._among(vector, keys, wanted)
        return self._chunks_of(near, limits, wanted)

    def prepare(self, embedded: int) -> None:
        """
        Make and keep the sketches if many texts were embedded.

        The first question of every later process then need not make them.
        """
        catalog = self._index.catalog
        if embedded < WORTH_KEEPING or catalog.counts().chunks <= self._index.config.exact_most:
            return
        with catalog.reading():
            if catalog.fingerprint == self._index.embedder.fingerprint:  # else it would be kept under a wrong name
                self.refresh_sketches()

    def cosines(self, vector: Vectors, keys: Iterable[str]) -> dict[str, float]:
        """Return the cosines of these keys' vectors to a unit vector; those without a vector are left out."""
        return cosines(self.matrix, self._index, vector, keys)

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
        """
        Return the `wanted` texts nearest to a question by the second encoder, among those the embedder has not done.

        Each as its chunks that meet `limits`, with its cosine. `question` is what the second encoder gives, int8.
        """
        vector = question.reshape(-1)
        for times in _OVERFETCH:
            near = self._stand_in.nearest(vector, wanted * times)
            texts = self._chunks_of(near, limits, wanted)
            if len(texts) >= wanted or len(near) < wanted * times:
                return texts
        near = self._stand_in.nearest(vector, wanted, self._index.catalog.keys(limits))
        return self._chunks_of(near, limits, wanted)

    def _refresh(self) -> Matrix | None:
        """Bring the matrix up to the catalog and return it; None if that has more than memory should hold."""
        catalog = self._index.catalog
        in_use = catalog.counts().chunks
        with self._guard:
            if in_use > self._index.config.exact_most:
                self.matrix = Matrix()
                return None
            # A search that has begun goes on with the one it has.
            matrix = self.matrix if len(self.matrix) <= _most(in_use) else Matrix()
            seq = catalog.vectors.seq
            matrix.add(catalog.vectors.since(matrix.seq))
            matrix.seq = max(matrix.seq, seq)  # the vectors of labels after it need not be looked at again
            self.matrix, self.sketches = matrix, None
            return matrix

    def refresh_sketches(self) -> Sketches:
        """Return the sketches of all vectors in the catalog; a process before this one may have made the first ones."""
        catalog, file = self._index.catalog, self._index.config.state / _FILE
        fingerprint = self._index.embedder.fingerprint
        with self._guard:
            sketches = self.sketches or Sketches.load(file, fingerprint)
            # A catalog that was begun anew counts on, and would have all of them once more.
            if len(sketches) > _most(catalog.counts().chunks) or not catalog.vectors.has_up_to(sketches.seq):
                sketches = Sketches(fingerprint)
            added = sketches.add(catalog.vectors.since(sketches.seq))
            if added >= WORTH_KEEPING:
                with contextlib.suppress(OSError):  # then the next process makes its own
                    sketches.save(file)
            self.sketches = sketches
            return sketches

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

    def _approximately(self, vector: Vectors, wanted: int, reasons: list[str]) -> Near:
        """
        Ask Chroma, and search exactly what it has not seen yet.

        Uses sketches if that is much, if Chroma is empty or would take too much memory, or if it does not answer.
        """
        chroma = self._index.chroma
        seen = chroma.seq
        is_asked = bool(self._index.config.chroma_url) or 0 < chroma.rows <= ASKED
        unseen = self._index.catalog.vectors.changes(seen, BEHIND + 1) if is_asked else []
        if is_asked and len(unseen) <= BEHIND:
            try:
                share = 1 + chroma.rows // (self._index.catalog.counts().chunks or 1)
                near = chroma.nearest(vector, min(wanted * share, LOOKED_AT), seen)
                return self._search_blocks(vector, list({*near, *(key for key, _ in unseen)}), wanted)
            except Unavailable as error:
                reasons.append(f"searched without Chroma: {error}")
        return self._among(vector, None, wanted)

    def _among(self, vector: Vectors, keys: Sequence[str] | None, wanted: int) -> Near:
        """
        Search the stored vectors of `keys`, or all.

        Few vectors are all searched exactly; of many, only those with the most alike sketches.
        """
        if keys is None or len(keys) > BLOCK:
            keys = self.refresh_sketches().alike(vector, max(COMPARED, 2 * wanted), keys)
        return self._search_blocks(vector, keys, wanted)

    def _search_blocks(self, vector: Vectors, keys: Sequence[str], wanted: int) -> Near:
        """Search stored vectors exactly, a block at a time, so that memory does not grow with the vault."""
        best: Near = []
        for start in range(0, len(keys), BLOCK):
            blobs = self._index.catalog.vectors.of(keys[start : start + BLOCK])
            best += _cosines(blobs, vector).items()
            best = sorted(best, key=lambda pair: -pair[1])[:wanted]
        return best


def _most(in_use: int) -> int:
    """Return how many vectors are held before those that went out of use are let go."""
    return 2 * in_use + 1_000


def cosines(matrix: Matrix, index: Index, vector: Vectors, keys: Iterable[str]) -> dict[str, float]:
    """Return the cosines of these keys' vectors to a unit vector: from `matrix`, those that it lacks from the index."""
    listed = list(keys)
    known = matrix.cosines(vector, listed)
    blobs = index.catalog.vectors.of([key for key in listed if key not in known])
    return known | _cosines(blobs, vector)


def _cosines(blobs: Mapping[str, bytes], vector: Vectors) -> dict[str, float]:
    """Return the cosines of stored vectors to a unit vector, by key; those of another width are left out."""
    alike = {key: blob for key, blob in blobs.items() if len(blob) == vector.nbytes}
    block = np.frombuffer(b"".join(alike.values()), dtype="<f4").reshape(-1, len(vector))
    return dict(zip(alike, np.vecdot(block, vector).tolist(), strict=True))
