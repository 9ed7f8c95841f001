"""
What the catalog holds: its tables with their history, and their rows as the rest of Spellbook sees them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spellbook.database import Migration
from spellbook.notes import Fault, Stamp

WEIGHTS = (3.0, 3.0, 3.0, 1.0, 1.0, 0.5)
"""What a word counts for in title (aliases too), heading, keywords (entities and tags too), questions, body and parts of identifiers."""

MIGRATIONS = (
    Migration(
        """
        CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
        INSERT INTO meta VALUES ('generation', 0), ('fingerprint', '');
        INSERT INTO meta VALUES ('seq', CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000);
        CREATE TABLE files (
            path TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, inode INTEGER,
            read_ns INTEGER, sha256 TEXT
        ) WITHOUT ROWID;
        CREATE TABLE faults (path TEXT, line INTEGER, reason TEXT, walk INTEGER DEFAULT 0);
        CREATE INDEX faults_path ON faults (path);
        CREATE TABLE notes (
            note INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT UNIQUE NOT NULL, id TEXT UNIQUE, declared TEXT,
            title TEXT, topic TEXT, category TEXT, kind TEXT, importance REAL, created TEXT, updated TEXT,
            mtime_ns INTEGER, keywords TEXT, tags TEXT, meta TEXT
        );
        CREATE INDEX notes_declared ON notes (declared) WHERE declared IS NOT NULL;
        CREATE INDEX notes_topic ON notes (category, topic);
        CREATE TABLE fields (note INTEGER, key TEXT, value TEXT, PRIMARY KEY (key, value, note)) WITHOUT ROWID;
        CREATE INDEX fields_note ON fields (note);
        CREATE TABLE chunks (
            chunk INTEGER PRIMARY KEY AUTOINCREMENT, note INTEGER NOT NULL, ordinal INTEGER, suffix TEXT,
            heading TEXT, line INTEGER, end_line INTEGER, text TEXT, embedded TEXT, same TEXT, key TEXT
        );
        CREATE INDEX chunks_note ON chunks (note, ordinal);
        CREATE INDEX chunks_key ON chunks (key);
        CREATE INDEX chunks_same ON chunks (same);
        CREATE VIRTUAL TABLE words USING fts5 (
            title, heading, keywords, questions, body, tokenize = 'porter unicode61 remove_diacritics 2'
        );
        CREATE TABLE vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL, seq INTEGER, used INTEGER);
        CREATE INDEX vectors_seq ON vectors (seq);
        CREATE TABLE claims (key TEXT PRIMARY KEY, owner TEXT, until REAL) WITHOUT ROWID;
        CREATE TABLE sessions (
            id TEXT PRIMARY KEY, created REAL, expires REAL, ended REAL, scribed INTEGER DEFAULT 0
        ) WITHOUT ROWID;
        """
    ),
    # Vowel signs are parts of words (else Hindi and Thai are letters), and identifiers are found by their parts. A part of a
    # long table or of long code is shown with its header or fence.
    Migration(
        """
        ALTER TABLE chunks ADD COLUMN lead TEXT NOT NULL DEFAULT '';
        ALTER TABLE chunks ADD COLUMN tail TEXT NOT NULL DEFAULT '';
        DROP TABLE words;
        CREATE VIRTUAL TABLE words USING fts5 (
            title, heading, keywords, questions, body, parts,
            tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
        );
        """,
        then="UPDATE files SET sha256 = '', read_ns = 0",
    ),
)
"""
The schema's history; a catalog's `user_version` is the number of steps it has taken.

`seq` begins at the clock's microseconds, so that it never repeats what an
earlier catalog counted: readers who follow it see what a rebuilt one holds.
"""


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A chunk as stored; `words` are the six columns of the full-text index, `same` the hash of its folded text."""

    ordinal: int
    suffix: str
    heading: str
    line: int
    end_line: int
    text: str
    embedded: str
    same: str
    key: str
    lead: str
    tail: str
    words: tuple[str, str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """A file as it was read at `read_ns`: its stamp, hash and faults, and the note in it if it is one."""

    path: str
    stamp: Stamp
    read_ns: int
    sha256: str
    faults: tuple[Fault, ...] = ()
    note: Mapping[str, Any] | None = None
    fields: frozenset[tuple[str, str]] = frozenset()
    chunks: tuple[ChunkRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """What the catalog remembers of a file."""

    stamp: Stamp
    read_ns: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Found:
    """A chunk with what a hit shows of it; `lead` and `tail` frame the text of a part that was cut out of a table or of code."""

    chunk: int
    id: str
    path: str
    line: int
    end_line: int
    title: str
    heading: str
    text: str
    key: str
    topic: str
    category: str
    importance: float
    created: str | None
    updated: str | None
    mtime_ns: int
    ordinal: int
    keywords: tuple[str, ...]
    tags: tuple[str, ...]
    meta: Mapping[str, Any]
    lead: str = ""
    tail: str = ""


@dataclass(frozen=True, slots=True)
class Topic:
    """The chunks that carry one topic in one category; `updated` is ISO 8601 or a file time."""

    category: str
    topic: str
    notes: int
    chunks: int
    updated: str
    titles: tuple[str, ...]
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Counts:
    """The state of the index; `pending` counts distinct texts without a vector."""

    generation: int
    notes: int
    chunks: int
    pending: int
