"""The Python interface: the verbs on a vault."""

import contextlib
import dataclasses
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

import spellbook
from spellbook.index import sync
from spellbook.index.opened import BEING_READ
from spellbook.library import book as books
from spellbook.library import limited
from spellbook.library.book import Spellbook
from spellbook.library.reader import Reader
from spellbook.settings import config
from spellbook.system import processes
from spellbook.system.errors import (
    InvalidInput,
    MemoryNotFound,
    RestExpired,
    RestInvalid,
    RestRequired,
    SpellbookError,
)
from spellbook.system.lock import held
from spellbook.watch import background
from spellbook.watch.watcher import Watcher
from tests.helpers import Failing, Write, as_before, opened, until, watched


def test_every_verb_sees_the_vault_as_it_is_now(
    book: Spellbook, vault: Path, write_note: Write, tmp_path: Path
) -> None:
    """
    Without a watcher each query scans first and sees new, changed and deleted files. `find` uses only words, `memorize`
    only meaning.

    If the vault cannot be read, search uses the index and is degraded until the vault is back. With an invalid ignore
    file search still answers, and the answer reports it.
    """
    file = write_note("a.md", "lighthouse", topic="sea")
    assert paths(book, "lighthouse") == ["a.md"]
    assert [topic.topic for topic in book.topics()] == ["sea"]
    file.write_text("zebra")
    assert (paths(book, "lighthouse"), [found.text for found in book.show("a")]) == ([], ["zebra"])
    file.unlink()
    with pytest.raises(MemoryNotFound):
        book.show("a")
    write_note("a.md", "the lighthouse keeper")
    legs = {"keyword", "semantic"}
    answers = book.find(["lighthouse"]), book.memorize("the lighthouse keeper"), book.search("lighthouse")
    assert [legs & set(answer.hits[0].why) for answer in answers] == [{"keyword"}, {"semantic"}, legs]
    with pytest.raises(InvalidInput, match="match"):
        book.find("x", match="some")
    vault.rename(tmp_path / "unplugged")
    answer = book.find("lighthouse")
    assert (len(answer.hits), answer.index.degraded, "mounted" in answer.index.reason) == (1, True, True)
    assert (book.state().degraded, "mounted" in book.status()["warning"]) == (True, True)
    (tmp_path / "unplugged").rename(vault)
    assert book.find("lighthouse").index.degraded is False
    assert "warning" not in book.status()
    (vault / ".spellbookignore").write_text("!\n")
    answer = book.find("lighthouse")
    assert (len(answer.hits), ".spellbookignore" in answer.index.reason) == (1, True)


def test_topics_are_read_in_order_by_name_or_with_their_category(book: Spellbook, write_note: Write) -> None:
    """`topic` returns the chunks of all its notes, `category/topic` of one category; a topic may contain a slash."""
    write_note("a.md", "## One\n\nx\n\n## Two\n\ny", topic="t", category="project")
    write_note("b.md", "z", topic="t", category="decision")
    write_note("c/d/e.md", "w")
    for topic, ids in (("t", ["a#one", "a#two", "b#"]), ("decision/t", ["b#"]), ("c/d", ["c/d/e#"])):
        assert [found.id for found in book.topic(topic)] == ids
    counted = {(topic.category, topic.topic, topic.notes, topic.chunks) for topic in book.topics()}
    assert counted == {("project", "t", 1, 2), ("decision", "t", 1, 1), ("", "c/d", 1, 1)}


