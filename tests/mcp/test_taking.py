"""What tools take and say: labels, names of arguments, corrections, and ways on that the reader has."""

from __future__ import annotations

import ast
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

import spellbook
from spellbook.index.opened import BEING_READ
from spellbook.library.book import Spellbook
from spellbook.mcp.app import build
from spellbook.mcp.names import TOOLSETS, Names, way_on
from spellbook.notes import labels
from spellbook.notes.note import parse
from spellbook.system import processes
from spellbook.system.errors import MemoryNotFound
from spellbook.text.terms import estimate_tokens
from tests.helpers import Write
from tests.mcp.agent import Agent, talk

ALL = TOOLSETS

TAGS = [
    pytest.param("tea, guests", ["tea", "guests"], id="commas"),
    pytest.param('["tea","guests"]', ["tea", "guests"], id="JSON"),
    pytest.param("['tea', 'guests']", ["tea", "guests"], id="Python"),
    pytest.param("[tea, guests]", ["tea", "guests"], id="YAML"),
    pytest.param("#tea #guests", ["tea", "guests"], id="hashes"),
    pytest.param(["#one", "two words"], ["one", "two-words"], id="blanks in a list"),
    pytest.param(["tea, guests", "tea"], ["tea", "guests"], id="a comma in a list"),
    pytest.param("차, 손님", ["차", "손님"], id="Korean"),
    pytest.param("tea", ["tea"], id="one"),
]


def tags_of(vault: Path, path: str) -> tuple[str, ...]:
    return parse(path, (vault / path).read_bytes()).tags


# -- labels


@pytest.mark.parametrize(("given", "tags"), TAGS)
def test_labels_given_as_one_text_are_lists_at_every_door(
    book: Spellbook, vault: Path, given: Any, tags: list[str]
) -> None:
    """Tags are written as Obsidian reads them; the first one is the topic, and no folder has a comma."""

    async def conversation(agent: Agent) -> list[str]:
        kept = await agent.json("remember", content="The kettle is on the left shelf.", tags=given)
        session = (await agent.json("rest"))["session_id"]
        labelled = {"topic": "x", "keywords": "kettle, shelf", "tags": given}
        chunk = {"text": "The harbour closes in May.", "metadata": labelled}
        done = await agent.json("scribe", chunk=chunk, session_id=session)
        article = await agent.json(
            "save", source="a", text="# A\n\nWhales sing.", categories="sea", metadata={"tags": given}
        )
        await agent.call("revise", id=kept["memory_id"], metadata={"tags": given})
        for wanted in (tags[0], tags, given) if "," in str(given) else (tags[0], tags):
            assert kept["path"] in await agent.found("find", keywords=["kettle"], filter={"tags": wanted}), wanted
        return [kept["path"], done["path"], article["path"]]

    paths = talk(book, conversation, toolsets=("core", "memento", "articles"))
    assert [tags_of(vault, path) for path in paths] == [tuple(tags)] * 3
    assert paths[0].startswith(f"memory/{tags[0]}/")
    python = book.memories.remember("The bridge is painted red every year.", tags=given)
    assert tags_of(vault, python["path"]) == tuple(tags)


@pytest.mark.parametrize(
    ("given", "apart", "expected"),
    [
        ("a, b,", ",", ["a", "b"]),
        (["Paris, Texas"], ",", ["Paris, Texas"]),
        ("Is it so, then?", "", ["Is it so, then?"]),
        ("[[Books]]", ",", ["[[Books]]"]),
        ("one\r\ntwo, too", r"\n", ["one", "two, too"]),
        ("[" * 100_000, ",", ["[" * 100_000]),
        ("", ",", []),
        (None, ",", None),
        (7, ",", 7),
    ],
)
def test_a_text_is_divided_by_one_rule(given: Any, apart: str, expected: Any) -> None:
    """Commas in a real list stay, questions are one text, and no depth ends the program."""
    assert labels.listed(given, apart) == expected


def test_lists_of_decisions_and_articles_may_be_one_text(book: Spellbook, vault: Path) -> None:
    """open_files and categories have commas, steps have lines."""

    async def conversation(agent: Agent) -> None:
        saved = {"summary": "Half done.", "open_files": "a.py, b.py", "next_steps": "Write, then test\nShip"}
        await agent.call("mama_save", type="checkpoint", **saved)
        [item] = (await agent.json("mama_search", type="checkpoint", format="json"))["items"]
        assert (item["open_files"], item["next_steps"]) == (["a.py", "b.py"], ["Write, then test", "Ship"])
        await agent.call("save", source="a", text="# A\n\nWhales sing.", categories="sea, whales")
        assert {"sea", "whales"} <= {each["name"] for each in (await agent.json("list", format="json"))["categories"]}

    talk(book, conversation, toolsets=("decisions", "articles"))


