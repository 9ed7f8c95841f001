"""recent: the notes of a vault by their dates; the filter key `when`; `search` without a question."""

from __future__ import annotations

import datetime as dt
import json
import os

import pytest

from spellbook.library import book as books
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from spellbook.system.errors import InvalidInput

NOW = dt.datetime(2026, 11, 20, 12).timestamp()


@pytest.fixture
def dated(vault, write_note):
    """Notes by each kind of date, the newest first in this order."""
    write_note("created.md", "# C\n\nfirst\n\n## Later\n\nsecond", created="2026-11-18", updated="2026-01-01")
    write_note("updated.md", "# U", updated="2026-11-17T08:00:00")
    write_note("b/file.md", "a person's own note without a header")
    write_note("a/file.md", "another one")
    write_note("old.md", "# O", created="2020-01-01")
    for path, day in (("b/file.md", 15), ("a/file.md", 15), ("old.md", 19), ("created.md", 1)):
        at = dt.datetime(2026, 11, day, 9).timestamp()
        os.utime(vault / path, (at, at))
    return ["created.md", "updated.md", "b/file.md", "a/file.md", "old.md"]


def paths(found):
    return [each.path for each in found.notes]


def test_the_newest_come_first_by_created_then_updated_then_the_file(book, dated):
    """Each note is there once, by its first chunk; equally new ones come by id, the greater first; pages go on."""
    found = book.recent()
    assert (paths(found), found.total) == (dated, 5)
    assert found.notes[0].text.strip().endswith("first")
    assert paths(book.recent(2)) == dated[:2]
    assert [*paths(book.recent(2)), *paths(book.recent(2, 2)), *paths(book.recent(2, 4))] == dated
    assert (paths(book.recent(20, 5)), book.recent(20, 5).total) == ([], 5)


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ({"when": "2026-11"}, ["created.md", "updated.md", "b/file.md", "a/file.md"]),
        ({"when": "..2026-11-15"}, ["b/file.md", "a/file.md", "old.md"]),
        ({"when": {"from": "2026-11-17"}}, ["created.md", "updated.md"]),
        ({"when!": "2026"}, ["old.md"]),
        ({"path": "a/", "when": "2026"}, ["a/file.md"]),
    ],
)
def test_when_is_the_date_of_every_note(book, dated, filter, expected):
    """A note without a date of its own is in the range that its file's time is in."""
    assert paths(book.recent(filter=filter)) == expected


def test_words_of_time_mean_the_same_date(book, write_note):
    """A note of another time zone is of the day that it is here, for the filter and for a question's words alike."""
    here = dt.datetime(2026, 11, 18, 1).astimezone()
    far = here.astimezone(dt.timezone(here.utcoffset() - dt.timedelta(hours=6)))
    assert far.isoformat().startswith("2026-11-17")
    write_note("far.md", "the harbour decision", created=f"'{far.isoformat()}'")
    for other in ("bread", "boats", "birds"):  # else a word says next to nothing
        write_note(f"{other}.md", other, created="2025-01-01")
    book.refresh()
    assert paths(book.recent(filter={"when": "2026-11-18"})) == ["far.md"]
    searcher = Searcher(book.index, lambda: NOW)
    for day, is_preferred in ((18, True), (17, False)):
        [hit] = searcher.ask(Question(f"the harbour decision of 2026-11-{day}", min_score=0.0)).hits
        assert any("2026-11" in each["reason"] for each in hit.why["adjustments"]) is is_preferred


def test_odd_times_and_numbers(book, vault, write_note):
    """
    A file from before 1970 or far ahead has a date, and the list is JSON. What was saved in the last microsecond of a
    day belongs to that day or to the next. A number out of range is an error that says which and what it may be.
    """
    write_note("a.md", "x")
    write_note("b.md", "x", created="0001-01-01")
    write_note("c.md", "x", created="9999-12-31")
    os.utime(vault / "a.md", (-86_400 * 400, -86_400 * 400))
    found = book.recent()
    assert [(each.path, each.day[:4]) for each in found.notes] == [("c.md", "9999"), ("a.md", "1968"), ("b.md", "0001")]
    assert json.loads(json.dumps(found.as_dict()))["total"] == 3
    midnight = int(dt.datetime(2026, 11, 16).timestamp())
    os.utime(vault / "a.md", ns=(0, midnight * 10**9 - 5_000))
    assert [book.recent(filter={"when": f"2026-11-{day}"}).total for day in (15, 16)] == [1, 0]
    for asked in ((0,), (101,), (-1,), (5, -1), (5, 10**30)):
        with pytest.raises(InvalidInput, match=r"(limit|offset)=.*out of range.*It is \d to"):
            book.recent(*asked)


def test_other_scopes_and_guides_are_left_out(vault, write_note):
    """A scope sees its own and shared notes; the guides are listed where a filter names them."""
    write_note("mine.md", "x", scope="acme")
    write_note("theirs.md", "x", scope="other")
    write_note("all.md", "x")
    write_note("guide.md", "x", category="system", guide="chunking")
    with books.open(vault, embedder="hash", scope="acme") as book:
        assert (sorted(paths(book.recent())), book.recent().total) == (["all.md", "mine.md"], 2)
        assert paths(book.recent(filter={"category": "system"})) == ["guide.md"]
