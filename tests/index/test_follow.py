"""Chroma holds the vectors of every vault, and any Chroma client can read a copy."""

from __future__ import annotations

import json
import pickle
import threading
import time

import pytest
from filelock import FileLock

from spellbook.index import embed, sync
from spellbook.index.vectors import chroma, follow
from spellbook.library import doctor
from spellbook.search.searcher import Question, Searcher
from spellbook.system import processes
from spellbook.system.errors import InvalidInput
from tests.helpers import PATIENCE, Counting, finished, opened, python, until

READ = """
import chromadb, json, sys
vectors = chromadb.PersistentClient(sys.argv[1]).get_collection("vectors")
rows = vectors.get(include=["metadatas", "embeddings"])
near = vectors.query(query_embeddings=[rows["embeddings"][0]], n_results=1)
print(json.dumps([near["ids"][0] == rows["ids"][:1], len(rows["embeddings"][0]), sorted(rows["metadatas"], key=lambda row: row["id"])]))
"""


@pytest.fixture
def index(vault, write_note):
    """Two embedded notes, and no Chroma yet."""
    text = "# Keys\n\nOf doors.\n\n## Rotation\n\nKeys are rotated.\n"
    write_note("ops/keys.md", text, topic="security", category="decision")
    write_note("tea.md", "Green tea.\n")
    with opened(vault, Counting()) as index:
        sync.run(index)
        yield index


def caught_up(index):
    assert follow.catch_up(index.catalog, index.chroma)
    return labels(index)


def labels(index):
    """The metadata of every row of Chroma, by id."""
    with index.chroma.reading(index.chroma.current()) as collection:
        return {row["id"]: row for row in collection.get(include=["metadatas"])["metadatas"]}


def test_a_small_vault_is_in_chroma_with_what_names_its_chunks(index, vault, write_note):
    """
    After catching up each text has a row with id, path, heading, category and topic; a second time writes nothing.
    Catching up is due after a new vector, a moved note or a deleted one, and not when nothing has changed.

    A chroma.json with other fields, as another version writes it, keeps its rows; all metadata are compared once.
    """
    assert follow.is_due(index)  # there is none yet
    place = {"id": "ops/keys#rotation", "path": "ops/keys.md"}
    found = caught_up(index)
    assert found["ops/keys#rotation"] == place | {"heading": "Rotation", "category": "decision", "topic": "security"}
    assert found["tea#"] == {"id": "tea#", "path": "tea.md", "heading": "", "category": "", "topic": ""}
    assert len(found) == index.chroma.rows == index.catalog.counts().chunks
    epoch = index.chroma.current().epoch
    assert not follow.is_due(index)
    caught_up(index)
    assert index.chroma.current().epoch == epoch
    sync.run(index, full=True)
    caught_up(index)

    write_note("new.md", "The zebra")
    sync.run(index)
    assert (follow.behind(index), follow.is_due(index)) == (1, True)
    caught_up(index)
    for change in (lambda: (vault / "new.md").rename(vault / "newer.md"), (vault / "newer.md").unlink):
        change()
        assert not follow.is_due(index)
        sync.run(index)
        assert (follow.behind(index), follow.is_due(index)) == (0, True)
        caught_up(index)
    assert not follow.is_due(index)

    index.chroma.close()
    file = index.config.state / "chroma.json"
    kept = json.loads(file.read_text())
    older = {name: kept[name] for name in ("folder", "fingerprint", "seq", "epoch", "rows", "form")}
    file.write_text(json.dumps(older | {"generation": 7, "at": 1.0}))
    assert (index.chroma.rows, follow.is_due(index)) == (3, True)
    caught_up(index)
    assert (json.loads(file.read_text())["folder"], follow.is_due(index)) == (kept["folder"], False)


def test_a_look_at_changed_notes_alone_leaves_what_a_look_at_all_would(index, vault, write_note, monkeypatch):
    """
    After each change Chroma has exactly the rows and metadata of the catalog, though only some rows are read: a moved or
    relabelled note gets new metadata without new vectors; a deleted one is gone, and comes back with its file.
    """
    monkeypatch.setattr(chroma, "LATE", 1.0)
    note = "# {0}\n\nOf {0}.\n\n## Shared\n\nThe same in all.\n"
    for name in "abc":
        write_note(f"{name}.md", note.format(name), topic=name)
    sync.run(index)
    caught_up(index)
    index.embedder.taken()
    changes = {
        "relabelled": lambda: write_note("b.md", note.format("b"), topic="other", category="plan", id="declared"),
        "first of a shared text gone": (vault / "a.md").unlink,
        "moved before the others": lambda: (vault / "c.md").rename(vault / "a.md"),
        "text replaced": lambda: write_note("a.md", "# c\n\nOf nothing.\n"),
        "text back, heading renamed": lambda: write_note("a.md", note.format("a").replace("Shared", "Its own")),
        "all gone": lambda: [(vault / f"{name}.md").unlink() for name in "ab"],
    }
    for name, change in changes.items():
        later = time.time() + 2  # else all rows count as touched lately
        monkeypatch.setattr(time, "time", lambda later=later: later)
        change()
        sync.run(index, full=True)
        vectors = index.catalog.vectors
        expected = vectors.labels([key for key, _ in vectors.changes(0)])
        assert caught_up(index) == {row["id"]: row for row in expected.values()}, name
        assert index.embedder.taken() == (name in {"text replaced", "text back, heading renamed"}), name


