"""
How many tokens each chunk is, as an answer shows it: counted as its note is embedded, so that a question need not.

A row names the tokeniser that it was counted by, and says nothing to another
one. What has no row is counted when it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from spellbook.system.sqlite import Database


class Counted:
    """The table `counted` in a catalog's database; a row goes with its chunk."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, chunks: Sequence[int], tokeniser: str) -> dict[int, int]:
        """Return the tokens of those of `chunks` that were counted by `tokeniser`."""
        sql = "SELECT chunk, tokens FROM counted WHERE chunk IN (SELECT value FROM json_each(?)) AND tokeniser = ?"
        return dict(self._database.rows(sql, (json.dumps(chunks), tokeniser)))

    def missing(self, keys: Sequence[str], tokeniser: str, most: int) -> list[tuple[int, str, str, str, str]]:
        """
        Return chunk, key, text, lead and tail of at most so many, not counted by `tokeniser` yet, of the notes that have `keys`.

        Of a long note only those around the chunks with `keys`, else each batch of it would look at all of it.
        """
        return self._database.rows(
            """
            SELECT chunk, key, text, lead, tail
            FROM (
                SELECT note, min(ordinal) - :most AS low, max(ordinal) + :most AS high
                FROM chunks WHERE key IN (SELECT value FROM json_each(:keys)) GROUP BY note
            ) CROSS JOIN chunks USING (note) LEFT JOIN counted USING (chunk)
            WHERE ordinal BETWEEN low AND high AND tokeniser IS NOT :tokeniser LIMIT :most
            """,
            {"keys": json.dumps(keys), "tokeniser": tokeniser, "most": most},
        )

    def add(self, rows: Sequence[tuple[int, str, int]], tokeniser: str) -> None:
        """Keep the tokens of chunks (number, key, tokens) that are still there."""
        if not rows:
            return
        with self._database.transaction("IMMEDIATE") as connection:
            # By its key too: a catalog that was begun anew has other chunks by these numbers.
            connection.executemany(
                "INSERT OR REPLACE INTO counted SELECT chunk, ?, ? FROM chunks WHERE chunk = ? AND key = ?",
                [(tokeniser, tokens, chunk, key) for chunk, key, tokens in rows],
            )
