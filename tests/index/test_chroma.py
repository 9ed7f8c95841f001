"""Chroma: answers are right whatever happens to it."""

import contextlib
import json
import os
import pickle
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock

from spellbook.index import embed, sync
from spellbook.index.catalog.vectors import Vectors
from spellbook.index.vectors import chroma, follow
from spellbook.index.vectors import chroma as chromas
from spellbook.index.vectors.chroma import Chroma, Unavailable
from spellbook.library import status
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from spellbook.system import children
from spellbook.system.errors import InvalidInput, StorageError
from tests.blocks import Floats, as_rows, units
from tests.commands import spellbook_in
from tests.helpers import PATIENCE, Counting, Write, finished, opened, python, until

Begun = Callable[..., Chroma]


class Store(Vectors):
    """A stand-in for the catalog: vectors by key, with a sequence number."""

    def __init__(self, block: Floats) -> None:
        self.rows = as_rows(block)

    def changes(self, seq: int, most: int = -1, which: str = "") -> list[tuple[str, int]]:
        return [(key, at) for key, _, at in self.rows if at > seq]

    def of(self, keys: Sequence[str]) -> dict[str, bytes]:
        wanted = set(keys)
        return {key: vector for key, vector, _ in self.rows if key in wanted}

    def labels(self, keys: Sequence[str]) -> dict[str, dict[str, str]]:
        return {key: {"id": f"{key}#a", "path": f"{key}.md"} for key in keys}


CHILD = """
import sys, pathlib, numpy
sys.path.insert(0, sys.argv[2])
from tests.index.test_chroma import Chroma, Store
folder = pathlib.Path(sys.argv[1])
store = Store(numpy.load(folder / "block.npy"))
of = store.of
def told(keys):
    print("batch", flush=True)
    return of(keys)
store.of = told
print(Chroma(folder, "f").catch_up(store, 10_000))
"""


def in_child(folder: Path, block: Floats) -> Any:
    """A process that catches up with vectors, and prints a line for each batch, then how many it added."""
    np.save(folder / "block.npy", block)
    return python(CHILD, folder, Path(__file__).parents[2])


@pytest.fixture
def begun(tmp_path: Path) -> Iterator[Begun]:
    """Open the Chroma of a folder, for a fingerprint; all are closed at the end."""
    with contextlib.ExitStack() as stack:
        yield lambda fingerprint="f": stack.enter_context(contextlib.closing(Chroma(tmp_path, fingerprint)))


