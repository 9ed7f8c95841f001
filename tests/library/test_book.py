"""The Python interface: the verbs on a vault."""

from __future__ import annotations

import dataclasses
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from filelock import FileLock

import spellbook
from spellbook.index import sync
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.settings import config
from spellbook.system import processes
from spellbook.system.errors import InvalidInput, MemoryNotFound, RestExpired, RestInvalid, RestRequired
from tests.helpers import Failing, as_before, finished, opened, python, watched


def test_the_readme_example(vault, write_note):
    """`spellbook.open` in a `with`, a search, and the named attributes of its hits."""
    write_note("keys.md", "# Keys\n\nThey are rotated on Mondays.")
    with spellbook.open(vault, embedder="hash") as book:
        [hit] = book.search("rotated keys", limit=5, filter={"path": "*.md"}).hits
        assert (hit.path, hit.line, hit.title, 0 < hit.score <= 1) == ("keys.md", 1, "Keys", True)
    assert spellbook.SpellbookError.__name__ == "SpellbookError"
    with pytest.raises(AttributeError):
        spellbook.nothing  # noqa: B018


def test_every_verb_sees_the_vault_as_it_is_now(book, vault, write_note):
    """Without a watcher each query scans first and sees new, changed and deleted files."""
    file = write_note("a.md", "lighthouse", topic="sea")
    assert [hit.path for hit in book.find("lighthouse").hits] == ["a.md"]
    assert [topic.topic for topic in book.topics()] == ["sea"]
    file.write_text("zebra")
    assert (book.find("lighthouse").hits, [found.text for found in book.show("a")]) == ((), ["zebra"])
    file.unlink()
    with pytest.raises(MemoryNotFound):
        book.show("a")


def test_find_and_memorize_are_words_and_meaning_alone(book, write_note):
    """`find` uses only words, `memorize` only meaning."""
    write_note("a.md", "the lighthouse keeper")
    legs = {"keyword", "semantic"}
    assert [legs & set(answer.hits[0].why) for answer in (book.find(["lighthouse"]), book.memorize("the lighthouse keeper"), book.search("lighthouse"))] == [
        {"keyword"}, {"semantic"}, legs,
    ]  # fmt: skip
    with pytest.raises(InvalidInput, match="match"):
        book.find("x", match="some")


def test_topics_are_read_in_order_by_name_or_with_their_category(book, write_note):
    """`topic` returns the chunks of all its notes, `category/topic` of one category; a topic may contain a slash."""
    write_note("a.md", "## One\n\nx\n\n## Two\n\ny", topic="t", category="project")
    write_note("b.md", "z", topic="t", category="decision")
    write_note("c/d/e.md", "w")
    assert [found.id for found in book.topic("t")] == ["a#one", "a#two", "b#"]
    assert [found.id for found in book.topic("decision/t")] == ["b#"]
    assert [found.id for found in book.topic("c/d")] == ["c/d/e#"]
    assert {(topic.category, topic.topic, topic.notes, topic.chunks) for topic in book.topics()} == {
        ("project", "t", 1, 2),
        ("decision", "t", 1, 1),
        ("", "c/d", 1, 1),
    }


def test_a_vault_that_is_away_is_said_to_be_and_still_searched(book, vault, write_note, tmp_path):
    """If the vault cannot be read, search uses the index and is degraded until the vault is back."""
    write_note("a.md", "lighthouse")
    book.reindex()
    vault.rename(tmp_path / "unplugged")
    answer = book.find("lighthouse")
    assert (len(answer.hits), answer.index.degraded, "mounted" in answer.index.reason) == (1, True, True)
    assert (book.state().degraded, "mounted" in book.status()["warning"]) == (True, True)
    (tmp_path / "unplugged").rename(vault)
    assert book.find("lighthouse").index.degraded is False
    assert "warning" not in book.status()


def test_a_broken_ignore_file_does_not_end_the_search(book, vault, write_note):
    """With an invalid ignore file search still answers, and the answer reports it."""
    write_note("a.md", "lighthouse")
    book.reindex()
    (vault / ".spellbookignore").write_text("!\n")
    answer = book.find("lighthouse")
    assert (len(answer.hits), ".spellbookignore" in answer.index.reason) == (1, True)


def test_a_watched_vault_is_not_scanned(book, write_note, monkeypatch):
    """Queries do not scan while a living process says that it watches all; they do if it is silent or has ended."""
    write_note("a.md", "lighthouse")
    book.reindex()
    lock = watched(book)
    write_note("b.md", "lighthouse")
    assert (book.is_watched(), len(book.find("lighthouse").hits)) == (True, 1)
    lock.release()
    assert (book.is_watched(), len(book.find("lighthouse").hits)) == (False, 2)
    watched(book)
    write_note("c.md", "lighthouse")
    monkeypatch.setattr(processes, "BELIEVED", 0)
    assert (book.is_watched(), len(book.find("lighthouse").hits)) == (False, 3)