# -- names of arguments


UNKNOWN: list[tuple[str, dict[str, Any], str]] = [
    ("search", {"query": "x", "foo": 1}, "foo is not an argument of search; it takes: query, also"),
    ("search", {"query": "x", "limits": 1}, "Did you mean limit?"),
    ("stats", {"x": 1}, "x is not an argument of stats; it takes: nothing"),
    ("erase", {"id": "a", "chunk_id": "b"}, "id is another name of chunk_id"),
    ("forget", {"memory_id": "a", "reason": "x"}, "reason is not an argument of forget"),
    ("remember", {"content": "kept", "title\nx": "y"}, "is not an argument of remember"),
    ("core_search", {"query": "x", "foo": None}, "foo is not an argument of search"),
]
"""Calls with an argument that the tool does not have, and what is said of it."""


def test_unknown_arguments_are_named_and_nothing_is_done(book: Spellbook, vault: Path) -> None:
    """The error names the argument, the nearest and all that the tool takes, on one line."""

    async def conversation(agent: Agent) -> None:
        for tool, arguments, said in UNKNOWN:
            text = await agent.refused(tool, **arguments)
            assert text.startswith("INVALID_INPUT: ")
            assert said in text
            assert "othing was done." in text
            assert "\n" not in text

    talk(book, conversation, toolsets=("core", "memento"))
    assert not [*vault.rglob("*.md")]


def test_other_names_reach_the_same_argument(book: Spellbook, write_note: Write) -> None:
    """
    Whatever name a client uses for an id, the tool takes it. q is a query, top_k a limit, id a topic's where nothing
    else is; null is no second one.
    """
    write_note("a.md", "The kettle.\n", topic="tea")

    async def conversation(agent: Agent) -> None:
        for tool, name in itertools.product(
            ("show", "revise", "erase", "pin", "forget"), ("id", "chunk_id", "memory_id", "note_id")
        ):
            kept = await agent.json("remember", content=f"The {tool} of the {name} is on the left shelf.", force=True)
            await agent.call(tool, **{name: kept["memory_id"]}, **({"append": "More."} if tool == "revise" else {}))
        assert await agent.found("search", q="kettle", top_k=1, query=None) == ["a.md"]
        assert await agent.found("find", query="kettle", filters={"topic": "tea"}) == ["a.md"]
        for name in ("id", "topic", "name", "topic_id"):
            assert "The kettle." in await agent.call("get_topic", **{name: "tea"})
        await agent.call("stats", random_string="dummy")

    talk(book, conversation, toolsets=("core", "memento"))


def test_schemas_list_the_names_of_their_seed(book: Spellbook) -> None:
    """A set of tools that was described elsewhere lists its own names; scribe's session is required, as it says."""
    tools = {tool.name: tool.input_schema for tool in talk(book, Agent.tools, toolsets=ALL)}
    for tool, name in (
        ("forget", "memory_id"),
        ("get", "article_id"),
        ("revise", "chunk_id"),
        ("get_topic", "topic_id"),
    ):
        assert name in tools[tool]["properties"]
    assert "session_id" in tools["scribe"]["required"]
    assert "session_id" not in tools["mama_save"].get("required", ())


# -- while notes are read for the first time


def test_what_is_not_read_yet_is_said_first(vault: Path) -> None:
    """Each answer that depends on all notes says so before anything else, and none that a note may be erased."""
    for number in range(201):
        (vault / f"{number}.md").write_text(f"note {number}")
    with (
        spellbook.open(vault, embedder="hash") as book,
        processes.present(book.config.state, processes.EMBEDDING),
    ):

        async def conversation(agent: Agent) -> None:
            asked = {"get_index": {}, "recent": {}, "find": {"keywords": ["x"]}, "search": {"query": "x"}, "list": {}}
            for tool, arguments in asked.items():
                assert (await agent.call(tool, **arguments)).startswith(f"DEGRADED: {BEING_READ}\n"), tool
                told = await agent.json(tool, format="json", **arguments)
                assert next(iter(told.items())) == ("degraded", BEING_READ), tool
            assert (await agent.json("stats"))["degraded"] == BEING_READ
            for tool in ("show", "get_topic"):
                text = await agent.refused(tool, id="200")
                assert "not all notes are read yet" in text
                assert "erased" not in text
            kept = await agent.json("remember", content="The kettle is on the left shelf.")
            assert "duplicates could be looked for among some notes" in kept["warnings"][0]
            session = (await agent.json("rest"))["session_id"]
            chunk = {"text": "A boat.", "metadata": {"topic": "x", "keywords": ["boat"]}}
            done = await agent.json("scribe", chunk=chunk, session_id=session)
            assert "duplicates could be looked for among some notes" in done["warnings"][-1]

        talk(book, conversation, toolsets=("core", "memento", "articles"))
    with spellbook.open(vault, embedder="hash") as book:
        assert not talk(book, lambda agent: agent.call("get_index")).startswith("DEGRADED")


