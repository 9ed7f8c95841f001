"""Working memories, and nothing else, go to the trash when nobody has touched them; undo brings them back."""

from __future__ import annotations

import os
import time

import pytest

from spellbook.editing import revise

DAY = 86_400.0
OLD = {"id": "01OLD", "type": "working", "created": "2026-01-01T00:00:00+00:00"}


def test_only_untouched_working_memories_of_spellbook_are_forgotten(book, vault, write_note):
    """Not what is pinned, of another type, edited, opened lately, or written by a person; all in one change. They come back by undo, or by name."""
    aged = 30 * DAY
    due = [write_note(f"old{number}.md", "text\n", age=aged, **{**OLD, "id": f"01OLD{number}"}) for number in (1, 2)]
    for name, meta, age in (
        ("pinned", {"pinned": True}, aged),
        ("episodic", {"type": "episodic"}, aged),
        ("dated", {"updated": "2999-01-01"}, aged),
        ("edited", {}, 0),
        ("opened", {}, aged),
    ):
        write_note(f"{name}.md", "text\n", age=age, **{**OLD, "id": f"01{name.upper()}", **meta})
    write_note("own.md", "text\n", age=aged, type="working")
    book.show("opened.md")
    bytes_of = {file: file.read_bytes() for file in due}
    done = book.forget_working()
    assert done is not None
    assert sorted(done.trash) == [".trash/old1.md", ".trash/old2.md"]
    assert not any(file.exists() for file in due)
    assert (book.log(1)[0].verb, book.forget_working()) == ("forget", None)
    book.undo()
    assert {file: file.read_bytes() for file in due} == bytes_of
    book.forget_working()
    assert [book.restore(file.name) for file in due] == [(file.name,) for file in due]


@pytest.mark.parametrize("days", [0, 40])
def test_days_count_from_the_last_touch(book, vault, write_note, days):
    """The limit is what was asked for."""
    write_note("old.md", "text\n", age=30 * DAY, **OLD)
    book.reindex()
    assert bool(revise.due(book.index, days, time.time())) is (days == 0)
    os.utime(vault / "old.md")
    book.reindex()
    assert not revise.due(book.index, 1, time.time())
