"""Exact cosine search over vectors in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from spellbook.system.lazy import np, npt

Row = tuple[str, bytes, int]
"""Key, vector as float32 bytes, seq."""

_BATCH = 1_000
"""Rows that are taken in at a time: one copy of 1.5 MB."""


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
        """Take in rows, a few at a time; a key that is there already keeps its place."""
        left = iter(rows)
        while some := list(islice(left, _BATCH)):
            fresh = [(key, vector) for key, vector, _ in some if key not in self._rows]
            if fresh and self._data is None:
                self._data = np.empty((64, len(fresh[0][1]) // 4), dtype=np.float32)
            if fresh and self._data is not None:
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
