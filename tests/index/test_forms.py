"""
A catalog of an older form is built anew: nothing is embedded again, and nothing that notes do not say is lost.

Texts and vectors come back from the catalog: exactly, and as unit vectors of the same direction and width.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sqlite3
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spellbook.index import embed, sync
from spellbook.index.catalog import catalog as catalogs
from spellbook.index.catalog import tables
from spellbook.index.catalog.catalog import FILE, FUNCTIONS, Catalog
from spellbook.index.catalog.schema import FUNCTIONS as OF_TEXTS
from spellbook.index.catalog.schema import packed, unpacked
from spellbook.index.catalog.tables import FORM
from spellbook.index.catalog.usage import FailureKind, Failures
from spellbook.index.catalog.vectors import compact, restored, width_of
from spellbook.notes.chunks import cut
from spellbook.notes.note import parse
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


def test_what_notes_do_not_say_is_kept_and_nothing_is_embedded_again(vault, older, tmp_path):
    """
    Uses, sessions, moves, counts, errors, vectors, and which embedder was left, row by row; numbers of notes, chunks and
    changes go on. The first look reads all notes; each text finds its vector, and all is as in an index that is built
    now. Until the whole vault was read no vector is dropped, however small the cache may be.
    """
    old = SimpleNamespace(file=older)
    before, numbers = kept(old), dict(rows(old, "SELECT name, seq FROM sqlite_sequence"))
    own = dict(rows(old, "SELECT key, value FROM meta WHERE key IN ('generation', 'catalog')"))
    assert all(before.values())
    embedder = Counting()
    with opened(vault, embedder, cache_mb=0) as index:
        catalog = index.catalog
        assert rows(catalog, "PRAGMA user_version") == [(FORM,)]
        assert kept(catalog) == before
        assert (catalog.sessions.live("one").language, catalog.vectors.left()) == ("ko", "another")
        assert dict(rows(catalog, "SELECT name, seq FROM sqlite_sequence")) == numbers
        assert catalog.generation == own["generation"] + 1
        assert catalog.version[0] != own["catalog"]  # who keeps a copy takes all of it anew
        assert rows(catalog, "SELECT name FROM sqlite_master WHERE name LIKE 'old%'") == []
        assert (catalog.is_read, catalog.counts().pending) == (False, 0)
        sync.scan_paths(index, ["a.md"])
        embed.tidy(index)
        assert len(kept(catalog)["vectors"]) == len(before["vectors"])
    with opened(vault, embedder) as index:
        report = sync.run(index)
        assert (report.embedded, report.pending, report.added, embedder.taken()) == (0, 0, 2, 0)
        assert (index.catalog.is_read, index.catalog.verify()) == (True, [])
        assert rows(index.catalog, "SELECT DISTINCT chunk > ? FROM chunks", numbers["chunks"]) == [(1,)]
        after = kept(index.catalog)
        assert told(index) == from_scratch(vault, tmp_path / "scratch")
        for word, path in (("use state", "a.md"), ("हिन्दी", "hi.md")):
            assert [hit.path for hit in Searcher(index).ask(Question(word, "keyword")).hits] == [path]
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


@given(st.text(st.characters()))
@example("\ud800")
@example("\0")
@example("도커 " * 9_000)
def test_any_text_comes_back(text):
    """Whatever a text holds, NUL and half letters too, it is read back."""
    assert unpacked(packed(text)) == text


def test_what_is_embedded_is_made_of_what_is_stored():
    """From the columns of a chunk comes what is embedded of it, also of a part of a table or of code."""
    rows = "\n".join(f"| keeper {i} | lighthouse {i * 7} |" for i in range(200))
    code = "\n".join(f"light[{i}] = keeper({i * 7})" for i in range(200))
    text = f"# Log\n\n## Year\n\n| who | where |\n|---|---|\n{rows}\n\n## Code\n\n```py\n{code}\n```\n"
    chunks = cut(parse("a.md", text.encode()))
    assert {bool(chunk.lead) for chunk in chunks} == {bool(chunk.tail) for chunk in chunks} == {True, False}
    _, embedded = OF_TEXTS["embedded_text"]
    for chunk in chunks:
        assert embedded(chunk.above, chunk.lead, packed(chunk.text), chunk.tail) == chunk.embedded
        assert chunk.embedded.startswith("Log")


def test_a_vector_keeps_its_direction():
    """
    What is read back is a unit vector, as wide as before, and so near that no ranking changes. Vectors of two embedders
    are read together, and a vector of zeros stays one.
    """
    for width in (1, 2, 3, 384, 1_025):
        block = np.random.default_rng(width).standard_normal((50, width)).astype("<f4")
        block /= np.linalg.norm(block, axis=1, keepdims=True)
        stored = [compact(row.tobytes()) for row in block]
        assert {(len(each), width_of(len(each))) for each in stored} == {((3 * width + 1) // 2, width)}
        back = np.stack([np.frombuffer(each, "<f4") for each in restored(stored)])
        assert back.shape == block.shape
        np.testing.assert_allclose(np.linalg.norm(back, axis=1), 1, atol=1e-6)
        assert (np.vecdot(back, block) > 1 - 1e-6).all()
        assert [compact(each) for each in restored(stored)] == stored
    vectors = [np.eye(1, width, dtype="<f4").tobytes() for width in (4, 7, 4)] + [bytes(16)]
    assert restored([compact(each) for each in vectors]) == vectors
    assert restored([]) == []
