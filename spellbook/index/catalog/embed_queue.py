"""Texts that wait for a vector of the embedder, or of the second encoder, and the order in which they are embedded."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from spellbook.index.catalog.schema import Meta
from spellbook.models.base import SecondEncoder, unit
from spellbook.system.errors import StorageError
from spellbook.system.lazy import np
from spellbook.system.sqlite import BRIEF_SECONDS, Database

Row = tuple[str, str, str]
"""The key of a vector, the kind of label ("" for the text of a chunk), and the text."""

_AT_ONCE = 1_000
"""Vectors that are read at a time."""


class Waiting:
    """The table `pending` or `second_pending` in a catalog's database; triggers keep its rows."""

    def __init__(self, database: Database, table: str) -> None:
        self._database, self._table = database, table

    @property
    def is_there(self) -> bool:
        """Whether any text waits."""
        return bool(self._database.rows(f"SELECT 1 FROM {self._table} LIMIT 1"))

    def in_order(self, *, labels_last: bool = False) -> list[str]:
        """
        Return the vector keys that have no vector yet, likely questions' answers first.

        Texts that searches found by words come first, those of the latest search before others. Labels of notes follow,
        which are short and name all their texts, titles before questions. Then the texts edited last; a note with nine
        links to it counts as ten times as young. With `labels_last` the labels come last.
        """
        texts, labels = self._texts(), self._labels()
        return [*texts, *labels] if labels_last else list(dict.fromkeys([*self.asked_for(), *labels, *texts]))

    def _labels(self) -> list[str]:
        rows = self._database.rows(
            f"""
            SELECT key FROM {self._table} CROSS JOIN labels USING (key) JOIN notes USING (note) WHERE label <> ''
            GROUP BY key ORDER BY labels.kind = 'title' DESC, max(mtime_ns) DESC, min(note)
            """
        )
        return [key for (key,) in rows]

    def _texts(self) -> list[str]:
        # Without CROSS, SQLite would start with all chunks. Links are counted once for each note.
        rows = self._database.rows(
            f"""
            SELECT key FROM {self._table} CROSS JOIN chunks USING (key) CROSS JOIN (
                SELECT note, (:now - mtime_ns / 1e9)
                / (1 + (SELECT count(*) FROM links WHERE links.name = notes.name)) AS age
                FROM notes WHERE note IN (SELECT note FROM {self._table} CROSS JOIN chunks USING (key)) GROUP BY note
            ) USING (note) GROUP BY key ORDER BY asked DESC, min(age), min(chunk)
            """,
            {"now": time.time()},
        )
        return [key for (key,) in rows]

    def ask_for(self, keys: Iterable[str]) -> None:
        """Have `keys` embedded next, if they wait. If another process is writing, nothing is done."""
        rows = [(time.time(), key) for key in keys]
        with contextlib.suppress(StorageError), self._database.transaction(patience=BRIEF_SECONDS) as connection:
            connection.executemany(f"UPDATE {self._table} SET asked = ? WHERE key = ?", rows)

    def asked_for(self) -> list[str]:
        """Return the keys that searches asked for, those of the latest search first."""
        sql = f"SELECT key FROM {self._table} WHERE asked > 0 ORDER BY asked DESC"
        return [key for (key,) in self._database.rows(sql)]

    def texts(self, keys: Sequence[str]) -> list[Row]:
        """Return the rows of `keys` that still wait, in this order."""
        rows = self._database.rows(
            f"""
            SELECT given.value, label, CASE label
                WHEN '' THEN (SELECT embedded_text(above, lead, text, tail) FROM chunks WHERE chunks.key = given.value)
                ELSE (SELECT text FROM labels WHERE labels.key = given.value) END
            FROM json_each(?) AS given JOIN {self._table} ON {self._table}.key = given.value ORDER BY given.key
            """,
            (json.dumps(list(keys)),),
        )
        return [row for row in rows if row[2] is not None]


class Second:
    """The table `second` in a catalog's database; `waiting` are the texts without such a vector."""

    def __init__(self, database: Database, meta: Meta) -> None:
        self._database = database
        self._rows = database.rows
        self._meta = meta
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

    def last(self) -> int:
        """Return the seq of the latest vector, 0 if there is none."""
        return int(self._rows("SELECT coalesce(max(seq), 0) FROM second")[0][0])

    def standing_in(self, since: int, pending: int) -> Iterator[tuple[str, bytes, int]]:
        """Yield key, unit vector and seq, after `since`, of the `pending` texts not embedded otherwise."""
        # All are found by their keys, the latest few by their seq. A new vault has fewer vectors than that.
        tables = "second CROSS JOIN pending" if since or self.last() < pending else "pending CROSS JOIN second"
        sql = f"SELECT key, vector, seq FROM {tables} USING (key) WHERE label = '' AND seq > ? ORDER BY seq"
        left = self._database.stream(sql, (since,))
        while some := list(islice(left, _AT_ONCE)):
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
