"""Every tool, resource and prompt once for real: all toolsets in a child process, in both eras of the protocol."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.types import ElicitResult

from spellbook.mcp.names import TOOLSETS
from spellbook.text.terms import estimate_tokens
from tests.helpers import PATIENCE, note_writer
from tests.mcp.agent import CHUNK, ERAS, TEXT, Agent, read, stdio

pytestmark = pytest.mark.slow

ARTICLE = "## Opening\n\nThe harbor opens on Mondays, and the lighthouse on Fridays. " * 4
MOST = 2_300
"""Most tokens of an answer, estimated: its budget and the lines of the server's own; of the table of contents 900."""


def memory(word: str) -> dict[str, Any]:
    return {"text": f"The {word} opens on Mondays.", "metadata": {"topic": "port", "keywords": [word, "port", "opens"]}}


CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("rest", {}, "rest-"),
    ("scribe_validate", {"chunk": CHUNK}, "true"),
    ("scribe", {"chunk": CHUNK, "session_id": "$rest.session_id"}, "success"),
    ("memorize", {"query": TEXT}, "$scribe.path"),
    ("find", {"keywords": ["failover"]}, "$scribe.path"),
    ("search", {"query": "session tokens"}, "$scribe.path"),
    ("scribe_chunk", {"chunk": [memory("pier"), memory("quay")], "session_id": "$rest.session_id", "force": True}, "success"),
    ("remember", {"content": "The crane opens on Mondays.", "topic": "lifts", "type": "semantic"}, "memory_id"),
    ("get_index", {}, "- port (2,"),
    ("get_topic", {"topic_id": "port"}, "The quay opens"),
    ("show", {"id": "$remember.memory_id"}, "The crane opens"),
    ("revise", {"chunk_id": "$remember.memory_id", "append": "On Tuesdays, too."}, "> +On Tuesdays, too."),
    ("undo", {}, "> -On Tuesdays, too."),
    ("recent", {}, " id: "),
    ("merge", {"a": "$remember.path", "b": "$scribe.path"}, "Would merge"),
    ("move", {"old": "$remember.path", "new": "moved/crane.md", "dry_run": False}, "moved/crane.md"),
    ("mend_links", {}, "Would repair"),
    ("erase", {"chunk_id": "moved/crane.md", "whole": True}, "erased"),
    ("restore", {"name": "$erase.trash"}, "moved/crane.md"),
    ("log", {}, "erase"),
    ("rest_end", {"session_id": "$rest.session_id"}, '"scribed_count": 3'),
    ("snapshot", {}, "kept"),
    ("snapshots", {}, "taken"),
    ("export", {}, "exported"),
    ("import", {"file_path": "$export.file"}, "would be imported"),
    ("rebuild_index", {}, "rebuilt"),
    ("recall", {"query": "crane"}, "The crane opens"),
    ("pin", {"memory_id": "moved/crane"}, ""),
    ("unpin", {"memory_id": "moved/crane"}, ""),
    ("forget", {"memory_id": "moved/crane"}, "true"),
    ("mama_save", {"type": "decision", "topic": "port", "decision": "Ships moor at the north pier."}, "id"),
    ("mama_update", {"id": "$mama_save.id", "outcome": "success"}, "success"),
    ("mama_search", {"query": "where do ships moor"}, "north pier"),
    ("mama_checkpoint", {}, "No checkpoint yet"),
    ("wiki_search", {"query": "RS256 tokens"}, "zywiki/auth.md:3 Auth > Tokens"),
    ("wiki_index", {}, '"documents": 1'),
    ("wiki_status", {}, '"total_documents": 1'),
    ("zyflow_wiki_search", {"query": "RS256 tokens"}, "zywiki/auth.md:3 Auth > Tokens"),
    ("zyflow_wiki_index", {}, '"documents": 1'),
    ("zyflow_wiki_status", {}, '"total_documents": 1'),
    ("save", {"source": "https://example.com/harbor", "categories": ["port"], "text": ARTICLE}, "id"),
    ("articles_search", {"query": "when does the harbor open"}, "Mondays"),
    ("list", {}, "of 1 article"),
    ("get", {"article_id": "$save.id"}, "example.com"),
    ("ask", {"question": "when does the harbor open"}, "Mondays"),
    ("delete", {"article_id": "$save.id"}, "trash"),
]  # fmt: skip
"""Each tool with its arguments, and a part of its answer; `$tool.key` is what an earlier answer has."""


def filled(given: Any, answers: Mapping[str, Any]) -> Any:
    """Put what earlier answers have into the arguments of a call."""
    if isinstance(given, dict):
        return {name: filled(value, answers) for name, value in given.items()}
    if isinstance(given, str) and given.startswith("$"):
        tool, key = given[1:].split(".")
        value = answers[tool][key]
        return value[0] if isinstance(value, list) else value
    return given


async def becomes(holds: Callable[[], Awaitable[object]]) -> None:
    """Ask until something holds."""
    with anyio.fail_after(PATIENCE):
        while not await holds():
            await anyio.sleep(0.05)


@ERAS
def test_all_of_it(vault: Path, tmp_path: Path, mode: str) -> None:
    """
    Nothing is left out, every answer keeps its size, and a topic is erased only after the person was asked.

    A new memory is found by words and by meaning until it is erased, and an edited file is noticed.
    """
    note_writer(tmp_path / "app")("zywiki/auth.md", "# Auth\n\n## Tokens\n\nTokens are signed with RS256.\n")
    server = stdio(vault, "--toolsets", ",".join(TOOLSETS), "--wiki", str(tmp_path / "app/zywiki"))
    asked: list[str] = []

    async def ask(_: Any, given: Any) -> ElicitResult:
        asked.append(given.message)
        return ElicitResult(action="accept", content={"really": True})

    async def main() -> None:
        async with Client(server, mode=mode, elicitation_callback=ask) as client:
            agent, answers = Agent(client), dict[str, Any]()
            for tool, given, part in CALLS:
                answer = await agent.call(tool, **filled(given, answers))
                answers[tool] = read(answer)
                assert filled(part, answers) in answer, (tool, answer)
                assert estimate_tokens(answer) <= (900 if tool == "get_index" else MOST), tool

            async def watched() -> object:
                return (await agent.json("stats"))["watched"]

            async def edited() -> bool:
                return await agent.found("find", keywords=["pgbouncer"]) == [answers["scribe"]["path"]]

            await becomes(watched)
            file = vault / answers["scribe"]["path"]
            file.write_text(f"{file.read_text('utf-8')}\nUpdate: pgbouncer stands in front.\n", "utf-8")
            await becomes(edited)
            for uri in (f"memory://{answers['scribe']['path']}", "memory://search?query=pgbouncer", "memory://index"):
                assert (await client.read_resource(uri)).contents[0].text
            prompt = await client.get_prompt("memory_injection", {"query": "what stands in front of the sessions"})
            assert "pgbouncer" in prompt.messages[0].content.text
            assert "PERMISSION_DENIED" in await agent.refused("wiki_search", query="x", path=str(vault.parent))
            assert not asked
            await agent.call("erase", topic_id="port", hard=True)
            assert len(asked) == 1
            assert await agent.found("find", keywords=["crane", "quay"]) == []
            assert agent.used == {tool.name for tool in (await client.list_tools()).tools}
            assert {each.name for each in (await client.list_prompts()).prompts} == {"memory_injection"}
            assert [str(each.uri) for each in (await client.list_resources()).resources] == ["memory://index"]
            templates = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
            assert (len(templates), templates[0].partition("?")[0].startswith("memory://search")) == (2, True)

    anyio.run(main)
