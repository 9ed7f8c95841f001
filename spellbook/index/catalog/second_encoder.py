"""The vectors of the second encoder, by the keys of their texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from spellbook.index.catalog.rows import Tables
from spellbook.index.catalog.vectors import AT_ONCE, Waiting
from spellbook.models.base import SecondEncoder, unit
from spellbook.system.lazy import np
from spellbook.system.sqlite import Database


class Second(Tables):
    """The table `second` in a catalog's database; `waiting` are the texts without such a vector."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.waiting = Waiting(database, "second_pending")

    def adopt(self, fingerprint: str) -> None:
        """Keep vectors of the encoder `fingerprint` from now on, and delete others."""
        if self.fingerprint == fingerprint:
            return
        with self._database.transaction() as connection:
            if self.fingerprint == fingerprint:
                return
            self._meta.put(connection, "second", fingerprint)
            connection.execute("DELETE FROM second")
            connection.execute("INSERT OR IGNORE INTO second_pending (key) SELECT key FROM chunks WHERE key NOT NULL")
            connection.execute("INSERT OR IGNORE INTO second_pending (key, label) SELECT key, kind FROM labels")

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the encoder of these vectors, "" before the first."""
        return str(self._meta.get("second") or "")

    def pending(self, encoder: SecondEncoder | None) -> int | None:
        """Return how many texts of chunks wait for `encoder`; None without one, or before its first vector."""
        counted = encoder is not None and encoder.fingerprint == self.fingerprint
        return self._meta.counts().second_pending if counted else None

    def add(self, fingerprint: str, rows: Iterable[tuple[str, bytes]]) -> None:
        """Store vectors (int8) by key, unless another process changed the encoder from `fingerprint`."""
        with self._database.transaction() as connection:
            if self.fingerprint == fingerprint:
                connection.executemany("INSERT OR IGNORE INTO second (key, vector) VALUES (?, ?)", rows)
                self._meta.bump(connection, "generation")

    def of(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the vectors (int8) of `keys`; keys without one are left out."""
        sql = "SELECT key, vector FROM second WHERE key IN (SELECT value FROM json_each(?))"
        return dict(self._rows(sql, (json.dumps(list(keys)),)))

    def standing_in(self, since: int, pending: int) -> Iterator[tuple[str, bytes, int]]:
        """Yield key, unit vector and seq, after `since`, of the `pending` texts not embedded otherwise."""
        # All are found by their keys, the latest few by their seq. A new vault has fewer vectors than that.
        [(last,)] = self._rows("SELECT coalesce(max(seq), 0) FROM second")
        tables = "second CROSS JOIN pending" if since or last < pending else "pending CROSS JOIN second"
        sql = f"SELECT key, vector, seq FROM {tables} USING (key) WHERE label = '' AND seq > ? ORDER BY seq"
        left = self._database.stream(sql, (since,))
        while some := list(islice(left, AT_ONCE)):
            block = np.frombuffer(b"".join(vector for _, vector, _ in some), np.int8).reshape(len(some), -1)
            yield from ((key, row.tobytes(), seq) for (key, _, seq), row in zip(some, unit(block), strict=True))

    def evict(self) -> None:
        """Delete the vectors of texts that neither a note nor the embedder's cache holds."""
        with self._database.transaction() as connection:
            connection.execute(
                """
                DELETE FROM second WHERE NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.key = second.key)
                AND NOT EXISTS (SELECT 1 FROM labels WHERE labels.key = second.key)
                AND NOT EXISTS (SELECT 1 FROM vectors WHERE vectors.key = second.key)
                """
            )
