"""Use counts, response times, and the list of running processes."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spellbook import book as books
from spellbook.book import Spellbook
from spellbook.errors import StorageError
from spellbook.index.catalog.catalog import Catalog
from spellbook.index.catalog.usage import Use
from spellbook.index.metrics import Meter, bucket
from spellbook.system.processes import Watched, present, processes

Write = Callable[..., Path]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog.open(tmp_path)


def adjustments(book: Spellbook, query: str) -> dict[str, dict[str, float]]:
    """The adjustments of every hit, by path and reason."""
    return {
        hit.path: {each["reason"]: each["share"] for each in hit.why["adjustments"]}
        for hit in book.search(query, min_score=0).hits
    }


def test_what_is_opened_ranks_higher_and_says_so(book: Spellbook, write_note: Write) -> None:
    """Of two equal notes the one that was opened ranks first, by a share that grows with each time up to a bound."""
    write_note("a.md", "The copper harbour, one.")
    write_note("b.md", "The copper harbour, two.")
    assert adjustments(book, "copper harbour")["b.md"] == {}
    book.show("b")
    once = adjustments(book, "copper harbour")["b.md"]["opened once"]
    for _ in range(20):
        book.show("b")
    often = adjustments(book, "copper harbour")["b.md"]["opened 21 times"]
    assert (once, often) == (pytest.approx(0.01, abs=0.001), pytest.approx(0.03, abs=0.001))
    assert next(iter(adjustments(book, "copper harbour"))) == "b.md"


def test_whoever_writes_makes_no_count_wait_and_no_reader(book: Spellbook, write_note: Write) -> None:
    """While another process writes, notes are read at once, and counts are stored afterwards without loss."""
    write_note("a.md", "The copper harbour.")
    book.find("copper")
    book.stats()  # writes down what was counted
    writer = sqlite3.connect(book.index.catalog.file, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    book.hand_over(Watched(is_current=True))
    started = time.monotonic()
    assert book.show("a")
    book.find("copper")
    book.stats()  # writes down what was counted
    assert time.monotonic() - started < 5  # a writer is waited for thirty seconds
    writer.execute("ROLLBACK")
    writer.close()
    assert book.stats()["timings"]["find"]["count"] == 2


def test_who_wants_no_counting_gets_none(vault: Path, write_note: Write) -> None:
    """With `count_use = false` nothing is counted, and old counts have no effect."""
    write_note("a.md", "The copper harbour.")
    with books.open(vault, embedder="hash") as book:
        book.show("a")
    write_note(".spellbook/config.toml", "count_use = false")
    with books.open(vault, embedder="hash") as book:
        book.show("a")
        assert book.index.catalog.usage.of(["a"])["a"].count == 1
        assert adjustments(book, "copper harbour") == {"a.md": {}}


def test_use_keeps_a_note_from_fading(book: Spellbook, write_note: Write) -> None:
    """An old note that was opened today ages from today."""
    write_note("a.md", "The copper harbour.", created="2001-01-01", category="project")
    assert any("days old" in reason for reason in adjustments(book, "copper harbour")["a.md"])
    book.show("a")
    assert adjustments(book, "copper harbour")["a.md"].keys() == {"opened once"}


def test_counting_changes_no_generation_and_survives(vault: Path, write_note: Write) -> None:
    """Counting does not change the index's generation, and counts survive the process."""
    write_note("a.md", "The copper harbour.")
    with books.open(vault, embedder="hash") as book:
        book.show("a")
        before = book.state().generation
        book.show("a")
        assert book.state().generation == before
    with books.open(vault, embedder="hash") as book:
        assert book.stats()["opened"] == {"a": 2}


def test_timings_are_of_all_processes(vault: Path, write_note: Write) -> None:
    """`stats` gives count, median and p95 by verb over all processes, and how many texts were embedded or reused."""
    write_note("a.md", "The copper harbour.")
    for _ in range(2):
        with books.open(vault, embedder="hash") as book:
            book.reindex()
            book.search("copper")
            book.find("copper")
    with books.open(vault, embedder="hash") as book:
        stats = book.stats()
    assert {verb: timing["count"] for verb, timing in stats["timings"].items()} == {"search": 2, "find": 2}
    assert all(0 < timing["p50"] <= timing["p95"] < 60_000 for timing in stats["timings"].values())
    assert stats["embedded"] == 1


def test_percentiles(catalog: Catalog) -> None:
    """Of 90 answers in 2 ms and 10 in 500 ms, the median is 2 ms and p95 500 ms, within 15 %."""
    catalog.usage.add({("search", bucket(2.0)): 90, ("search", bucket(500.0)): 10})
    timings, _ = Meter(catalog.usage).read()
    assert timings["search"].count == 100
    assert (timings["search"].p50, timings["search"].p95) == (pytest.approx(2, rel=0.15), pytest.approx(500, rel=0.15))


def test_old_counts_go(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts older than 30 days are deleted with the next count."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 40 * 86_400)
    catalog.usage.add({("old", 1): 5})
    monkeypatch.setattr(time, "time", lambda: now)
    catalog.usage.add({("new", 1): 5})
    assert catalog.usage.counts().keys() == {"new"}


def test_a_count_never_disturbs(catalog: Catalog) -> None:
    """If nothing can be stored, the timed verb still works."""

    class Full:
        def add(self, *given: object) -> None:
            raise StorageError("The disk is full.", "Make room.")

    meter = Meter(Full())  # type: ignore[arg-type]
    with meter.timed("search"):
        pass
    meter.flush()
    assert catalog.usage.most(5) == {}
    catalog.usage.opened(["n", "n", "m"])
    assert {note: use.count for note, use in catalog.usage.most(5).items()} == {"n": 1, "m": 1}
    assert isinstance(catalog.usage.of(["n", "x"])["n"], Use)


def test_who_is_there(tmp_path: Path) -> None:
    """A process is listed while it runs, and no longer once it was killed."""
    code = "import sys, time; from pathlib import Path; from spellbook.system.processes import present\nwith present(Path(sys.argv[1]), 'mcp'): print('in', flush=True); time.sleep(60)"
    with (
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as child,
        present(tmp_path, "watch"),
    ):
        assert child.stdout
        child.stdout.readline()
        assert {(each.kind, each.pid) for each in processes(tmp_path)} == {("mcp", child.pid), ("watch", os.getpid())}
        child.kill()
        child.wait()
        assert [each.kind for each in processes(tmp_path)] == ["watch"]
    assert processes(tmp_path) == ()
    assert list((tmp_path / "processes").iterdir()) == []
