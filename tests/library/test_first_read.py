"""A large vault that is read for the first time: a question does not wait until all of it is read."""

from __future__ import annotations

import contextlib
import threading

import pytest

import spellbook
from spellbook.index import sync
from spellbook.index.opened import BEING_READ
from spellbook.library import limited
from spellbook.system import processes
from spellbook.system.lock import held
from spellbook.watch import background
from spellbook.watch.watcher import Watcher
from tests.helpers import until


@pytest.fixture
def large(vault):
    """A vault of 201 notes, one of which has a zebra."""
    for number in range(200):
        (vault / f"{number}.md").write_text(f"note {number}")
    (vault / "z.md").write_text("zebra")
    return vault


def found(book):
    """Return how many notes a question finds, and why it may not find all."""
    answer = book.find("zebra")
    return len(answer.hits), answer.index.reason


def test_what_another_process_reads_is_not_waited_for(large):
    """While a process reads a large vault, a question reads nothing and says so; afterwards it reads what is left."""
    with spellbook.open(large, embedder="hash") as book:
        with processes.present(book.config.state, processes.EMBEDDING):
            assert found(book) == (0, BEING_READ)
            assert book.search("zebra").index.reason == BEING_READ
            assert found(limited.seen_by(book, "team")) == (0, BEING_READ)
        assert found(book) == (1, "")


def test_a_small_vault_is_read_at_once(large):
    """With 200 notes or fewer a question reads them itself, and finds all."""
    (large / "0.md").unlink()
    with (
        spellbook.open(large, embedder="hash") as book,
        processes.present(book.config.state, processes.EMBEDDING),
    ):
        assert found(book) == (1, "")


@contextlib.contextmanager
def served(book, monkeypatch):
    """A server's background that is about to watch, and an event that lets it."""
    may = threading.Event()
    monkeypatch.setattr(background, "WARM_UP_SECONDS", 0)
    monkeypatch.setattr(background.watcher, "Watcher", lambda book: (may.wait(), Watcher(book))[1])
    served = background.Background(book, threading.Event(), lambda: None)
    try:
        until(lambda: processes.is_embedding(book.config.state))
        yield may
    finally:
        may.set()
        served.stop()


@pytest.mark.parametrize("taken", [None, True, False], ids=["", "by another process", "by nobody, and cannot be"])
def test_a_watcher_that_is_about_to_read_is_left_to_it(large, taken, monkeypatch):
    """
    From the start of a server on a question leaves the first scan to its watcher, and finds all after it. Where another
    process is the watcher, and does not read, or its lock cannot be taken, a question reads the vault.
    """
    with spellbook.open(large, embedder="hash") as book, contextlib.ExitStack() as stack:
        lock = book.config.state / processes.ELECTED
        if taken:
            stack.enter_context(held(lock))
        elif taken is False:
            lock.mkdir(parents=True)
        with served(book, monkeypatch) as may:
            assert found(book) == (0, BEING_READ)
            may.set()
            until(lambda: not processes.is_embedding(book.config.state))
            assert found(book) == (1, "")
            assert book.is_watched() == (taken is None)


def test_what_needs_all_notes_reads_them(large):
    """While another process is at the first scan, a topic is erased whole, and a note on disk is changed."""
    for number in range(10):
        (large / f"t{number}.md").write_text(f"---\ntopic: harbour\n---\nboat {number}")
    with spellbook.open(large, embedder="hash") as book:
        sync.scan_paths(book.index, ["t0.md", "0.md"])
        with processes.present(book.config.state, processes.EMBEDDING):
            assert found(book) == (0, BEING_READ)
            book.erase_topic("harbour")
            assert not list(large.glob("t*.md"))
