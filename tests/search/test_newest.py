"""The dates of notes at the edges: other zones, and years far from now; `recent.tesh` says what is usual."""

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import pytest

from spellbook.library.book import Spellbook
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from spellbook.system.errors import InvalidInput
from tests.helpers import Write

NOW = dt.datetime(2026, 11, 20, 12).timestamp()


def paths(found: Any) -> Any:
    return [each.path for each in found.notes]


def test_words_of_time_mean_the_same_date(book: Spellbook, write_note: Write) -> None:
    """A note of another time zone is of the day that it is here, for the filter and for a question's words alike."""
    here = dt.datetime(2026, 11, 18, 1).astimezone()
    far = here.astimezone(dt.timezone((here.utcoffset() or dt.timedelta()) - dt.timedelta(hours=6)))
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


def test_odd_times_and_numbers(book: Spellbook, vault: Path, write_note: Write) -> None:
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
