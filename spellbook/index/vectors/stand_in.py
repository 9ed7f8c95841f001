"""
The second encoder's vectors in memory, of texts that the embedder has not embedded yet: they stand in for its own.

As int8, a quarter of a kilobyte each, and only while something is pending.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from itertools import islice
from typing import NamedTuple

from spellbook.index.opened import Index
from spellbook.models.base import Bytes, unit
from spellbook.system.lazy import np, npt

_BLOCK = 256
"""Rows that are taken in, or made float32 for a product, at a time: with 4,096, whose 4 MB are new to the processor's
caches and to the memory of the process each time, 45,000 rows take 71 instead of 12 ms of processor time."""


class StandIn:
    """Exact search over these vectors, for any number of threads."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._guard = threading.Lock()
        self._rows = _Rows("", 0, (), ())

    def nearest(self, question: Bytes, limit: int, keys: Collection[str] | None = None) -> list[tuple[str, float]]:
        """
        Return the `limit` keys nearest to a question with their cosines, among `keys` if given, nearest first.

        `question` is what the second encoder makes of the question, int8 (width,). Some keys may have been embedded or
        gone out of use since: the caller drops them.
        """
        rows = self._refresh()
        # Not `block @ query`: its threads would wait for those that embed meanwhile. Divided by the lengths last, which
        # takes a quarter of the time.
        query = unit(question)
        products = (np.vecdot(block.astype(np.float32), query) / lengths for block, lengths in rows.blocks)
        cosines = np.concatenate([np.empty(0, np.float32), *products])
        named = np.arange(len(cosines)) if keys is None else np.flatnonzero(np.isin(rows.keys, list(keys)))
        if limit < len(named):
            named = named[cosines[named] >= np.partition(cosines[named], -limit)[-limit]]
        top = named[np.argsort(-cosines[named], kind="stable")[:limit]]
        return [(rows.keys[row], float(cosines[row])) for row in top.tolist()]

    def _refresh(self) -> _Rows:
        """Bring the vectors up to the catalog: what is new is added, and all are read anew once most are not needed."""
        catalog, most = self._index.catalog, self._index.config.exact_most
        with self._guard:
            pending = catalog.counts().pending
            # Another embedder has other keys, and other vectors have other numbers.
            state = f"{catalog.fingerprint} {catalog.second.fingerprint}"
            rows, last = self._rows, catalog.second.last() if pending else 0
            # Not one that is larger than it need be, or of a catalog that was begun anew.
            if rows.state != state or len(rows.keys) > 2 * pending + 1_000 or rows.seq > last:
                rows = _Rows(state, 0, (), ())
            if rows.seq < last and len(rows.keys) < most:
                keys, blocks, known = list(rows.keys), list(rows.blocks), set(rows.keys)
                waiting = catalog.second.standing_in(rows.seq, pending)
                left = islice((row for row in waiting if row[0] not in known), most - len(keys))
                while some := list(islice(left, _BLOCK)):
                    keys += [key for key, _ in some]
                    block = np.frombuffer(b"".join(vector for _, vector in some), np.int8).reshape(len(some), -1)
                    blocks.append((block, np.maximum(np.linalg.norm(block.astype(np.float32), axis=1), 1e-9)))
                rows = _Rows(state, last, tuple(keys), blocks)
            self._rows = rows
            return rows


class _Rows(NamedTuple):
    """One state of the vectors, in blocks with their lengths; a search goes on with the one it began with."""

    state: str
    seq: int
    keys: Sequence[str]
    blocks: Sequence[tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]]
