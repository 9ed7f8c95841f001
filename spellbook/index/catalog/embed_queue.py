"""
Texts that wait for their vectors: in what order they are embedded, and who is at which.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence

from spellbook.system.errors import StorageError
from spellbook.system.sqlite import HURRIED_SECONDS, Database

_TEXT = """
    CASE WHEN label THEN (SELECT text FROM labels WHERE labels.key = pending.key LIMIT 1)
    ELSE (SELECT embedded_text(above, lead, text, tail) FROM chunks WHERE chunks.key = pending.key LIMIT 1) END
"""


class Waiting:
    """The table `pending` in a catalog's database; triggers keep its rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def in_order(self) -> list[str]:
        """
        Return the vector keys that have no vector yet, those first that are likely to be sought for.

        First the texts that searches found by words, those of the latest search first. Then the labels of notes, which
        are short and name all their texts, titles before questions. Then the texts edited last; a note with nine links
        to it counts as ten times as young.
        """
        return list(dict.fromkeys([*self.asked_for(), *self._labels(), *self._texts()]))

    def in_haste(self) -> list[str]:
        """Return the same keys in the order for somebody who waits for the texts edited last: labels come last."""
        return [*self._texts(), *self._labels()]

    def _labels(self) -> list[str]:
        rows = self._database.rows(
            """
            SELECT key FROM pending CROSS JOIN labels USING (key) JOIN notes USING (note) WHERE pending.label
            GROUP BY key ORDER BY labels.kind = 'title' DESC, max(mtime_ns) DESC, min(note)
            """
        )
        return [key for (key,) in rows]

    def _texts(self) -> list[str]:
        # Without CROSS, SQLite would start with all chunks. Links are counted once for each note.
        rows = self._database.rows(
            """
            SELECT key FROM pending CROSS JOIN chunks USING (key) CROSS JOIN (
                SELECT note, (:now - mtime_ns / 1e9)
                / (1 + (SELECT count(*) FROM links WHERE links.name = notes.name)) AS age
                FROM notes WHERE note IN (SELECT note FROM pending CROSS JOIN chunks USING (key)) GROUP BY note
            ) USING (note) GROUP BY key ORDER BY asked DESC, min(age), min(chunk)
            """,
            {"now": time.time()},
        )
        return [key for (key,) in rows]

    def ask_for(self, keys: Iterable[str]) -> None:
        """Have those of `keys` that are pending embedded next. If another process is writing, nothing is done."""
        now = time.time()
        with contextlib.suppress(StorageError), self._database.transaction(patience=HURRIED_SECONDS) as connection:
            connection.executemany("UPDATE pending SET asked = ? WHERE key = ?", [(now, key) for key in keys])

    def asked_for(self) -> list[str]:
        """Return the keys that searches asked for, those of the latest search first."""
        return [key for (key,) in self._database.rows("SELECT key FROM pending WHERE asked > 0 ORDER BY asked DESC")]

    def claim(self, keys: Sequence[str], owner: str, seconds: float = 120) -> list[tuple[str, str]]:
        """Return the keys and texts of `keys` that are still pending and that no other process embeds."""
        now = time.time()
        marks = ",".join("?" * len(keys))
        with self._database.transaction() as connection:
            rows: list[tuple[str, str]] = connection.execute(
                f"SELECT key, {_TEXT} FROM pending WHERE key IN ({marks}) AND NOT (owner <> ? AND until > ?)",
                (*keys, owner, now),
            ).fetchall()
            order = {key: i for i, key in enumerate(keys)}
            rows.sort(key=lambda row: order[row[0]])
            connection.executemany(
                "UPDATE pending SET owner = ?, until = ? WHERE key = ?",
                [(owner, now + seconds, key) for key, _ in rows],
            )
            return rows

    def texts(self, keys: Sequence[str]) -> list[tuple[str, str]]:
        """Return the keys and texts of `keys` that are still pending, even if another process embeds them."""
        marks = ",".join("?" * len(keys))
        return self._database.rows(f"SELECT key, {_TEXT} FROM pending WHERE key IN ({marks})", keys)
