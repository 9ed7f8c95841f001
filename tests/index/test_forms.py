"""A catalog of an older form is built anew: nothing is embedded again, and nothing that notes do not say is lost."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sqlite3
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from spellbook.index import embed, sync
from spellbook.index.catalog import catalog as catalogs
from spellbook.index.catalog import tables
from spellbook.index.catalog.catalog import FILE, FUNCTIONS, Catalog
from spellbook.index.catalog.tables import FORM
from spellbook.index.catalog.usage import FailureKind, Failures
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from spellbook.system.sqlite import Database
from tests.helpers import Counting, as_before, from_scratch, opened, raw, rows, told


@pytest.fixture
def older(vault, write_note, tmp_path):
    """The file of a catalog of form 24, with what notes do not say, beside a vault with three notes."""
    write_note("a.md", "# Hooks\n\nthe useState hook", age=100)
    write_note("hi.md", "# Note\n\nयह हिन्दी में लिखा है", age=100)
    write_note("once.md", "# Doors\n\n" + "\n\n".join(f"## {i}\n\nlighthouse {i}" for i in range(30)), age=100)
    with opened(vault) as index:
        sync.run(index)
        (vault / "once.md").rename(vault / "now.md")
        write_note("hi.md", "# Note\n\nयह हिन्दी में लिखा है\n\nmore", age=100)
        sync.run(index)
        catalog, now = index.catalog, time.time()
        catalog.usage.opened(["a"])
        catalog.sessions.begin("one", 3600, "ko")
        catalog.vectors.keep_unused(sorted({key for key, _ in catalog.vectors.changes(0)})[:1], 3)
        catalog.vectors.set_left("another")
        catalog.usage.add({("search", 32): 5}, [Failures(FailureKind("X", "show", "cli", "no"), 1, now, now)])
        catalog.usage.resolve(catalog.usage.failures()[0].kind.id, "me", "done")
        catalog.usage.add({}, [Failures(FailureKind("Y", "show", "cli", "no"), 1, now, now)])
        rows(catalog, "INSERT INTO second (key, vector) VALUES ('k', x'00')")
    as_before(catalog.file)
    return catalog.file


KEPT = {
    "vectors": "key, vector, seq, used",
    "second": "seq, key, vector",
    "spared": "key, until",
    "uses": "note, count, last",
    "sessions": "id, created, expires, ended, scribed, language",
    "moves": "old, new, at, name",
    "counters": "name, bucket, hour, count",
    "errors": "id, message, count, first, last",
    "resolved": "id, message, count, first, last, at, by, reason",
}


def kept(catalog):
    """What a catalog keeps that its notes do not say."""
    found = {table: rows(catalog, f"SELECT {columns} FROM {table} ORDER BY 1") for table, columns in KEPT.items()}
    listed = "'fingerprint', 'seq', 'rules', 'left', 'second'"
    return found | {"meta": rows(catalog, f"SELECT * FROM meta WHERE key IN ({listed}) ORDER BY 1")}


def test_nothing_is_embedded_again(vault, older, tmp_path):
    """The first look reads all notes; each text finds its vector, and all is as in an index that is built now."""
    embedder = Counting()
    with opened(vault, embedder) as index:
        assert rows(index.catalog, "PRAGMA user_version") == [(FORM,)]
        assert (index.catalog.is_read, index.catalog.counts().pending) == (False, 0)
        report = sync.run(index)
        assert (report.embedded, report.pending, report.added, embedder.taken()) == (0, 0, 3, 0)
        assert index.catalog.is_read
        assert told(index) == from_scratch(vault, tmp_path / "scratch")
        searcher = Searcher(index)
        for word, path in (("use state", "a.md"), ("हिन्दी", "hi.md")):
            assert [hit.path for hit in searcher.ask(Question(word, "keyword")).hits] == [path]


def test_what_notes_do_not_say_is_kept(vault, older):
    """
    Uses, sessions, moves, counts, errors, vectors, and which embedder was left, row by row; numbers of notes, chunks and
    changes go on.
    """
    old = SimpleNamespace(file=older)
    before, numbers = kept(old), dict(rows(old, "SELECT name, seq FROM sqlite_sequence"))
    own = dict(rows(old, "SELECT key, value FROM meta WHERE key IN ('generation', 'catalog')"))
    assert all(before.values())
    with opened(vault) as index:
        catalog = index.catalog
        assert kept(catalog) == before
        assert (catalog.sessions.live("one").language, catalog.vectors.left()) == ("ko", "another")
        assert dict(rows(catalog, "SELECT name, seq FROM sqlite_sequence")) == numbers
        assert catalog.generation == own["generation"] + 1
        assert catalog.version[0] != own["catalog"]  # who keeps a copy takes all of it anew
        assert rows(catalog, "SELECT name FROM sqlite_master WHERE name LIKE 'old%'") == []
        assert (sync.run(index).embedded, catalog.verify()) == (0, [])
        assert rows(catalog, "SELECT DISTINCT chunk > ? FROM chunks", numbers["chunks"]) == [(1,)]
        after = kept(catalog)
    assert {**after, "vectors": [], "meta": []} == {**before, "vectors": [], "meta": []}
    assert {row[:2] for row in before["vectors"]} <= {row[:2] for row in after["vectors"]}


def test_every_table_is_carried_or_read_again():
    """A new table is one that a scan fills, or one that is carried over: it must be said which."""
    derived = {"files", "faults", "notes", "fields", "links", "changes", "labels", "chunks", "words"}
    derived |= {"pending", "second_pending"}
    made = raw(":memory:")
    tables.build(made, 0)
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'words_%' AND name NOT LIKE 'sqlite%'"
    assert {name for (name,) in made.execute(sql)} == derived | {*KEPT, "meta"}


def test_a_kill_leaves_the_old_catalog_or_the_new_one(older, tmp_path):
    """Whichever statement a process is killed at, the next one opens the catalog with all that is kept."""
    whole = tmp_path / "whole"
    shutil.copytree(older.parent, whole)
    catalog = Catalog.open(whole)
    expected = kept(catalog)
    catalog.close()
    forms, steps, left = set(), 0, dict[bytes, Path]()

    def copy(_):
        """Keep what a kill at this statement would leave: files as they are, without locks."""
        nonlocal steps
        steps += 1
        files = sorted(each for each in older.parent.glob(f"{FILE}*") if not each.name.endswith("-shm"))
        digest = hashlib.sha256(b"".join(each.name.encode() + each.read_bytes() for each in files)).digest()
        if digest not in left:
            left[digest] = tmp_path / f"state-{steps}"
            shutil.copytree(older.parent, left[digest])

    def watched(connection, form):
        connection.set_trace_callback(copy)
        tables.build(connection, form)

    Database(older, FORM, watched, FUNCTIONS).connection().close()
    copy("at the end")
    assert steps > 200
    for state in left.values():
        with contextlib.closing(sqlite3.connect(state / FILE)) as database:
            forms.add(database.execute("PRAGMA user_version").fetchone()[0])
            assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        catalog = Catalog.open(state)
        assert kept(catalog) == expected
        catalog.close()
    assert forms == {24, FORM}


def test_a_scan_that_is_killed_keeps_what_is_not_read_yet(vault, older):
    """Until the whole vault was read no vector is dropped, however small the cache may be."""
    with opened(vault, cache_mb=0) as index:
        stored = rows(index.catalog, "SELECT key FROM vectors ORDER BY key")
        sync.scan_paths(index, ["a.md"])
        embed.tidy(index)
        assert rows(index.catalog, "SELECT key FROM vectors ORDER BY key") == stored
        assert (sync.run(index).embedded, index.catalog.counts().pending) == (0, 0)


def test_the_file_gives_the_disk_back_what_it_freed(vault, older, monkeypatch):
    """It is written anew once where nobody waits, never while another process writes, and holds what it held."""
    monkeypatch.setattr(catalogs, "MUCH", 100)
    with opened(vault) as index:
        sync.scan(index)
        now = told(index)
        rows(index.catalog, "CREATE TABLE much AS SELECT randomblob(1000000)")
        rows(index.catalog, "DROP TABLE much")
        with contextlib.closing(raw(index.catalog.file)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert not index.catalog.shrink()
        assert index.catalog.shrink()
        assert not index.catalog.shrink()
        assert index.catalog.free_bytes() < 1_000_000
        assert told(index) == now
