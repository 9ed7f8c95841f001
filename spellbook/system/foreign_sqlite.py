"""
Read a table of another program's SQLite file, which may be hostile, damaged, or in use.

A copy is read, so nothing is written beside the file and no lock of its owner is taken. No view, trigger, function or
virtual table in it is run.
"""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spellbook.system.disk import regular
from spellbook.system.errors import InvalidInput

MAGIC = b"SQLite format 3\0"
MOST_BYTES = 4_000_000_000
"""Bytes of a file that is read."""

_MOST_VALUE = 20_000_000
"""Bytes of one value."""


@contextmanager
def opened_table(place: Path, table: str, columns: Sequence[str]) -> Iterator[Iterator[dict[str, Any]] | None]:
    """
    Yield the rows of a table as mappings of those `columns` that it has; None if it lacks the first two.

    Changes in the file's write-ahead log are read too. Raises InvalidInput for a file that is too large or damaged,
    also while rows are read.
    """
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "copy.db"
        _copy(place, copy)
        with contextlib.suppress(FileNotFoundError):  # not the journal: it may name a file that SQLite would delete
            _copy(place.with_name(f"{place.name}-wal"), copy.with_name(f"{copy.name}-wal"))
        try:
            with contextlib.closing(sqlite3.connect(copy, isolation_level=None)) as connection:
                names = _readable(connection, table, columns)
                cursor = connection.execute(f'SELECT {", ".join(names)} FROM "{table}" ORDER BY rowid') if names else ()
                yield (dict(zip(names, row, strict=True)) for row in cursor) if names else None
        except sqlite3.Error as error:
            raise InvalidInput(
                f"{place.name}: the database cannot be read ({error}).", "Is the file whole? Nothing was imported."
            ) from error


def _copy(source: Path, target: Path) -> None:
    with regular(source) as file, target.open("wb") as copy:
        if file.seek(0, 2) > MOST_BYTES:
            raise InvalidInput(f"{source.name} is over {MOST_BYTES // 1_000_000_000} GB.", "Export it as JSON instead.")
        file.seek(0)
        shutil.copyfileobj(file, copy, 1 << 20)


def _readable(connection: sqlite3.Connection, table: str, columns: Sequence[str]) -> list[str]:
    """Let `connection` read the plain columns of one table alone; return those of `columns`, none without a table."""
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE)
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
        connection.execute(f"PRAGMA {pragma}")
    kinds = connection.execute("SELECT type, sql FROM sqlite_master WHERE name = ?", (table,)).fetchall()
    if len(kinds) != 1 or kinds[0][0] != "table" or not str(kinds[0][1]).upper().startswith("CREATE TABLE"):
        return []
    (verdict,) = connection.execute(f"PRAGMA quick_check('{table}')").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)
    # Hidden and computed columns are not those of the table.
    there = {row[1] for row in connection.execute(f"PRAGMA table_xinfo('{table}')") if row[6] == 0}

    def allow(action: int, first: str | None, *_: object) -> int:
        is_read = action == sqlite3.SQLITE_READ and first == table
        return sqlite3.SQLITE_OK if is_read or action == sqlite3.SQLITE_SELECT else sqlite3.SQLITE_DENY

    connection.set_authorizer(allow)
    return [name for name in columns if name in there] if set(columns[:2]) <= there else []
