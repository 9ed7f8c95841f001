"""The table of contents: categories, topics and their descriptions, taken from the notes."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest

from spellbook.index import sync
from spellbook.index.catalog.schema import Topic
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.mcp import render
from spellbook.search.question import Question, State
from spellbook.search.searcher import Searcher
from spellbook.search.toc import Category, TopicSummary, first_sentence
from spellbook.text.terms import estimate_tokens
from tests.helpers import Counting, Write, opened
from tests.scratch import assert_equal_to_scratch


def tree(book: Spellbook) -> dict[str, dict[str, int]]:
    """The number of chunks by category and topic."""
    return {category.name: {topic.topic: topic.chunks for topic in category.topics} for category in book.contents()}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# Keys\n\nThey are rotated on Mondays. Nobody knows why.", "They are rotated on Mondays."),
        ("## 결정\n\nPostgreSQL로 옮긴다。이유는 많다。", "PostgreSQL로 옮긴다。"),
        ("```sh\nmake all the things now\n```\n\nRun it *twice*, as `make` says.", "Run it twice, as make says."),
        (
            "| a table | of words |\n| --- | --- |\n| one long cell | two |\n\nBelow the table it begins.",
            "Below the table it begins.",
        ),
        ("> [!note] Beware\n> We deploy on Fridays no more.", "We deploy on Fridays no more."),
        (
            "- [ ] Read [[ops/keys|the note on keys]] and [the site](https://example.org).",
            "Read the note on keys and the site.",
        ),
        ("{/* hidden words of nobody */}\n\nShown to everybody here.", "Shown to everybody here."),
        ("Hi. This one says what the note is about.", "This one says what the note is about."),
        ("# Only a heading\n\n---\n", ""),
        ("word " * 60, "word " * 22 + "word…"),
    ],
)
def test_the_first_sentence(text: str, sentence: str) -> None:
    """The summary is the first sentence of prose, without marks, code, tables and comments."""
    assert first_sentence(text) == sentence


def test_what_topics_and_categories_are_about(vault: Path, write_note: Write) -> None:
    """
    `category.md` describes the category it names, else that of its folder; the settings win over both. A topic's title
    and summary come from its index, README, namesake or first note; `summary` in frontmatter wins.
    """
    write_note("ops/a.md", "# First\n\nThe first note of them all.")
    write_note("ops/README.md", "# Operations\n\nHow we keep things running.")
    write_note("sea/b.md", "# Crane\n\nLifts copper over the quay.")
    write_note("sea/c.md", "# Dock\n\nHolds the ships of copper.")
    write_note("one/x.md", "# Alone\n\nSaid in the body.", summary="Said in the frontmatter.")
    about = {"ops": TopicSummary("Operations", "How we keep things running.")}
    about |= {"sea": TopicSummary("", "Lifts copper over the quay.")}
    about |= {"one": TopicSummary("Alone", "Said in the frontmatter.")}
    for category in ("decision", "project", "article"):
        write_note(f"{category}/a.md", "Words of it.", category=category, topic="t")
    write_note("decision/category.md", "What we decided, and why.")
    write_note("notes/Category.md", "What we work on.", category="project")
    write_note(".spellbook/config.toml", '[categories]\nProject = "What pays the rent"\n')
    with books.open(vault, embedder="hash") as book:
        found = {topic.topic: book.about(topic) for topic in book.topics()}
        assert {topic: found[topic] for topic in about} == about
        described = {category.name: category.description for category in book.contents()}
        assert described == {
            "decision": "What we decided, and why.",
            "project": "What pays the rent",
            "article": "pages, PDFs and texts of others that were saved",
            "": "",
        }
        text = render.contents(book.contents(), book.state(), 800, book.about)
    assert "decision (What we decided, and why.): 1 topic" in text


def test_a_topic_is_what_its_notes_say(book: Spellbook, vault: Path, write_note: Write) -> None:
    """
    Topics are renamed, merged and split by editing frontmatter or moving files, without leftovers. Topics, categories,
    tags and keywords that are written decomposed, as macOS does, stand there once, composed.
    """
    a = write_note("old/a.md", "Words of a.")
    b = write_note("b.md", "Words of b.", topic="old", category="project")
    write_note("c.md", "Words of c.", topic="new", category="project")
    assert tree(book) == {"project": {"new": 1, "old": 1}, "": {"old": 1}}
    b.write_text(b.read_text("utf-8").replace("topic: old", "topic: new"), "utf-8")
    assert tree(book) == {"project": {"new": 2}, "": {"old": 1}}
    (vault / "fresh").mkdir()
    a.rename(vault / "fresh/a.md")
    assert tree(book) == {"project": {"new": 2}, "": {"fresh": 1}}
    b.write_text(b.read_text("utf-8").replace("topic: new", "topic: split"), "utf-8")
    assert tree(book) == {"project": {"new": 1, "split": 1}, "": {"fresh": 1}}
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


@pytest.mark.parametrize("sizes", [(300,), (80, 2, 2), (40, 40, 40), (1,) * 90, (5,) * 20])
@pytest.mark.parametrize("room", [200, 500, 1_200, 4_000])
def test_names_come_before_descriptions(sizes: tuple[int, ...], room: int) -> None:
    """No topic is described while another one's name is left out; omitted names are counted, and the budget is kept."""

    def topics(category: int, count: int) -> tuple[Topic, ...]:
        return tuple(
            Topic(f"c{category}", f"harbour {category}x{n}y", 1, count - n, "2026-11-21", (), ("crane",))
            for n in range(count)
        )

    listed = [Category(f"c{number}", "What it is for.", topics(number, count)) for number, count in enumerate(sizes)]
    text = render.contents(
        listed, State(1, 500, 500, 0), room, lambda topic: TopicSummary("", "Told of it in a sentence.")
    )
    names = [topic.topic for category in listed for topic in category.topics]
    missing = [name for name in names if name not in text]
    assert estimate_tokens(text) <= room
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


# -- a title alone and an empty note: listed and linked, but neither embedded nor found as text


NOTHING = {
    "empty.md": "",
    "blank.md": " \n\n\t\n",
    "header.md": "---\ntags: [today]\n---\n",
    "title.md": "# Today\n",
    "underlined.md": "Today\n=====\n",
    "section.md": "---\ntitle: Today\n---\n\n## Today\n\n",
}


def test_what_says_nothing_is_no_hit(book: Spellbook, write_note: Write) -> None:
    """
    However well its name fits; but it is listed, shown, linked and counted as a note. The first section that says
    something is found by the title; headings that are no title are as they were.
    """
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
    write_note("a.md", "# On-call guide\n\n## Who\n\nThe pager goes to one person a week.\n")
    write_note("b.md", "# Shopping\n\n## Milk\n\n## Eggs\n")
    assert [hit.id for hit in book.search("on-call guide", min_score=0).hits if hit.path == "a.md"] == ["a#who"]
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
