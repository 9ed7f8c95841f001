"""Use counts, response times, and the list of running processes."""

import datetime as dt
import os
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from spellbook.cli import main
from spellbook.index import reindex_seal
from spellbook.index.catalog.catalog import Catalog
from spellbook.index.catalog.usage import FailureKind, Failures
from spellbook.index.metrics import Meter, bucket
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.system.errors import InvalidInput, MemoryNotFound, StorageError
from spellbook.system.processes import present, processes
from tests.helpers import Write, rows, watched
from tests.mcp.agent import Agent, talk


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog.open(tmp_path)


def adjustments(book: Spellbook, query: str) -> dict[str, dict[str, float]]:
    """The adjustments of every hit, by path and reason."""
    return {
        hit.path: {each["reason"]: each["share"] for each in hit.why["adjustments"]}
        for hit in book.search(query, min_score=0).hits
    }


def test_what_is_opened_ranks_higher_and_says_so(vault: Path, write_note: Write) -> None:
    """
    Of two equal notes the one that was opened ranks first, by a share that grows with each time up to a bound; an old
    one that was opened today ages from today. The tool `show` opens a note by a section's id, too.

    Counting does not change the index's generation, and counts survive the process. With `count_use = false` nothing is
    counted, and old counts have no effect.
    """
    write_note("a.md", "The copper harbour, one.")
    write_note("b.md", "The copper harbour, two.", created="2001-01-01", category="project")
    with books.open(vault, embedder="hash") as book:
        assert any("days old" in reason for reason in adjustments(book, "copper harbour")["b.md"])
        before = book.state().generation
        talk(book, lambda agent: agent.call("show", id="b#"))
        once = adjustments(book, "copper harbour")["b.md"]
        for _ in range(20):
            book.show("b")
        often = adjustments(book, "copper harbour")["b.md"]
        assert once == {"opened before": pytest.approx(0.01, abs=0.001)}
        assert often == {"opened before": pytest.approx(0.03, abs=0.001)}
        assert next(iter(adjustments(book, "copper harbour"))) == "b.md"
        assert book.state().generation == before
    write_note(".spellbook/config.toml", "count_use = false")
    with books.open(vault, embedder="hash") as book:
        assert book.stats()["opened"] == {"b": 21}
        book.show("b")
        assert book.index.catalog.usage.of(["b", "x"]).keys() == {"b"}
        assert book.stats()["opened"] == {"b": 21}
        assert "opened before" not in adjustments(book, "copper harbour")["b.md"]


def test_timings_are_of_all_processes(vault: Path, write_note: Write) -> None:
    """
    `stats` gives count, median and p95 by verb over all processes, and how many texts were embedded or reused. While
    another process writes, notes are read at once, and counts are stored afterwards without loss.

    `scanned_at` is when the whole folder was last looked at, by a search, or by a reindex with nothing to do.
    """
    write_note("a.md", "The copper harbour.", age=100)
    with books.open(vault, embedder="hash") as book:
        assert book.index.scanned_at() is None
        book.find("copper")
        first = book.stats()["looked_at"]  # which writes down what was counted, too
        assert abs(dt.datetime.fromisoformat(first).timestamp() - time.time()) < 60
        os.utime(book.config.state / reindex_seal.SCANNED, (1, 1))
        watched(book)
        writer = sqlite3.connect(book.index.catalog.file, isolation_level=None)
        writer.execute("BEGIN IMMEDIATE")
        started = time.monotonic()
        assert book.show("a")
        book.find("copper")  # a watcher's vault is not looked at again
        assert book.stats()["looked_at"][:4] in {"1969", "1970"}
        assert time.monotonic() - started < 30  # a writer is waited for so long elsewhere
        writer.execute("ROLLBACK")
        writer.close()
    with books.open(vault, embedder="hash") as book:
        book.reindex()
        book.search("copper")
    with books.open(vault, embedder="hash") as book:
        stats = book.stats()
    assert {verb: timing["count"] for verb, timing in stats["timings"].items()} == {"search": 1, "find": 2}
    assert all(0 < timing["p50"] <= timing["p95"] < 60_000 for timing in stats["timings"].values())
    assert stats["embedded"] == 1
    for _ in range(3):
        os.utime(book.config.state / reindex_seal.SCANNED, (1, 1))
        CliRunner().invoke(main, ["--vault", str(vault), "reindex"])
        assert book.index.scanned_at() != 1


