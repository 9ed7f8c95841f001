"""Transactions of the files that many processes share."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from spellbook.index.catalog import tables
from spellbook.index.catalog.catalog import FUNCTIONS
from spellbook.system.sqlite import Database


def test_only_one_process_writes_from_the_begin_of_a_transaction_on(tmp_path: Path) -> None:
    """From its first line on, before it reads, so that no read in it is stale when it writes; a read shuts nobody out."""
    database = Database(tmp_path / "catalog.db", tables.FORM, tables.build, FUNCTIONS)
    database.connection()
    with contextlib.closing(sqlite3.connect(database.file, timeout=0, isolation_level=None)) as other:
        with database.transaction(), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        with database.reading():
            database.rows("SELECT count(*) FROM notes")
            other.execute("BEGIN IMMEDIATE")
    database.close()


def test_a_database_keeps_its_patience(tmp_path: Path) -> None:
    """A database that waits briefly for other processes, as a hook must, does so after a transaction that waits otherwise."""
    database = Database(tmp_path / "catalog.db", tables.FORM, tables.build, FUNCTIONS, patience=0.08)
    for patience, inside in ((None, 80), (0.005, 5), (None, 80)):
        with database.transaction(patience=patience) as connection:
            assert connection.execute("PRAGMA busy_timeout").fetchall() == [(inside,)]
    assert database.rows("PRAGMA busy_timeout") == [(80,)]
    database.close()
