"""The table of contents: its names and budget; `described.tesh` says how notes describe categories and topics."""

import re
import unicodedata
from pathlib import Path

import pytest

from spellbook.index import sync
from spellbook.index.catalog.rows import Topic
from spellbook.library.book import Spellbook
from spellbook.mcp import table_of_contents
from spellbook.search.question import Question, State
from spellbook.search.searcher import Searcher
from spellbook.search.toc import Category, TopicSummary
from spellbook.text.terms import estimate_tokens
from tests.helpers import Counting, Write, opened
from tests.scratch import assert_equal_to_scratch


def tree(book: Spellbook) -> dict[str, dict[str, int]]:
    """The number of chunks by category and topic."""
    return {category.name: {topic.topic: topic.chunks for topic in category.topics} for category in book.contents()}


def test_names_are_composed(book: Spellbook, write_note: Write) -> None:
    """Topics, categories, tags and keywords that are written decomposed, as macOS does, stand there once, composed."""
    decomposed, name = unicodedata.normalize("NFD", "회의록"), "회의록"
    for number, each in enumerate((decomposed, name)):
        labels = {"category": each, "tags": f"[{each}]", "keywords": f"[{each}]"}
        write_note(f"{each}/{number}.md", f"x {number} #{each}", **labels)
    write_note(f"{decomposed}/{decomposed}.md", "# The main note\n\nWhat was said.", category=decomposed)
    assert tree(book)[name] == {name: 3}
    assert [len(book.topic(each)) for each in (decomposed, name, f"{name}/{decomposed}")] == [3, 3, 3]
    assert {(each.tags, each.keywords) for each in book.topic(name)} == {((name,), (name,)), ((), ())}
    assert book.tags() == [(name, 2)]
    assert [book.about(topic).title for topic in book.topics() if topic.topic == name] == ["The main note"]


def test_a_note_without_text_describes_no_topic(book: Spellbook, write_note: Write) -> None:
    """A topic is described by the first note that says something: in text that is read, or in its frontmatter."""
    write_note("a/aa.md", "")
    write_note("a/ab.md", "<!-- hidden -->")
    write_note("a/ac.md", "%% hidden %%")
    write_note("a/index.md", "# Only a title")
    write_note("b/index.md", "", description="What lies by the sea.")
    write_note("b/text.md", "A text.")
    write_note("a/kayak.md", "# Kayak\n\nThe kayak is in the shed.")
    book.reindex()
    assert [book.about(topic).summary for topic in book.topics()] == [
        "The kayak is in the shed.",
        "What lies by the sea.",
    ]


@pytest.mark.parametrize("sizes", [(300,), (80, 2, 2), (40, 40, 40), (1,) * 90, (5,) * 20])
@pytest.mark.parametrize("room", [200, 500, 1_200, 4_000])
def test_names_come_before_descriptions(sizes: tuple[int, ...], room: int) -> None:
    """
    No topic is described while another one's name is left out; omitted names are counted, and the budget is kept. Where
    some are described, these are the largest.
    """

    def topics(category: int, count: int) -> tuple[Topic, ...]:
        return tuple(
            Topic(f"c{category}", f"harbour {category}x{n}y", 1, count - n, "2026-11-21", (), ("crane",))
            for n in range(count)
        )

    listed = [Category(f"c{number}", "What it is for.", topics(number, count)) for number, count in enumerate(sizes)]
    text = table_of_contents.as_text(
        listed, State(1, 500, 500, 0), room, lambda topic: TopicSummary("", "Told of it in a sentence.")
    )
    names = [topic.topic for category in listed for topic in category.topics]
    missing = [name for name in names if name not in text]
    assert estimate_tokens(text) <= room
    described = [int(chunks) for chunks in re.findall(r"- harbour \w+ \((\d+), .*Told of it", text)]
    largest = sorted((topic.chunks for category in listed for topic in category.topics), reverse=True)
    assert sorted(described, reverse=True) == largest[: text.count("Told of it")]
    if missing:
        assert "Told of it" not in text
        assert "What it is for" not in text
        assert estimate_tokens(text) > 0.75 * room
        left = sum(map(int, re.findall(r"… (\d+) (?:smaller )?topics", text)))
        unseen = sum(len(each.topics) for each in listed if f"\n{each.name}:" not in text)
        assert left + unseen == len(missing)
        assert unseen == 0 or "smaller categories" in text
    elif estimate_tokens(text) < 0.75 * room:
        assert text.count("Told of it") == len(names)
        assert text.count("What it is for") == len(sizes)


def test_a_title_alone_is_embedded_neither_now_nor_after_a_change(
    vault: Path, tmp_path: Path, write_note: Write
) -> None:
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
        assert index.catalog.upkeep.verify() == []
    assert_equal_to_scratch(vault, tmp_path / "scratch")
