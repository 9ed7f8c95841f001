"""
A number that grows with each change of a note, so that a reader knows whether anything changed since its mark.
"""

from __future__ import annotations

from spellbook.index.catalog.meta import Meta
from spellbook.system.sqlite import Database


class Changes:
    """The table `changes` in a catalog's database."""

    def __init__(self, database: Database, meta: Meta) -> None:
        self._database = database
        self._meta = meta

    @property
    def catalog(self) -> str:
        """The name that tells this catalog from one that was begun anew."""
        return str(self._meta.get("catalog") or "")

    @property
    def last(self) -> int:
        """The seq of the last change, 0 if there was none."""
        return int(self._database.rows("SELECT coalesce(max(seq), 0) FROM changes")[0][0])
