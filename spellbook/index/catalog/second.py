"""
The vectors of the second encoder, under the same keys as those of the embedder, and the texts that wait for one.

Its vectors are small and quickly made, so that a new vault is found by meaning long before the embedder is done.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from spellbook.index.catalog.meta import Meta
from spellbook.models.base import SecondEncoder
from spellbook.system.sqlite import Database


class Second:
    """The tables `second` and `second_pending` in a catalog's database; triggers keep the latter."""

    def __init__(self, database: Database, meta: Meta) -> None:
        self._database = database
        self._rows = database.rows
        self._meta = meta

    def adopt(self, fingerprint: str) -> None:
        """Keep vectors of the encoder `fingerprint` from now on; those of another one are deleted."""
        if self._meta.get("second") == fingerprint:
            return
        with self._database.transaction() as connection:
            if self._meta.get("second") == fingerprint:
                return
            self._meta.put(connection, "second", fingerprint)
            connection.execute("DELETE FROM second")
            connection.execute("INSERT OR IGNORE INTO second_pending (key) SELECT key FROM chunks")
            connection.execute("INSERT OR IGNORE INTO second_pending (key, label) SELECT key, kind FROM labels")

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the encoder whose vectors these are, "" before the first."""
        return str(self._meta.get("second") or "")

    def waiting(self, encoder: SecondEncoder | None) -> int | None:
        """Return how many texts of chunks wait for `encoder`; None without one, or before its first vector."""
        counted = encoder is not None and encoder.fingerprint == self.fingerprint
        return self._meta.counts().second_pending if counted else None

    def in_order(self) -> list[str]:
        """Return the keys that wait: titles first, then the texts edited last, then questions."""
        listed = """
            SELECT key FROM second_pending CROSS JOIN {table} USING (key) JOIN notes USING (note) WHERE label {which}
            GROUP BY key ORDER BY max(mtime_ns) DESC, min(note)
        """
        parts = (("labels", "= 'title'"), ("chunks", "= ''"), ("labels", "NOT IN ('', 'title')"))
        return [key for table, which in parts for (key,) in self._rows(listed.format(table=table, which=which))]

    def texts(self, keys: Sequence[str]) -> list[tuple[str, str, str]]:
        """Return key, kind of label ("" for a chunk's text) and text of those of `keys` that wait."""
        rows = self._rows(
            """
            SELECT key, label, CASE label
                WHEN '' THEN (
                    SELECT embedded_text(above, lead, text, tail) FROM chunks
                    WHERE chunks.key = second_pending.key LIMIT 1)
                ELSE (SELECT text FROM labels WHERE labels.key = second_pending.key LIMIT 1) END
            FROM second_pending WHERE key IN (SELECT value FROM json_each(?))
            """,
            (json.dumps(list(keys)),),
        )
        return [(key, label, text) for key, label, text in rows if text is not None]

    def add(self, fingerprint: str, rows: Iterable[tuple[str, bytes]]) -> None:
        """Store vectors (int8) by key, unless another process went over to another encoder than `fingerprint`."""
        with self._database.transaction() as connection:
            if self._meta.get("second") == fingerprint:
                connection.executemany("INSERT OR IGNORE INTO second (key, vector) VALUES (?, ?)", rows)
                self._meta.bump(connection, "generation")

    def of(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the vectors (int8) of `keys`; keys without one are left out."""
        # As one value, the statement is the same for all keys, and SQLite can cache it.
        sql = "SELECT key, vector FROM second WHERE key IN (SELECT value FROM json_each(?))"
        return dict(self._rows(sql, (json.dumps(list(keys)),)))

    def last(self) -> int:
        """Return the seq of the latest vector, 0 if there is none."""
        return int(self._rows("SELECT coalesce(max(seq), 0) FROM second")[0][0])

    def standing_in(self, since: int, pending: int) -> Iterator[tuple[str, bytes]]:
        """
        Yield key and vector of the texts of chunks that have no vector of the embedder yet, those after `since`.

        `pending` says how many have none.
        """
        # All are found by what is pending, the latest few by their seq. A new vault has fewer vectors than that.
        tables = "second CROSS JOIN pending" if since or self.last() < pending else "pending CROSS JOIN second"
        return self._database.stream(
            f"SELECT key, vector FROM {tables} USING (key) WHERE NOT pending.label AND seq > ? ORDER BY seq", (since,)
        )

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
