"""
What a migration from one embedder to another leaves in the catalog: vectors to spare, and the embedder that was left.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

from spellbook.index.catalog.meta import Meta
from spellbook.system.sqlite import Database

_LEFT = "left"
_DAY = 86_400


class Spared:
    """Vectors that no chunk uses, yet or any more, and that are kept beyond what the cache may hold."""

    def __init__(self, database: Database, meta: Meta) -> None:
        self._database = database
        self._meta = meta

    def spare(self, keys: Iterable[str], days: int) -> None:
        """Keep the vectors of `keys` for so many days from now; what was spared until an earlier day is let go."""
        now = int(time.time())
        with self._database.transaction("IMMEDIATE") as connection:
            connection.execute("DELETE FROM spared WHERE until < ?", (now,))
            connection.executemany("INSERT OR REPLACE INTO spared VALUES (?, ?)", [(key, now + days * _DAY) for key in keys])

    def set_left(self, embedder: str) -> None:
        """Remember the name of the embedder that was left."""
        with self._database.transaction("IMMEDIATE") as connection:
            self._meta.put(connection, _LEFT, json.dumps(embedder))

    def left(self) -> str | None:
        """Return the name of the embedder that was left last, None if none was."""
        said = self._meta.get(_LEFT)
        return None if said is None else str(json.loads(said))