# -- corrections


def test_a_week_of_corrections(book: Spellbook, vault: Path) -> None:
    """After each correction the new fact is first and the old one a line below it; nothing nags, whoever wrote it."""

    async def corrected(agent: Agent, old: str, new: str, told: dict[str, Any], question: str) -> None:
        assert [each["title"] for each in told["superseded"]] == [old]
        assert not told.get("may_supersede")
        text = await agent.call("search", query=question)
        assert text.index("1. ") < text.index(new) < text.index(": superseded by")
        assert [line for line in text.splitlines() if old in line and "superseded" in line]
        assert not re.search(rf"(?m)^\d+\. \[[\d.]+\] {re.escape(old)}$", text)
        hits = (await agent.json("search", query=question, format="json"))["hits"]
        assert hits[0]["title"].startswith(new)
        gone = next(hit for hit in hits if hit["title"] == old)
        assert (gone["text"], gone["why"]["superseded_by"]["title"]) == ("", hits[0]["title"])
        assert "superseded by" in (await agent.call("show", id=gone["id"])).splitlines()[1]

    async def week(agent: Agent) -> None:
        session = (await agent.json("rest"))["session_id"]

        async def scribe(title: str, text: str, **labels: Any) -> Any:
            labelled = {"topic": "kestrel", "category": "project", "keywords": ["Kestrel", "hosting"], **labels}
            chunk = {"text": text, "metadata": {"title": title, **labelled}}
            return await agent.json("scribe", chunk=chunk, session_id=session)

        await agent.call("mama_save", type="checkpoint", summary="Kestrel hosting: the runbook is half written.")
        await scribe("Kestrel hosting", "Kestrel is hosted on Heroku in Frankfurt.")
        told = await scribe("Kestrel on Fly", "Kestrel is hosted on Fly.io now.", supersedes=["Kestrel hosting"])
        await corrected(agent, "Kestrel hosting", "Kestrel on Fly", told, "where is Kestrel hosted?")
        runbook = "\n".join(f"{step}. Kestrel hosting: the runbook, step {step}." for step in range(1, 16))
        told = await scribe("Kestrel runbook", runbook)
        assert not any("runbook is half" in each["title"] for each in told.get("may_supersede", ()))
        decided = {"type": "decision", "topic": "Kestrel", "supersedes": "Kestrel on Fly"}
        told = await agent.json("mama_save", decision="Kestrel is hosted on Hetzner from June.", **decided)
        await corrected(agent, "Kestrel on Fly", "Kestrel is hosted on Hetzner", told, "where is Kestrel hosted?")
        await agent.call("remember", content="The user prefers npm for packages.", tags="preference")
        told = await agent.json(
            "remember",
            content="The user prefers pnpm for packages.",
            supersedes='["The user prefers npm for packages"]',
        )
        old, new = "The user prefers npm for packages", "The user prefers pnpm for packages"
        await corrected(agent, old, new, told, "what does the user prefer for packages?")

    talk(book, week, toolsets=("core", "memento", "decisions"))


def test_only_a_known_note_is_superseded(book: Spellbook, vault: Path) -> None:
    """A title that no note has is an error before anything is written; two in one text are two."""
    chunk = {"text": "A boat.", "metadata": {"topic": "x", "keywords": ["boat"], "supersedes": ["No such note"]}}
    with pytest.raises(MemoryNotFound, match="No such note"):
        book.scribe(chunk)
    assert not [*vault.rglob("*.md")]
    for name in ("One", "Two"):
        book.scribe({"text": f"{name} ship.", "metadata": {"topic": "x", "keywords": ["ship"], "title": name}})
    chunk["metadata"]["supersedes"] = "One, Two"
    done = book.scribe(chunk)
    assert [each["title"] for each in done.superseded[0]] == ["One", "Two"]
    assert set(book.superseded([*book.show("One"), *book.show("Two")])) == {"knowledge/x/One.md", "knowledge/x/Two.md"}


# -- what is erased and undone


