"""Frontmatter in the index: values by YAML 1.2, keys in any case, links as labels, dates that are not understood."""

from __future__ import annotations

import pytest

from spellbook.library.doctor import checks


@pytest.mark.parametrize(
    "asked",
    [
        {"event": "10:30"},
        {"country": "no"},
        {"mode": "0755"},
        {"tags": "1.10"},
        {"TAGS": "on"},
        {"title": "12:30"},
        {"category": "Books"},
        {"category": "[[Books]]"},
        {"topic": "Art"},
        {"author": "Ann"},
        {"author": "[[People/Ann]]"},
        {"Birthday": "1990-05-12"},
        {"when": "2024-01-05"},
        {"updated": "2024-01-06"},
        {"pinned": "true"},
    ],
)
def test_a_value_is_found_as_it_is_written(book, write_note, asked):
    """A filter finds a note by the values of its frontmatter as Obsidian reads them, whatever the case of keys."""
    write_note(
        "a.md",
        "---\nTitle: 12:30\nTags: [1.10, on]\nevent: 10:30\ncountry: no\nmode: 0755\nPinned: true\nBirthday: 1990-05-12\n"
        'Category: "[[Books]]"\ntopic: "[[lib/Art|x]]"\nauthor: "[[People/Ann]]"\ndate created: January 5, 2024\n'
        "date modified: Saturday, January 6th 2024, 3:04 PM\n---\ntext\n",
    )
    write_note("Books.md", "---\ntitle: 1.1\ntags: 1.1\nevent: 630\npinned: yes\n---\nother\n")
    book.reindex()
    assert [hit.path for hit in book.find("text", filter=asked).hits] == ["a.md"]
    assert [(hit.path, hit.backlinks) for hit in book.find("other").hits] == [("Books.md", 1)]
    told = book.show("a")[0]
    assert (told.title, told.meta["tags"], told.meta["country"], told.meta["event"]) == (
        "12:30",
        ["1.10", "on"],
        "no",
        "10:30",
    )


def test_a_date_that_is_not_understood_is_named(book, write_note):
    """The file and the key are named, and the file's time counts; a date, an empty key and another key are no fault."""
    write_note("a.md", "---\ndate created: soon\n---\ntext\n", age=3600)
    write_note("b.md", "---\ncreated: 2024-01-05\nupdated:\ndue: soon\n---\ntext\n")
    book.reindex()
    named = dict(checks(book.index, ""))["note files"]
    assert named == ["a.md: the date date created is not understood: 'soon'"]
    assert book.status()["faults"][0]["path"] == "a.md"
    assert book.show("a")[0].created is None
