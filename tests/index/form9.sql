-- The tables of the catalog's form 9, of 22 November: whole hashes as keys, vectors of float32, texts as they are.
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
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
    , name TEXT);
CREATE INDEX notes_declared ON notes (declared) WHERE declared IS NOT NULL;
CREATE INDEX notes_topic ON notes (category, topic);
CREATE TABLE fields (note INTEGER, key TEXT, value TEXT, PRIMARY KEY (key, value, note)) WITHOUT ROWID;
CREATE INDEX fields_note ON fields (note);
CREATE TABLE chunks (
    chunk INTEGER PRIMARY KEY AUTOINCREMENT, note INTEGER NOT NULL, ordinal INTEGER, suffix TEXT,
    heading TEXT, line INTEGER, end_line INTEGER, text TEXT, embedded TEXT, same TEXT, key TEXT
    , lead TEXT NOT NULL DEFAULT '', tail TEXT NOT NULL DEFAULT '');
CREATE INDEX chunks_note ON chunks (note, ordinal);
CREATE INDEX chunks_key ON chunks (key);
CREATE INDEX chunks_same ON chunks (same);
CREATE TABLE vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL, seq INTEGER, used INTEGER);
CREATE INDEX vectors_seq ON vectors (seq);
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, created REAL, expires REAL, ended REAL, scribed INTEGER DEFAULT 0
) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (
    title, heading, keywords, questions, body, parts,
    tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
);
CREATE TABLE uses (note TEXT PRIMARY KEY, count INTEGER, last REAL) WITHOUT ROWID;
CREATE TABLE measures (
    name TEXT, bucket INTEGER, day INTEGER, count INTEGER, PRIMARY KEY (name, bucket, day)
) WITHOUT ROWID;
CREATE TABLE spared (key TEXT PRIMARY KEY, until INTEGER) WITHOUT ROWID;
CREATE TABLE pending (key TEXT PRIMARY KEY, owner TEXT DEFAULT '', until REAL DEFAULT 0, asked REAL NOT NULL DEFAULT 0) WITHOUT ROWID;
CREATE INDEX notes_name ON notes (name);
CREATE TABLE links (
    note INTEGER, ordinal INTEGER, name TEXT, target TEXT, fragment TEXT, markdown INTEGER, line INTEGER,
    PRIMARY KEY (note, ordinal)
) WITHOUT ROWID;
CREATE INDEX links_name ON links (name);
CREATE TABLE moves (old TEXT PRIMARY KEY, new TEXT, at REAL) WITHOUT ROWID;
CREATE INDEX pending_asked ON pending (asked) WHERE asked > 0;
CREATE TABLE counted (chunk INTEGER PRIMARY KEY, tokeniser TEXT NOT NULL, tokens INTEGER NOT NULL);
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
CREATE TRIGGER chunk_uncounted AFTER DELETE ON chunks BEGIN DELETE FROM counted WHERE chunk = old.chunk; END;
INSERT INTO meta VALUES ('generation', 0), ('fingerprint', ''), ('seq', 1), ('notes', 0), ('chunks', 0), ('pending', 0);
PRAGMA user_version = 9;
