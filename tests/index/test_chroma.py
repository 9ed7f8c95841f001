"""Chroma: answers are right whatever happens to it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import threading
import time

import numpy as np
import pytest
from filelock import FileLock

from spellbook.index import embed, sync
from spellbook.index.vectors import chroma as chromas
from spellbook.index.vectors import follow
from spellbook.index.vectors.chroma import Chroma, Unavailable
from spellbook.models.hash import HashEmbedder
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from tests.blocks import as_rows, units
from tests.helpers import finished, opened, python


class Store:
    """A stand-in for the catalog: vectors by key, with a sequence number."""

    def __init__(self, block):
        self.rows = as_rows(block)

    def changes(self, seq):
        return [(key, at) for key, _, at in self.rows if at > seq]

    def of(self, keys):
        wanted = set(keys)
        return {key: vector for key, vector, _ in self.rows if key in wanted}

    def labels(self, keys):
        return {key: {"id": f"{key}#a", "path": f"{key}.md"} for key in keys}


@pytest.fixture
def begun(tmp_path):
    """Open the Chroma of a folder, for a fingerprint; all are closed at the end."""
    with contextlib.ExitStack() as stack:
        yield lambda fingerprint="f": stack.enter_context(contextlib.closing(Chroma(tmp_path, fingerprint)))


def test_chroma_catches_up_and_finds(begun):
    """After `catch_up` the nearest are the exact ones; a second call has nothing to do; later rows are added alone."""
    block = units(40)
    store = Store(block[:30])
    chroma = begun()
    assert chroma.seq == 0
    with pytest.raises(Unavailable):
        chroma.nearest(block[0], 1)
    assert (chroma.catch_up(store, 100), chroma.seq) == (30, 30)
    assert chroma.catch_up(store, 100) == 0
    assert chroma.nearest(block[3], 1)[0] == "k3"
    store.rows += as_rows(block[30:], 30)
    assert (chroma.catch_up(store, 100), chroma.seq) == (10, 40)
    assert chroma.nearest(block[35], 40) == [f"k{i}" for i in np.argsort(-(block @ block[35]))]
    assert chroma.collection.configuration_json["hnsw"]["ef_search"] == chromas.LOOKED_AT


def test_chroma_catches_up_a_little_at_a_time(begun, monkeypatch):
    """Rows added before the time ran out are found; `seq` never counts a row that was not added."""
    monkeypatch.setattr(chromas, "BATCH", 10)
    block = units(45)
    store = Store(block)
    store.rows = [(key, vector, max(15, number)) for key, vector, number in store.rows]  # the first fifteen at once
    chroma, seen = begun(), []
    while chroma.catch_up(store, 100, seconds=0):
        seen.append(chroma.seq)
        assert set(chroma.nearest(block[0], 45)) == {f"k{i}" for i in range(min(45, 10 * len(seen)))}
    assert seen == [14, 20, 30, 40, 45]


def test_an_index_that_is_begun_anew_meanwhile_is_not_asked(vault, write_note, monkeypatch):
    """A search looked how far Chroma is; another process begins it anew since: it answers only once it is as far again."""
    monkeypatch.setattr(chromas, "BATCH", 4)
    for number in range(12):
        write_note(f"n{number:02}.md", f"# Note {number}\n\nword{number}\n")
    with opened(vault, exact_most=1) as index:
        sync.run(index)
        follow.catch_up(index.catalog, index.chroma)
        vectors, other = index.catalog.vectors, Chroma(index.config.state, index.embedder.fingerprint)
        looked = index.chroma.seq
        key = vectors.changes(0)[-1][0]
        last = np.frombuffer(vectors.of([key])[key], dtype="<f4")
        other.begin_writing(other.current())
        other.catch_up(vectors, 100, seconds=0)
        assert 0 < other.seq < looked
        assert 0 < other.rows < 12
        with pytest.raises(Unavailable, match="built anew"):
            index.chroma.nearest(last, 3, looked)
        other.catch_up(vectors, 100)
        assert index.chroma.nearest(last, 3, looked)[0] == key
        other.close()


def test_what_another_process_wrote_is_seen(begun, tmp_path):
    """A process reopens the index if another one wrote since, and may write itself."""
    block = units(20)
    store = Store(block[:10])
    chroma = begun()
    chroma.catch_up(store, 100)
    assert chroma.nearest(block[1], 1)[0] == "k1"
    np.save(tmp_path / "block.npy", block)
    code = """
