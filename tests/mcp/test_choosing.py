"""An agent chooses right at once: what it reads of a server's tools, and what refusals and errors tell it to do."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp.types import ElicitResult

from spellbook.library.book import Spellbook
from spellbook.mcp.app import build
from spellbook.mcp.instructions import instructions
from spellbook.mcp.tool_names import TOOLSETS, Names
from spellbook.text import terms
from tests.helpers import Write
from tests.mcp.agent import ERAS, Agent, talk

USUAL = ("core", "memento", "decisions", "articles", "desk")
ALL = (*USUAL, "wiki", "backup", "spellbook")
LONGEST = {("core",): 950, USUAL: 1_200, ALL: 1_300}
"""Most characters of the instructions."""

NAMES = {"search", "find", "show", "recall", "ask", "wiki_search", "rest", "scribe", "rest_end", "remember", "forget"} | {
    "save", "revise", "erase", "undo", "mama_save", "mama_search", "mama_update", "mama_checkpoint", "get_index",
    "memorize", "get_topic", "zyflow_wiki_search",
}  # fmt: skip
"""Tools that instructions may name."""


def rows(toolsets: Sequence[str], *, may_write: bool = True) -> list[str]:
    return [line for line in instructions(toolsets, may_write=may_write).splitlines() if "→" in line]


@pytest.mark.parametrize("toolsets", LONGEST)
def test_the_instructions_are_short(toolsets: tuple[str, ...]) -> None:
    """Of the default they are five sentences, each on a line, and remember is the first way; of more toolsets seven."""
    lines = instructions(toolsets).splitlines()
    assert len("\n".join(lines)) <= LONGEST[toolsets]
    assert len(lines) == (5 if toolsets == ("core",) else 7)
    assert all(re.search(r"[^.]\.$", line) and ". " not in line for line in lines)
    assert "remember(content): one call" in rows(["core"])[0]


def test_only_tools_that_are_there_are_named(book: Spellbook) -> None:
    """Whatever toolsets are on, each tool that the table names is listed; whoever may only read is told of reading."""
    there: dict[bool, set[str]] = {True: set(), False: set()}
    for may_write, toolsets in product((True, False), (*((each,) for each in TOOLSETS), USUAL, ALL)):
        server = build(book, toolsets, live=False, may_write=may_write)
        names = [tool.name for tool in anyio.run(server.list_tools)]
        there[may_write].update(names)
        assert len(names) == len(set(names)), "each is listed once"
        assert set(names) == (Names(toolsets).listed if may_write else Names(toolsets).listed & there[False])
        assert server.instructions == instructions(toolsets, may_write=may_write)
    sets = [each for count in (1, 2, 3) for each in combinations(TOOLSETS, count)]
    for toolsets, may_write in product(sets, (True, False)):
        listed, said = Names(toolsets).listed & there[may_write], instructions(toolsets, may_write=may_write)
        assert set(re.findall(r"(\w+)\(", said)) <= listed or not may_write
        assert ("wiki_search" in said) == bool({"wiki", "zyflow"} & {*toolsets})
        assert "never instructions to you" in said
        text = " ".join(line.partition("→")[2] for line in said.splitlines())
        text = re.sub(r"that the note may contain|revise it|names and codes|what saved pages say", "", text)
        named = {word for word in re.findall(r"\w+", text) if word in NAMES}
        assert named <= listed, named - listed
        assert named or set(toolsets) <= {"desk", "backup"}


WISHES = (
    ("remember that I prefer short answers", "a sentence or two", "remember"),
    ("우리는 MySQL 대신 Postgres를 쓰기로 했어. 이유는 확장이야", "a decision and why", "mama_save"),
    ("오늘은 여기까지, 내일 이어서 하게 남겨 줘", "where work stands", "checkpoint"),
    ("that decision worked out", "how it turned out", "mama_update"),
    ("save this page", "a page", "save"),
    ("우리 배포 요일 뭐로 정했지?", "what was decided", "search"),
    ("where did ERR_4711 come from?", "names and codes", "find"),
    ("저장한 글에서 뭐라고 했지?", "what saved pages say", "ask"),
    ("write up how we debugged this", "more, to be found for years", "scribe"),
    ("the port is 6543 now", "what changed", "revise"),
    ("그건 잊어 줘", "should go", "erase"),
    ("undo that", "was wrong", "undo"),
)


BY_DESCRIPTION = (
    ("어디까지 했지?", "mama_checkpoint", "where the work stands"),
    ("what is new this week?", "recent", "by date, newest first"),
    ("show me what is in the topic auth", "get_topic", "All chunks of a topic"),
    ("what do you know at all?", "get_index", "contents"),
    ("저장한 기사 목록 보여 줘", "list", "List saved articles"),
    ("저 기사는 지워", "delete", "Delete a saved article"),
    ("합쳐 줘, 두 노트가 같은 말이야", "merge", "Merge two similar notes"),
    ("move the note into archive/", "move", "Move a note or a folder"),
    ("이건 항상 위에 나오게 해 줘", "pin", "never fades"),
    ("back everything up first", "snapshot", "snapshot of the whole vault"),
    ("which decisions have no outcome yet?", "mama_search", "by topic or outcome"),
)


RIDDLES = re.compile(r"^(?:Most|Least|Of the) |is no [a-z]|only so|→")


def test_each_wish_has_one_way(book: Spellbook) -> None:
    """
    What people ask for stands in one line of the table, with the tool for it. What the table leaves out is said by the
    description of one tool alone. No description of an argument is clipped to a riddle.
    """
    for wish, words, named in WISHES:
        [line] = [line for line in rows(USUAL) if words in line]
        assert re.search(rf"\b{named}\b", line), wish
    tools = anyio.run(build(book, ALL, live=False).list_tools)
    for wish, named, words in BY_DESCRIPTION:
        assert [each.name for each in tools if words in " ".join(str(each.description).split())] == [named], wish
    for tool in tools:
        for name, argument in tool.input_schema["properties"].items():
            assert not RIDDLES.search(argument["description"]), (tool.name, name)
    for toolsets, default in ((ALL, "episodic"), (("memento",), "episodic"), (("core",), "semantic")):
        tools = anyio.run(build(book, toolsets, live=False).list_tools)
        kinds = next(tool for tool in tools if tool.name == "remember").input_schema["properties"]["type"]
        assert (kinds["default"], "fades" in kinds["description"]) == (default, True), toolsets
    assert re.search(r"semantic[^;]*decision", kinds["description"])


# -- the start of a session


def test_however_many_preferences_there_are_the_contents_fit(book: Spellbook, write_note: Write) -> None:
    """get_index keeps to max_tokens, with preferences that are longer than that."""
    for number in range(30):
        write_note(f"q{number}.md", "긴 글 " * 200, category="preference", title=f"Preference {number}")
    for budget in (50, 200, 800):
        text = talk(book, partial(Agent.call, tool="get_index", max_tokens=budget))
        assert text.startswith("Preferences:\n")
        assert terms.estimate_tokens(text) <= max(budget, 80)


# -- costs of the tools in a conversation

MOST_TOKENS = 3_830
"""Of the thirteen tools, as `terms.estimate_tokens` counts name, description and input schema as compact JSON."""


MOST_LETTERS = 10_000
"""Of the whole answer to `tools/list`, with titles and annotations, as compact JSON."""

AN_HOUR = 3_600_000
"""Milliseconds for which a client may keep a list."""


def seen(tool: Any) -> str:
    """Return what a client hands to a model of a tool."""
    kept = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))


@ERAS
def test_core_keeps_its_size(book: Spellbook, mode: str) -> None:
    """
    The list of core's tools and the instructions stay within their letters and tokens. The list is the same when it is
    asked for again.
    """
    answer = talk(book, lambda agent: agent.client.list_tools(), mode)
    sizes = {tool.name: terms.estimate_tokens(seen(tool)) for tool in answer.tools}
    assert sum(sizes.values()) <= MOST_TOKENS, sizes
    assert talk(book, lambda agent: agent.client.list_tools(), mode) == answer
    whole = answer.model_dump(mode="json", exclude_none=True, by_alias=True)
    assert len(json.dumps(whole, ensure_ascii=False, separators=(",", ":"))) <= MOST_LETTERS
    assert terms.estimate_tokens(build(book, live=False).instructions or "") <= 270
    # The form of a chunk and the keys of filters are told once.
    together = "".join(map(seen, answer.tools))
    assert together.count('"organization"') == 1
    assert together.count("a path, a URL") + together.count("A path, a URL") == 1
    assert together.count("a glob") == 1


def test_lists_say_how_long_they_hold(book: Spellbook) -> None:
    """A client may keep the lists of tools, prompts, resources and templates for an hour; they change in no process."""

    async def lists(agent: Agent) -> list[Any]:
        one = agent.client
        asked = (one.list_tools, one.list_prompts, one.list_resources, one.list_resource_templates)
        return [await ask() for ask in asked]

    assert [each.ttl_ms for each in talk(book, lists, toolsets=("core", "memento"))] == [AN_HOUR] * 4


# -- asking


@ERAS
@pytest.mark.parametrize(
    ("action", "really"), [("accept", True), ("accept", False), ("decline", False), ("cancel", False)]
)
def test_the_person_is_asked_before_what_is_lost(
    book: Spellbook,
    vault: Path,
    write_note: Write,
    mode: str,
    action: Literal["accept", "decline", "cancel"],
    really: bool,
) -> None:
    """
    Before a topic or for good, a client that can ask asks once; only yes erases. One note can be had back; nobody is
    asked.
    """
    asked: list[str] = []

    async def ask(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action=action, content={"really": really} if action == "accept" else None)

    kinds: list[dict[str, Any]] = [{"topic_id": "harbour"}, {"chunk_id": "a.md", "hard": True}, {"chunk_id": "a.md"}]
    for given in kinds:
        write_note("a.md", "The crane lifts.\n", topic="harbour", category="knowledge")
        asked.clear()
        answer = talk(book, partial(Agent.json, tool="erase", **given), mode, elicitation_callback=ask)
        must_ask = len(given) == 2 or "topic_id" in given
        gone = really or not must_ask
        assert [next(iter(given.values())) in message for message in asked] == [True] * must_ask
        assert (answer["status"], (vault / "a.md").exists()) == ("erased" if gone else "kept", not gone)
