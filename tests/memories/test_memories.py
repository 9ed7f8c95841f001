"""The memento toolset through a client: remember, recall, pin, forget; memories as resources; the prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_PARAMS

import spellbook
from spellbook.library.book import Spellbook
from spellbook.mcp.toolsets.memento import injection
from spellbook.text.terms import estimate_tokens
from spellbook.vault.entries import Entry
from tests.helpers import Write
from tests.mcp.agent import Agent, talk, text_of
from tests.trees import contents


def run(book: Spellbook, script: Callable[..., Any], mode: Any = "auto") -> Any:
    """Run a conversation with a server that has the toolset, and return its result."""
    return talk(book, lambda agent: script(agent.answer, agent.client), mode, ("core", "memento"))


def tool(book: Spellbook, name: str, **arguments: object) -> Any:
    return run(book, lambda call, _: call(name, **arguments))


def answered(book: Spellbook, ask: Callable[[Client], Any]) -> Any:
    """What a client is answered, or its error."""

    async def script(_: Any, client: Client) -> Any:
        try:
            return await ask(client)
        except MCPError as error:
            return error

    return run(book, script)


def read(book: Spellbook, uri: str) -> Any:
    found = answered(book, lambda client: client.read_resource(uri))
    return found if isinstance(found, MCPError) else json.loads(found.contents[0].text)


def prompt(book: Spellbook, **arguments: str) -> Any:
    return answered(book, lambda client: client.get_prompt("memory_injection", arguments))


def test_memories_are_resources(book: Spellbook, write_note: Write) -> None:
    """By id, by path and by a chunk's id, with the relations that either side says."""
    one = tool(book, "remember", content="The kettle is loud.")
    source = f"[[{one['path'].removesuffix('.md')}]]"
    write_note("later.md", "It was the valve.\n", derived_from=source, contradicts=one["memory_id"])
    for id in (one["memory_id"], one["path"], book.index.catalog.at(one["path"])[0].id):
        memory = read(book, f"memory://{quote(id, safe='/')}")
        assert (memory["id"], memory["content"].strip()) == (one["memory_id"], "The kettle is loud.")
    later = book.resolve("later.md").note
    assert memory["links"]["source_of"] == memory["links"]["contradicts"] == [later]
    assert read(book, "memory://later.md")["links"]["derived_from"] == [one["memory_id"]]
    assert memory["last_accessed"]
    assert read(book, "memory://01NONE").code == INVALID_PARAMS
    assert "There is no type" in str(read(book, "memory://search?query=x&filters=%7B%22type%22%3A%22odd%22%7D"))


def test_search_is_a_resource_that_a_write_makes_new(book: Spellbook) -> None:
    """The answer is cached until something is written."""
    tool(book, "remember", content="The kettle is loud.")

    async def script(call: Any, client: Client) -> Any:
        async def ask(uri: str) -> Any:
            return json.loads(text_of((await client.read_resource(uri)).contents[0]))

        first = await ask("memory://search?query=kettle&limit=5")
        second = await ask("memory://search?query=kettle&limit=5")
        await call("remember", content="The second kettle is quiet.")
        third = await ask("memory://search?query=kettle&limit=5")
        newest = await ask("memory://search")
        typed = await ask(f"memory://search?query=kettle&filters={quote(json.dumps({'type': ['working']}))}")
        return first, second, third, newest, typed

    first, second, third, newest, typed = run(book, script)
    assert first == second
    assert (first["total_count"], third["total_count"], newest["total_count"], typed["total_count"]) == (1, 2, 2, 0)
    assert first["expires_at"] > first["cached_at"]
    assert newest["results"][0]["content"].strip() == "The second kettle is quiet."
    assert read(book, "memory://index")["total_topics"] == 1


def test_the_prompt_stays_within_its_budget(book: Spellbook) -> None:
    """
    In the question's language, numbered, with ids; a missing or odd argument is named. A procedure comes before an
    equally good memory where a task is at hand.
    """
    for number in range(6):
        book.memories.remember(f"주전자 {number}번은 어디에 있나 하면 선실에 있다. " * 8, force=True)
    made = prompt(book, query="주전자는 어디에 있나요?", token_budget="300")
    text = made.messages[0].content.text
    assert text.startswith("다음은 이 사람의 기억에서")
    assert 0 < made.meta["memories_used"] < 6
    assert made.meta["token_count"] <= 300
    assert "(id: " in text
    for wrong in ({}, {"query": "x", "token_budget": "many"}, {"query": "x", "context_type": "odd"}):
        assert "INVALID_INPUT" in str(prompt(book, **wrong))
    ids = {book.memories.remember(f"The kettle of deck {deck} is loud.", force=True)["memory_id"] for deck in "ab"}
    first, second = (hit.chunk.note for hit in book.search("loud kettle", per_note=1, min_score=0).hits[:2])
    assert {first, second} == ids
    book.revise(second, metadata={"type": "procedural"})
    plain, task = (injection(book, "loud kettle", 1_000, kind)[0] for kind in ("general", "task"))
    assert plain.index(first) < plain.index(second)
    assert task.index(second) < task.index(first)


