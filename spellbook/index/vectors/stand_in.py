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
        self._rows = _Rows("", 0, (), [])

    def nearest(self, question: Bytes, limit: int, keys: Collection[str] | None = None) -> list[tuple[str, float]]:
        """
        Return the `limit` keys nearest to a question with their cosines, among `keys` if given, nearest first.

        `question` is what the second encoder makes of the question, int8 (width,). Some keys may have been embedded or
        gone out of use since: the caller drops them.
        """
        rows = self._refresh()
        query, every = unit(question), np.arange(len(rows.keys))
        chosen = every if keys is None else np.flatnonzero(np.isin(np.array(rows.keys), list(keys)))
        cosines = np.concatenate([np.empty(0, np.float32), *(unit(block) @ query for block in rows.blocks)])
        top = chosen[np.argsort(-cosines[chosen], kind="stable")[:limit]]
        return [(rows.keys[row], float(cosines[row])) for row in top.tolist()]

    def _refresh(self) -> _Rows:
        """Bring the vectors up to the catalog: what is new is added, and all are read anew once most are not needed."""
        catalog, most = self._index.catalog, self._index.config.exact_most
        with self._guard:
            pending = catalog.counts().pending
            # Another embedder has other keys, and other vectors have other numbers.
            state = f"{catalog.fingerprint} {catalog.second.fingerprint}"
            rows = self._rows
            if not pending or rows.state != state or len(rows.keys) > 2 * pending + 1_000:
                rows = _Rows(state, 0, (), [])
            if pending:
                last = catalog.second.last()
                if rows.seq == last:
                    self._rows = rows
                    return rows
                since = rows.seq if rows.seq <= last else 0  # a catalog that was begun anew
                keys, blocks = list(rows.keys if since else ()), list(rows.blocks if since else ())
                known = set(keys)
                fresh = (row for row in catalog.second.standing_in(since) if row[0] not in known)
                left = islice(fresh, max(0, most - len(keys)))
                while some := list(islice(left, _BLOCK)):
                    keys += [key for key, _ in some]
                    blocks.append(np.frombuffer(b"".join(vector for _, vector in some), np.int8).reshape(len(some), -1))
                rows = _Rows(state, last, tuple(keys), blocks)
            self._rows = rows
            return rows


class _Rows(NamedTuple):
    """One state of the vectors; a search goes on with the one it began with."""

    state: str
    seq: int
    keys: tuple[str, ...]
    blocks: Sequence[npt.NDArray[np.int8]]
