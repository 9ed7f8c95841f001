"""The tables of the journal, and how those of an earlier form become these."""

from __future__ import annotations

from typing import Any

from spellbook.system.sqlite import run_script

FORM = 5
"""The number of the form of the journal's tables."""

_TABLES = """
    -- `session` is the one that the change was made in, as the client names it, "" for all others; `caller` is an
    -- agent's CALLER, "" for a person.
    CREATE TABLE entries (
        entry INTEGER PRIMARY KEY AUTOINCREMENT, at REAL, verb TEXT, what TEXT, undoes INTEGER,
        whole INTEGER DEFAULT 0, session TEXT NOT NULL DEFAULT '', caller TEXT NOT NULL DEFAULT ''
    );
    CREATE INDEX entries_undoes ON entries (undoes) WHERE undoes IS NOT NULL;
    CREATE TABLE changes (
        change INTEGER PRIMARY KEY AUTOINCREMENT, entry INTEGER NOT NULL, path TEXT NOT NULL, before TEXT,
        after TEXT, mode INTEGER
    );
    CREATE INDEX changes_entry ON changes (entry);
    CREATE INDEX changes_path ON changes (path);
    CREATE TABLE blobs (sha256 TEXT PRIMARY KEY, data BLOB NOT NULL);
"""

_WITH_CALLER = "ALTER TABLE entries ADD COLUMN caller TEXT NOT NULL DEFAULT '';"


def build(connection: Any, form: int) -> None:
    """Make the tables in an empty file (form 0), or of those of an earlier form."""
    run_script(connection, _WITH_CALLER if form else _TABLES)
