"""Toolsets: which tools a server lists, which it answers, and what it says of the others."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.mcp.app import build
from spellbook.mcp.debug_log import DEBUG_LOG, open_log, wants_log
from spellbook.mcp.tool import TOOLS
from spellbook.mcp.tool_names import DEFAULT, TOOLSETS
from tests.commands import spellbook
from tests.helpers import Write
from tests.mcp.agent import Agent, talk


@pytest.mark.parametrize(
    "names", [*((each,) for each in TOOLSETS), ("articles", "core"), ("zyflow", "wiki"), (*TOOLSETS,)]
)
def test_a_server_lists_the_tools_of_its_sets_once(book: Spellbook, names: tuple[str, ...]) -> None:
    """The set `core` comes first, and a tool of several sets is one; articles' search is so called where core is off."""
    expected = dict.fromkeys(
        tool for name in sorted(names, key=lambda name: name != DEFAULT) for tool in TOOLSETS[name]
    )
    if "core" not in names:
        expected = {"search" if tool == "articles_search" else tool: None for tool in expected}
    assert [tool.name for tool in talk(book, Agent.tools, toolsets=names)] == [*expected]


def test_each_tool_of_a_module_is_in_the_table(book: Spellbook) -> None:
    """A tool that no set lists would not exist."""
    build(book, tuple(TOOLSETS), live=False)
    assert TOOLS.keys() == {tool for name, tools in TOOLSETS.items() if name != "zyflow" for tool in tools}


def test_one_that_may_only_read_is_refused_what_writes(book: Spellbook, write_note: Write) -> None:
    """A server for reading lists and answers reading tools alone, unlisted ones too."""
    write_note("a.md", "The crane lifts.", topic="harbour")
    server = build(book, live=False, may_write=False)

    async def conversation(agent: Agent) -> None:
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in await agent.tools())
        assert "The crane lifts." in await agent.call("get_topic", topic_id="harbour")
        for tool in ("remember", "scribe_chunk", "export"):
            assert (await agent.refused(tool)).startswith("PERMISSION_DENIED: This token may only read")

    talk(book, conversation, server=server)


# -- the session of a write, and the debug log


HARBOUR = {"text": "The harbour opens at six.", "metadata": {"topic": "harbour", "keywords": ["harbour"]}}


def test_a_session_is_named_by_what_it_wrote(book: Spellbook, vault: Path) -> None:
    """
    The entry of an `add` names its session, in the tool and the command; other entries name none. The session
    survives a restart, keeps counting, and ends in the language that it began in.
    """

    async def conversation(agent: Agent) -> Any:
        session = (await agent.json("rest", language="ko"))["session_id"]
        path = (await agent.json("scribe", chunk=HARBOUR, session_id=session))["path"]
        await agent.call("revise", chunk_id=path, append="And closes at ten.")
        return session, (await agent.json("log"))["entries"]

    session, entries = talk(book, conversation, toolsets=["core", "desk"])
    assert [(each["verb"], each.get("session")) for each in entries] == [("edit", None), ("add", session)]
    assert [each.session for each in book.log()] == ["", session]
    with books.open(vault, embedder="hash") as other:
        more = {"text": "The quay is swept on Mondays.", "metadata": {"topic": "quay", "keywords": ["quay"]}}
        talk(other, lambda agent: agent.json("scribe", chunk=more, session_id=session))
        end = talk(other, lambda agent: agent.json("rest_end", session_id=session))
        assert (end["scribed_count"], "세션" in end["status"]) == (2, True)
    _, revised, scribed = spellbook("--vault", vault, "log").stdout.splitlines()
    assert (session in revised, scribed.endswith(session)) == (False, True)


def test_an_agent_undoes_its_own_changes(book: Spellbook) -> None:
    """
    `undo` takes the latest change of its own session, whatever name a client gives to that, and never another's: it says
    whose the latest change is, and takes that back by its number. A person takes back the latest, whoever made it.
    """

    async def meeting() -> None:
        first, second = (build(book, ["core", "decisions"], live=False) for _ in range(2))
        async with Client(first) as one, Client(second, mode="legacy") as other:
            a, b = Agent(one, first), Agent(other, second)
            saved = {"type": "decision", "topic": "pier", "session_id": "s-1"}  # both give it the same name
            await a.call("mama_save", decision="The pier stays closed", **saved)
            await b.call("remember", content="Barges leave at noon on Mondays.")
            await b.call("mama_save", decision="The pier opens", force=True, **saved)
            told = await a.call("undo")
            assert "The pier stays closed" in told.split("\n")[0]
            latest = r"The latest change is entry (\d+) \(add The pier opens\), by (agent \w{8})"
            number, by = re.search(latest, told).groups()  # type: ignore[union-attr]
            refused = await a.refused("undo")
            assert re.search(latest, refused).groups() == (number, by)  # type: ignore[union-attr]
            assert f"undo({number}) takes that one back." in refused
            assert "The pier opens" in await a.call("undo", entry=int(number))
            assert "Barges-leave" in await b.call("undo", dry_run=True)

    anyio.run(meeting)
    assert "Barges-leave" in book.undo().entry.what


def test_the_debug_log(book: Spellbook, write_note: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It is written by the option or by the variable. One line a call, failed ones with their code, unknown tools without
    their name; and no words of either side. Beyond a megabyte it becomes the one log before.
    """
    for value in ("", "0", "1"):
        monkeypatch.setenv("SPELLBOOK_DEBUG_LOG", value)
        assert (wants_log(), wants_log(True)) == (value == "1", True)
    write_note("a.md", "A secret harbor.")
    log = open_log(book.config.state, "stdio")

    async def calls(agent: Agent) -> None:
        await agent.call("find", keywords=["secret"])
        await agent.refused("show", id="secret.md")
        await agent.refused("find", keywords="secret", limit="secret")
        await agent.refused("secret")

    talk(book, calls, server=build(book, live=False, log=log))
    text = (book.config.state / DEBUG_LOG).read_text("utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["tool"] for row in rows] == ["find", "show", "find", ""]
    assert [row.get("error") for row in rows][:3] == [None, "MEMORY_NOT_FOUND", "INVALID_INPUT"]
    assert set(rows[0]) == {"time", "door", "tool", "letters", "tokens", "ms"}
    assert rows[0]["letters"] > rows[0]["tokens"] > 10
    assert rows[0]["door"] == "stdio"
    assert "secret" not in text
    assert "harbor" not in text
    for _ in range(12_000):
        log("find", 1.0, "x" * 500, "")
    sizes = sorted(file.stat().st_size for file in book.config.state.glob(f"{DEBUG_LOG}*"))
    assert len(sizes) == 2
    assert sizes[-1] <= 1_001_000
