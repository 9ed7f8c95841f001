"""The file of the catalog: its health and its space."""

from __future__ import annotations

import contextlib
import sqlite3

from spellbook.index.catalog.rows import Tables
from spellbook.index.catalog.second_encoder import Second
from spellbook.index.catalog.tables import begin_anew
from spellbook.index.catalog.vectors import Vectors
from spellbook.system.errors import StorageError
from spellbook.system.lazy import shutil
from spellbook.system.sqlite import BUSY_SECONDS
from spellbook.text.unicode import is_markdown

MUCH = 8_000_000
"""Bytes of free space from which on it is worth writing the file anew."""


class Upkeep(Tables):
    """The work on the file itself, which a person or a quiet moment asks for."""

    def shrink(self) -> bool:
        """Write the file anew, where nobody waits, if most of it is free; say whether it was done."""
        pragmas = ("page_count", "freelist_count", "page_size")
        pages, free, size = self._rows(f"SELECT * FROM {', '.join(f'pragma_{name}' for name in pragmas)}")[0]
        if free <= pages // 2 or free * size < MUCH:
            return False
        with contextlib.suppress(StorageError, OSError):
            if shutil.disk_usage(self._database.file.parent).free > 2 * (pages - free) * size + MUCH:
                self._database.vacuum()
                return True
        return False

    def optimize(self, action: str) -> int:
        """Do `analyze`, `index` (of words) or `vacuum`; return of how many tables. Raises StorageError."""
        where = "sql LIKE '%USING fts5%'" if action == "index" else "type = 'table' AND name NOT LIKE 'sqlite%'"
        tables = [name for (name,) in self._rows(f"SELECT name FROM sqlite_master WHERE {where}")]
        if action == "vacuum":
            self._database.vacuum()
            return len(tables)
        with self._database.transaction() as connection:
            if action == "analyze":
                connection.execute("ANALYZE")
            else:
                for table in tables:
                    connection.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")
        return len(tables)

    def forget(self) -> None:
        """Leave nothing of notes that are there no more in the file, free pages included. Raises StorageError."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM spared")  # keys do not say which texts an older embedder's vectors are of
            connection.execute("DELETE FROM uses WHERE note NOT IN (SELECT id FROM notes)")
            left = connection.execute("SELECT new FROM moves WHERE new NOT IN (SELECT path FROM notes)").fetchall()
            gone = [row for row in left if is_markdown(row[0])]
            connection.executemany("DELETE FROM moves WHERE new = ?", gone)
        Vectors(self._database).evict(0)
        Second(self._database).evict()
        self.optimize("index")  # deleted words stay in a segment until then
        self._database.vacuum(BUSY_SECONDS)

    def begin_anew(self) -> None:
        """Leave no row in the file, also while other programs have it open. Raises StorageError."""
        with self._database.transaction() as connection:
            begin_anew(connection)
        self._database.vacuum(BUSY_SECONDS)

    def verify(self) -> list[str]:
        """Return the problems that SQLite's own checks find; none for a healthy catalog."""
        problems = [row[0] for row in self._rows("PRAGMA integrity_check(5)") if row[0] != "ok"]
        with self._database.transaction() as connection:
            try:
                # SQLite from 3.44 on compares the words with the chunks only if `rank` says so.
                connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
            except sqlite3.DatabaseError as error:
                state = self._database.file.parent
                problems.append(f"full-text index: {error}; delete {state} and run again, it is rebuilt from the vault")
        return problems
