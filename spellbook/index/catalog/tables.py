"""
The catalog's tables, and how a catalog of an older form becomes one of this form.

Everything derived from notes is rebuilt by a scan. Other rows, and those that took long to make, are carried over:
vectors by the keys of their texts, so nothing is embedded again, and actions of people and agents. All of it is one
transaction: a kill leaves the old catalog or the new one.
"""

from __future__ import annotations

import sqlite3

from spellbook.system.sqlite import run_script

FORM = 31
"""The number of this form; it grows with each change of the tables, or of how they are filled."""

WEIGHTS = (3.0, 3.0, 3.0, 1.0, 1.0, 0.5)
"""
Weights of bm25 by column: title (with aliases), heading, keywords (with entities and tags), questions (and properties),
body, parts of identifiers.
"""

_STATE = """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
    INSERT INTO meta VALUES ('generation', 0), ('fingerprint', ''), ('second', '');
    INSERT INTO meta VALUES ('notes', 0), ('chunks', 0), ('pending', 0), ('second_pending', 0);
    -- `seq` starts at the clock's microseconds, so that it is never lower than in an earlier catalog: readers by seq
    -- then see all vectors of a rebuilt catalog.
    INSERT INTO meta VALUES ('seq', CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000);
    -- The catalog has a name of its own, since the changes of one that was begun anew are other ones.
    INSERT INTO meta VALUES ('catalog', lower(hex(randomblob(8))));

    CREATE TABLE sessions (
        id TEXT PRIMARY KEY, created REAL, expires REAL, ended REAL, scribed INTEGER DEFAULT 0,
        language TEXT NOT NULL DEFAULT 'en'
    ) WITHOUT ROWID;

    CREATE TABLE uses (note TEXT PRIMARY KEY, count INTEGER, last REAL) WITHOUT ROWID;
    -- By the hour since 1970. Times are in 32 buckets for each tenfold; what is only counted has bucket -1000.
    CREATE TABLE counters (
        name TEXT, bucket INTEGER, hour INTEGER, count INTEGER, PRIMARY KEY (name, bucket, hour)
    ) WITHOUT ROWID;
    CREATE INDEX counters_hour ON counters (hour);
    CREATE TABLE errors (
        id TEXT PRIMARY KEY, code TEXT, verb TEXT, door TEXT, message TEXT, count INTEGER, first REAL, last REAL
    ) WITHOUT ROWID;
    -- Errors that a person has resolved: the same error again is a new one.
    CREATE TABLE resolved (
        id TEXT PRIMARY KEY, code TEXT, verb TEXT, door TEXT, message TEXT, count INTEGER, first REAL, last REAL,
        at REAL, by TEXT, reason TEXT
    ) WITHOUT ROWID;
"""