def test_counts_are_by_the_hour_for_thirty_days(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Of 90 answers in 2 ms and 10 in 500 ms, the median is 2 ms and p95 500 ms, within 15 %. Hours can be told apart, and
    counts older than 30 days are deleted with the next count.

    Errors that have not come again for 30 days go, and of more than 1,000 kinds the oldest.
    """
    start = 20_000 * 86_400
    for hour in (0, 5, 5, 23, 30):
        monkeypatch.setattr(time, "time", lambda hour=hour: start + hour * 3_600 + 60)
        catalog.usage.add({("search", 8): 1})
    assert [catalog.usage.counts(hours)["search"][8] for hours in (1, 8, 26, 48)] == [1, 2, 4, 5]
    monkeypatch.setattr(time, "time", lambda: start + 40 * 86_400)
    catalog.usage.add({("find", bucket(2.0)): 90, ("find", bucket(500.0)): 10})
    assert rows(catalog, "SELECT DISTINCT name FROM counters") == [("find",)]
    found = Meter(catalog.usage).read()[0]["find"]
    assert found.count == 100
    assert [found.p50, found.p95] == pytest.approx([2, 500], rel=0.15)

    def add(first: int, last: int, day: int) -> None:
        at = start + day * 86_400
        monkeypatch.setattr(time, "time", lambda: at)
        kinds = [FailureKind("X", f"verb {number}", "cli", "") for number in range(first, last)]
        catalog.usage.add({("errors X", -1_000): 1}, [Failures(kind, 1, at, at) for kind in kinds])

    add(0, 10, 100)
    add(10, 20, 140)
    assert len(catalog.usage.failures()) == 10
    add(20, 1_015, 160)
    kept = catalog.usage.failures()
    assert len(kept) == 1_000
    assert {each.kind.verb for each in kept} >= {f"verb {number}" for number in range(20, 1_015)}
    assert len(catalog.usage.failures(hours=24)) == 995


def test_equal_errors_are_one_and_hold_no_text(catalog: Catalog, tmp_path: Path) -> None:
    """
    Errors are grouped by code, verb, door and message without its values; others by class and place. If nothing can be
    stored, the timed verb still works.
    """

    class Full:
        def add(self, *given: object) -> None:
            raise StorageError("The disk is full.", "Make room.")

    disturbed = Meter(Full())  # type: ignore[arg-type]
    with disturbed.timed("search"):
        pass
    disturbed.flush()
    meter = Meter(catalog.usage)

    def fail(error: Exception, verb: str = "search", door: str = "cli") -> None:
        try:
            raise error  # so that it has a place
        except Exception as raised:
            meter.failed(verb, door, raised)

    for secret in ("the duck", "the swan"):
        fail(MemoryNotFound(f"There is no memory {secret!r}.", "Search for the duck."))
    fail(MemoryNotFound("There is no memory 'the duck'."), door="stdio")
    fail(InvalidInput("duck duck duck: the swan"), verb="revise")
    fail(KeyError("the duck"))
    meter.flush()
    found = [each.as_dict() for each in Catalog.open(tmp_path).usage.failures()]
    assert sorted((each["code"], each["verb"], each["door"], each["message"], each["count"]) for each in found) == [
        ("INTERNAL_ERROR", "search", "cli", "KeyError in tests.index.test_metrics.fail", 1),
        ("INVALID_INPUT", "revise", "cli", "InvalidInput in tests.index.test_metrics.fail", 1),
        ("MEMORY_NOT_FOUND", "search", "cli", "There is no memory ….", 2),
        ("MEMORY_NOT_FOUND", "search", "stdio", "There is no memory ….", 1),
    ]
    assert all(str(each["first"]) <= str(each["last"]) and len(str(each["errorId"])) == 12 for each in found)
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("catalog.db*"))
    assert (b"MEMORY_NOT_FOUND" in stored, b"duck" in stored) == (True, False)
    fail(MemoryNotFound("There is no memory 'x'."))
    assert meter.read()[1]["errors MEMORY_NOT_FOUND"] == 4
    assert next(each.times for each in catalog.usage.failures() if each.kind.door == "cli" and each.times > 1) == 3


def test_both_doors_count_their_errors(vault: Path, book: Spellbook) -> None:
    """The command line and the server count what they answer with an error; wrong arguments by what is wrong."""
    CliRunner().invoke(main, ["--vault", str(vault), "show", "the-duck"])

    async def conversation(agent: Agent) -> None:
        await agent.refused("show", id="the-duck")
        await agent.refused("search", query="the duck", limit=1_000)
        await agent.refused("the duck", text="\ud800")
        await agent.call("stats")

    talk(book, conversation)
    book.meter.flush()
    found = {(each.kind.door, each.kind.verb): each.kind for each in book.index.catalog.usage.failures()}
    assert found.keys() == {("cli", "show"), ("stdio", "show"), ("stdio", "search"), ("stdio", "")}
    assert found["cli", "show"][3] == found["stdio", "show"][3] != ""
    assert found["stdio", "search"] == ("INVALID_INPUT", "search", "stdio", "arguments: less_than_equal")
    day = book.stats()["day"]
    assert (day["calls"], day["errors"]) == (4, {"INVALID_INPUT": 2, "MEMORY_NOT_FOUND": 2})


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


def test_looking_hides_no_process(tmp_path: Path) -> None:
    """A process is listed also if others look at the moment when it begins."""
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            processes(tmp_path)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(100):  # without care one in eight was lost
            with present(tmp_path, "watch"):
                assert [each.kind for each in processes(tmp_path)] == ["watch"]
    finally:
        stop.set()
        thread.join()