def test_an_injection_fills_its_budget(book: Spellbook) -> None:
    """Short memories as many as fit, a long one by its beginning; what has no room is told from what is not related."""
    for number in range(12):
        content = f"Kettle {number}: the loud kettle boils {number} cups of water in the kitchen."
        book.memories.remember(content, force=True)
    for budget in (300, 600, 1_000):
        text, meta = injection(book, "the loud kettle", budget, "general")
        assert estimate_tokens(text) <= meta["token_count"] <= budget
        assert meta["memories_used"] == 12 or meta["token_count"] > budget * 0.8
    long = "The samovar is a loud machine. " + "It hums and hums all day long. " * 200
    tool(book, "remember", content=long, source="https://example.org/samovar")
    text, meta = injection(book, "samovar", 200, "general")
    assert (meta["memories_used"], estimate_tokens(text) <= 200) == (1, True)
    assert "The samovar is a loud machine" in text
    assert "It hums" in text
    assert text.count("~~~") == 2
    with_name = tool(book, "remember", content="zither", tags=["x" * 40])
    book.revise(with_name["memory_id"], metadata={"title": "zither " + "strings of a long name " * 12})
    text, meta = injection(book, "zither", 100, "general")
    assert (meta["memories_used"], "do not fit" in text, meta["token_count"] <= 100) == (0, True, True)


def test_answers_keep_their_sizes(book: Spellbook) -> None:
    """
    Text of a dozen long memories stays within max_tokens, and writing tools answer in one line.

    A memory whose text was left out for space says so, in recall and in the resource.
    """
    for number in range(12):
        content = f"# Kettle {number}\n\n" + f"The kettle {number} is loud. " * 80
        one = tool(book, "remember", content=content, force=True)
    assert len(json.dumps(one)) < 700  # with an older memory about the same thing
    said = tool(book, "recall", query="kettle", max_tokens=500, limit=12)
    assert estimate_tokens(said) <= 700
    assert "more: ask with a larger max_tokens" in said
    items = tool(book, "recall", query="kettle", format="json", max_tokens=500, limit=12)["items"]
    assert {bool(each["content"]) for each in items} == {True, False}
    assert all(each.get("truncated", False) is not bool(each["content"]) for each in items)


# -- from Python


TEXT = "# Herons\n\nA heron waits at the ferry until the tide turns."
LABELS = {"summary": "What herons do.", "tags": ["birds"], "author": "Ada", "published": "2026-03-14"}


def through(book: Spellbook, tool: str, **given: Any) -> dict[str, Any]:
    """Call a tool and return its answer."""
    answer: dict[str, Any] = talk(
        book, lambda agent: agent.json(tool, **given), toolsets=("memento", "decisions", "articles")
    )
    return answer


