"""The catalog: one SQLite file that many processes share, and that may be damaged or deleted at any time."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from dataclasses import replace

import numpy as np
import pytest

from spellbook.index import embed, sync
from spellbook.index.catalog.catalog import Catalog
from spellbook.index.catalog.tables import FORM
from spellbook.index.catalog.text_bytes import packed
from spellbook.index.filters import conditions
from spellbook.settings import config
from spellbook.system.errors import InvalidInput, RestExpired, RestInvalid, StorageError
from tests.helpers import Counting, Small, finished, from_scratch, note_writer, opened, python, rows, told


def in_many_ways(vault, index, embed):
    """Write, embed, repeat, edit, move and remove notes, and yield after each look at the vault."""
    for step in (
        {"a": "## One\n\nsame\n\n## Two\n\nother"},
        {"b": "## One\n\nsame"},
        None,
        {"c": "## One\n\nsame\n\n## Three\n\nnew"},
        {"a": "## Two\n\nchanged", "d": "## One\n\nsame", "b": "", "c": ""},
    ):
        for name, text in (step or {}).items():
            (vault / f"{name}.md").write_text(text)
            if not text:
                (vault / f"{name}.md").unlink()
        sync.scan(index)
        if step is None:
            embed()
        yield


@pytest.fixture
def state(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir()
    return folder


@pytest.fixture
def catalog(state):
    opened = Catalog.open(state)
    yield opened
    opened.close()


# -- schema


def test_an_empty_folder_becomes_a_catalog_and_stays_one(state):
    """The tables are made once; opening again changes nothing. A newer catalog is refused, and no byte changes."""
    for _ in range(2):
        catalog = Catalog.open(state)
        assert rows(catalog, "PRAGMA user_version") == [(FORM,)]
        assert rows(catalog, "PRAGMA journal_mode") == [("wal",)]
        assert (catalog.generation, catalog.verify()) == (0, [])
        catalog.close()
    with contextlib.closing(sqlite3.connect(state / "catalog.db")) as raw:
        raw.execute("PRAGMA user_version = 99")
    before = (state / "catalog.db").read_bytes()
    with pytest.raises(StorageError, match="newer Spellbook") as caught:
        Catalog.open(state)
    assert "Upgrade" in caught.value.hint
    assert (state / "catalog.db").read_bytes() == before
    with pytest.raises(StorageError) as caught:  # a file in the place of the folder
        Catalog.open(state / "catalog.db" / "state")
    assert "SPELLBOOK_STATE" in caught.value.hint


def test_what_is_counted_and_what_is_pending_is_what_a_look_at_all_rows_says(vault):
    """For both encoders, after writing, embedding, editing, moving, removing and a new embedder."""

    def assert_counted(index):
        counts = index.catalog.counts()
        looked = rows(index.catalog, "SELECT (SELECT count(*) FROM notes), (SELECT count(*) FROM chunks)")[0]
        assert (counts.notes, counts.chunks) == looked
        for pending, waiting, vectors in (
            (counts.pending, index.catalog.waiting, "vectors"),
            (counts.second_pending, index.catalog.second.waiting, "second"),
        ):
            sql = "SELECT count(DISTINCT key) FROM {} WHERE key NOT IN (SELECT key FROM {})"
            texts, labels = (rows(index.catalog, sql.format(table, vectors))[0][0] for table in ("chunks", "labels"))
            assert (pending, len(waiting.in_order())) == (texts, texts + labels)

    with opened(vault) as index:
        index = replace(index, second=Small())
        index.catalog.second.adopt("small:1")
        for _ in in_many_ways(vault, index, lambda: embed.embed_texts(index)):
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


def spoil(file):
    """Overwrite the first page of every table and index with noise; the list of tables stays readable."""
    raw = sqlite3.connect(file)
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = raw.execute("PRAGMA page_size").fetchone()[0]
    pages = [page for (page,) in raw.execute("SELECT rootpage FROM sqlite_master WHERE rootpage > 0")]
    raw.close()
    data = bytearray(file.read_bytes())
    for page in pages:
        data[(page - 1) * size : page * size] = np.random.default_rng(1).bytes(size)
    file.write_bytes(data)


@pytest.mark.parametrize(
    "garbage", [b"this is no database" * 500, b"SQLite format 3\0" + b"\xff" * 5000], ids=["text", "a broken head"]
)
def test_garbage_is_set_aside_and_the_catalog_rebuilt(vault, write_note, garbage):
    """A file that is no database is kept under another name, and the next run builds the index from scratch."""
    write_note("a.md", "# A\n\nlighthouse")
    state = config.load(vault).state
    state.mkdir(parents=True)
    (state / "catalog.db").write_bytes(garbage)
    with opened(vault) as index:
        assert sync.run(index).added == 1
        now = told(index)
    assert [path.read_bytes() for path in state.glob("catalog.db.damaged-*")] == [garbage]
    assert now == from_scratch(vault, state.parent / "fresh")


def test_damage_in_the_middle_is_told_once_and_healed_by_the_next_use(vault, write_note, tmp_path):
    """The run that finds the damage raises StorageError; the next one, in any process, rebuilds the catalog."""
    for i in range(50):
        write_note(f"{i}.md", f"# Note {i}\n\n" + "words " * 100)
    with opened(vault) as index:
        sync.run(index)
    spoil(index.catalog.file)
    index.catalog.close()
    with pytest.raises(StorageError, match="damaged") as caught:
        [index.catalog.at(f"{i}.md") for i in range(50)]
    assert "again" in caught.value.hint
    sync.run(index)
    assert told(index) == from_scratch(vault, tmp_path / "fresh")
    index.close()


def test_a_book_heals_by_itself(book, write_note, tmp_path):
    """A search over a damaged catalog, or one deleted under a running process, rebuilds it and answers."""
    for i in range(50):
        write_note(f"{i}.md", f"# Note {i}\n\n" + "words " * 100)
    book.reindex()
    book.index.catalog.close()
    spoil(book.index.catalog.file)
    assert len(book.find("words", limit=60).hits) == 50
    assert book.index.catalog.verify() == []
    shutil.rmtree(book.config.state)
    assert len(book.search("words", limit=60).hits) == 50
    assert told(book.index)["notes"] == from_scratch(book.config.vault, tmp_path / "fresh")["notes"]


def test_a_healthy_catalog_is_not_set_aside_for_an_old_complaint(state, catalog):
    """A damage mark for a file that was replaced since is ignored."""
    rows(catalog, "INSERT INTO meta VALUES ('kept', 1)")
    (state / "catalog.broken").write_text("12345")
    again = Catalog.open(state)
    assert rows(again, "SELECT value FROM meta WHERE key = 'kept'") == [(1,)]
    again.close()
    assert not (state / "catalog.broken").exists()


@pytest.mark.parametrize("garbage", [b"", b"no database at all" * 300], ids=["fresh", "garbage"])
def test_processes_and_threads_that_open_at_once_share_one_catalog(vault, state, garbage):
    """Processes and threads open a fresh or broken catalog together, and each sees what all have written."""
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


# -- transactions


# -- sessions


def test_sessions(state, catalog, monkeypatch):
    """A session is valid until it ends or expires, also after its process ended."""
    for name, seconds in (("good", 60), ("short", -1), ("ended", 60)):
        catalog.sessions.begin(name, seconds)
    catalog.sessions.count("good", 2)
    assert catalog.sessions.end("ended").id == "ended"
    with contextlib.closing(Catalog.open(state)) as again:
        good = again.sessions.live("good")
        assert (good.scribed, good.expires > good.created) == (2, True)
        refused = [("short", RestExpired, "after one hour"), ("ended", RestExpired, "ended")]
        refused += [(name, RestInvalid, "no REST|not a REST") for name in ("nobody", "", "' OR 1=1 --", "x" * 10_000)]
        for verb in (again.sessions.live, again.sessions.end):
            for name, error, words in refused:
                with pytest.raises(error, match=words):
                    verb(name)


# -- filters

NOTES = {
    "infra/docker.md": {"category": "project", "topic": "infra", "tags": "[ops/deploy/k8s, Linux]", "keywords": "[Docker]", "importance": "high",
                        "entities": "[{name: Docker, type: technology}]", "created": "2026-01-10", "updated": "2026-03-01", "status": "open"},
    "infra/keys.md": {"category": "decision", "topic": "infra", "tags": "[ops]", "keywords": "[keys, Rotation]", "importance": "0.9",
                      "created": "2026-02-10", "updated": "2026-02-20", "owner": "{name: Kim, team: [a, b]}"},
    "개인/일기.md": {"category": "project", "topic": "diary", "tags": "[개인]", "kind": "journal", "importance": "low",
                    "created": "2025-12-31T23:30:00", "rating": "5.0", "done": "true"},
    "plain.md": {},
}  # fmt: skip


@pytest.fixture(scope="module")
def filtered(tmp_path_factory):
    """The paths of NOTES that meet a filter."""
    folder = tmp_path_factory.mktemp("filtered")
    for path, meta in NOTES.items():
        note_writer(folder / "vault")(path, "text", **meta)
    with opened(folder / "vault", state=folder / "state") as index:
        sync.scan(index)
        yield lambda filter: index.catalog.paths(conditions(filter))


DOCKER, KEYS, DIARY, PLAIN = NOTES


MET = [
    ({DOCKER, KEYS, DIARY, PLAIN}, [None]),
    ({DOCKER, DIARY}, [{"category": "project"}, {"created": "..2026-01-10"}]),
    ({KEYS}, [{"category": ["decision", "nothing"]}, {"keywords": "rotation"}, {"importance": 0.85}]),
    ({KEYS}, [{"owner.team": "b"}]),  # a key within a key
    ({KEYS, PLAIN}, [{"category!": "project"}]),
    ({DOCKER, KEYS}, [{"topic": "INFRA"}, {"tags": "ops"}, {"importance": "high"}, {"created": "2026"}]),
    ({DOCKER, KEYS}, [{"path": "infra/*"}, {"path": "infra"}, {"path": "infra/"}]),
    ({DOCKER}, [{"tags": "#ops/deploy"}, {"entities": "docker"}, {"created": "2026-01"}, {"status": "open"}]),
    ({DOCKER}, [{"updated": {"from": "2026-02-21", "to": "2026-03-01"}}, {"category": "project", "tags": "linux"}]),
    ({DIARY}, [{"tags": "개인"}, {"kind": "journal"}, {"importance!": "medium"}, {"created": "2025-12-31"}]),
    ({DIARY}, [{"rating": 5}, {"done": True}]),
    ({DOCKER, KEYS, PLAIN}, [{"kind": "note"}]),  # by default
    ({KEYS, DIARY}, [{"path": ["*/keys.md", "개인/*"]}]),
    ({DIARY, PLAIN}, [{"created!": "2026"}]),
    (set(), [{"tags": "op"}, {"scope": "nobody has one"}, {"topic": "x' OR '1'='1"}, {"path": "*' OR 1=1 --"}]),
    (set(), [{"tags": "\ud800\0"}]),  # half a letter
    ({DOCKER}, [{"tags": [f"t{i}" for i in range(40_000)] + ["linux"]}]),
    ({PLAIN}, [{"path": [f"t{i}" for i in range(1_500)] + ["plain.md"]}]),
]


def test_filters(filtered):
    """A filter leaves the notes that meet all of its keys."""
    for expected, filters in MET:
        for filter in filters:
            assert set(filtered(filter)) == expected, str(filter)[:200]


def test_an_unknown_key_names_those_there_are(filtered):
    """A key that no note has is INVALID_INPUT and lists the keys in use; so are hundreds of keys, without a list."""
    for key in ("colour", "1=1; DROP TABLE notes; --", 'ca"tegory'):
        with pytest.raises(InvalidInput) as caught:
            filtered({key: "x"})
        assert {"status", "owner.team", "category"} <= set(caught.value.hint.rstrip(".").replace(",", "").split())
    assert len(filtered(None)) == 4
    with pytest.raises(InvalidInput, match="150 keys"):
        filtered({f"k{i}": "x" for i in range(150)})


def test_verify_finds_words_that_do_not_fit(vault, write_note):
    """`verify` reports a full-text index that does not match the chunks."""
    write_note("a.md", "text")
    with opened(vault) as index:
        sync.scan(index)
        assert index.catalog.verify() == []
        rows(index.catalog, "UPDATE chunks SET text = ?", packed("forged"))
        assert "full-text" in index.catalog.verify()[0]
