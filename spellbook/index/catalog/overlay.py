"""
A catalog for an earlier state of a vault, which begins as a copy of the vault's own.

So only notes that were other ones then are read again, and all texts that the vault's catalog has vectors of keep them.
The vault's catalog is only read.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from spellbook.system.errors import StorageError

_OF_TODAY = ("uses", "counters", "errors", "resolved", "sessions", "moves", "faults", "spared")
"""Tables of what happened in the vault, which is no part of its notes."""

_TWINS = """
    SELECT path FROM notes WHERE id IS NOT declared AND declared IS NOT NULL
    OR declared IN (SELECT declared FROM notes WHERE declared IS NOT NULL GROUP BY declared HAVING count(*) > 1)
"""
"""Notes that share an id: who has it is settled anew."""


def begin(catalog: Path, to: Path) -> None:
    """Copy a catalog's file to the new file `to`, without what is of today alone. Raises StorageError."""
    with (
        _writing(to) as target,
        contextlib.closing(sqlite3.connect(f"{catalog.as_uri()}?mode=ro", uri=True, timeout=30)) as source,
    ):
        source.backup(target)
        target.execute("BEGIN")
        for table in _OF_TODAY:
            target.execute(f"DELETE FROM {table}")
        target.execute("DELETE FROM meta WHERE key IN ('looked', 'unseen')")
        target.execute(f"UPDATE files SET sha256 = '', read_ns = 0 WHERE path IN ({_TWINS})")
        target.execute(f"UPDATE notes SET id = NULL WHERE path IN ({_TWINS})")
        target.execute("COMMIT")


def finish(file: Path) -> None:
    """Delete what was recorded of moves: a link of an earlier time must not follow a later one. Raises StorageError."""
    with _writing(file) as target:
        target.execute("DELETE FROM moves")


@contextlib.contextmanager
def _writing(file: Path) -> Iterator[sqlite3.Connection]:
    try:
        with contextlib.closing(sqlite3.connect(file, isolation_level=None, timeout=30)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise StorageError(f"{file}: cannot be written ({error}).", "Mend that and try again.") from error
