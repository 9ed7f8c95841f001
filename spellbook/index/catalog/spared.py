"""
What a migration to another embedder keeps in the catalog: the old vectors for a while, and the old embedder's name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

from spellbook.index.catalog.meta import Meta
from spellbook.system.sqlite import Database

_LEFT = "left"
"""The key in `meta` of the name of the previous embedder."""

_DAY = 86_400
"""Seconds of a day, as `spared.until` counts. How many days is the caller's choice: `migrate.SPARED_DAYS`."""


class Spared:
    """Unused vectors that are kept for a while, even beyond the limit of the cache."""

    def __init__(self, database: Database, meta: Meta) -> None:
        self._database = database
        self._meta = meta

    def spare(self, keys: Iterable[str], days: int) -> None:
        """Keep the vectors of `keys` for so many days from now; drop entries that have expired."""
        now = int(time.time())
        with self._database.transaction("IMMEDIATE") as connection:
            connection.execute("DELETE FROM spared WHERE until < ?", (now,))
            connection.executemany(
                "INSERT OR REPLACE INTO spared VALUES (?, ?)", [(key, now + days * _DAY) for key in keys]
            )

    def set_left(self, embedder: str) -> None:
        """Store the name of the previous embedder."""
        with self._database.transaction("IMMEDIATE") as connection:
            self._meta.put(connection, _LEFT, json.dumps(embedder))

    def left(self) -> str | None:
        """Return the name of the previous embedder, None if there was none."""
        said = self._meta.get(_LEFT)
        return None if said is None else str(json.loads(said))