import sys, pathlib, numpy
sys.path.insert(0, sys.argv[2])
from tests.index.test_chroma import Chroma, Store
folder = pathlib.Path(sys.argv[1])
store = Store(numpy.load(folder / "block.npy")[:15])
print(Chroma(folder, "f").catch_up(store, 100))
"""
    root = str(__import__("pathlib").Path(__file__).parents[2])
    assert finished(python(code, tmp_path, root)) == ["5"]
    assert (chroma.nearest(block[12], 1)[0], chroma.seq) == ("k12", 15)
    store.rows = as_rows(block)
    assert chroma.catch_up(store, 100) == 5
    assert chroma.nearest(block[18], 1)[0] == "k18"


def test_an_index_of_another_embedding_is_not_asked(begun, tmp_path):
    """With another embedding seq is 0 and a query is Unavailable; catching up starts a new folder."""
    block = units(5)
    store = Store(block)
    ours, theirs = begun("ours"), begun("theirs")
    ours.catch_up(store, 100)
    with pytest.raises(Unavailable):
        theirs.nearest(units(1, 8)[0], 1)
    assert (theirs.seq, ours.seq, ours.nearest(block[2], 1)[0]) == (0, 5, "k2")
    other = Store(units(3, 8))
    assert theirs.catch_up(other, 100) == 3
    assert (theirs.seq, ours.seq, [path.name for path in tmp_path.glob("chroma-*")]) == (3, 0, ["chroma-2"])


def garble(folder):
    for file in folder.rglob("*"):
        if file.is_file():
            file.write_bytes(b"garbage" * 100)


def formless(folder):
    """Leave out of what form the folder is."""
    file = folder.with_name("chroma.json")
    file.write_text(json.dumps({name: value for name, value in json.loads(file.read_text()).items() if name != "form"}))


@pytest.mark.parametrize("break_it", [garble, shutil.rmtree, formless], ids=["garbage", "missing", "of another form"])
def test_a_broken_folder_is_given_up_and_built_anew(tmp_path, break_it):
    """
    A folder that is broken or of another form raises only Unavailable, and the next catch-up writes all rows into a new
    folder.
    """
    block = units(20)
    store = Store(block)
    first = Chroma(tmp_path, "f")
    first.catch_up(store, 100)
    first.close()
    break_it(tmp_path / "chroma-1")
    chroma = Chroma(tmp_path, "f")
    with pytest.raises(Unavailable):
        chroma.nearest(block[0], 1)
    assert chroma.seq == 0
    assert chroma.catch_up(store, 100) == 20
    assert chroma.nearest(block[7], 1)[0] == "k7"
    folder = json.loads((tmp_path / "chroma.json").read_text())["folder"]
    assert [path.name for path in tmp_path.glob("chroma-*")] == [folder]
    assert break_it is shutil.rmtree or folder == "chroma-2"
    chroma.close()


@pytest.mark.parametrize("readers", [chromas.TRIES - 1, chromas.TRIES])
def test_who_reads_at_that_moment_is_waited_for(begun, monkeypatch, readers):
    """Windows cannot replace an open file; the writer waits for a reader, but not forever."""
    store, chroma, left = Store(units(5)), begun(), [PermissionError(13, "in use")] * readers

    def replaced(source, target, replace=os.replace):
        if left:
            raise left.pop()
        replace(source, target)

    monkeypatch.setattr(chromas.os, "replace", replaced)
    with contextlib.nullcontext() if readers < chromas.TRIES else pytest.raises(Unavailable):
        assert chroma.catch_up(store, 100) == 5
    assert not left


def test_a_busy_lock_is_not_waited_for(begun, tmp_path):
    """A query that finds the lock taken is Unavailable after about 100 ms."""
    block = units(5)
    store = Store(block)
    chroma = begun()
    chroma.catch_up(store, 100)
    for busy in (FileLock(tmp_path / "chroma.lock"), chroma.guard):
        with busy if not hasattr(busy, "is_locked") else busy.acquire():
            outcome = []

            def ask(outcome=outcome):
                started = time.monotonic()
                try:
                    chroma.nearest(block[0], 1)
                except Unavailable:
                    outcome.append(time.monotonic() - started)

            thread = threading.Thread(target=ask)
            thread.start()
            thread.join()
        assert outcome[0] > 0.05
    assert chroma.nearest(block[0], 1)[0] == "k0"


@pytest.mark.slow
def test_a_kill_in_the_middle_loses_nothing(tmp_path):
    """After SIGKILL during a write the next catch-up adds every row."""
    block = units(6000)
    np.save(tmp_path / "block.npy", block)
    code = """
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
Chroma(folder, "f").catch_up(store, 10_000)
"""
    child = python(code, tmp_path, __import__("pathlib").Path(__file__).parents[2])
    for _ in range(3):
        assert child.stdout.readline() == "batch\n"
    time.sleep(0.05)  # into the write, not for its outcome
    child.send_signal(signal.SIGKILL)
    child.communicate()
    store = Store(block)
    chroma = Chroma(tmp_path, "f")
    assert chroma.seq == 2_000  # two batches were whole
    assert chroma.catch_up(store, 10_000) <= 4_000
    current = json.loads((tmp_path / "chroma.json").read_text())
    assert (current["seq"], current["rows"]) == (6000, 6000)
    assert all(chroma.nearest(block[i], 1)[0] == f"k{i}" for i in range(0, 6000, 61))
    chroma.close()


def test_a_folder_begun_anew_by_another_is_not_said_to_hold_what_it_does_not(begun):
    """A catch-up whose folder is replaced half-way gives up, and never marks rows of the old folder as added."""
    block = units(15)
    store = Store(block[:10])
    chroma, other = begun(), begun()
    chroma.catch_up(store, 100)
    store.rows = as_rows(block)

    class Beaten(Store):
        def changes(self, seq):
            todo = super().changes(seq)
            other.begin_writing(other.current())  # what another process does before the first batch
            return todo

    with pytest.raises(Unavailable):
        chroma.catch_up(Beaten(block), 100)
    assert chroma.seq == 0
    assert chroma.catch_up(store, 100) == 15
    assert chroma.nearest(block[3], 1)[0] == "k3"


# -- search above the size that is searched exactly


@pytest.fixture
def large(vault, write_note):
    """Sixty notes that are searched by Chroma, because `exact_most` is low."""
    for i in range(60):
        write_note(
            f"{i:02}.md", f"# Note {i}\n\nword{i} common lighthouse", category="rare" if i % 20 == 0 else "usual"
        )
    with opened(vault, exact_most=1) as index:
        sync.run(index)
        yield index


def ask(index, text, **asked):
    answer = Searcher(index).ask(Question(text, "semantic", **asked))
    return [hit.path for hit in answer.hits], answer.index.degraded


def exactly(index, text, **asked):
    with opened(index.config.vault) as other:
        return ask(other, text, **asked)[0]


def test_chroma_answers_what_exact_search_does(large):
    """
    With everything in Chroma its best hits are as good as the exact ones (ties in any order), and not degraded.

    Only where titles are in memory they bring further candidates, among the last hits.
    """
    assert large.chroma.seq
    question = Question("word7 common", "semantic", limit=5)
    answer = Searcher(large).ask(question)
    with opened(large.config.vault) as other:
        exact = Searcher(other).ask(question)
    assert answer.hits[0].path == exact.hits[0].path == "07.md"
    assert [hit.score for hit in answer.hits] == pytest.approx([hit.score for hit in exact.hits], abs=1e-3)
    assert not answer.index.degraded


@pytest.mark.parametrize("break_it", [garble, shutil.rmtree], ids=["garbage", "missing"])
def test_without_chroma_the_answer_is_exact_and_degraded(large, break_it):
    """
    Without Chroma no hit is lost. If it fails, the answer is degraded until the next run rebuilds it; one that is not
    there is not asked, as before it was first made.
    """
    large.chroma.close()
    break_it(large.config.state / "chroma-1")
    expected = exactly(large, "word7 common", limit=10)
    assert ask(large, "word7 common", limit=10) == (expected, break_it is garble)
    sync.run(large)
    assert ask(large, "word7 common", limit=10) == (expected, False)


def test_a_chroma_held_by_another_is_degraded_and_exact(large):
    """While another process holds Chroma, search is exact and says `degraded`."""
    with FileLock(large.config.state / "chroma.lock"):
        assert ask(large, "word7 common", limit=10) == (exactly(large, "word7 common", limit=10), True)


def test_a_small_run_leaves_chroma_to_others_and_a_large_one_fills_it(vault, write_note, monkeypatch):
    """
    Where Chroma answers, a run fills it if a twentieth is missing; elsewhere, if the run embedded as many texts as
    Chroma may lack.
    """
    for number in range(60):
        write_note(f"{number}.md", f"note number {number}")
    with opened(vault) as index:
        sync.run(index)
        assert not list(index.config.state.glob("chroma*"))
        monkeypatch.setattr(follow, "MOST_BEHIND", 20)
        for number in range(20):
            write_note(f"new {number}.md", f"another number {number}")
        sync.run(index)
        assert (index.chroma.rows, follow.behind(index)) == (80, 0)
    with opened(vault, exact_most=1) as index:
        sync.run(index)
        behind = []
        for number in range(60, 65):
            write_note(f"{number}.md", f"the zebra {number}")
            sync.run(index)
            behind.append(follow.behind(index))
            assert ask(index, f"the zebra {number}")[0][0] == f"{number}.md"
        assert behind == [1, 2, 3, 4, 0]


def test_a_rebuilt_catalog_is_followed_by_an_old_chroma(large, write_note, vault):
    """A sequence number from a deleted catalog hides no vector of the new one."""
    large.catalog.close()
    for file in large.config.state.glob("catalog*"):
        file.unlink()
    write_note("new.md", "an entirely new zebra")
    sync.scan(large)
    embed.embed_texts(large)
    assert ask(large, "an entirely new zebra")[0][0] == "new.md"
    embed.maintain(large)
    assert ask(large, "an entirely new zebra")[0][0] == "new.md"
    assert HashEmbedder().dim == large.embedder.dim


# -- a Chroma server


def test_a_server_that_is_away_is_done_without(vault, write_note, tmp_path, monkeypatch):
    """If SPELLBOOK_CHROMA_URL cannot be reached, notes are indexed and found exactly, and the answer says so."""
    monkeypatch.setenv("SPELLBOOK_CHROMA_URL", "http://127.0.0.1:9")
    (vault / ".spellbook").mkdir()
    (vault / ".spellbook/config.toml").write_text("exact_most = 1\n")
    for i in range(5):
        write_note(f"{i}.md", f"the lighthouse number {i}")
    with opened(vault) as index:
        assert sync.run(index).embedded == 5
        answer = Searcher(index).ask(Question("the lighthouse number 3", "semantic", limit=2))
    assert answer.hits[0].path == "3.md"
    assert answer.index.degraded
    assert not list(index.config.state.glob("chroma-[0-9]*"))