_NOTES = """
    CREATE TABLE files (
        path TEXT PRIMARY KEY, size INTEGER, mtime_ns INTEGER, inode INTEGER, read_ns INTEGER, sha256 TEXT,
        ctime_ns INTEGER NOT NULL DEFAULT 0
    ) WITHOUT ROWID;
    CREATE TABLE faults (path TEXT, line INTEGER, reason TEXT, walk INTEGER DEFAULT 0);
    CREATE INDEX faults_path ON faults (path);

    CREATE TABLE notes (
        note INTEGER PRIMARY KEY AUTOINCREMENT, path TEXT UNIQUE NOT NULL, id TEXT UNIQUE, declared TEXT,
        title TEXT, topic TEXT, category TEXT, kind TEXT, importance REAL, created TEXT, updated TEXT,
        mtime_ns INTEGER, keywords TEXT, tags TEXT, meta TEXT, name TEXT,
        labels TEXT NOT NULL DEFAULT '[["", "", ""]]'
    );
    CREATE INDEX notes_declared ON notes (declared) WHERE declared IS NOT NULL;
    CREATE INDEX notes_topic ON notes (category, topic);
    CREATE INDEX notes_name ON notes (name);
    -- Of fields in the text, `ordinal` is that of their chunk; it is -1 for those of the frontmatter.
    CREATE TABLE fields (note INTEGER, key TEXT, value TEXT, ordinal INTEGER, PRIMARY KEY (key, value, note, ordinal))
        WITHOUT ROWID;
    CREATE INDEX fields_note ON fields (note);

    -- Links are stored as written and resolved by file name when read, so that no note is read again for another.
    CREATE TABLE links (
        note INTEGER, ordinal INTEGER, name TEXT, target TEXT, fragment TEXT, markdown INTEGER, line INTEGER,
        relation TEXT NOT NULL DEFAULT '', PRIMARY KEY (note, ordinal)
    ) WITHOUT ROWID;
    CREATE INDEX links_name ON links (name);
    CREATE INDEX links_superseding ON links (name) WHERE relation = 'supersedes';
    CREATE TABLE moves (old TEXT PRIMARY KEY, new TEXT, at REAL, name TEXT) WITHOUT ROWID;
    CREATE INDEX moves_name ON moves (name);
    CREATE INDEX moves_new ON moves (new);

    -- The notes that changed, by a number that grows: whoever keeps a copy elsewhere asks for those after its mark. A
    -- removed note keeps its row here.
    CREATE TABLE changes (seq INTEGER PRIMARY KEY AUTOINCREMENT, note INTEGER NOT NULL UNIQUE);
    CREATE TRIGGER note_change_added AFTER INSERT ON notes BEGIN
        INSERT OR REPLACE INTO changes (note) VALUES (new.note); END;
    CREATE TRIGGER note_change_made AFTER UPDATE ON notes BEGIN
        INSERT OR REPLACE INTO changes (note) VALUES (new.note); END;
    CREATE TRIGGER note_change_dropped AFTER DELETE ON notes BEGIN
        INSERT OR REPLACE INTO changes (note) VALUES (old.note); END;
    CREATE TRIGGER note_added AFTER INSERT ON notes BEGIN
        UPDATE meta SET value = value + 1 WHERE key = 'notes'; END;
    CREATE TRIGGER note_dropped AFTER DELETE ON notes BEGIN
        UPDATE meta SET value = value - 1 WHERE key = 'notes'; END;

    -- The title of each note and the questions it names, each with a vector of its own.
    CREATE TABLE labels (note INTEGER NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, key TEXT NOT NULL);
    CREATE INDEX labels_note ON labels (note, kind);
    CREATE INDEX labels_key ON labels (key);
"""

_CHUNKS = """
    -- Texts are packed, see `rows.packed`. `above` are the lines that precede the text where it is embedded. A chunk
    -- that says nothing has no key, so no vector, and no words but its note's labels.
    CREATE TABLE chunks (
        chunk INTEGER PRIMARY KEY AUTOINCREMENT, note INTEGER NOT NULL, ordinal INTEGER, suffix TEXT, heading TEXT,
        line INTEGER, end_line INTEGER, text TEXT, above TEXT, same TEXT, key TEXT,
        lead TEXT NOT NULL DEFAULT '', tail TEXT NOT NULL DEFAULT '', checksum INTEGER
    );
    CREATE INDEX chunks_note ON chunks (note, ordinal);
    CREATE INDEX chunks_key ON chunks (key);
    CREATE INDEX chunks_same ON chunks (same);

    CREATE TRIGGER chunk_dropped AFTER DELETE ON chunks BEGIN
        UPDATE meta SET value = value - 1 WHERE key = 'chunks'; END;

    -- Vowel signs belong to words (Hindi, Thai), and identifiers match by their parts. See `words`.
    CREATE VIEW worded AS SELECT chunk,
        label_words(labels, ordinal, 0) AS title,
        CASE WHEN key IS NULL THEN '' ELSE heading_words(heading) END AS heading,
        label_words(labels, ordinal, 1) AS keywords, label_words(labels, ordinal, 2) AS questions,
        CASE WHEN key IS NULL THEN '' ELSE body_words(unpacked(text)) END AS body,
        CASE WHEN key IS NULL THEN '' ELSE part_words(unpacked(text)) END AS parts
        FROM chunks CROSS JOIN notes USING (note);
    CREATE VIRTUAL TABLE words USING fts5 (
        title, heading, keywords, questions, body, parts, content = worded, content_rowid = chunk,
        tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
    );
"""