def test_an_older_watcher_beside_an_upgraded_program(vault, write_note):
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


def test_asking_whether_somebody_watches_does_not_look_like_watching(book):
    """Two processes that ask at once do not take each other for the watcher."""
    fcntl = pytest.importorskip("fcntl")
    lock = book.config.state / "watch.lock"
    lock.touch()
    processes.announce(book.config.state, "")
    with lock.open("rb") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        assert not book.is_watched()


def test_an_index_begun_anew_is_filled_though_somebody_watches(book, write_note):
    """After the state folder was deleted, a query fills the index without waiting for the watcher."""
    write_note("a.md", "lighthouse")
    book.reindex()
    shutil.rmtree(book.config.state)
    book.config.state.mkdir()
    watched(book)
    assert len(book.find("lighthouse").hits) == 1


def test_sessions_say_what_to_do_next(book):
    """Missing, unknown and ended sessions are different errors, each with a hint."""
    session = book.rest("ko")[0]
    assert book.require_session(session.id).id == session.id
    assert 3590 < session.expires - session.created <= 3600
    for missing in (None, "", "  "):
        with pytest.raises(RestRequired, match=r"rest\(\)"):
            book.require_session(missing)
    with pytest.raises(RestInvalid):
        book.require_session("rest-000")
    book.rest_end(session.id)
    with pytest.raises(RestExpired):
        book.require_session(session.id)
    with pytest.raises(InvalidInput, match="guides"):
        book.rest("fr")


def test_doctor_names_what_is_wrong_and_nothing_else(book, vault, write_note):
    """Doctor reports a shared id, a broken header and pending texts, and nothing in a sound vault."""
    write_note("a.md", "text", id="abc", age=100)
    book.reindex()
    assert [problems for _, problems in book.doctor()] == [[]] * len(list(book.doctor()))
    write_note("copy.md", "text of the copy", id="abc")
    write_note("yaml.md", "---\na: [1\n---\nbody")
    report = {name: problems for name, problems in book.doctor() if problems}
    told = "\n".join(problem for problems in report.values() for problem in problems)
    assert all(word in told for word in ("copy.md", "a.md", "abc", "yaml.md, line"))
    assert "catalog" not in report
    assert "embedder" not in report


def test_doctor_reports_an_embedder_that_is_down(vault, write_note):
    """A failing embedder is a finding of doctor, not an exception."""
    write_note("a.md", "text")
    with Spellbook(config.load(vault, embedder="hash"), Failing()) as book:
        assert dict(book.doctor())["embedder"] == ["The embedder is down. Start it."]


def test_reindex_tells_its_progress(book, write_note):
    """`progress` is called in each stage and ends at 100 %."""
    for i in range(20):
        write_note(f"{i}.md", f"text {i}")
    calls = []
    report = book.reindex(progress=lambda *call: calls.append(call))
    assert (report.added, report.seconds >= 0) == (20, True)
    assert [call for call in calls if call[1] == call[2]] == [("reading", 20, 20), ("embedding", 40, 40)]
    assert dataclasses.asdict(report)["failed"] == ()


def test_threads_may_use_one_book(book, write_note):
    """Searches, writes and scans from eight threads at once all succeed."""
    write_note("a.md", "lighthouse")

    def work(i):
        if i % 3 == 0:
            text = f"thought number {i} about lighthouse {i * 7919}"
            return book.scribe({"text": text, "metadata": {"topic": f"t{i}", "keywords": ["k"]}}, force=True).written
        return book.search("lighthouse").hits if i % 3 == 1 else book.reindex().scanned

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(24)))
    assert len(book.find("lighthouse", limit=50).hits) == 9


def test_two_processes_index_one_vault_together(vault, write_note):
    """Two reindex processes both finish, each note is there once, and nothing is pending."""
    for i in range(150):
        write_note(f"{i}.md", f"# Note {i}\n\ntext number {i}")
    code = """
import sys, spellbook
with spellbook.open(sys.argv[1], embedder="hash") as book:
    print(book.reindex().pending)
"""
    assert finished(*(python(code, vault) for _ in range(2))) == ["0", "0"]
    with books.open(vault, embedder="hash") as book:
        assert book.reindex().unchanged == book.index.catalog.counts().notes == 150
        assert book.index.catalog.verify() == []
