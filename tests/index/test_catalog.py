"""The catalog: one SQLite file that many processes share, and that may be damaged or deleted at any time."""

import contextlib
import gc
import hashlib
import shutil
import sqlite3
import sys
import time
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spellbook.index import embed, question_cache, sync
from spellbook.index.catalog import rows as stored
from spellbook.index.catalog import tables, upkeep
from spellbook.index.catalog.catalog import FILE, FUNCTIONS, Catalog
from spellbook.index.catalog.rows import FUNCTIONS as OF_TEXTS
from spellbook.index.catalog.rows import packed, unpacked
from spellbook.index.catalog.tables import FORM
from spellbook.index.catalog.usage import FailureKind, Failures
from spellbook.index.opened import Index
from spellbook.index.question_cache import LoadedIndex
from spellbook.library.book import Spellbook
from spellbook.notes.chunks import cut
from spellbook.notes.note import parse
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from spellbook.settings import config
from spellbook.system.errors import StorageError
from spellbook.system.sqlite import Database
from spellbook.text.terms import phrase
from tests.helpers import Counting, Small, Write, as_before, finished, from_scratch, opened, python, raw, rows, told
from tests.scratch import assert_equal_to_scratch


@pytest.fixture
def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    folder.mkdir()
    return folder


def test_an_empty_folder_becomes_a_catalog_and_stays_one(state: Path) -> None:
    """
    The tables are made once; opening again changes nothing. A newer catalog is refused, and no byte changes. A damage
    mark for a file that was replaced since is ignored.
    """
    for _ in range(2):
        (state / "catalog.broken").write_text("12345")
        catalog = Catalog.open(state)
        assert rows(catalog, "PRAGMA user_version") == [(FORM,)]
        assert rows(catalog, "PRAGMA journal_mode") == [("wal",)]
        assert (catalog.generation, catalog.upkeep.verify()) == (0, [])
        rows(catalog, "INSERT OR IGNORE INTO meta VALUES ('kept', 1)")
        catalog.close()
    assert rows(catalog, "SELECT value FROM meta WHERE key = 'kept'") == [(1,)]
    assert not (state / "catalog.broken").exists()
    with contextlib.closing(sqlite3.connect(state / "catalog.db")) as file:
        file.execute("PRAGMA user_version = 99")
    before = (state / "catalog.db").read_bytes()
    with pytest.raises(StorageError, match="newer Spellbook") as caught:
        Catalog.open(state)
    assert "Upgrade" in caught.value.hint
    assert (state / "catalog.db").read_bytes() == before
    with pytest.raises(StorageError) as caught:  # a file in the place of the folder
        Catalog.open(state / "catalog.db" / "state")
    assert "SPELLBOOK_STATE" in caught.value.hint


def assert_counted(index: Index) -> None:
    """Assert that the counters of a catalog are what counting all rows gives, for both encoders."""
    counts = index.catalog.counts()
    counted = "SELECT (SELECT count(*) FROM notes), (SELECT count(*) FROM chunks)"
    assert rows(index.catalog, counted) == [(counts.notes, counts.chunks)]
    for pending, waiting, vectors in (
        (counts.pending, index.catalog.waiting, "vectors"),
        (counts.second_pending, index.catalog.second.waiting, "second"),
    ):
        sql = "SELECT count(DISTINCT key) FROM {} WHERE key NOT IN (SELECT key FROM {})"
        texts, labels = (rows(index.catalog, sql.format(table, vectors))[0][0] for table in ("chunks", "labels"))
        assert (pending, len(waiting.in_order())) == (texts, texts + labels)


