"""Undoing several changes: those since a time, or those of a session; all or none."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from spellbook.cli import progress_bar
from spellbook.editing import undo as undoing
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.system.errors import Conflict, InvalidInput
from tests.commands import spellbook_in as run
from tests.helpers import Write, note_writer


@pytest.fixture
def harbour(book: Spellbook, write_note: Write) -> Path:
    """A note that was changed three times, and one that was moved."""
    place = write_note("harbour.md", "# Harbour\n\nfirst\n", age=100)
    write_note("crane.md", "# Crane\n\nlifts\n", age=100)
    for text in ("second", "third", "fourth"):
        book.revise("harbour", replace=(place.read_text().split("\n")[2], text))
    book.move("crane.md", "deep/crane.md")
    return place


def test_all_of_a_session_are_undone(book: Spellbook, harbour: Path, vault: Path) -> None:
    """
    They are undone newest first, and found again; a second time there is nothing left. If one cannot be undone, what
    was undone before it is put back, byte for byte, and the error says why.
    """
    assert [entry.id for entry in book.undo_all(dry_run=True)] == [4, 3, 2, 1]
    text = harbour.read_text()
    harbour.write_text("# Harbour\n\nedited in an editor\n")
    with pytest.raises(Conflict, match="changed since entry 3"):
        book.undo_all()
    assert harbour.read_text() == "# Harbour\n\nedited in an editor\n"
    assert (vault / "deep/crane.md").exists()
    assert not (vault / "crane.md").exists()
    harbour.write_text(text)
    assert [entry.id for entry in book.undo_all()] == [4, 3, 2, 1], "as if nothing had been tried"
    assert harbour.read_text() == "# Harbour\n\nfirst\n"
    assert (vault / "crane.md").exists()
    assert book.find("first").hits
    assert book.undo_all() == []


def test_since_a_time(book: Spellbook, harbour: Path) -> None:
    """
    A span counts back from now; a time is as ISO 8601 writes it. Another text is an error, which shows how to write
    it; without a time the last session counts.
    """
    (newest, *_) = book.log(1)
    for since, seconds in (("10m", 600), ("2h", 7_200), ("3d", 259_200)):
        assert len(undoing.chosen(book.index, since, newest.at + seconds - 60)) == 4
        assert not undoing.chosen(book.index, since, newest.at + seconds + 1)
    assert len(undoing.chosen(book.index, "2020-01-01")) == len(undoing.chosen(book.index, "")) == 4
    assert not undoing.chosen(book.index, "2099-01-01 10:00")
    for wrong in ("soon", "10", "-5m", "10 weeks", "99999999d", "2026-02-30", "m"):
        with pytest.raises(InvalidInput, match="is not a time"):
            undoing.chosen(book.index, wrong)


def test_a_session_is_what_the_log_names_so(book: Spellbook, harbour: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A session of a client is undone without what others changed meanwhile. Where the log names none, half an hour
    without a change ends it.
    """
    book.memories.decisions.save("crane", "We lift at noon", session="agent-1")
    book.revise("harbour", replace=("fourth", "fifth"))
    book.memories.decisions.save("quay", "The quay is closed", session="agent-1")
    assert [entry.session for entry in book.undo_all(dry_run=True)] == ["agent-1", "agent-1"]
    book.undo_all()
    assert "fifth" in harbour.read_text()
    assert [entry.id for entry in book.undo_all(dry_run=True)][-1] == 1, "then the run of changes without one"
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3_600)
    book.revise("harbour", replace=("fifth", "sixth"))
    assert [entry.what for entry in book.undo_all(dry_run=True)] == ["harbour"]


def test_the_command_shows_and_asks(vault: Path, write_note: Write) -> None:
    """Without a terminal it lists the changes and changes nothing; --yes does it; a wrong use is an error."""
    place = write_note("harbour.md", "# Harbour\n\nfirst\n", age=100)
    for old, new in (("first", "second"), ("second", "third")):
        run(vault, "revise", "harbour", "--replace", old, new)
    shown = run(vault, "undo", "--since", "10m")
    assert (shown.stdout.count("revise"), "--yes" in shown.stderr) == (2, True)
    assert "third" in place.read_text()
    assert json.loads(run(vault, "undo", "--session", "--json").stdout)["undone"] == []
    run(vault, "undo", "--session", "--since", "10m", code=2)
    run(vault, "undo", 1, "--session", code=2)
    assert "2 changes undone." in run(vault, "undo", "--session", "--yes").stderr
    assert "first" in place.read_text()


def test_a_long_reindex_tells_how_far_it_is(vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal a line comes now and then on stderr, none in a short run, with --quiet or --json."""
    note_writer(vault)("a.md", "# A\n\ntext", age=100)
    assert run(vault, "reindex").stderr == ""
    monkeypatch.setattr(progress_bar, "EVERY", 0.0)
    shown = run(vault, "reindex", "--full")
    assert "reading: 1 of 1 so far" in shown.stderr
    assert "so far" not in shown.stdout
    assert run(vault, "reindex", "--full", "--quiet").output == ""
    json.loads(run(vault, "reindex", "--full", "--json").output)


def test_the_first_token_says_what_it_locks(vault: Path) -> None:
    """With the first token this machine's own dashboard asks for one, and `token add` says so; not with a second."""
    assert "dashboard" in run(vault, "token", "add", "phone").stderr
    assert "dashboard" not in run(vault, "token", "add", "laptop").stderr


def test_a_note_moved_twice_comes_back(vault: Path) -> None:
    """Moves on top of each other are undone in one go."""
    note_writer(vault)("a.md", "# A\n\ntext", age=100)
    with books.open(vault, embedder="hash") as book:
        book.reindex()
        before = (vault / "a.md").read_bytes()
        book.move("a.md", "b/a.md")
        book.move("b", "c")
        book.revise("c/a", replace=("text", "other"))
        assert len(book.undo_all("1h")) == 3
        assert (vault / "a.md").read_bytes() == before