_VECTORS = """
    -- Vectors are compact, see `vectors.compact`. `used` is when a text last had its vector, as a time in seconds.
    CREATE TABLE vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL, seq INTEGER, used INTEGER);
    CREATE INDEX vectors_seq ON vectors (seq);
    CREATE TABLE spared (key TEXT PRIMARY KEY, until INTEGER) WITHOUT ROWID;

    -- Texts that wait for a vector are kept by triggers, so that reading them takes the same time in every vault.
    -- `asked` is when a search last found one by words. Labels, whose kind is in `label`, wait too but are not counted:
    -- a text can be found by meaning before its note's title has a vector.
    CREATE TABLE pending (key TEXT PRIMARY KEY, label TEXT NOT NULL DEFAULT '', asked REAL NOT NULL DEFAULT 0)
        WITHOUT ROWID;
    CREATE INDEX pending_asked ON pending (asked) WHERE asked > 0;
    CREATE TRIGGER pending_added AFTER INSERT ON pending WHEN new.label = '' BEGIN
        UPDATE meta SET value = value + 1 WHERE key = 'pending'; END;
    CREATE TRIGGER pending_dropped AFTER DELETE ON pending WHEN old.label = '' BEGIN
        UPDATE meta SET value = value - 1 WHERE key = 'pending'; END;
    CREATE TRIGGER vector_added AFTER INSERT ON vectors BEGIN DELETE FROM pending WHERE key = new.key; END;

    -- The vectors of a second encoder, once one is used (`second` in `meta` names it), and the texts that wait for it.
    -- If keys change since the embedder does, its vectors go with them.
    CREATE TABLE second (seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, vector BLOB NOT NULL);
    CREATE TABLE second_pending (key TEXT PRIMARY KEY, label TEXT NOT NULL DEFAULT '', asked REAL NOT NULL DEFAULT 0)
        WITHOUT ROWID;
    CREATE TRIGGER second_pending_added AFTER INSERT ON second_pending WHEN new.label = '' BEGIN
        UPDATE meta SET value = value + 1 WHERE key = 'second_pending'; END;
    CREATE TRIGGER second_pending_dropped AFTER DELETE ON second_pending WHEN old.label = '' BEGIN
        UPDATE meta SET value = value - 1 WHERE key = 'second_pending'; END;
    CREATE TRIGGER second_added AFTER INSERT ON second BEGIN DELETE FROM second_pending WHERE key = new.key; END;
"""


def _waits(table: str, pending: str, vectors: str, when: str = "", moved: str = "") -> str:
    """
    Return the triggers by which the texts of `table` wait in `pending` until they are in `vectors`.

    After an insertion of chunks, `ADDED` runs once a batch: for a trigger, SQLite would keep a journal of each row's
    pages, which is slow.
    """
    when, label = f"WHEN {when}" if when else "", "new.kind" if table == "labels" else "''"
    add = f"""
        INSERT OR IGNORE INTO {pending} (key, label)
            SELECT new.key, {label} WHERE NOT EXISTS (SELECT 1 FROM {vectors} WHERE key = new.key);
    """
    drop = f"""
        DELETE FROM {pending} WHERE key = old.key AND NOT EXISTS (SELECT 1 FROM {table} WHERE key = old.key);
    """
    added = f"CREATE TRIGGER {table}_{pending}_added AFTER INSERT ON {table} {when} BEGIN {add} END;"
    return f"""
    {added if table != "chunks" else ""}
    CREATE TRIGGER {table}_{pending}_dropped AFTER DELETE ON {table} {when} BEGIN {drop} END;
    CREATE TRIGGER {table}_{pending}_rekeyed AFTER UPDATE OF key ON {table} {when} BEGIN {moved} {drop} {add} END;
    """