def test_what_is_counted_and_what_is_pending_is_what_a_look_at_all_rows_says(vault: Path) -> None:
    """For both encoders, after writing, embedding, editing, moving, removing and a new embedder."""
    with opened(vault) as index:
        index = replace(index, second=Small())
        index.catalog.second.adopt("small:1")
        for texts in (
            {"a": "## One\n\nsame\n\n## Two\n\nother"},
            {"b": "## One\n\nsame"},
            {},
            {"c": "## One\n\nsame\n\n## Three\n\nnew"},
            {"a": "## Two\n\nchanged", "d": "## One\n\nsame", "b": "", "c": ""},
        ):
            for name, text in texts.items():
                (vault / f"{name}.md").write_text(text) if text else (vault / f"{name}.md").unlink()
            sync.scan(index)
            if not texts:
                embed.embed_texts(index)
            assert_counted(index)
        assert index.catalog.counts().pending == 1
        embed.embed_texts(index)
        index.catalog.vectors.evict(0)
        assert_counted(index)
    with opened(vault, Counting(fingerprint="another")) as index:
        sync.scan(index)
        assert_counted(index)
        assert index.catalog.counts().pending == index.catalog.counts().chunks == 2


# -- damage


def spoil(file: Path) -> None:
    """Overwrite the first page of every table and index with noise; the list of tables stays readable."""
    with contextlib.closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = database.execute("PRAGMA page_size").fetchone()[0]
        pages = [page for (page,) in database.execute("SELECT rootpage FROM sqlite_master WHERE rootpage > 0")]
    data = bytearray(file.read_bytes())
    for page in pages:
        data[(page - 1) * size : page * size] = np.random.default_rng(1).bytes(size)
    file.write_bytes(data)


def test_garbage_is_set_aside_and_the_catalog_rebuilt(vault: Path, write_note: Write) -> None:
    """A file that is no database is kept under another name, and the next run builds the index from scratch."""
    write_note("a.md", "# A\n\nlighthouse")
    state = config.load(vault).state
    for garbage in (b"this is no database" * 500, b"SQLite format 3\0" + b"\xff" * 5000):
        shutil.rmtree(state, ignore_errors=True)
        state.mkdir(parents=True)
        (state / "catalog.db").write_bytes(garbage)
        with opened(vault) as index:
            assert sync.run(index).added == 1
            now = told(index)
        assert [path.read_bytes() for path in state.glob("catalog.db.damaged-*")] == [garbage]
        assert now == from_scratch(vault, state.parent / "fresh")


def test_damage_in_the_middle_is_told_once_and_healed_by_the_next_use(
    book: Spellbook, write_note: Write, tmp_path: Path
) -> None:
    """
    The run that finds the damage raises StorageError; the next one, in any process, rebuilds the catalog. A search over
    a damaged catalog, or one deleted under a running process, rebuilds it and answers.
    """
    for i in range(50):
        write_note(f"{i}.md", f"# Note {i}\n\n" + "words " * 100)
    book.reindex()
    catalog = book.index.catalog
    catalog.close()
    spoil(catalog.file)
    with pytest.raises(StorageError, match="damaged") as caught:
        [catalog.at(f"{i}.md") for i in range(50)]
    assert "again" in caught.value.hint
    sync.run(book.index)
    expected = from_scratch(book.config.vault, tmp_path / "fresh")
    assert told(book.index) == expected
    catalog.close()
    spoil(catalog.file)
    assert len(book.find("words", limit=60).hits) == 50
    assert catalog.upkeep.verify() == []
    shutil.rmtree(book.config.state, ignore_errors=sys.platform == "win32")  # which deletes no file that is open
    assert len(book.search("words", limit=60).hits) == 50
    assert told(book.index)["notes"] == expected["notes"]


@pytest.mark.parametrize("garbage", [b"", b"no database at all" * 300], ids=["fresh", "garbage"])
def test_processes_and_threads_that_open_at_once_share_one_catalog(vault: Path, state: Path, garbage: bytes) -> None:
    """Processes and threads open a fresh or broken catalog together, and each sees what all wrote; `close` closes all."""
    (state / "catalog.db").write_bytes(garbage)
    code = """
import sys, pathlib
from concurrent.futures import ThreadPoolExecutor
from spellbook.index.catalog.catalog import Catalog
catalog = Catalog.open(pathlib.Path(sys.argv[1]))
def work(i):
    for j in range(5):
        catalog.sessions.begin(f"{sys.argv[2]}-{i}-{j}", 60)
        assert catalog.sessions.live(f"{sys.argv[2]}-{i}-{j}").scribed == 0
with ThreadPoolExecutor(5) as pool:
    list(pool.map(work, range(5)))
catalog.close()
"""
    finished(*(python(code, state, i) for i in range(4)))
    catalog = Catalog.open(state)
    assert rows(catalog, "SELECT count(*) FROM sessions") == [(100,)]
    assert len(list(state.glob("catalog.db.damaged-*"))) == bool(garbage)
    catalog.close()
    base = Database(catalog.file, FORM, tables.build, FUNCTIONS)
    with ThreadPoolExecutor() as pool:
        theirs = pool.submit(base.connection).result()
    base.close()
    with pytest.raises(sqlite3.ProgrammingError):
        theirs.execute("SELECT 1")