def test_a_watcher_keeps_chroma_up_in_a_child_process(index):
    """
    What is there, and a note that is deleted or written by another process while a watcher lives, is followed. The watcher
    loads no Chroma; only the child holds the lock, and it prints nothing on stdout.
    """
    code = """
import sys, time
import spellbook
from spellbook.watch import watcher
watcher.SETTLE_AFTER = 0.01
def until(rows):
    while book.index.chroma.rows != rows and time.monotonic() < end:
        time.sleep(0.02)
    print(book.index.chroma.rows)
end = time.monotonic() + 600
with spellbook.open(sys.argv[1], embedder="hash") as book, watcher.Watcher(book):
    until(3)
    (book.config.vault / "tea.md").unlink()
    until(2)
    with spellbook.open(sys.argv[1], embedder="hash") as other:
        other.scribe({"text": "The zebra.", "metadata": {"topic": "zoo", "keywords": ["zebra"]}})
    until(3)
    print("chromadb" in sys.modules)
"""
    assert finished(python(code, index.config.vault))[0].split() == ["3", "2", "3", "False"]


def test_a_reindex_leaves_a_child_that_follows(index, write_note, monkeypatch):
    """A `reindex` after one edit ends without Chroma; the child that it started fills it, and no lock is left open."""
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    write_note("new.md", "The zebra is new.")
    code = """
import atexit, sys
from spellbook.cli import main
atexit.register(lambda: print("chromadb" in sys.modules))
main(["--vault", sys.argv[1], "reindex"])
"""
    assert finished(python(code, index.config.vault))[0].endswith("False")
    until(lambda: not follow.is_due(index))
    assert index.chroma.rows == 4


def test_a_child_waits_for_the_one_before(index):
    """
    A child that finds another one at work goes on after it; one that finds the catalog gone makes nothing. A stopped
    child loses nothing and reports nothing; if it fails, the error says so. In a small vault a query neither waits for
    Chroma nor is degraded: exact search answers.
    """
    with FileLock(index.config.state / "chroma.lock"):
        answer = Searcher(index).ask(Question("Keys are rotated.", "semantic"))
        embed.maintain(index)  # as after one edit
    assert (answer.hits[0].path, answer.index.degraded, index.chroma.client) == ("ops/keys.md", False, None)
    stopping = threading.Event()
    stopping.set()
    assert follow.in_child(index, stopping) == ""
    with FileLock(index.config.state / "chroma-follow.lock"):
        follow.start(index)
        time.sleep(1.5)  # long enough for it to begin
    until(lambda: not follow.is_due(index))
    assert follow.in_child(index, threading.Event()) == ""
    assert index.chroma.rows == 3
    (index.config.state / "chroma.json").unlink()
    (index.config.state / "chroma.json").mkdir()
    assert "Chroma was not brought up to date: " in follow.in_child(index, threading.Event())
    empty = index.config.state.parent / "empty"
    child = processes.child(follow.__name__)
    told, _ = child.communicate(pickle.dumps((empty, index.embedder.fingerprint, "", "")), timeout=PATIENCE)
    assert (b"there is no index yet" in told, child.returncode, empty.exists()) == (True, 1, False)


def test_the_copy_is_read_by_any_client(index, tmp_path):
    """
    A process with only chromadb reads ids, vectors and metadata of the moment of the copy. It goes into an empty folder
    only; a file or a folder with contents is refused and stays. `status` says where Chroma is and how far.
    """
    (tmp_path / "empty").mkdir()
    assert doctor.chroma(index) == {"place": "", "vectors": 0, "behind": 3}
    for copy in (tmp_path / "new" / "vectors", tmp_path / "empty"):
        assert follow.copy(index, copy) == 3
        is_found, width, rows = json.loads(finished(python(READ, copy))[0])
        assert (is_found, width) == (True, index.embedder.dim)
        assert [row["id"] for row in rows] == ["ops/keys#", "ops/keys#rotation", "tea#"]
    (tmp_path / "file").write_text("mine")
    for taken in ("empty", "file"):
        with pytest.raises(InvalidInput, match="not an empty folder"):
            follow.copy(index, tmp_path / taken)
    assert (tmp_path / "file").read_text() == "mine"
    assert doctor.chroma(index) == {"place": str(index.config.state / "chroma-1"), "vectors": 3, "behind": 0}
