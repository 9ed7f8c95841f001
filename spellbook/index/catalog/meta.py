"""The catalog's own state: its generation, the fingerprint of its embedder, and the result of the last scan."""

from __future__ import annotations

import sqlite3
from typing import Any

from spellbook.index.catalog.schema import Counts
from spellbook.system.sqlite import Database


class Meta:
    """The table `meta` in a catalog's database."""

    def __init__(self, database: Database) -> None:
        self._rows = database.rows

    def get(self, key: str) -> Any:
        """Return a value, None if there is none."""
        rows = self._rows("SELECT value FROM meta WHERE key = ?", (key,))
        return rows[0][0] if rows else None

    @staticmethod
    def put(connection: sqlite3.Connection, key: str, value: object) -> None:
        """Set a value."""
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    @staticmethod
    def bump(connection: sqlite3.Connection, key: str, by: int = 1) -> int:
        """Increase a number, by one by default, and return it."""
        connection.execute("UPDATE meta SET value = value + ? WHERE key = ?", (by, key))
        return int(connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()[0])

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the embedder that the chunks' vector keys are of, "" before the first."""
        return str(self.get("fingerprint") or "")

    def counts(self) -> Counts:
        """Return the state of the index."""
        names = ("generation", "notes", "chunks", "pending", "second_pending")
        return Counts(**dict(self._rows(f"SELECT key, value FROM meta WHERE key IN {names}")))
