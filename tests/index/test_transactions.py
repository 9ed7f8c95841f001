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
