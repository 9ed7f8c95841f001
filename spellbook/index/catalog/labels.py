"""The labels of notes: the title of each, and the questions that it names. Each has a vector of its own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from spellbook.index.catalog.conditions import in_sql
from spellbook.index.filters import Condition
from spellbook.system.sqlite import Database

FIRST = 100
"""Chunks of a note that stand for the whole: its first ones, so that a very long note is read as quickly as others."""


class Labels:
    """The table `labels` in a catalog's database; `Notes` writes it together with a note's chunks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keys(self) -> list[str]:
        """Return the vector keys of all labels, each once."""
        return [key for (key,) in self._database.rows("SELECT DISTINCT key FROM labels")]

    def all(self) -> list[tuple[str, str]]:
        """Return kind and text of all labels, each pair once."""
        return self._database.rows("SELECT DISTINCT kind, text FROM labels")

    def at(self, path: str) -> list[str]:
        """Return the vector keys of the labels of the note at `path`."""
        rows = self._database.rows("SELECT key FROM labels JOIN notes USING (note) WHERE path = ?", (path,))
        return [key for (key,) in rows]

    def of(self, paths: Iterable[str]) -> list[tuple[str, str, str]]:
        """Return path, kind and vector key of the labels of the notes at `paths`."""
        return self._database.rows(
            """
            SELECT path, labels.kind, key FROM notes CROSS JOIN labels USING (note)
            WHERE path IN (SELECT value FROM json_each(?))
            """,
            (json.dumps(list(paths)),),
        )

    def notes(self, keys: Sequence[str], conditions: Sequence[Condition] = ()) -> list[tuple[str, str]]:
        """Return vector key and path of the notes that have a label with one of `keys` and meet `conditions`."""
        where, values = in_sql(self._database, conditions)
        return self._database.rows(
            f"""
            SELECT labels.key, path FROM labels CROSS JOIN notes USING (note)
            WHERE labels.key IN (SELECT value FROM json_each(:keys)) AND {where} ORDER BY path
            """,
            {"keys": json.dumps(list(keys)), **values},
        )

    def chunks(
        self, paths: Sequence[str], most: int = FIRST, limits: Sequence[Condition] = ()
    ) -> list[tuple[str, int, str]]:
        """Return path, number and vector key ("" if it says nothing) of the first chunks of each note, in order."""
        where, values = in_sql(self._database, limits, chunks=True)
        return self._database.rows(
            f"""
            SELECT path, chunk, coalesce(key, '') FROM notes CROSS JOIN chunks USING (note)
            WHERE path IN (SELECT value FROM json_each(:paths)) AND ordinal < :most AND {where} ORDER BY note, ordinal
            """,
            {"paths": json.dumps(list(paths)), "most": most, **values},
        )

    def count(self) -> int:
        """Return how many labels there are."""
        return int(self._database.rows("SELECT count(*) FROM labels")[0][0])