_USED = "(SELECT value FROM meta WHERE key = 'second') <> ''"
_MOVED = "INSERT OR IGNORE INTO second (key, vector) SELECT new.key, vector FROM second WHERE key = old.key;"

TABLES = "".join(
    [
        *(_STATE, _NOTES, _CHUNKS, _VECTORS),
        _waits("chunks", "pending", "vectors"),
        _waits("labels", "pending", "vectors"),
        _waits("chunks", "second_pending", "second", _USED, _MOVED),
        _waits("labels", "second_pending", "second", _USED, _MOVED),
    ]
)
"""The script that makes all tables in an empty file."""

ADDED = (
    "UPDATE meta SET value = value + (SELECT count(*) FROM chunks WHERE chunk > :last) WHERE key = 'chunks'",
    """
    INSERT OR IGNORE INTO pending (key) SELECT key FROM chunks WHERE chunk > :last
        AND NOT EXISTS (SELECT 1 FROM vectors WHERE vectors.key = chunks.key)
    """,
    f"""
    INSERT OR IGNORE INTO second_pending (key) SELECT key FROM chunks WHERE chunk > :last
        AND {_USED} AND NOT EXISTS (SELECT 1 FROM second WHERE second.key = chunks.key)
    """,
)
"""Statements to run after chunks with numbers above `last` were added."""

_CARRIED = ("meta", "vectors", "spared", "second", "moves", "uses", "sessions", "counters", "errors", "resolved")
"""Tables that are carried over as they are: 0.2.0, the first published version, had them in this form."""

_ANEW = ("notes", "chunks", "pending", "second_pending", "catalog", "looked", "read_as", "unseen")
"""Keys of `meta` that are not carried over: the catalog's contents, its name, and the last scan."""


_MADE = """
    SELECT type, name FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%'
    AND name NOT LIKE 'words_%' ORDER BY type = 'table', name <> 'words'
"""
"""All tables, indexes and triggers, in the order in which they can be dropped."""


def begin_anew(connection: sqlite3.Connection) -> None:
    """Drop all tables and make them empty."""
    for kind, name in connection.execute(_MADE).fetchall():
        connection.execute(f"DROP {kind} {name}")
    run_script(connection, TABLES)


def build(connection: sqlite3.Connection, form: int) -> None:
    """Make the tables in an empty file (`form` 0), or in place of an older form; then the whole vault must be read."""
    if not form:
        run_script(connection, TABLES)
        return
    numbers = connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
    made = connection.execute(_MADE).fetchall()
    old = {name for kind, name in made if kind == "table" and name in _CARRIED}
    for kind, name in made:
        aside = f"ALTER TABLE {name} RENAME TO old_{name}"
        connection.execute(aside if kind == "table" and name in old else f"DROP {kind} {name}")
    run_script(connection, TABLES)
    connection.execute(f"DELETE FROM meta WHERE key NOT IN {_ANEW}")
    connection.execute(f"DELETE FROM old_meta WHERE key IN {_ANEW}")
    for table in old:
        both = (connection.execute(f"PRAGMA table_info({name})").fetchall() for name in (table, f"old_{table}"))
        new, kept = ([name for _, name, *_ in columns] for columns in both)
        columns = ", ".join(name for name in new if name in kept)
        connection.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM old_{table}")
        connection.execute(f"DROP TABLE old_{table}")
    # Numbers go on, or who has the catalog open would take a new row for one that it knows.
    connection.execute("DELETE FROM sqlite_sequence")
    connection.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", numbers)
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")