def test_a_watched_vault_is_not_scanned(book: Spellbook, write_note: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Queries do not scan while a living process says that it watches all; they do if it is silent or has ended. Two
    processes that ask at once do not take each other for the watcher. After the state folder was deleted, a query fills
    the index without waiting for the watcher.
    """
    write_note("a.md", "lighthouse")
    book.reindex()
    lock = watched(book)
    write_note("b.md", "lighthouse")
    assert (book.is_watched(), len(book.find("lighthouse").hits)) == (True, 1)
    lock.release()
    assert (book.is_watched(), len(book.find("lighthouse").hits)) == (False, 2)
    lock = watched(book)
    write_note("c.md", "lighthouse")
    with monkeypatch.context() as patch:
        patch.setattr(processes, "BELIEVED", 0)
        assert (book.is_watched(), len(book.find("lighthouse").hits)) == (False, 3)
    lock.release()
    if sys.platform == "win32":  # which deletes no file that is open
        book.close()
    shutil.rmtree(book.config.state)
    book.config.state.mkdir()
    lock = watched(book)
    assert len(book.find("lighthouse").hits) == 3
    lock.release()
    fcntl = pytest.importorskip("fcntl")
    with (book.config.state / processes.ELECTED).open("rb") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        assert not book.is_watched()


def test_an_older_watcher_beside_an_upgraded_program(vault: Path, write_note: Write) -> None:
    """
    The first question after an upgrade reads the vault for the new schema, whatever an older watcher says. Later ones
    do not rely on a watcher of another version, which announces nothing.
    """
    write_note("a.md", "the useState hook")
    with opened(vault) as index:
        sync.scan(index)
        catalog = index.catalog.file
    as_before(catalog)
    write_note("b.md", "the useState hook")
    with spellbook.open(vault, embedder="hash") as book:
        lock = watched(book)
        assert len(book.find("use state").hits) == 2
        write_note("c.md", "the useState hook")
        assert len(book.find("use state").hits) == 2  # what comes later is the watcher's again
        lock.release()
        with FileLock(catalog.parent / "watch.lock"), FileLock(catalog.parent / "watching.lock"):
            processes.announce(catalog.parent, None)
            assert len(book.find("use state").hits) == 3


def test_sessions_say_what_to_do_next(vault: Path) -> None:
    """
    Missing, unknown and ended sessions are different errors, each with a hint. A session is valid until it ends or
    expires, also after its process ended.
    """
    with books.open(vault, embedder="hash") as before:
        session, ended = before.rest("ko")[0], before.rest()[0]
        before.rest_end(ended.id)
        before.index.catalog.sessions.begin("short", -1)
        with pytest.raises(InvalidInput, match="guides"):
            before.rest("fr")
    assert 3590 < session.expires - session.created <= 3600
    with books.open(vault, embedder="hash") as book:
        assert book.require_session(session.id).id == session.id
        refused: list[tuple[str | None, type[SpellbookError], str]] = [
            (missing, RestRequired, r"rest\(\)") for missing in (None, "", "  ")
        ]
        refused += [("short", RestExpired, "after one hour"), (ended.id, RestExpired, "ended")]
        refused += [(name, RestInvalid, "no REST|not a REST") for name in ("rest-000", "' OR 1=1 --", "x" * 10_000)]
        for name, error, words in refused:
            with pytest.raises(error, match=words):
                book.require_session(name)
        for name, error, words in refused[3:]:
            with pytest.raises(error, match=words):
                book.rest_end(name)


def test_doctor_names_what_is_wrong_and_nothing_else(book: Spellbook, vault: Path, write_note: Write) -> None:
    """
    Doctor reports a shared id, a broken header and pending texts, and nothing in a sound vault. A failing embedder is a
    finding of doctor, not an exception.
    """
    write_note("a.md", "text", id="abc", age=100)
    book.reindex()
    assert [problems for _, problems in book.doctor()] == [[]] * len(list(book.doctor()))
    write_note("copy.md", "text of the copy", id="abc")
    write_note("yaml.md", "---\na: [1\n---\nbody")
    report = {name: problems for name, problems in book.doctor() if problems}
    told = "\n".join(problem for problems in report.values() for problem in problems)
    assert all(word in told for word in ("copy.md", "a.md", "abc", "yaml.md, line"))
    assert not {"catalog", "embedder"} & report.keys()
    with Spellbook(config.load(vault, embedder="hash"), Failing()) as failing:
        assert dict(failing.doctor())["embedder"] == ["The embedder is down. Start it."]


def test_reindex_tells_its_progress(book: Spellbook, write_note: Write) -> None:
    """`progress` is called in each stage and ends at 100 %."""
    for i in range(20):
        write_note(f"{i}.md", f"text {i}")
    calls = []
    report = book.reindex(progress=lambda *call: calls.append(call))
    assert (report.added, report.seconds >= 0) == (20, True)
    assert [call for call in calls if call[1] == call[2]] == [("reading", 20, 20), ("embedding", 40, 40)]
    assert dataclasses.asdict(report)["failed"] == ()


def test_threads_may_use_one_book(book: Spellbook, write_note: Write) -> None:
    """Searches, writes and scans from eight threads at once all succeed."""
    write_note("a.md", "lighthouse")

    def work(i: Any) -> Any:
        if i % 3 == 0:
            text = f"thought number {i} about lighthouse {i * 7919}"
            return book.scribe({"text": text, "metadata": {"topic": f"t{i}", "keywords": ["k"]}}, force=True).written
        return book.search("lighthouse").hits if i % 3 == 1 else book.reindex().scanned

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(24)))
    assert len(book.find("lighthouse", limit=50).hits) == 9


# -- a vault that nothing watches: for how long a scan that found no change is believed, and what ends it


@pytest.fixture
def quiet(vault: Path, write_note: Write) -> Iterator[Spellbook]:
    """A book that believes a scan for 100 seconds, whose vault has one note, and whose last scan found no change."""
    assert config.load(vault).look_seconds == 1
    write_note(".spellbook/config.toml", "look_seconds = 100")
    os.utime(write_note("old.md", "lighthouse"), (time.time() - 60,) * 2)
    with spellbook.open(vault, embedder="hash") as book:
        believed(book)
        yield book


def believed(book: Spellbook) -> None:
    """Scan until no file's time can hide a change."""

    def holds() -> bool:
        book.refresh()
        return book.last_scan.is_believed(book.index)

    until(holds)


def paths(book: Reader, word: str) -> list[str]:
    """Return the paths of the notes with a word, as a question finds them."""
    return [hit.path for hit in book.find(word).hits]


def test_a_scan_that_found_nothing_is_believed_for_a_second(quiet: Spellbook, vault: Path, write_note: Write) -> None:
    """
    A scan that found no change is believed for the seconds of the setting, one by default, and no longer. While files
    are as young as two seconds nothing is believed: an edit at once after another one is found.

    A change names a note that another program has just saved: it is looked for before it is an error. What is written
    with Spellbook is found at once, by the same and by another opening, and so is what else came.

    With `look_seconds = 0` each question scans, however quiet the vault is.
    """
    (vault / "new.md").write_text("zebra")
    quiet.last_scan.began -= 50
    assert paths(quiet, "zebra") == []
    quiet.last_scan.began -= 50
    for word in ("giraffe", "heron"):
        (vault / "new.md").write_text(word)
        assert paths(quiet, word) == ["new.md"]
    believed(quiet)
    (vault / "newer.md").write_text("# New\n\nzebra")
    assert quiet.erase("newer").chunk_ids == ("newer#",)
    believed(quiet)
    (vault / "by-hand.md").write_text("zebra")
    with spellbook.open(vault, embedder="hash") as other:
        done = other.scribe({"text": "a giraffe", "metadata": {"title": "G", "topic": "t", "keywords": ["g"]}})
    assert paths(quiet, "giraffe") == [note.path for note in done.written]
    assert paths(quiet, "zebra") == ["by-hand.md"]
    write_note(".spellbook/config.toml", "look_seconds = 0")
    with spellbook.open(vault, embedder="hash") as book:
        for word in ("crane", "stork"):
            assert paths(book, "lighthouse") == ["old.md"]
            os.utime(write_note(f"{word}.md", word), (time.time() - 60,) * 2)
            assert paths(book, word) == [f"{word}.md"]
            assert not book.last_scan.is_believed(book.index)


def test_who_embeds_all_is_left_the_rest(book: Spellbook, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a process embeds all that waits, or is about to, a question embeds for a moment, not for two seconds."""
    stops = []
    monkeypatch.setattr(
        "spellbook.library.scanning.embedding.embed_texts", lambda index, *, most, stop: stops.append(stop)
    )
    with processes.present(book.config.state, processes.EMBEDDING):
        book.search("lighthouse")
    time.sleep(0.15)
    book.search("lighthouse")
    assert (stops[1](), stops[0]()) == (False, True)


# -- a large vault that is read for the first time: a question does not wait until all of it is read


@pytest.fixture
def large(vault: Path) -> Path:
    """A vault of 201 notes, one of which has a zebra."""
    for number in range(200):
        (vault / f"{number}.md").write_text(f"note {number}")
    (vault / "z.md").write_text("zebra")
    return vault


def found(book: Reader) -> tuple[int, str]:
    """Return how many notes a question finds, and why it may not find all."""
    answer = book.find("zebra")
    return len(answer.hits), answer.index.reason


def test_what_another_process_reads_is_not_waited_for(large: Path) -> None:
    """
    While a process reads a large vault, a question reads nothing and says so; afterwards it reads what is left. What
    needs all notes reads them: a topic is erased whole. With 200 notes or fewer a question reads them itself, and finds
    all.
    """
    for number in range(10):
        (large / f"t{number}.md").write_text(f"---\ntopic: harbour\n---\nboat {number}")
    with spellbook.open(large, embedder="hash") as book:
        with processes.present(book.config.state, processes.EMBEDDING):
            assert found(book) == (0, BEING_READ)
            assert book.search("zebra").index.reason == BEING_READ
            assert found(limited.seen_by(book, "team")) == (0, BEING_READ)
            sync.scan_paths(book.index, ["t0.md", "0.md"])
            assert found(book) == (0, BEING_READ)
            book.erase_topic("harbour")
            assert not list(large.glob("t*.md"))
        assert found(book) == (1, "")
    shutil.rmtree(book.config.state)
    (large / "0.md").unlink()
    with spellbook.open(large, embedder="hash") as book, processes.present(book.config.state, processes.EMBEDDING):
        assert found(book) == (1, "")


@contextlib.contextmanager
def served(book: Spellbook, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server's background that is about to watch, and an event that lets it."""
    may = threading.Event()
    monkeypatch.setattr(background, "WARM_UP_SECONDS", 0)
    monkeypatch.setattr("spellbook.watch.background.watcher.Watcher", lambda book: (may.wait(), Watcher(book))[1])
    served = background.Background(book, threading.Event())
    try:
        until(lambda: processes.is_embedding(book.config.state))
        yield may
    finally:
        may.set()
        served.stop()


@pytest.mark.parametrize("taken", [None, True, False], ids=["", "by another process", "by nobody, and cannot be"])
def test_a_watcher_that_is_about_to_read_is_left_to_it(
    large: Path, taken: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
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