def test_words_of_other_rules_are_replaced(vault: Path, write_note: Write, tmp_path: Path) -> None:
    """
    An index whose words were made by other rules is built anew by the first edit of a note that they differ in; until
    then `verify` reports a full-text index that does not match the chunks.
    """
    for name in "ab":
        write_note(f"{name}.md", f"# {name}\n\nharbor {name}\n")
    with opened(vault) as index:
        sync.run(index)
        with contextlib.closing(raw(index.catalog.file)) as connection:
            connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
            connection.execute("INSERT INTO words (rowid, body) SELECT chunk, 'zebra' FROM chunks")
            connection.execute("UPDATE chunks SET checksum = words_checksum('', '', '', '', 'zebra', '')")
        assert "full-text" in index.catalog.upkeep.verify()[0]
        write_note("a.md", "# a\n\nlighthouse\n")
        sync.scan_paths(index, ["a.md"])
        assert index.catalog.upkeep.verify() == []
        for word, paths in (("harbor", ["b.md"]), ("zebra", []), ("lighthouse", ["a.md"])):
            assert [hit.path for hit in Searcher(index).ask(Question(word, "keyword")).hits] == paths
        sync.run(index)
    assert_equal_to_scratch(vault, tmp_path / "fresh")


def test_the_words_of_many_notes_are_removed_one_note_at_a_time(vault: Path, write_note: Write) -> None:
    """Twelve large notes take no twelve times the memory of one, also where the index has to be built anew meanwhile."""
    for number in range(12):
        write_note(f"{number:02}.md", " ".join(f"w{number}x{each}" for each in range(10_000)))
    with opened(vault) as index:
        sync.scan(index)
        rows(index.catalog, "UPDATE chunks SET checksum = 0 WHERE note = 9")
        with contextlib.closing(raw(index.catalog.file)) as connection:
            connection.execute("BEGIN")
            peaks = []
            for notes in ([1], range(1, 13)):
                tracemalloc.start()
                stored.drop_words(connection, notes)
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
            assert connection.execute("SELECT count(*) FROM words_docsize").fetchall() == [(0,)]
            connection.execute("ROLLBACK")
        assert peaks[1] < 4 * peaks[0]


