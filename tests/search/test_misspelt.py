"""Unknown filter values, keys and topics are named, with suggestions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spellbook.index.filters import alike
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.mcp import render
from spellbook.system.errors import InvalidInput, MemoryNotFound
from tests.helpers import Write


@pytest.fixture
def notes(vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    monkeypatch.setenv("SPELLBOOK_VAULT", str(vault))
    labels = {
        "category": "decision",
        "topic": "Infrastructure",
        "tags": "[ops, harbour/quay]",
        "language": "en",
        "kind": "memory",
    }
    write_note("a.md", "# Crane\n\nThe crane lifts copper.", **labels)
    write_note("b.md", "# 기중기\n\n기중기는 구리를 든다.", category="결정", topic="항구", language="ko")
    return vault


SAID = {
    "No note has category decisions; did you mean decision?": {"category": "decisions"},
    "No note has category desicion; did you mean decision?": {"category!": "desicion"},
    "No note has category 결졍; did you mean 결정?": {"category": ["decision", "결졍"]},
    "No note has topic infra; did you mean infrastructure?": {"topic": "infra"},
    "No note has tags harbor; did you mean harbour or harbour/quay?": {"tags": "harbor"},
    "No note has language fr.": {"language": "fr"},
    "No note has path opps/*.": {"path": "opps/*"},
}


@pytest.mark.parametrize("said", SAID)
def test_a_value_that_no_note_has(book: Spellbook, notes: Path, said: str) -> None:
    """Every search names an unknown value with similar ones, as text and as data."""
    filter = SAID[said]
    for ask in (book.search, book.memorize, book.find):
        answer = ask("crane", filter=filter)
        if "path" not in filter or not answer.hits:
            assert [str(each) for each in answer.unmatched] == [said]
            assert said in render.answer(answer)
            assert answer.as_dict()["unmatched"][0]["key"] == next(iter(filter)).rstrip("!")
    assert [str(each) for each in book.why("crane", filter=filter).unmatched] == [said]


def test_what_some_note_has_is_not_doubted(book: Spellbook, notes: Path) -> None:
    """A filter whose values exist but that no note meets is not called misspelt."""
    answer = book.search("crane", filter={"category": "Decision", "language": "ko", "path": "*.md", "created": "2026"})
    assert answer.hits == ()
    assert answer.unmatched == ()
    assert "unmatched" not in answer.as_dict()


@pytest.mark.parametrize(
    ("verb", "name", "meant"),
    [
        ("topic", "infrastucture", "did you mean Infrastructure?"),
        ("topic", "decision/infrastucture", "did you mean decision/Infrastructure?"),
        ("erase_topic", "infrastucture", "did you mean Infrastructure?"),
        ("contents", "decisions", "did you mean decision?"),
    ],
)
def test_a_name_that_is_not_there(book: Spellbook, notes: Path, verb: str, name: str, meant: str) -> None:
    """Unknown keys, topics and scopes are refused with suggestions."""
    book.reindex()
    with pytest.raises(MemoryNotFound, match=re.escape(meant)):
        getattr(book, verb)(name)
    with pytest.raises(InvalidInput) as caught:
        book.search("x", filter={"categroy": "x"})
    assert "Did you mean category?" in caught.value.hint


def test_another_scope_is_not_told_of(vault: Path, write_note: Write) -> None:
    """Values of other scopes are unknown and never suggested."""
    write_note("a.md", "Words.", scope="acme", category="merger")
    write_note("b.md", "Words.", category="market")
    with books.open(vault, embedder="hash", scope="zenith") as book:
        for value in ("merger", "mergers"):
            [each] = book.find("words", filter={"category": value}).unmatched
            assert each.suggestions == ()
    with books.open(vault, embedder="hash", scope="acme") as book:
        assert book.find("words", filter={"category": "merger"}).unmatched == ()


def test_alike() -> None:
    """Suggestions are misspellings and longer forms in any case, not words that merely share letters."""
    there = ["decision", "Project", "knowledge", "도커"]
    assert alike("DECISON", there) == ("decision",)
    assert alike("proj", there) == ("Project",)
    assert alike("도거", there) == ("도커",)
    assert alike("xyz", there) == alike("de", there) == alike("", there) == ()
