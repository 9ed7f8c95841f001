"""Keywords that are derived from a text and its tags."""

from __future__ import annotations

import time

import pytest

from spellbook.editing import keywords
from spellbook.notes.note import parse
from spellbook.system.errors import InvalidInput

ENGLISH = (
    "On Monday Anna Kim moved the Lantern team to `pnpm install`, because npm10 broke GPT-4, README.md and "
    "[[ops/Keys|the keys]]. See https://x.example/CamelCase and e.g. this and/or that."
)


@pytest.mark.parametrize(
    ("text", "tags", "expected"),
    [
        pytest.param(
            "프로젝트에서 TypeScript를 도입하기로 결정했다.",
            ["typescript", "decision"],
            ["typescript", "decision", "TypeScript"],
            id="after the tags",
        ),
        pytest.param(
            ENGLISH,
            [],
            ["pnpm install", "npm10", "GPT-4", "README.md", "Keys", "Anna Kim", "Lantern"],
            id="identifiers, then names",
        ),
        pytest.param("Anna가 Blender에서 만든다.", [], ["Anna", "Blender"], id="names begin a Korean sentence"),
        pytest.param("Yesterday it rained. Then we left.", [], [], id="no name because it begins a sentence"),
        pytest.param("WE SHOUT ALL THE TIME", [], [], id="shouting"),
        pytest.param("## A Heading In Title Case\n\nplain text", [], [], id="headings"),
        pytest.param("```py\nfooBar()\n```\n\nplain text", [], [], id="code blocks"),
        pytest.param("snake_case, C++, C#, v1.2.3, .env, useState, JWT", [], ["snake_case", "C++", "C#", "v1.2.3", ".env", "useState", "JWT"], id="kinds"),
        pytest.param(" ".join(f"`name{i}`" for i in range(20)), ["t"], ["t", *(f"name{i}" for i in range(8))], id="at most eight"),
        pytest.param("I asked `anna`, and then Anna and Bob.", ["bob"], ["bob", "anna"], id="no name twice"),
        pytest.param("닭 모델은 복셀 32×32로 만든다", [], [], id="nothing to take"),
    ],
)  # fmt: skip
def test_derived(text, tags, expected):
    """Tags come first, then identifiers in order, then names; at most eight are added."""
    assert keywords.derived(text, tags, lambda _: 0, 20) == expected


def test_a_name_that_many_notes_have_is_no_keyword():
    """Common names are left out, and the rarest of the others comes first."""
    counts = {'"Anna"': 3, '"Lantern"': 21, '"Bob"': 0}
    text = "Then Anna gave it to Lantern, and Bob took it."
    assert keywords.derived(text, [], lambda phrase: counts[phrase], 20) == ["Bob", "Anna"]


@pytest.mark.parametrize("part", ["`", "[[", "a.b-", "Ab ", "```\n", "A-b/", "~~~ ", "https://", "[[a|", "[[a]", "`` "])
def test_any_text_is_read_in_no_time(part):
    """Texts made to be slow are read in a second of CPU time or so."""
    began = time.process_time()
    keywords.derived(part * (1_000_000 // len(part)), [], lambda _: 0, 20)
    assert time.process_time() - began < 10


def test_a_memory_without_labels(book, vault):
    """With derived labels keywords may be missing: they come from tags and text, and no question is made up."""
    text = "Mina moved the staging database to port 5433 with PostgreSQL."
    done = book.scribe({"text": text, "metadata": {"topic": "inbox", "tags": ["ops"]}}, labels="derived")
    [written], [warnings] = done.written, done.warnings
    note = parse(written.path, (vault / written.path).read_bytes())
    assert (note.keywords, note.questions, note.tags, warnings) == (("ops", "PostgreSQL"), (), ("ops",), ())
    assert written.path == "knowledge/inbox/Mina-moved-staging-database.md"
    assert [hit.path for hit in book.find("PostgreSQL").hits] == [written.path]


def test_a_secret_is_no_keyword_and_no_name(book, vault):
    """A secret that is written by force stands in the text alone: neither labels nor the file's name show it."""
    secret = "h4Kz9QwLm2XvT7"
    for text in (f"token: {secret} for useState", f"# token: {secret}\n\nplain", f"**password** is {secret}, JWT"):
        [written] = book.scribe({"text": text, "metadata": {"topic": "t"}}, labels="derived", force=True).written
        note = parse("", (vault / written.path).read_bytes())
        assert secret in note.body
        assert secret.lower() not in f"{written.path} {note.meta} {book.log()[0].what}".lower()


def test_given_keywords_stay_and_none_may_be_found(book, vault):
    """
    Keywords that were given are not changed, and a text without any gets no empty list. Without `labels` a chunk without
    keywords is refused, and so is an unknown value.
    """
    given = {"text": "We use GPT-4 here.", "metadata": {"topic": "t", "keywords": ["model"]}}
    none = {"text": "that was all", "metadata": {"topic": "t"}}
    with pytest.raises(InvalidInput, match=r"keywords is missing"):
        book.scribe(none)
    with pytest.raises(InvalidInput, match=r"labels is 'guessed'.*given, derived"):
        book.scribe(none, labels="guessed")
    assert not [*vault.rglob("*.md")]
    first, second = book.scribe_all([given, none], labels="derived").written
    assert parse("", (vault / first.path).read_bytes()).keywords == ("model",)
    assert "keywords" not in parse("", (vault / second.path).read_bytes()).meta
