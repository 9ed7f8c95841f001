"""
The catalog's tables, as the steps that made them.
"""

from __future__ import annotations

from spellbook.system.sqlite import Migration

WEIGHTS = (3.0, 3.0, 3.0, 1.0, 1.0, 0.5)
"""
Weights of bm25 by column: title (with aliases), heading, keywords (with entities and tags), questions, body, parts of
identifiers.
"""

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
    # Vowel signs belong to words (Hindi, Thai), and identifiers match by their parts. A part of a long table or of long
    # code is shown with its header or fence.
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
    Migration(
        """
        CREATE TABLE uses (note TEXT PRIMARY KEY, count INTEGER, last REAL) WITHOUT ROWID;
        CREATE TABLE measures (
            name TEXT, bucket INTEGER, day INTEGER, count INTEGER, PRIMARY KEY (name, bucket, day)
        ) WITHOUT ROWID;
        """
    ),
    Migration("CREATE TABLE spared (key TEXT PRIMARY KEY, until INTEGER) WITHOUT ROWID;"),
    # Counts and pending texts are kept by triggers, so that reading them takes the same time in every vault.
    Migration(
        """
        DROP TABLE claims;
        CREATE TABLE pending (key TEXT PRIMARY KEY, owner TEXT DEFAULT '', until REAL DEFAULT 0) WITHOUT ROWID;
        INSERT OR IGNORE INTO pending (key) SELECT key FROM chunks WHERE key NOT IN (SELECT key FROM vectors);
        INSERT OR REPLACE INTO meta VALUES
            ('notes', (SELECT count(*) FROM notes)), ('chunks', (SELECT count(*) FROM chunks)),
            ('pending', (SELECT count(*) FROM pending));
        CREATE TRIGGER note_added AFTER INSERT ON notes BEGIN
            UPDATE meta SET value = value + 1 WHERE key = 'notes'; END;
        CREATE TRIGGER note_dropped AFTER DELETE ON notes BEGIN
            UPDATE meta SET value = value - 1 WHERE key = 'notes'; END;
        CREATE TRIGGER pending_added AFTER INSERT ON pending BEGIN
            UPDATE meta SET value = value + 1 WHERE key = 'pending'; END;
        CREATE TRIGGER pending_dropped AFTER DELETE ON pending BEGIN
            UPDATE meta SET value = value - 1 WHERE key = 'pending'; END;
        CREATE TRIGGER chunk_added AFTER INSERT ON chunks BEGIN
            UPDATE meta SET value = value + 1 WHERE key = 'chunks';
            INSERT OR IGNORE INTO pending (key)
                SELECT new.key WHERE NOT EXISTS (SELECT 1 FROM vectors WHERE key = new.key);
        END;
        CREATE TRIGGER chunk_dropped AFTER DELETE ON chunks BEGIN
            UPDATE meta SET value = value - 1 WHERE key = 'chunks';
            DELETE FROM pending WHERE key = old.key AND NOT EXISTS (SELECT 1 FROM chunks WHERE key = old.key);
        END;
        CREATE TRIGGER chunk_rekeyed AFTER UPDATE OF key ON chunks BEGIN
            DELETE FROM pending WHERE key = old.key AND NOT EXISTS (SELECT 1 FROM chunks WHERE key = old.key);
            INSERT OR IGNORE INTO pending (key)
                SELECT new.key WHERE NOT EXISTS (SELECT 1 FROM vectors WHERE key = new.key);
        END;
        CREATE TRIGGER vector_added AFTER INSERT ON vectors BEGIN DELETE FROM pending WHERE key = new.key; END;
        """
    ),
    # Links are stored as written and resolved by file name when read, so that no note is read again for another.
    Migration(
        """
        ALTER TABLE notes ADD COLUMN name TEXT;
        CREATE INDEX notes_name ON notes (name);
        CREATE TABLE links (
            note INTEGER, ordinal INTEGER, name TEXT, target TEXT, fragment TEXT, markdown INTEGER, line INTEGER,
            PRIMARY KEY (note, ordinal)
        ) WITHOUT ROWID;
        CREATE INDEX links_name ON links (name);
        CREATE TABLE moves (old TEXT PRIMARY KEY, new TEXT, at REAL) WITHOUT ROWID;
        """,
        then="UPDATE files SET sha256 = '', read_ns = 0",
    ),
    # The time at which a search last found a pending text by words.
    Migration(
        """
        ALTER TABLE pending ADD COLUMN asked REAL NOT NULL DEFAULT 0;
        CREATE INDEX pending_asked ON pending (asked) WHERE asked > 0;
        """
    ),
    # The tokens of a chunk as an answer shows it. Two tokenisers may share a fingerprint, so each row names its own.
    Migration(
        """
        CREATE TABLE counted (chunk INTEGER PRIMARY KEY, tokeniser TEXT NOT NULL, tokens INTEGER NOT NULL);
        CREATE TRIGGER chunk_uncounted AFTER DELETE ON chunks BEGIN DELETE FROM counted WHERE chunk = old.chunk; END;
        """
    ),
    # The text above the first section has an id of its own, so that a note's id means the whole note. Uses of its later
    # parts become uses of the note. Ids of very long headings are cut, so those notes are read again.
    Migration(
        """
        INSERT INTO uses SELECT notes.id, uses.count, uses.last
            FROM chunks JOIN notes USING (note) JOIN uses ON uses.note = notes.id || suffix WHERE suffix LIKE '~%'
            ON CONFLICT (note) DO UPDATE SET count = max(count, excluded.count), last = max(last, excluded.last);
        DELETE FROM uses
            WHERE note IN (SELECT notes.id || suffix FROM chunks JOIN notes USING (note) WHERE suffix LIKE '~%')
            AND note NOT IN (SELECT id FROM notes WHERE id IS NOT NULL);
        UPDATE files SET sha256 = '', read_ns = 0 WHERE path IN
            (SELECT path FROM chunks JOIN notes USING (note) WHERE length(suffix) > 200);
        UPDATE chunks SET suffix = '#' || suffix WHERE suffix NOT LIKE '#%';
        """
    ),
    # Texts are packed, vectors compact and keys shorter, and the full-text index stores no texts of its own; see
    # `text_bytes`, `vector_bytes` and `words`. What the full-text index had of a note's labels is kept with the note.
    Migration(
        """
        ALTER TABLE notes ADD COLUMN labels TEXT NOT NULL DEFAULT '[["", "", ""]]';
        ALTER TABLE chunks ADD COLUMN checksum INTEGER;
        UPDATE vectors SET key = short_key(key), vector = compact(vector);
        UPDATE pending SET key = short_key(key);
        UPDATE spared SET key = short_key(key);
        UPDATE chunks SET text = packed(text), embedded = packed_embedded(embedded, heading, text),
            same = short_key(same), key = short_key(key);
        UPDATE notes SET labels = coalesce((
            SELECT json_group_array(json_array(title, keywords, questions)) FROM (
                SELECT words.title, words.keywords, words.questions
                FROM chunks JOIN words ON words.rowid = chunk WHERE chunks.note = notes.note AND ordinal < 2
                ORDER BY ordinal
            )), '[]');
        UPDATE notes SET labels = '[["", "", ""]]' WHERE labels = '[]';
        DROP TABLE words;
        CREATE VIEW worded AS SELECT
            chunk, label_words(labels, ordinal, 0) AS title, heading_words(heading) AS heading,
            label_words(labels, ordinal, 1) AS keywords, label_words(labels, ordinal, 2) AS questions,
            body_words(unpacked(text)) AS body, part_words(unpacked(text)) AS parts
            FROM chunks CROSS JOIN notes USING (note);
        CREATE VIRTUAL TABLE words USING fts5 (
            title, heading, keywords, questions, body, parts, content = worded, content_rowid = chunk,
            tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
        );
        INSERT INTO words (words) VALUES ('rebuild');
        UPDATE chunks SET checksum = (
            SELECT words_checksum(title, heading, keywords, questions, body, parts)
            FROM worded WHERE worded.chunk = chunks.chunk);
        INSERT OR REPLACE INTO meta SELECT 'shrink', 0 FROM chunks LIMIT 1;
        -- A server of an older version that still runs has no such function, so it cannot add what nobody could read.
        CREATE TRIGGER chunk_packed BEFORE INSERT ON chunks WHEN typeof(new.text) <> 'blob' BEGIN
            SELECT RAISE(ABORT, 'the text of a chunk is not packed') WHERE packed('') IS NOT NULL; END;
        """
    ),
    # The title of each note and the questions it names, each with a vector of its own. They wait in `pending` too, but
    # are not counted there: a text can be found by meaning before its note's title has a vector. Both are in `notes`
    # already, so no note is read again.
    Migration(
        """
        CREATE TABLE labels (note INTEGER NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL, key TEXT NOT NULL);
        CREATE INDEX labels_note ON labels (note, kind);
        CREATE INDEX labels_key ON labels (key);
        ALTER TABLE pending ADD COLUMN label INTEGER NOT NULL DEFAULT 0;
        DROP TRIGGER pending_added;
        DROP TRIGGER pending_dropped;
        CREATE TRIGGER pending_added AFTER INSERT ON pending WHEN NOT new.label BEGIN
            UPDATE meta SET value = value + 1 WHERE key = 'pending'; END;
        CREATE TRIGGER pending_dropped AFTER DELETE ON pending WHEN NOT old.label BEGIN
            UPDATE meta SET value = value - 1 WHERE key = 'pending'; END;
        CREATE TRIGGER label_added AFTER INSERT ON labels BEGIN
            INSERT OR IGNORE INTO pending (key, label)
                SELECT new.key, 1 WHERE NOT EXISTS (SELECT 1 FROM vectors WHERE key = new.key);
        END;
        CREATE TRIGGER label_dropped AFTER DELETE ON labels BEGIN
            DELETE FROM pending WHERE key = old.key AND NOT EXISTS (SELECT 1 FROM labels WHERE key = old.key);
        END;
        CREATE TRIGGER label_rekeyed AFTER UPDATE OF key ON labels BEGIN
            DELETE FROM pending WHERE key = old.key AND NOT EXISTS (SELECT 1 FROM labels WHERE key = old.key);
            INSERT OR IGNORE INTO pending (key, label)
                SELECT new.key, 1 WHERE NOT EXISTS (SELECT 1 FROM vectors WHERE key = new.key);
        END;
        INSERT INTO labels (note, kind, text, key)
            SELECT note, kind, text, label_key((SELECT value FROM meta WHERE key = 'fingerprint'), kind, text) FROM (
                SELECT note, 'title' AS kind, title AS text FROM notes WHERE trim(coalesce(title, '')) <> ''
                UNION ALL
                SELECT note, 'question', value FROM notes, json_each(questions_of(meta))
            );
        """
    ),
    # The vectors of a second encoder, once one is used (`second` in `meta` names it), and the texts that wait for it.
    # If keys change since the embedder does, its vectors go with them.
    Migration(
        """
        CREATE TABLE second (seq INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, vector BLOB NOT NULL);
        CREATE TABLE second_pending (key TEXT PRIMARY KEY, label TEXT NOT NULL DEFAULT '') WITHOUT ROWID;
        INSERT OR REPLACE INTO meta VALUES ('second', ''), ('second_pending', 0);
        CREATE TRIGGER second_pending_added AFTER INSERT ON second_pending WHEN new.label = '' BEGIN
            UPDATE meta SET value = value + 1 WHERE key = 'second_pending'; END;
        CREATE TRIGGER second_pending_dropped AFTER DELETE ON second_pending WHEN old.label = '' BEGIN
            UPDATE meta SET value = value - 1 WHERE key = 'second_pending'; END;
        CREATE TRIGGER second_added AFTER INSERT ON second BEGIN DELETE FROM second_pending WHERE key = new.key; END;
        CREATE TRIGGER second_chunk_added AFTER INSERT ON chunks
            WHEN (SELECT value FROM meta WHERE key = 'second') <> '' BEGIN
            INSERT OR IGNORE INTO second_pending
                SELECT new.key, '' WHERE NOT EXISTS (SELECT 1 FROM second WHERE key = new.key);
        END;
        CREATE TRIGGER second_chunk_dropped AFTER DELETE ON chunks
            WHEN (SELECT value FROM meta WHERE key = 'second') <> '' BEGIN
            DELETE FROM second_pending
                WHERE key = old.key AND NOT EXISTS (SELECT 1 FROM chunks WHERE key = old.key);
        END;
        CREATE TRIGGER second_chunk_rekeyed AFTER UPDATE OF key ON chunks
            WHEN (SELECT value FROM meta WHERE key = 'second') <> '' BEGIN
            INSERT OR IGNORE INTO second (key, vector) SELECT new.key, vector FROM second WHERE key = old.key;
            DELETE FROM second_pending
                WHERE key = old.key AND NOT EXISTS (SELECT 1 FROM chunks WHERE key = old.key);
            INSERT OR IGNORE INTO second_pending
                SELECT new.key, '' WHERE NOT EXISTS (SELECT 1 FROM second WHERE key = new.key);
        END;
        CREATE TRIGGER second_label_added AFTER INSERT ON labels
            WHEN (SELECT value FROM meta WHERE key = 'second') <> '' BEGIN
            INSERT OR IGNORE INTO second_pending
                SELECT new.key, new.kind WHERE NOT EXISTS (SELECT 1 FROM second WHERE key = new.key);
        END;
        CREATE TRIGGER second_label_dropped AFTER DELETE ON labels
            WHEN (SELECT value FROM meta WHERE key = 'second') <> '' BEGIN
            DELETE FROM second_pending
                WHERE key = old.key AND NOT EXISTS (SELECT 1 FROM labels WHERE key = old.key);
        END;
        CREATE TRIGGER second_label_rekeyed AFTER UPDATE OF key ON labels
            WHEN (SELECT value FROM meta WHERE key = 'second') <> '' BEGIN
            INSERT OR IGNORE INTO second (key, vector) SELECT new.key, vector FROM second WHERE key = old.key;
            DELETE FROM second_pending
                WHERE key = old.key AND NOT EXISTS (SELECT 1 FROM labels WHERE key = old.key);
            INSERT OR IGNORE INTO second_pending
                SELECT new.key, new.kind WHERE NOT EXISTS (SELECT 1 FROM second WHERE key = new.key);
        END;
        """
    ),
    # Each note has the field `language`, by its text where it does not declare one.
    Migration("", then="UPDATE files SET sha256 = '', read_ns = 0"),
    # The key under which a link names another note. Notes with such keys are read again; their texts are as they were.
    Migration(
        """
        ALTER TABLE links ADD COLUMN relation TEXT NOT NULL DEFAULT '';
        CREATE INDEX links_superseding ON links (name) WHERE relation = 'supersedes';
        ALTER TABLE moves ADD COLUMN name TEXT;
        UPDATE moves SET name = link_key(old);
        CREATE INDEX moves_name ON moves (name);
        CREATE INDEX moves_new ON moves (new);
        """,
        then="""
        UPDATE files SET sha256 = '', read_ns = 0 WHERE path IN (
            SELECT path FROM notes JOIN fields USING (note)
            WHERE key IN ('supersedes', 'derived_from', 'contradicts'))
        """,
    ),
    # The language in which a REST session is answered.
    Migration("ALTER TABLE sessions ADD COLUMN language TEXT NOT NULL DEFAULT 'en'"),
    # A note with several categories has each of them as a field. Only such notes are read again.
    Migration(
        "",
        then="""
        UPDATE files SET sha256 = '', read_ns = 0 WHERE path IN (
            SELECT path FROM notes WHERE CASE WHEN json_valid(meta) THEN json_type(meta, '$.category') = 'array' END)
        """,
    ),
    # Counts by the hour, in hours since 1970, and errors by what they have in common. The table of before stays, empty:
    # a server of an older version that still runs counts into it.
    Migration(
        """
        CREATE TABLE IF NOT EXISTS counters (
            name TEXT, bucket INTEGER, hour INTEGER, count INTEGER, PRIMARY KEY (name, bucket, hour)
        ) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS counters_hour ON counters (hour);
        INSERT OR REPLACE INTO counters SELECT name, bucket, day * 24, count FROM measures;
        DELETE FROM measures;
        CREATE TABLE IF NOT EXISTS errors (
            id TEXT PRIMARY KEY, code TEXT, verb TEXT, door TEXT, message TEXT, count INTEGER, first REAL, last REAL
        ) WITHOUT ROWID;
        """
    ),
    # Errors that a person has resolved: the same error again is a new one.
    Migration(
        """
        CREATE TABLE IF NOT EXISTS resolved (
            id TEXT PRIMARY KEY, code TEXT, verb TEXT, door TEXT, message TEXT, count INTEGER, first REAL, last REAL,
            at REAL, by TEXT, reason TEXT
        ) WITHOUT ROWID;
        """
    ),
    # Times are counted in 32 buckets for each tenfold instead of 8. What is only counted has bucket -1000.
    # They go by way of numbers that no bucket has, because each is unique.
    Migration(
        """
        UPDATE counters SET bucket = bucket * 4 + 100000 WHERE bucket <> -1000;
        UPDATE counters SET bucket = bucket - 100000 WHERE bucket > 50000;
        """
    ),
    # The notes that changed, by a number that grows: whoever keeps a copy elsewhere asks for those after its mark. A
    # removed note keeps its row here. The catalog has a name of its own, since one that was begun anew counts from 1.
    Migration(
        """
        CREATE TABLE IF NOT EXISTS changes (seq INTEGER PRIMARY KEY AUTOINCREMENT, note INTEGER NOT NULL UNIQUE);
        INSERT OR IGNORE INTO changes (note) SELECT note FROM notes ORDER BY note;
        INSERT OR IGNORE INTO meta VALUES ('catalog', lower(hex(randomblob(8))));
        CREATE TRIGGER IF NOT EXISTS note_change_added AFTER INSERT ON notes BEGIN
            INSERT OR REPLACE INTO changes (note) VALUES (new.note); END;
        CREATE TRIGGER IF NOT EXISTS note_change_made AFTER UPDATE ON notes BEGIN
            INSERT OR REPLACE INTO changes (note) VALUES (new.note); END;
        CREATE TRIGGER IF NOT EXISTS note_change_dropped AFTER DELETE ON notes BEGIN
            INSERT OR REPLACE INTO changes (note) VALUES (old.note); END;
        """
    ),
    # When a file was last changed in any way. Where a system knows that, 0 is never the time: each file is read once
    # more, and nothing else is done if it holds the same.
    Migration("ALTER TABLE files ADD COLUMN ctime_ns INTEGER NOT NULL DEFAULT 0"),
    # A chunk that says nothing, as `extract` tells, has no key, and so neither vector nor words. Notes that begin with
    # what may be one are read again; their other texts are as they were.
    Migration(
        """
        DROP VIEW worded;
        CREATE VIEW worded AS SELECT chunk,
            CASE WHEN key IS NULL THEN '' ELSE label_words(labels, ordinal, 0) END AS title,
            CASE WHEN key IS NULL THEN '' ELSE heading_words(heading) END AS heading,
            CASE WHEN key IS NULL THEN '' ELSE label_words(labels, ordinal, 1) END AS keywords,
            CASE WHEN key IS NULL THEN '' ELSE label_words(labels, ordinal, 2) END AS questions,
            CASE WHEN key IS NULL THEN '' ELSE body_words(unpacked(text)) END AS body,
            CASE WHEN key IS NULL THEN '' ELSE part_words(unpacked(text)) END AS parts
            FROM chunks CROSS JOIN notes USING (note);
        """,
        then="""
        UPDATE files SET sha256 = '', read_ns = 0 WHERE path IN (
            SELECT path FROM (SELECT path, trim(unpacked(text), char(9, 10, 13, 32)) AS text
                FROM chunks JOIN notes USING (note) WHERE ordinal = 0)
            WHERE text = '' OR (text LIKE '#%' AND instr(text, char(10)) = 0) OR rtrim(text, '=-') <> text)
        """,
    ),
)
"""
The schema's history; a catalog's `user_version` is the number of steps it has taken.

`seq` starts at the clock's microseconds, so that it is never lower than in an
earlier catalog: readers by seq then see all vectors of a rebuilt catalog.
"""