def test_erasing_a_topic_shows_first_what_goes(book: Spellbook, vault: Path, write_note: Write) -> None:
    """A client that cannot ask sees titles, the count and how to go on; undo shows each note once."""
    for number in range(8):
        write_note(f"t/{number}.md", f"The boat number {number} is blue.\n", title=f"Boat {number}", topic="boats")

    async def conversation(agent: Agent) -> None:
        told = await agent.json("erase", topic_id="boats")
        assert len([*vault.glob("t/*.md")]) == 8
        assert (told["would_erase"]["notes"], len(told["would_erase"]["titles"])) == (8, 5)
        assert "dry_run=false" in told["hint"]
        done = await agent.json("erase", topic_id="boats", dry_run=False)
        assert (done["notes"], len(done["titles"]), len(done["trash"])) == (8, 5, 5)
        assert not [*vault.glob("t/*.md")]
        text = await agent.call("undo")
        assert [text.count(f"number {number} is") for number in range(8)] == [1] * 8
        told = await agent.json("erase", id="Boat 1", dry_run=True)
        assert (told["would_erase"]["titles"], len([*vault.glob("t/*.md")])) == (["Boat 1"], 8)

    talk(book, conversation)


def test_pointers_count_in_the_budget_of_a_topic(book: Spellbook, write_note: Write) -> None:
    """An answer with many pointers is within max_tokens, and says how many chunks did not fit."""
    for number in range(60):
        name = f"The boat number {number}"
        write_note(f"topics/of/boats/{number}.md", "A boat is blue. " * 30, title=name, topic="boats")
    for form in ("text", "json"):
        asked = {"topic_id": "boats", "max_tokens": 600, "format": form}
        text = talk(book, lambda agent, asked=asked: agent.call("get_topic", **asked))
        assert estimate_tokens(text) <= 600
        assert "A boat is blue." in text
        assert json.loads(text)["left_out"] if form == "json" else "did not fit" in text


# -- ways on


def tools_of(book: Spellbook) -> dict[str, set[str]]:
    return {name: {*build(book, [name], live=False).names.listed} for name in TOOLSETS}


def hints() -> list[str]:
    """Return every text of the package below the command line that names a tool as a call, or a command."""
    said = set()
    for file in sorted(Path(spellbook.__file__).parent.rglob("*.py")):
        if "cli" in file.parts or "http" in file.parts or file.name == "names.py":
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                said.add(node.value)
    return [text for text in said if re.search(r"\b[a-z_]+\(|`spellbook ", text)]


def test_ways_on_are_those_that_the_reader_has(book: Spellbook) -> None:
    """For each toolset, any two and all of them no message names a tool that is not listed, or a command as if it were a tool."""
    known = tools_of(book)
    every = set().union(*known.values())
    texts = hints()
    assert any("merge(a, b)" in text for text in texts)
    for size in (1, 2, len(TOOLSETS)):
        for chosen in itertools.combinations(TOOLSETS, size):
            names = Names(chosen)
            names.answer()
            for text in filter(lambda text: text.count("`") % 2 == 0, texts):
                told = way_on(text)
                assert not set(re.findall(r"\b([a-z_]+)\(", told)) & every - names.listed, (chosen, told)
                assert told.count("`spellbook ") == told.count("(for the person)"), told


@pytest.mark.parametrize("toolset", TOOLSETS)
def test_descriptions_and_answers_of_one_toolset_name_its_own_tools(book: Spellbook, toolset: str) -> None:
    """With one toolset alone neither a description nor an answer or an error names a tool of another."""
    known = tools_of(book)
    others = set().union(*known.values()) - known[toolset]
    calls: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "core": [("undo", {}), ("find", {"keywords": ["x"]}), ("undo", {"entry": 99})],
        "desk": [("undo", {}), ("log", {})],
        "memento": [("recall", {"query": "zzz", "also": ["y"]}), ("forget", {"id": "own.md"}), ("pin", {"id": "no"})],
        "decisions": [
            ("mama_search", {}),
            ("mama_checkpoint", {}),
            ("mama_update", {"id": "own.md", "outcome": "success"}),
        ],
        "articles": [("list", {}), ("get", {"id": "own.md"}), ("delete", {"id": "own.md"})],
    }
    (book.config.vault / "own.md").write_text("# Own\n\nA note.\n")

    async def conversation(agent: Agent) -> list[str]:
        texts = [tool.description or "" for tool in await agent.tools()]
        return texts + [json.dumps(await agent.answer(tool, **given)) for tool, given in calls.get(toolset, ())]

    for text in talk(book, conversation, toolsets=[toolset]):
        assert not set(re.findall(r"\b([a-z_]+)\(", text)) & others, text
        assert not re.search(rf"\b(?:[Uu]se|with|by) (?:{'|'.join(others)})\b(?! (?:of|its|the|words))", text), text
        assert text.count("`spellbook ") == text.count("(for the person)"), text
