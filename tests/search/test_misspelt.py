"""Unknown filter values, keys and topics are named, with suggestions."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spellbook.index.filters import alike
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.mcp import render
from spellbook.system.errors import InvalidInput, MemoryNotFound
from tests.commands import spellbook as run
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


@pytest.mark.parametrize(
    ("filter", "said"),
    [
        ({"category": "decisions"}, "No note has category decisions; did you mean decision?"),
        ({"category": "desicion"}, "No note has category desicion; did you mean decision?"),
        ({"category": "결졍"}, "No note has category 결졍; did you mean 결정?"),
        ({"category!": "decisions"}, "No note has category decisions; did you mean decision?"),
        ({"category": ["decision", "decisions"]}, "No note has category decisions; did you mean decision?"),
        ({"topic": "infra"}, "No note has topic infra; did you mean infrastructure?"),
        ({"tags": "#obs"}, "No note has tags obs; did you mean ops?"),
        ({"tags": "harbor"}, "No note has tags harbor; did you mean harbour or harbour/quay?"),
        ({"kind": "memori"}, "No note has kind memori; did you mean memory?"),
        ({"language": "fr"}, "No note has language fr."),
        ({"path": "opps/*"}, "No note has path opps/*."),
    ],
)
def test_a_value_that_no_note_has(book: Spellbook, notes: Path, filter: dict[str, Any], said: str) -> None:
    """Every search names an unknown value with similar ones, as text and as data."""
    for answer in (
        book.search("crane", filter=filter),
        book.memorize("crane", filter=filter),
        book.find("crane", filter=filter),
    ):
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


def test_the_command_line_says_it(notes: Path) -> None:
    """Every command with a filter names unknown values on stderr."""
    said = "No note has category decisions; did you mean decision?"
    wrong = ["--filter", "category=decisions"]
    for verb in ("search", "memorize", "find", "why"):
        assert said in run(verb, "crane", *wrong).stderr
        assert json.loads(run(verb, "crane", *wrong, "--json").stdout)["unmatched"] == [
            {"key": "category", "value": "decisions", "suggestions": ["decision"]}
        ]
    assert said in run("topics", *wrong).stderr
    assert said in run("export", notes.parent / "out.json", *wrong).stderr


@pytest.mark.parametrize(
    ("ask", "meant"),
    [
        (lambda book: book.search("x", filter={"categroy": "x"}), "Did you mean category?"),
        (lambda book: book.topic("infrastucture"), "did you mean Infrastructure?"),
        (lambda book: book.topic("decision/infrastucture"), "did you mean decision/Infrastructure?"),
        (lambda book: book.erase_topic("infrastucture"), "did you mean Infrastructure?"),
        (lambda book: book.contents("decisions"), "did you mean decision?"),
    ],
)
def test_a_name_that_is_not_there(book: Spellbook, notes: Path, ask: Callable[[Spellbook], object], meant: str) -> None:
    """Unknown keys, topics and scopes are refused with suggestions."""
    book.reindex()
    with pytest.raises((InvalidInput, MemoryNotFound)) as caught:
        ask(book)
    assert meant in str(caught.value)


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


def test_a_look_takes_no_time(book: Spellbook, write_note: Write) -> None:
    """With 3,000 keywords a lookup is immediate, and misspellings are found by their beginning."""
    for number in range(100):
        write_note(f"{number}.md", "x", keywords=[f"word{number}x{each}" for each in range(30)])
    book.reindex(words_only=True)
    catalog, conditions = book.index.catalog, books.conditions
    right = conditions({"keywords": "word50x7", "category": ""})

    def seconds() -> float:
        began = time.process_time()
        assert catalog.unmatched(right, ()) == ()
        return time.process_time() - began

    assert min(seconds() for _ in range(20)) < 0.005
    [each] = catalog.unmatched(conditions({"keywords": "word50y7"}), ())
    assert "word50x7" in each.suggestions


def test_alike() -> None:
    """Suggestions are misspellings and longer forms in any case, not words that merely share letters."""
    there = ["decision", "Project", "knowledge", "도커"]
    assert alike("DECISON", there) == ("decision",)
    assert alike("proj", there) == ("Project",)
    assert alike("도거", there) == ("도커",)
    assert alike("xyz", there) == alike("de", there) == alike("", there) == ()