def told(answer: dict[str, Any], book: Spellbook) -> tuple[dict[str, Any], str]:
    """Return an answer and its note, without what differs from one note to the next: ids, times, and who wrote it."""
    text = re.sub(r"generated: .*\n", "", (book.config.vault / answer["path"]).read_text("utf-8"))
    kept = {key: value for key, value in answer.items() if key not in {"id", "memory_id", "generation"}}
    times = re.compile(r"\d{4}-\d\d-\d\dT[\d:+.Z-]+")
    return json.loads(times.sub("TIME", json.dumps(kept))), times.sub("TIME", re.sub(r"(?m)^id: .*$", "id: ID", text))


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Any]:
    """Two empty vaults."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        spellbook.open(tmp_path / "one", embedder="hash", state=tmp_path / "state 1") as one,
        spellbook.open(tmp_path / "two", embedder="hash", state=tmp_path / "state 2") as two,
    ):
        yield one, two


def test_a_verb_writes_what_its_tool_writes(books: tuple[Spellbook, Spellbook]) -> None:
    """Answer, path and note of a decision, an article and a memory are equal; each is found by its own verbs."""
    python, tools = books
    decisions, articles = python.memories.decisions, python.memories.articles
    first = decisions.save("db", "Use SQLite.", "It is small.", confidence=0.6)
    asked = through(tools, "mama_save", type="decision", topic="db", decision="Use SQLite.", reasoning="It is small.", confidence=0.6)  # fmt: skip
    assert told(first, python) == told(asked, tools)
    second = decisions.save("db", "Use PostgreSQL.", supersedes=[first["id"]])
    again = through(tools, "mama_save", type="decision", topic="db", decision="Use PostgreSQL.", supersedes=[asked["id"]])  # fmt: skip
    assert [each.pop("id") for each in (*second["superseded"], *again["superseded"])] == [first["id"], asked["id"]]
    assert told(second, python) == told(again, tools)
    decisions.update(second["id"], "success", "It held.")
    [item] = decisions.find(outcome="success").items
    assert (item.as_dict()["outcome_reason"], item.chunk.note) == ("It held.", second["id"])
    address = "https://example.com/herons"
    kept = articles.save(address, ["birds", "sea"], LABELS, TEXT)
    saved = through(tools, "save", source=address, categories=["birds", "sea"], metadata=LABELS, text=TEXT)
    assert told(kept, python) == told(saved, tools)
    chunk, article = articles.read(kept["id"])
    assert (chunk.note, article.summary) == (kept["id"], "What herons do.")
    assert articles.ask("where does a heron wait").hits
    about: dict[str, Any] = {"tags": ["deploy"], "importance": "high"}
    kept = python.memories.remember("The staging port is 8443.", "episodic", **about)  # as Memento's tool has it
    asked = through(tools, "remember", content="The staging port is 8443.", **about)
    assert told(kept, python) == told(asked, tools)
    assert [hit.chunk.note for hit in python.memories.recall("staging port").hits] == [kept["memory_id"]]


DECISIONS: tuple[dict[str, Any], ...] = (
    {"topic": " db ", "decision": "Use SQLite. One file is enough.", "reasoning": "It is small.\r\n\r\nAnd fast."},
    {
        **{
            "topic": "db",
            "decision": "데이터베이스는 PostgreSQL로 한다.\n\n- 복제\n- 백업  ",
            "reasoning": "한 곳에\n\n둔다.",
        },
        **{"confidence": 0.6, "user_involvement": "approved", "session": "monday"},
        **{"valid_from": "2026-01-01", "valid_until": "2027-06-30"},
    },
    {
        "topic": "db",
        "decision": "# 'Keys' #: \"rotate\" [[them]] `daily`",
        "supersedes": ["Use SQLite"],
        "confidence": 0.0,
    },
    {"topic": "db", "decision": "The password is hunter2-Zebra-99.", "force": True, "confidence": 1.0},
    {"topic": "db", "decision": "Cafe\u0301 logins end. \u200b", "supersedes": ["topic"]},
    {"topic": "voxel:chicken", "decision": "Cafe\u0301 logins end. \u200b", "user_involvement": "rejected"},
    {"topic": "voxel:chicken", "decision": "Cafe\u0301 logins end. \u200b"},
)


def test_a_decision_by_python_is_the_decision_by_the_tool_byte_for_byte(books: tuple[Spellbook, Spellbook]) -> None:
    """With each field, in either language, with a successor, a secret or a repetition; so are its outcome and the log."""
    python, tools = books

    def written(book: Spellbook, answers: Sequence[dict[str, Any]]) -> list[Any]:
        ids = {answer["id"]: f"id {number}" for number, answer in enumerate(answers)}
        plain = [{key: value for key, value in answer.items() if key != "hash"} for answer in answers]
        log = [(each["verb"], each["what"], each.get("session")) for each in map(Entry.as_dict, book.log())]
        whole = json.dumps([*(told(answer, book) for answer in plain), log], ensure_ascii=False)
        return [re.sub("|".join(ids), lambda id: ids[id[0]], whole), sorted(contents(book.config.vault))]

    mine = [python.memories.decisions.save(**{"supersedes": None, **given}) for given in DECISIONS]
    mine.append(
        python.memories.decisions.update(mine[-2]["id"], "partial", "It held,\nmostly.", supersedes=[mine[4]["id"]])
    )

    async def script(agent: Agent) -> list[dict[str, Any]]:
        named = [
            {{"session": "session_id"}.get(key, key): value for key, value in given.items()} for given in DECISIONS
        ]
        saved = [await agent.json("mama_save", type="decision", **given) for given in named]
        last = {
            "id": saved[-2]["id"],
            "outcome": "partial",
            "reason": "It held,\nmostly.",
            "supersedes": [saved[4]["id"]],
        }
        return [*saved, await agent.json("mama_update", **last)]

    assert written(tools, talk(tools, script, toolsets=("decisions",))) == written(python, mine)
    assert [answer.get("status") for answer in mine] == [None] * 6 + ["exists", None]
