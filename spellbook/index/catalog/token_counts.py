"""
The tokens of each chunk as an answer shows it. They are counted while its note is embedded, which saves time later.

A row holds for its own tokeniser only. A chunk without a row is counted when it
is needed.
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
        Return chunk, key, text, lead and tail of uncounted chunks, `most` at most, of the notes that have `keys`.

        Of a long note, only chunks near those with `keys`, or each batch would read all of it.
        """
        return self._database.rows(
            """
            SELECT chunk, key, unpacked(text), lead, tail
            FROM (
                SELECT note, min(ordinal) - :most AS low, max(ordinal) + :most AS high
                FROM chunks WHERE key IN (SELECT value FROM json_each(:keys)) GROUP BY note
            ) CROSS JOIN chunks USING (note) LEFT JOIN counted USING (chunk)
            WHERE ordinal BETWEEN low AND high AND tokeniser IS NOT :tokeniser LIMIT :most
            """,
            {"keys": json.dumps(keys), "tokeniser": tokeniser, "most": most},
        )

    def add(self, rows: Sequence[tuple[int, str, int]], tokeniser: str) -> None:
        """Store the tokens of chunks (number, key, tokens) that still exist."""
        if not rows:
            return
        with self._database.transaction() as connection:
            # The key is compared too: a new catalog has other chunks with these numbers.
            connection.executemany(
                "INSERT OR REPLACE INTO counted SELECT chunk, ?, ? FROM chunks WHERE chunk = ? AND key IS ?",
                [(tokeniser, tokens, chunk, key) for chunk, key, tokens in rows],
            )
