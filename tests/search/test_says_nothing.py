"""A title alone and an empty note: listed and linked, but neither embedded nor found as text."""

from __future__ import annotations

from pathlib import Path

from spellbook.index import sync
from spellbook.library.book import Spellbook
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from tests.helpers import Counting, Write, opened
from tests.scratch import assert_equal_to_scratch

NOTHING = {
    "empty.md": "",
    "blank.md": " \n\n\t\n",
    "header.md": "---\ntags: [today]\n---\n",
    "title.md": "# Today\n",
    "underlined.md": "Today\n=====\n",
    "section.md": "---\ntitle: Today\n---\n\n## Today\n\n",
}


def test_what_says_nothing_is_no_hit(book: Spellbook, write_note: Write) -> None:
    """However well its name fits; but it is listed, shown, linked and counted as a note."""
    for path, text in NOTHING.items():
        write_note(path, text)
    write_note("said.md", "Things to do: see [[title]]\n")
    for verb in (book.search, book.memorize, book.find):
        assert {hit.path for hit in verb("today", min_score=0).hits} <= {"said.md"}
    assert {chunk.path for chunk in book.recent(20).notes} == {*NOTHING, "said.md"}
    assert sum(topic.notes for topic in book.topics()) == len(NOTHING) + 1
    assert book.show("title")[0].text.strip() == "# Today"
    assert [back.path for back in book.around("title").backlinks] == ["said.md"]
    [row] = book.why("today", "title.md").rows
    assert (row.place, row.verdict) == (None, "it has no text but a title")
    assert book.status()["pending"] == 0


def test_a_title_leads_to_what_is_said_under_it(book: Spellbook, write_note: Write) -> None:
    """The first section that says something is found by the title; headings that are no title are as they were."""
    write_note("a.md", "# On-call guide\n\n## Who\n\nThe pager goes to one person a week.\n")
    write_note("b.md", "# Shopping\n\n## Milk\n\n## Eggs\n")
    assert [hit.id for hit in book.search("on-call guide", min_score=0).hits] == ["a#who"]
    assert [hit.id for hit in book.find("guide").hits] == ["a#who"]
    assert [hit.id for hit in book.find("milk").hits] == ["b#milk"]


def test_it_is_embedded_neither_now_nor_after_a_change(vault: Path, tmp_path: Path, write_note: Write) -> None:
    """What is written under the title is embedded alone; a note that is emptied loses its words and its vector."""
    write_note("a.md", "# Today\n\n## Plan\n\nwrite tests\n")
    write_note("b.md", "words\n")
    embedder = Counting()
    with opened(vault, embedder) as index:
        assert sync.run(index).embedded == 2
        assert not [text for text in embedder.texts if text.rstrip().endswith("# Today")]
        write_note("b.md", "")
        assert sync.run(index).embedded == 0
        assert not Searcher(index).ask(Question("words", "keyword")).hits
        write_note("b.md", "words\n")
        assert sync.run(index).pending == 0
        assert [hit.path for hit in Searcher(index).ask(Question("words", "keyword")).hits] == ["b.md"]
        assert index.catalog.verify() == []
    assert_equal_to_scratch(vault, tmp_path / "scratch")
