"""A vault that nothing watches: for how long a look that found no change is believed, and what ends it."""

from __future__ import annotations

import os
import time

import pytest

import spellbook
from spellbook.library import upkeep
from spellbook.library.upkeep import QuietLook
from spellbook.system.processes import Watched


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(book, write_note):
    """A clock of the book, whose vault has one note, and was last looked at without finding a change."""
    os.utime(write_note("old.md", "lighthouse"), (time.time() - 60,) * 2)
    clock = Clock()
    book.last_look = QuietLook(clock)
    for _ in range(1_000):  # a file is read again until its time cannot hide a change
        book.refresh()
        if book.last_look.is_believed(book.index):
            return clock
    raise AssertionError("the vault never was quiet")


def paths(book, word):
    """Return the paths of the notes with a word, as a question finds them."""
    return [hit.path for hit in book.find(word).hits]


def test_what_another_program_saves_is_found_within_a_second(book, clock, vault):
    """A look that found no change is believed for one second, and no longer."""
    (vault / "new.md").write_text("zebra")
    clock.now += 0.99
    assert paths(book, "zebra") == []
    clock.now += 0.01
    assert paths(book, "zebra") == ["new.md"]


def test_after_a_change_each_question_looks(book, clock, vault):
    """While files are as young as two seconds nothing is believed: an edit at once after another one is found."""
    clock.now += 1
    for word in ("zebra", "giraffe", "heron"):
        (vault / "new.md").write_text(word)
        assert paths(book, word) == ["new.md"]


def test_a_write_of_this_process_ends_it(book, clock, vault):
    """What is written with Spellbook is found at once, by the same and by another opening, and so is what else came."""
    (vault / "by-hand.md").write_text("zebra")
    with spellbook.open(vault, embedder="hash") as other:
        done = other.scribe(
            {"text": "a giraffe", "metadata": {"title": "G", "topic": "t", "category": "knowledge", "keywords": ["g"]}}
        )
    assert paths(book, "giraffe") == [note.path for note in done.written]
    assert paths(book, "zebra") == ["by-hand.md"]


def test_a_change_of_a_note_that_is_not_known_yet_looks(book, clock, vault):
    """A change names a note that another program has just saved: it is looked for before it is an error."""
    (vault / "new.md").write_text("# New\n\nzebra")
    assert book.erase("new").chunk_ids == ("new#",)


def test_the_setting_is_the_seconds_and_0_is_never(vault, write_note):
    """With `look_seconds = 0` each question looks, however quiet the vault is."""
    write_note(".spellbook/config.toml", "look_seconds = 0")
    os.utime(write_note("old.md", "lighthouse"), (time.time() - 60,) * 2)
    with spellbook.open(vault, embedder="hash") as book:
        book.last_look = QuietLook(Clock())
        for word in ("zebra", "heron"):
            assert paths(book, "lighthouse") == ["old.md"]
            os.utime(write_note(f"{word}.md", word), (time.time() - 60,) * 2)
            assert paths(book, word) == [f"{word}.md"]
            assert not book.last_look.is_believed(book.index)


def test_a_server_that_starts_leaves_embedding_to_its_watcher(book, monkeypatch):
    """While the watcher of this process is about to embed, a question embeds for a moment, not for two seconds."""
    stops = []
    monkeypatch.setattr(upkeep, "embed_texts", lambda index, *, most, stop: stops.append(stop))
    book.hand_over(Watched(is_starting=True))
    book.search("lighthouse")
    time.sleep(0.15)
    book.hand_over(Watched())
    book.search("lighthouse")
    assert not stops[1]()
    assert stops[0]()
