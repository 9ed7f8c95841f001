"""
The labels of notes: the title of each, and the questions that it names. Each has a vector of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from spellbook.index.catalog.sql import batches
from spellbook.notes import note
from spellbook.system.sqlite import Database


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

    def notes(self, keys: Sequence[str]) -> list[tuple[str, str]]:
        """Return vector key and path of the notes that have a label with one of `keys`."""
        return [
            row
            for batch in batches(keys)
            for row in self._database.rows(
                "SELECT key, path FROM labels CROSS JOIN notes USING (note) "
                f"WHERE key IN ({','.join('?' * len(batch))})",
                batch,
            )
        ]


def questions_of(meta: str) -> str:
    """Return the questions that a note's frontmatter (as JSON) names, as a JSON list."""
    return json.dumps(note.questions_of(json.loads(meta or "{}")))
