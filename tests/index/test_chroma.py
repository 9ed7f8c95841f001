"""Chroma: answers are right whatever happens to it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from spellbook.index import sync
from spellbook.index.vectors import chroma as chromas
from spellbook.index.vectors import follow
from spellbook.index.vectors.chroma import Chroma, Unavailable
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


def in_child(folder, block):
    """A process that catches up with vectors, and prints a line for each batch, then how many it added."""
    np.save(folder / "block.npy", block)
    return python(CHILD, folder, Path(__file__).parents[2])


@pytest.fixture
def begun(tmp_path):
    """Open the Chroma of a folder, for a fingerprint; all are closed at the end."""
    with contextlib.ExitStack() as stack:
        yield lambda fingerprint="f": stack.enter_context(contextlib.closing(Chroma(tmp_path, fingerprint)))


def test_chroma_catches_up_and_finds(begun, tmp_path, monkeypatch):
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


def test_an_index_that_is_begun_anew_meanwhile_is_not_asked(begun, tmp_path, monkeypatch):
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
        def changes(self, seq):
            todo = super().changes(seq)
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
    assert (theirs.seq, chroma.seq, len([*tmp_path.glob("chroma-*")])) == (3, 0, 1)


def garble(folder):
    for file in folder.rglob("*"):
        if file.is_file():
            file.write_bytes(b"garbage" * 100)


def formless(folder):
    """Leave out of what form the folder is."""
    file = folder.with_name("chroma.json")
    file.write_text(json.dumps({name: value for name, value in json.loads(file.read_text()).items() if name != "form"}))


def test_a_broken_folder_is_given_up_and_built_anew(tmp_path):
    """A broken folder or one of another form raises only Unavailable; the next catch-up writes all rows into a new one."""
    block = units(20)
    for break_it in (garble, shutil.rmtree, formless):
        place = tmp_path / break_it.__name__
        place.mkdir()
        with contextlib.closing(Chroma(place, "f")) as first:
            first.catch_up(Store(block), 100)
        break_it(place / "chroma-1")
        with contextlib.closing(Chroma(place, "f")) as chroma:
            with pytest.raises(Unavailable):
                chroma.nearest(block[0], 1)
            assert (chroma.seq, chroma.catch_up(Store(block), 100)) == (0, 20)
            assert chroma.nearest(block[7], 1)[0] == "k7"
        folder = json.loads((place / "chroma.json").read_text())["folder"]
        assert [path.name for path in place.glob("chroma-*")] == [folder]
        assert break_it is shutil.rmtree or folder == "chroma-2"


def test_who_reads_at_that_moment_is_waited_for(begun, tmp_path, monkeypatch):
    """
    Windows cannot replace an open file; the writer waits for a reader, but not forever. A query that finds the lock
    taken, by a process or a thread, is Unavailable after about 100 ms.
    """
    block, left = units(5), []

    def replaced(source, target, replace=os.replace):
        if left:
            raise left.pop()
        replace(source, target)

    monkeypatch.setattr(os, "replace", replaced)
    chroma, other = begun(), begun()
    for readers in (chromas.TRIES, chromas.TRIES - 1):
        left += [PermissionError(13, "in use")] * readers
        with contextlib.nullcontext() if readers < chromas.TRIES else pytest.raises(Unavailable):
            assert chroma.catch_up(Store(block), 100) == 5
        assert not left
    with FileLock(tmp_path / "chroma.lock"):
        started = time.monotonic()
        with pytest.raises(Unavailable, match="another process"):
            chroma.nearest(block[0], 1)
        assert time.monotonic() - started > 0.05
    with other.locked(1), pytest.raises(Unavailable, match="another process"):
        chroma.nearest(block[0], 1)
    assert chroma.nearest(block[0], 1)[0] == "k0"


@pytest.mark.slow
def test_a_kill_in_the_middle_loses_nothing(begun, tmp_path):
    """After SIGKILL during a write the next catch-up adds every row."""
    block = units(4000)
    child = in_child(tmp_path, block)
    for _ in range(3):
        assert child.stdout.readline() == "batch\n"
    time.sleep(0.05)  # into the write, not for its outcome
    child.send_signal(signal.SIGKILL)
    child.communicate()
    chroma = begun()
    assert chroma.seq == 2_000  # two batches were whole
    assert chroma.catch_up(Store(block), 10_000) <= 2_000
    assert (chroma.seq, chroma.rows) == (4000, 4000)
    assert all(chroma.nearest(block[i], 1)[0] == f"k{i}" for i in range(0, 4000, 61))


# -- search above the size that is searched exactly


@pytest.fixture
def large(vault, write_note):
    """Sixty notes that are searched by Chroma, because `exact_most` is low."""
    for i in range(60):
        write_note(f"{i:02}.md", f"# Note {i}\n\nword{i} common lighthouse")
    with opened(vault, exact_most=1) as index:
        sync.run(index)
        yield index


def ask(index, text, **asked):
    answer = Searcher(index).ask(Question(text, "semantic", **asked))
    return [hit.path for hit in answer.hits], answer.index.degraded


def test_chroma_answers_what_exact_search_does(large):
    """
    With everything in Chroma its best hits are as good as the exact ones (ties in any order), and not degraded.

    Only where titles are in memory they bring further candidates, among the last hits. While another process holds
    Chroma, search is exact and says `degraded`.

    Without Chroma no hit is lost. If it fails, the answer is degraded until the next run rebuilds it; one that is not
    there is not asked, as before it was first made.
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
    for break_it in (garble, shutil.rmtree):
        large.chroma.close()
        [folder] = large.config.state.glob("chroma-[0-9]*")
        break_it(folder)
        assert ask(large, "word7 common", limit=10) == (expected, break_it is garble)
        sync.run(large)
        assert ask(large, "word7 common", limit=10) == (expected, False)


def test_a_small_run_leaves_chroma_to_others_and_a_large_one_fills_it(large, write_note):
    """Where Chroma answers, a run fills it if a twentieth is missing; elsewhere it leaves Chroma to a child."""
    behind = []
    for number in range(60, 65):
        write_note(f"{number}.md", f"the zebra {number}")
        sync.run(large)
        behind.append(follow.behind(large))
        assert ask(large, f"the zebra {number}")[0][0] == f"{number}.md"
    assert behind == [1, 2, 3, 0, 1]
    with opened(large.config.vault, state=large.config.state / "other") as small:
        sync.run(small)
        assert not list(small.config.state.glob("chroma*"))
