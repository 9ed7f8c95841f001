"""
The second encoder's vectors in memory, of texts that the embedder has not embedded yet: they stand in for its own.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import islice

from spellbook.index.opened import Index
from spellbook.index.vectors.matrix import Matrix
from spellbook.models.base import Bytes, unit


class StandIn:
    """Exact search over these vectors, for any number of threads; they are in memory while something is pending."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._guard = threading.Lock()
        self._matrix, self._state = Matrix(), ("", "", "")

    def nearest(self, question: Bytes, limit: int, keys: Sequence[str] | None = None) -> list[tuple[str, float]]:
        """
        Return the `limit` keys nearest to a question with their cosines, among `keys` if given, nearest first.

        `question` is the question's vector by the second encoder, int8 (width,). Some keys may have been embedded or
        gone out of use since: the caller drops them.
        """
        return self._refresh().nearest(unit(question), limit, keys)

    def _refresh(self) -> Matrix:
        """Bring the vectors up to the catalog; a search goes on with the matrix that it began with."""
        catalog, most = self._index.catalog, self._index.config.exact_most
        pending = catalog.counts().pending
        # Another embedder has other keys, another encoder other numbers, and a catalog begun anew another seq.
        state = catalog.fingerprint, catalog.second.fingerprint, catalog.version[0]
        with self._guard:
            if state != self._state or not pending or len(self._matrix) > 2 * pending + 1_000:
                self._matrix, self._state = Matrix(), state
            if pending and len(self._matrix) < most:
                rows = catalog.second.standing_in(self._matrix.seq, pending)
                self._matrix.add(islice(rows, most - len(self._matrix)))
            return self._matrix
