"""A vault that nothing watches: for how long a scan that found no change is believed, and what ends it."""

from __future__ import annotations

import os
import time

import pytest

import spellbook
from spellbook.library import book as library
from spellbook.settings import config
from spellbook.system.processes import EMBEDDING, present
from tests.helpers import until


@pytest.fixture
def quiet(vault, write_note):
    """A book that believes a scan for 100 seconds, whose vault has one note, and whose last scan found no change."""
    assert config.load(vault).look_seconds == 1
    write_note(".spellbook/config.toml", "look_seconds = 100")
    os.utime(write_note("old.md", "lighthouse"), (time.time() - 60,) * 2)
    with spellbook.open(vault, embedder="hash") as book:
        # A file is read again until its time cannot hide a change.
        until(lambda: (book.refresh(), book.last_scan.is_believed(book.index))[1])
        yield book


def paths(book, word):
    """Return the paths of the notes with a word, as a question finds them."""
    return [hit.path for hit in book.find(word).hits]


def test_what_another_program_saves_is_found_within_a_second(quiet, vault):
    """
    A scan that found no change is believed for the seconds of the setting, one by default, and no longer. While files are as young as two seconds
    nothing is believed: an edit at once after another one is found.
    """
    (vault / "new.md").write_text("zebra")
    quiet.last_scan.began -= 50
    assert paths(quiet, "zebra") == []
    quiet.last_scan.began -= 50
    for word in ("zebra", "giraffe", "heron"):
        (vault / "new.md").write_text(word)
        assert paths(quiet, word) == ["new.md"]


def test_a_write_of_this_process_ends_it(quiet, vault):
    """What is written with Spellbook is found at once, by the same and by another opening, and so is what else came."""
    (vault / "by-hand.md").write_text("zebra")
    with spellbook.open(vault, embedder="hash") as other:
        done = other.scribe(
            {"text": "a giraffe", "metadata": {"title": "G", "topic": "t", "category": "knowledge", "keywords": ["g"]}}
        )
    assert paths(quiet, "giraffe") == [note.path for note in done.written]
    assert paths(quiet, "zebra") == ["by-hand.md"]


def test_a_change_of_a_note_that_is_not_known_yet_scans(quiet, vault):
    """A change names a note that another program has just saved: it is looked for before it is an error."""
    (vault / "new.md").write_text("# New\n\nzebra")
    assert quiet.erase("new").chunk_ids == ("new#",)


def test_the_setting_is_the_seconds_and_0_is_never(vault, write_note):
    """With `look_seconds = 0` each question scans, however quiet the vault is."""
    write_note(".spellbook/config.toml", "look_seconds = 0")
    os.utime(write_note("old.md", "lighthouse"), (time.time() - 60,) * 2)
    with spellbook.open(vault, embedder="hash") as book:
        for word in ("zebra", "heron"):
            assert paths(book, "lighthouse") == ["old.md"]
            os.utime(write_note(f"{word}.md", word), (time.time() - 60,) * 2)
            assert paths(book, word) == [f"{word}.md"]
            assert not book.last_scan.is_believed(book.index)


def test_who_embeds_all_is_left_the_rest(book, monkeypatch):
    """While a process embeds all that waits, or is about to, a question embeds for a moment, not for two seconds."""
    stops = []
    monkeypatch.setattr(library, "embed_texts", lambda index, *, most, stop: stops.append(stop))
    with present(book.config.state, EMBEDDING):
        book.search("lighthouse")
    time.sleep(0.15)
    book.search("lighthouse")
    assert not stops[1]()
    assert stops[0]()
