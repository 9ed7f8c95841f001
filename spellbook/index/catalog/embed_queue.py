"""Texts that wait for a vector of the embedder, or of the second encoder, and the order in which they are embedded."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable, Sequence

from spellbook.system.errors import StorageError
from spellbook.system.sqlite import BRIEF_SECONDS, Database

Row = tuple[str, str, str]
"""The key of a vector, the kind of label ("" for the text of a chunk), and the text."""


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