def test_chroma_catches_up_and_finds(begun: Begun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    After `catch_up` the nearest are the exact ones; a second call has nothing to do; later rows are added alone. Rows
    that another process wrote are seen. Rows added before the time ran out are found; `seq` never counts a row that was
    not added.
    """
    block = units(40)
    store, chroma = Store(block[:30]), begun()
    assert chroma.seq == 0
    with pytest.raises(Unavailable):
        chroma.nearest(block[0], 1)
    assert [chroma.catch_up(store, 100) for _ in range(2)] == [30, 0]
    assert chroma.nearest(block[3], 1)[0] == "k3"
    assert finished(in_child(tmp_path, block[:35]))[0].split() == ["batch", "5"]
    assert (chroma.nearest(block[32], 1)[0], chroma.seq) == ("k32", 35)
    store.rows += as_rows(block[30:], 30)
    assert (chroma.catch_up(store, 100), chroma.seq) == (5, 40)
    assert chroma.nearest(block[35], 40) == [f"k{i}" for i in np.argsort(-(block @ block[35]))]
    assert chroma.collection.configuration_json["hnsw"]["ef_search"] == chromas.EF_SEARCH
    monkeypatch.setattr(chromas, "BATCH", 10)
    store = Store(block)
    store.rows = [(key, vector, max(15, number)) for key, vector, number in store.rows]  # the first fifteen at once
    chroma, seen = begun("other"), []
    while chroma.catch_up(store, 100, seconds=0):
        seen.append(chroma.seq)
        assert set(chroma.nearest(block[0], 40)) == {f"k{i}" for i in range(10 * len(seen))}
    assert seen == [14, 20, 30, 40]


def test_an_index_that_is_begun_anew_meanwhile_is_not_asked(
    begun: Begun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A search looked how far Chroma is; another process begins it anew since: it answers only once it is as far again. A
    catch-up whose folder is replaced half-way gives up, and never marks rows of the old folder as added.

    With another embedding seq is 0 and a query is Unavailable; catching up starts a new folder.
    """
    monkeypatch.setattr(chromas, "BATCH", 4)
    block = units(12)
    store, chroma, other = Store(block), begun(), begun()
    chroma.catch_up(store, 100)
    looked = chroma.seq
    other.begin_writing(other.current())
    other.catch_up(store, 100, seconds=0)
    assert 0 < other.seq < looked
    with pytest.raises(Unavailable, match="built anew"):
        chroma.nearest(block[11], 3, looked)
    other.catch_up(store, 100)
    assert chroma.nearest(block[11], 3, looked)[0] == "k11"

    class Beaten(Store):
        def changes(self, *given: Any, **named: Any) -> list[tuple[str, int]]:
            todo = super().changes(*given, **named)
            other.begin_writing(other.current())  # by another process, before the first batch
            return todo

    block = units(15)
    with pytest.raises(Unavailable):
        chroma.catch_up(Beaten(block), 100)
    assert (chroma.seq, chroma.catch_up(Store(block), 100)) == (0, 15)
    assert chroma.nearest(block[3], 1)[0] == "k3"
    theirs = begun("theirs")
    with pytest.raises(Unavailable):
        theirs.nearest(units(1, 8)[0], 1)
    assert (theirs.seq, chroma.seq, chroma.nearest(block[2], 1)[0]) == (0, 15, "k2")
    assert theirs.catch_up(Store(units(3, 8)), 100) == 3
    assert (theirs.seq, chroma.seq) == (3, 0)
    assert sys.platform == "win32" or len([*tmp_path.glob("chroma-*")]) == 1  # Windows deletes no file that is open


def garble(folder: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            file.write_bytes(b"garbage" * 100)


def test_a_query_waits_a_moment_for_the_lock(begun: Begun, tmp_path: Path) -> None:
    """A query that finds the lock taken, by a process or a thread, is Unavailable after about 100 ms."""
    block = units(5)
    chroma, other = begun(), begun()
    assert chroma.catch_up(Store(block), 100) == 5
    with FileLock(tmp_path / "chroma.lock"):
        started = time.monotonic()
        with pytest.raises(Unavailable, match="another process"):
            chroma.nearest(block[0], 1)
        assert time.monotonic() - started > 0.05
    with other.locked(1), pytest.raises(Unavailable, match="another process"):
        chroma.nearest(block[0], 1)
    assert chroma.nearest(block[0], 1)[0] == "k0"


@pytest.mark.slow
def test_a_kill_in_the_middle_loses_nothing(begun: Begun, tmp_path: Path) -> None:
    """After SIGKILL during a write the next catch-up adds every row."""
    block = units(4000)
    child = in_child(tmp_path, block)
    for _ in range(3):
        assert child.stdout.readline() == "batch\n"
    time.sleep(0.05)  # into the write, not for its outcome
    child.kill()
    child.communicate()
    chroma = begun()
    assert chroma.seq == 2_000  # two batches were whole
    assert chroma.catch_up(Store(block), 10_000) <= 2_000
    assert (chroma.seq, chroma.rows) == (4000, 4000)
    assert all(chroma.nearest(block[i], 1)[0] == f"k{i}" for i in range(0, 4000, 61))


# -- search above the size that is searched exactly


@pytest.fixture
def large(vault: Path, write_note: Write, chroma_follows: None) -> Iterator[Any]:
    """Sixty notes that are searched by Chroma, because `exact_most` is low."""
    for i in range(60):
        write_note(f"{i:02}.md", f"# Note {i}\n\nword{i} common lighthouse")
    with opened(vault, exact_most=1) as index:
        sync.run(index)
        until(lambda: not follow.is_at_work(index))
        yield index


def ask(index: Any, text: str, **asked: Any) -> tuple[list[str], bool]:
    answer = Searcher(index).ask(Question(text, "semantic", **asked))
    return [hit.path for hit in answer.hits], answer.index.degraded


def test_chroma_answers_what_exact_search_does(large: Any) -> None:
    """
    With everything in Chroma its best hits are as good as the exact ones (ties in any order), and not degraded.

    Only where titles are in memory they bring further candidates, among the last hits. While another process holds
    Chroma, search is exact and says `degraded`.

    Without Chroma no hit is lost. If it fails, the answer is degraded until the next run rebuilds it; one that is not
    there is not asked, as before it was first made. Chroma is released with its memory when unused, not while it works,
    and reopened by the next query.
    """
    assert large.chroma.seq
    question = Question("word7 common", "semantic", limit=5)
    answer = Searcher(large).ask(question)
    with opened(large.config.vault) as other:
        exact, expected = Searcher(other).ask(question), ask(other, "word7 common", limit=10)[0]
    assert answer.hits[0].path == exact.hits[0].path == "07.md"
    assert [hit.score for hit in answer.hits] == pytest.approx([hit.score for hit in exact.hits], abs=1e-3)
    assert not answer.index.degraded
    with FileLock(large.config.state / "chroma.lock"):
        assert ask(large, "word7 common", limit=10) == (expected, True)
    before = time.monotonic()
    assert ask(large, "word7 common", limit=10) == (expected, False)
    assert not large.chroma.release(before)
    with large.chroma.locked(0), ThreadPoolExecutor(1) as pool:
        assert not pool.submit(large.chroma.release, time.monotonic()).result()
    assert large.chroma.client is not None
    assert [large.chroma.release(time.monotonic()) for _ in range(2)] == [True, False]
    assert large.chroma.client is None
    assert ask(large, "word7 common", limit=10) == (expected, False)
    for break_it in (garble, shutil.rmtree):
        large.chroma.close()
        [folder] = large.config.state.glob("chroma-[0-9]*")
        break_it(folder)
        assert ask(large, "word7 common", limit=10) == (expected, break_it is garble)
        sync.run(large)
        until(lambda: not follow.is_at_work(large))
        assert ask(large, "word7 common", limit=10) == (expected, False)


def test_a_small_run_leaves_chroma_to_others_and_a_large_one_fills_it(large: Any, write_note: Write) -> None:
    """Where Chroma answers, a run has a child fill it if a twentieth is missing; elsewhere the next command has."""
    behind = []
    for number in range(60, 65):
        write_note(f"{number}.md", f"the zebra {number}")
        sync.run(large)
        until(lambda: not follow.is_at_work(large))
        behind.append(follow.behind(large))
        assert ask(large, f"the zebra {number}")[0][0] == f"{number}.md"
    assert behind == [1, 2, 3, 0, 1]
    with opened(large.config.vault, state=large.config.state / "other") as small:
        sync.run(small)
        assert not list(small.config.state.glob("chroma*"))


# -- chroma holds the vectors of every vault, and any chroma client can read a copy

READ = """
import chromadb, json, sys
vectors = chromadb.PersistentClient(sys.argv[1]).get_collection("vectors")
rows = vectors.get(include=["metadatas", "embeddings"])
near = vectors.query(query_embeddings=[rows["embeddings"][0]], n_results=1)
print(json.dumps([near["ids"][0] == rows["ids"][:1], len(rows["embeddings"][0]), sorted(rows["metadatas"], key=lambda row: row["id"])]))
"""


@pytest.fixture
def index(vault: Path, write_note: Write) -> Iterator[Any]:
    """Two embedded notes, and no Chroma yet."""
    text = "# Keys\n\nOf doors.\n\n## Rotation\n\nKeys are rotated.\n"
    write_note("ops/keys.md", text, topic="security", category="decision")
    write_note("tea.md", "Green tea.\n")
    with opened(vault, Counting()) as index:
        sync.run(index)
        yield index


def caught_up(index: Any) -> dict[str, Any]:
    assert follow.catch_up(index.catalog, index.chroma)
    return labels(index)


def labels(index: Any) -> dict[str, Any]:
    """The metadata of every row of Chroma, by id."""
    with index.chroma.reading(index.chroma.current()) as collection:
        return {row["id"]: row for row in collection.get(include=["metadatas"])["metadatas"]}


def test_a_small_vault_is_in_chroma_with_what_names_its_chunks(index: Any, vault: Path, write_note: Write) -> None:
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


def test_a_look_at_changed_notes_alone_leaves_what_a_look_at_all_would(
    index: Any, vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    changes: dict[str, Callable[[], object]] = {
        "relabelled": lambda: write_note("b.md", note.format("b"), topic="other", category="plan", id="declared"),
        "first of a shared text gone": (vault / "a.md").unlink,
        "moved before the others": lambda: (vault / "c.md").rename(vault / "a.md"),
        "text replaced": lambda: write_note("a.md", "# c\n\nOf nothing.\n"),
        "text back, heading renamed": lambda: write_note("a.md", note.format("a").replace("Shared", "Its own")),
        "all gone": lambda: [*map(Path.unlink, (vault / "a.md", vault / "b.md"))],
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


def test_a_watcher_keeps_chroma_up_in_a_child_process(index: Any) -> None:
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


def test_a_reindex_leaves_a_child_that_follows(index: Any, write_note: Write, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_child_waits_for_the_one_before(index: Any, chroma_follows: None) -> None:
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
    child = children.child(follow.__name__)
    told, _ = child.communicate(pickle.dumps((empty, index.embedder.fingerprint, "", "", 0)), timeout=PATIENCE)
    assert (b"there is no index yet" in told, child.returncode, empty.exists()) == (True, 1, False)


def test_the_copy_is_read_by_any_client(index: Any, tmp_path: Path) -> None:
    """
    A process with only chromadb reads ids, vectors and metadata of the moment of the copy. It goes into an empty folder
    only; a file or a folder with contents is refused and stays. Before all notes are read there is no copy of some.
    `status` and the command say where Chroma is and how far.
    """
    (tmp_path / "empty").mkdir()
    assert status.chroma(index) == {"place": "", "vectors": 0, "behind": 3}
    for copy in (tmp_path / "new" / "vectors", tmp_path / "empty"):
        assert follow.copy(index, copy) == 3
    is_found, width, rows = json.loads(finished(python(READ, copy))[0])
    assert (is_found, width) == (True, index.embedder.dim)
    assert [row["id"] for row in rows] == ["ops/keys#", "ops/keys#rotation", "tea#"]
    assert sorted(file.name for file in copy.iterdir()) == sorted(
        file.name for file in (tmp_path / "new/vectors").iterdir()
    )
    (tmp_path / "file").write_text("mine")
    for taken in ("empty", "file"):
        with pytest.raises(InvalidInput, match="not an empty folder"):
            follow.copy(index, tmp_path / taken)
    assert (tmp_path / "file").read_text() == "mine"
    state = {"place": str(index.config.state / "chroma-1"), "vectors": 3, "behind": 0}
    assert status.chroma(index) == state
    told = f"3 vectors in {state['place']}\n"
    assert told in spellbook_in(index.config.vault, "status", "--verbose").stdout
    one, two = tmp_path / "one", tmp_path / "two"
    done = spellbook_in(index.config.vault, "export", one, "--vectors")
    assert f"{one}" in done.stdout + done.stderr
    assert any(one.iterdir())
    said = spellbook_in(index.config.vault, "export", two, "--vectors", "--json").stdout
    assert json.loads(said) == {"file": str(two), "vectors": 3}
    if os.name != "nt":  # a file that cannot be copied; links need a right there
        (index.config.state / "chroma-1/nowhere").symlink_to("gone")
        with pytest.raises(StorageError, match="nowhere"):
            follow.copy(index, tmp_path / "half")
        (index.config.state / "chroma-1/nowhere").unlink()
        assert [file.name for file in tmp_path.iterdir() if file.name.startswith("half")] == []
    index.catalog.upkeep.begin_anew()  # as after an update
    with pytest.raises(StorageError, match="not all notes are read yet"):
        follow.copy(index, tmp_path / "old")
