"""Several categories: a note is found by each of them, and filed by the first."""

from __future__ import annotations

import pytest

from spellbook.index import sync
from spellbook.index.filters import conditions
from tests.helpers import opened


@pytest.fixture
def notes(write_note):
    write_note("both.md", "# Both\n\ntext of Both", category="[decision, 프로젝트]", age=100)
    write_note("one.md", "# One\n\ntext of One", category="decision", age=100)
    write_note("comma.md", "# Comma\n\ntext of Comma", category="decision, project", age=100)
    write_note("empty.md", "# Empty\n\ntext of Empty", category="[null, project]", age=100)
    write_note(
        "article.md", "# Article\n\ntext of Article", category="article", categories="[longblack, business]", age=100
    )


def found(index, **filter):
    return index.catalog.paths(conditions(filter))


def test_a_note_is_found_by_each_of_its_categories(vault, notes):
    """A filter finds it by any of them, also negated; a text with a comma is one category; `categories` is a list."""
    with opened(vault) as index:
        sync.run(index)
        assert found(index, category="decision") == ["both.md", "one.md"]
        assert found(index, category="프로젝트") == ["both.md"]
        assert found(index, category="project") == ["empty.md"]
        assert found(index, category="decision, project") == ["comma.md"]
        assert found(index, **{"category!": ["프로젝트", "project"]}) == ["article.md", "comma.md", "one.md"]
        assert found(index, category="article", categories="business") == ["article.md"]
        assert found(index, categories=["longblack", "x"]) == ["article.md"]


def test_the_first_category_files_the_note(book, notes):
    """The table of contents and the hit name the first; a topic is there once."""
    contents = {each.name: [topic.notes for topic in each.topics] for each in book.contents()}
    assert contents == {"decision": [2], "decision, project": [1], "project": [1], "article": [1]}
    assert {hit.path: hit.category for hit in book.search("Both", filter={"category": "프로젝트"}).hits} == {
        "both.md": "decision"
    }


@pytest.mark.parametrize("key", ["categories", "type"])
def test_a_key_that_tools_write_may_be_missing(book, write_note, key):
    """Where no note has it yet, nothing is found; other unknown keys are an error that does not suggest it."""
    write_note("a.md", "# A\n\ntext")
    answer = book.search("A", filter={key: "x"})
    assert (answer.hits, [str(each) for each in answer.unmatched]) == ((), [f"No note has {key} x."])