def test_words_are_counted_and_kept_until_a_note_changes(
    vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Of a word that most chunks have the count and the notes that hold it are right, as of a rare one. While texts are
    embedded no word is counted again; after a change of a note it is. As many changes of another catalog say nothing of
    the words, notes and chunks in this one.

    A released index leaves memory at once: its vectors do not wait for the garbage collector, which a server may have
    told to let them be.
    """
    monkeypatch.setattr(question_cache, "MOST_NUMBERED", 40)
    # A short section would be one chunk with the next.
    write_note("many.md", "".join(f"## s{i}\n\n{'swan ' * 60}\n\n" for i in range(50)))
    write_note("few.md", "a swan and a duck")
    write_note("none.md", "nothing of it")
    asked = [phrase("swan"), phrase("duck"), phrase("owl")]
    with opened(vault) as index:
        sync.scan(index)
        kept = LoadedIndex(index)
        count = kept.frequencies()
        chunks = [index.catalog.at(f"{name}.md") for name in ("many", "few", "none")]
        for _ in range(2):  # the second time they are kept
            assert [count(word) for word in asked] == [len(chunks[0]) + 1, 1, 0]
            notes = [(of[0].number, of[-1].number) for of in chunks]
            assert kept.holding(asked, notes) == [[True, True, False], [False, True, False], [False] * 3]
    write_note("a.md", "a zebra")
    write_note("b.md", "a heron")
    with opened(vault) as index:
        sync.scan(index)
        kept, word = LoadedIndex(index), phrase("zebra")
        assert kept.frequencies()(word) == 1
        changes, before = index.catalog.version[1], index.catalog.counts()
        embed.embed_texts(index)
        with monkeypatch.context() as patched:
            patched.setattr(Catalog, "frequency", lambda *_: pytest.fail("it was counted again"))
            assert kept.frequencies()(word) == 1
        index.catalog.close()
        for file in index.config.state.glob("catalog.db*"):
            file.unlink()
        write_note("b.md", "the zebra")
        assert index.catalog.counts().notes == 0
        sync.scan(index)
        assert index.catalog.counts()._replace(generation=before.generation) == before
        assert (index.catalog.version[1], kept.frequencies()(word)) == (changes, 2)
        write_note("c.md", "one more zebra")
        sync.scan(index)
        assert kept.frequencies()(word) == 3
        there = weakref.ref(kept)
        gc.disable()
        try:
            del kept
            assert there() is None
        finally:
            gc.enable()


# -- a catalog of an older form is built anew: nothing is embedded again, and nothing that notes do not s


@pytest.fixture
def older(vault: Path, write_note: Write, tmp_path: Path) -> Path:
    """The file of a catalog of form 24, with what notes do not say, beside a vault with three notes."""
    write_note("a.md", "# Hooks\n\nthe useState hook", age=100)
    write_note("hi.md", "# Note\n\nयह हिन्दी में लिखा है", age=100)
    write_note("once.md", "# Doors\n\n" + "\n\n".join(f"## {i}\n\nlighthouse {i}" for i in range(30)), age=100)
    with opened(vault) as index:
        index = replace(index, second=Small())
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


def kept(catalog: Catalog | Path) -> dict[str, list[Any]]:
    """What a catalog keeps that its notes do not say."""
    found = {table: rows(catalog, f"SELECT {columns} FROM {table} ORDER BY 1") for table, columns in KEPT.items()}
    listed = "'fingerprint', 'seq', 'rules', 'left', 'second'"
    return found | {"meta": rows(catalog, f"SELECT * FROM meta WHERE key IN ({listed}) ORDER BY 1")}


def test_what_notes_do_not_say_is_kept_and_nothing_is_embedded_again(vault: Path, older: Path, tmp_path: Path) -> None:
    """
    Uses, sessions, moves, counts, errors, vectors, and which embedder was left, row by row; numbers of notes, chunks and
    changes go on. The first look reads all notes; each text finds its vector, and all is as in an index that is built
    now. Until the whole vault was read no vector is dropped, however small the cache may be.
    """
    before, numbers = kept(older), dict(rows(older, "SELECT name, seq FROM sqlite_sequence"))
    own = dict(rows(older, "SELECT key, value FROM meta WHERE key IN ('generation', 'catalog')"))
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
        assert (index.catalog.is_read, index.catalog.upkeep.verify()) == (True, [])
        assert index.catalog.counts().second_pending == len(index.catalog.second.waiting.in_order()) == 0
        assert rows(index.catalog, "SELECT DISTINCT chunk > ? FROM chunks", numbers["chunks"]) == [(1,)]
        after = kept(index.catalog)
        assert told(index) == from_scratch(vault, tmp_path / "scratch")
        for word, path in (("use state", "a.md"), ("हिन्दी", "hi.md")):
            assert [hit.path for hit in Searcher(index).ask(Question(word, "keyword")).hits] == [path]
    assert {**after, "vectors": [], "meta": []} == {**before, "vectors": [], "meta": []}
    assert {row[:2] for row in before["vectors"]} <= {row[:2] for row in after["vectors"]}


def test_every_table_is_carried_or_read_again() -> None:
    """A new table is one that a scan fills, or one that is carried over: it must be said which."""
    derived = {"files", "faults", "notes", "fields", "links", "changes", "labels", "chunks", "words"}
    derived |= {"pending", "second_pending"}
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'words_%' AND name NOT LIKE 'sqlite%'"
    with contextlib.closing(raw(":memory:")) as made:
        tables.build(made, 0)
        assert {name for (name,) in made.execute(sql)} == derived | {*KEPT, "meta"}


def test_a_kill_leaves_the_old_catalog_or_the_new_one(older: Path, tmp_path: Path) -> None:
    """
    Whichever statement a process is killed at, the next one opens the catalog with all that is kept. A build that fails is
    a StorageError, and leaves the old one.
    """

    def broken(new: sqlite3.Connection, of: int) -> None:
        tables.build(new, of)
        new.execute("no SQL")

    with pytest.raises(StorageError, match="syntax error"):
        Database(older, FORM, broken, FUNCTIONS).connection()
    old = "SELECT user_version, (SELECT count(*) FROM counted) FROM pragma_user_version"
    assert rows(older, old) == [(24, 33)]
    whole = tmp_path / "whole"
    shutil.copytree(older.parent, whole)
    catalog = Catalog.open(whole)
    expected = kept(catalog)
    catalog.close()
    forms, steps, left = set(), 0, dict[bytes, Path]()

    def copy(_: str) -> None:
        """Keep what a kill at this statement would leave: files as they are, without locks."""
        nonlocal steps
        steps += 1
        files = sorted(each for each in older.parent.glob(f"{FILE}*") if not each.name.endswith("-shm"))
        digest = hashlib.sha256(b"".join(each.name.encode() + each.read_bytes() for each in files)).digest()
        if digest not in left:
            left[digest] = tmp_path / f"state-{steps}"
            shutil.copytree(older.parent, left[digest])

    def watched(connection: sqlite3.Connection, form: int) -> None:
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


def test_the_file_gives_the_disk_back_what_it_freed(vault: Path, older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written anew once where nobody waits, never while another process writes, and holds what it held."""
    monkeypatch.setattr(upkeep, "MUCH", 100)
    with opened(vault) as index:
        sync.scan(index)
        now = told(index)
        rows(index.catalog, "CREATE TABLE much AS SELECT randomblob(1000000)")
        rows(index.catalog, "DROP TABLE much")
        with contextlib.closing(raw(index.catalog.file)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert not index.catalog.upkeep.shrink()
        assert index.catalog.upkeep.shrink()
        assert not index.catalog.upkeep.shrink()
        assert index.catalog.free_bytes() < 1_000_000
        assert told(index) == now


def test_what_is_embedded_is_made_of_what_is_stored() -> None:
    """
    Whatever a text holds, NUL and half letters too, it is read back. From the columns of a chunk comes what is embedded of
    it, also of a part of a table or of code, each with its own fence, however long.
    """
    for text in ("", "\ud800", "\0", "a\0\udfff\U0001f702", "도커 " * 9_000, "".join(map(chr, range(0x11_000)))):
        assert unpacked(packed(text)) == text
    rows = "\n".join(f"| keeper {i} | lighthouse {i * 7} |" for i in range(200))
    code = "\n".join(f"light[{i}] = keeper({i * 7})" for i in range(200))
    _, embedded = OF_TEXTS["embedded_text"]
    for fence in ("```", "~~~~", "`````"):
        text = f"# Log\n\n## Year\n\n| who | where |\n|---|---|\n{rows}\n\n## Code\n\n{fence}py\n{code}\n{fence}{fence[0]}\n"
        chunks = cut(parse("a.md", text.encode()))
        assert {bool(chunk.lead) for chunk in chunks} == {bool(chunk.tail) for chunk in chunks} == {True, False}
        for chunk in chunks:
            assert embedded(chunk.above, chunk.lead, packed(chunk.text), chunk.tail) == chunk.embedded
            assert chunk.embedded.startswith("Log")
        parts = [chunk for chunk in chunks if "light[" in chunk.text]
        around = {chunk.lead for chunk in parts[1:]}, {chunk.tail for chunk in parts[:-1]}
        assert around == ({f"{fence}py\n"}, {f"{fence}\n"})
        assert all(f"{fence}py\n" in chunk.embedded for chunk in parts)
