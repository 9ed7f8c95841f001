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
from spellbook.mcp.tool_names import TOOLSETS, Names, way_on
from spellbook.notes import labels
from spellbook.notes.note import parse
from spellbook.system import processes
from tests.mcp.agent import Agent, talk

TAGS = [
    pytest.param("tea, guests", ["tea", "guests"], id="commas"),
    pytest.param('["tea","guests"]', ["tea", "guests"], id="JSON"),
    pytest.param("['tea', 'guests']", ["tea", "guests"], id="Python"),
    pytest.param("[tea, guests]", ["tea", "guests"], id="YAML"),
    pytest.param("#tea #guests", ["tea", "guests"], id="hashes"),
    pytest.param(["#one", "two words"], ["one", "two-words"], id="blanks in a list"),
    pytest.param(["tea, guests", "tea"], ["tea", "guests"], id="a comma in a list"),
    pytest.param("차, 손님", ["차", "손님"], id="Korean"),
    pytest.param("차，손님、겨울;밤", ["차", "손님", "겨울", "밤"], id="commas of East Asia"),
    pytest.param("شاي، ضيوف؛ #شتاء", ["شاي", "ضيوف", "شتاء"], id="commas of Arabic"),
    pytest.param("alpha beta", ["alpha-beta"], id="blanks without hashes"),
    pytest.param(["", "tea", None, "  "], ["tea"], id="empty texts and nulls"),
    pytest.param("[tea](lib/tea.md), [[lib/guests|all]]", ["tea", "guests"], id="links"),
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
        for wanted in (tags[0], tags, given) if isinstance(given, str) else (tags[0], tags):
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
            asked: dict[str, dict[str, Any]] = {
                "get_index": {},
                "recent": {},
                "find": {"keywords": ["x"]},
                "search": {"query": "x"},
                "list": {},
            }
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


# -- ways on


def tools_of(book: Spellbook) -> dict[str, set[str]]:
    return {name: {*build(book, [name], live=False).names.listed} for name in TOOLSETS}


def hints() -> list[str]:
    """Return every text of the package below the command line that names a tool as a call, or a command."""
    said = set()
    for file in sorted(Path(spellbook.__file__).parent.rglob("*.py")):
        if "cli" in file.parts or "http" in file.parts or file.name in {"tool_names.py", "instructions.py"}:
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
