"""
Use counts: how often notes were opened, and how long verbs took. They are never written into a person's files.

They are the one part of the catalog that cannot be rebuilt from the vault.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from spellbook.system.sqlite import Database

KEPT_DAYS = 30
"""Days for which counts and timings are kept."""

_DAY = 86_400
"""Seconds of a day; `measures.day` counts days since 1970."""

_PATIENCE = 0.05
"""Seconds to wait for another process's write: counting must not delay anything."""


@dataclass(frozen=True, slots=True)
class Use:
    """How often a note was opened, and when last, in seconds since 1970."""

    count: int
    last: float


class Usage:
    """The counters in a catalog's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def opened(self, notes: Iterable[str]) -> None:
        """Count that these notes, by id, were opened now. Raises StorageError if another process is writing."""
        now = time.time()
        with self._database.transaction("IMMEDIATE", _PATIENCE) as connection:
            connection.executemany(
                """
                INSERT INTO uses VALUES (?, 1, ?)
                ON CONFLICT (note) DO UPDATE SET count = count + 1, last = excluded.last
                """,
                [(note, now) for note in dict.fromkeys(notes)],
            )

    def of(self, notes: Iterable[str]) -> dict[str, Use]:
        """Return the use of those of `notes` that were ever opened."""
        listed = json.dumps(list(dict.fromkeys(notes)))
        rows = self._database.rows("SELECT * FROM uses WHERE note IN (SELECT value FROM json_each(?))", (listed,))
        return {note: Use(count, last) for note, count, last in rows}

    def most(self, limit: int) -> dict[str, Use]:
        """Return the notes that are opened most."""
        rows = self._database.rows("SELECT * FROM uses ORDER BY count DESC, last DESC LIMIT ?", (limit,))
        return {note: Use(count, last) for note, count, last in rows}

    def add(self, counts: Mapping[tuple[str, int], int]) -> None:
        """Add to today's counts, by name and bucket. Raises StorageError if another process is writing."""
        today = int(time.time()) // _DAY
        with self._database.transaction("IMMEDIATE", _PATIENCE) as connection:
            connection.execute("DELETE FROM measures WHERE day < ?", (today - KEPT_DAYS,))
            connection.executemany(
                """
                INSERT INTO measures VALUES (?, ?, ?, ?)
                ON CONFLICT (name, bucket, day) DO UPDATE SET count = count + excluded.count
                """,
                [(name, bucket, today, count) for (name, bucket), count in counts.items()],
            )

    def counts(self) -> dict[str, Counter[int]]:
        """Return the counts of the last KEPT_DAYS, by name, then by bucket."""
        found: dict[str, Counter[int]] = {}
        for name, bucket, count in self._database.rows(
            "SELECT name, bucket, sum(count) FROM measures GROUP BY name, bucket"
        ):
            found.setdefault(name, Counter())[bucket] = count
        return found
