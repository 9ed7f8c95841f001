"""Spellbook's guides for agents are found only when a filter names them."""

from __future__ import annotations

import shutil

import pytest

import spellbook
from spellbook.editing import guides


@pytest.fixture
def book(vault, write_note):
    """The starter vault with a memory, and with a note of a person's in the category of the guides."""
    shutil.copytree(guides.starter_vault(), vault, dirs_exist_ok=True)
    write_note("decision.md", "A chunk of our notes has 300 tokens.", category="decision")
    write_note("system/mine.md", "How a chunk is made on my own system.", category="system", topic="mine")
    with spellbook.open(vault, embedder="hash") as opened:
        yield opened


@pytest.mark.parametrize("verb", ["find", "memorize", "search"])
def test_a_question_finds_no_guide(book, verb):
    """What a person wrote is found, in category `system` too; the welcome note is no guide for agents."""
    found = {hit.path for hit in getattr(book, verb)("chunk", limit=100, min_score=0.0).hits}
    assert {"decision.md", "system/mine.md"} <= found
    assert not {path for path in found if path.startswith(("system/en/", "system/ko/"))}


@pytest.mark.parametrize(
    "named", [{"category": "system"}, {"guide": "chunking"}, {"path": "system/en/"}, {"topic": "Spellbook guide"}]
)
def test_a_filter_that_names_them_finds_them(book, named):
    """So does `show`, and `contents` lists them."""
    found = {hit.path for hit in book.find("chunk", filter=named, limit=100).hits}
    assert "system/en/chunking-guide.md" in found
    assert book.show("system/en/chunking-guide")
    assert "system" in {each.name for each in book.contents()}


def test_another_filter_does_not(book):
    """What a filter leaves out, asks of other keys, or asks of every path, names no guide."""
    for given in ({"language": "en"}, {"category!": "decision"}, {"path": "*"}, {"path": "**/*.md"}):
        assert not [hit for hit in book.find("chunk", filter=given, limit=100).hits if hit.path.startswith("system/en")]


@pytest.mark.parametrize("named", [{"category": "decision"}, {"path": "decision.md"}, {"topic": "mine"}])
def test_a_filter_that_names_other_notes_finds_no_guide(book, named):
    """The guides must have the value that is asked for."""
    found = {hit.path for hit in book.find("chunk", filter=named, limit=100).hits}
    assert found
    assert not {path for path in found if path.startswith(("system/en/", "system/ko/"))}


def test_why_says_so(book):
    """`why` names the reason."""
    [row] = book.why("chunk", "system/en/chunking-guide").rows[:1]
    assert row.verdict == "a guide of Spellbook: name it by a filter"


def test_a_guide_by_its_key_alone_is_a_persons_note(book, write_note):
    """A note of another category that has the key `guide` is found."""
    write_note("own.md", "My chunk of examples.", guide="examples", category="howto")
    assert "own.md" in {hit.path for hit in book.find("chunk", limit=100).hits}
