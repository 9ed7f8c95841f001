"""Every tool, resource and prompt once for real: all toolsets in a child process, in both eras of the protocol."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.types import ElicitResult

from spellbook.mcp.names import TOOLSETS
from spellbook.text.terms import estimate_tokens
from tests.helpers import PATIENCE, note_writer
from tests.mcp.agent import CHUNK, ERAS, TEXT, Agent, stdio

pytestmark = pytest.mark.slow

ARTICLE = "## Opening\n\nThe harbor opens on Mondays, and the lighthouse on Fridays. " * 4
MOST = {"get_index": 900, "search": 2_300, "recall": 2_300, "mama_search": 2_300, "wiki_search": 2_300, "ask": 2_300}
"""Most tokens of an answer, estimated: its budget and the lines of the server's own."""


def memory(word: str) -> dict[str, Any]:
    return {"text": f"The {word} opens on Mondays.", "metadata": {"topic": "port", "keywords": [word, "port", "opens"]}}


async def becomes(holds: Callable[[], Awaitable[object]]) -> None:
    """Ask until something holds."""
    with anyio.fail_after(PATIENCE):
        while not await holds():
            await anyio.sleep(0.05)


async def core_and_desk(agent: Agent, vault: Path) -> None:
    session = (await agent.json("rest"))["session_id"]
    checked = await agent.json("scribe_validate", chunk=memory("quay"))
    assert checked["valid"]
    assert any("tokens" in warning for warning in checked["warnings"])
    assert not (await agent.json("scribe_validate", chunk={"text": " "}))["valid"]
    one = await agent.json("scribe", chunk=CHUNK, session_id=session)
    assert one["status"] == "success"
    file = vault / one["path"]
    assert file.read_text("utf-8").endswith(TEXT + "\n")
    for tool, asked in (
        ("memorize", {"query": TEXT}),
        ("find", {"keywords": ["failover"]}),
        ("search", {"query": "session tokens"}),
    ):
        assert await agent.found(tool, **asked) == [one["path"]]
    again = await agent.json("scribe", chunk=CHUNK, session_id=session)
    assert (again["status"], again["duplicates"][0]["path"]) == ("warning", one["path"])
    assert (await agent.json("scribe_validate", chunk=CHUNK))["duplicates"]
    both = await agent.json("scribe_chunk", chunk=[memory("crane"), memory("pier")], session_id=session, force=True)
    quay = await agent.json("scribe_chunk", chunk=memory("quay"), session_id=session, force=True)
    assert [each["status"] for each in (*both, quay)] == ["success"] * 3
    assert "- port (3," in await agent.call("get_index")
    assert "- port (" not in await agent.call("get_index", scope="decision")
    topic = await agent.call("get_topic", topic_id="port")
    assert all(f"The {word} opens" in topic for word in ("crane", "pier", "quay"))
    assert (await agent.call("show", id=quay["path"])).startswith("[")
    change = {"content": "The quay opens on Tuesdays.", "metadata": {"importance": "high"}}
    revised = await agent.call("revise", chunk_id=quay["chunk_id"], **change)
    assert "> -The quay opens on Mondays.\n> +The quay opens on Tuesdays." in revised
    assert await agent.found("find", keywords=["Tuesdays"]) == [quay["path"]]
    assert "Tuesdays" in await agent.call("undo", dry_run=True)
    assert " id: " in (await agent.call("recent")).splitlines()[1]
    assert "crane" in await agent.call("merge", a=both[0]["path"], b=both[1]["path"])
    await agent.call("move", old=both[1]["path"], new="moved/pier.md", dry_run=False)
    assert (vault / "moved" / "pier.md").exists()
    await agent.call("mend_links")
    trash = (await agent.json("erase", chunk_id=both[0]["chunk_id"], whole=True))["trash"]
    assert (vault / trash[0]).exists()
    await agent.call("restore", name=trash[0])
    assert "erase" in await agent.call("log")

    async def watched() -> object:
        return (await agent.json("stats"))["watched"]

    async def edited() -> bool:
        return await agent.found("find", keywords=["pgbouncer"]) == [one["path"]]

    await becomes(watched)
    file.write_text(f"{file.read_text('utf-8')}\nUpdate: pgbouncer stands in front.\n", "utf-8")
    await becomes(edited)
    assert (await agent.json("stats"))["notes"] == 4
    rebuilt = await agent.json("rebuild_index")
    assert (rebuilt["status"], rebuilt["scanned"], rebuilt["failed"]) == ("rebuilt", 4, [])
    assert (await agent.json("rest_end", session_id=session))["scribed_count"] == 4


async def backup(agent: Agent, vault: Path) -> None:
    await agent.json("snapshot")
    assert await agent.json("snapshots")
    file = (await agent.json("export"))["file"]
    await agent.json("import", file_path=file)


async def memento(agent: Agent, vault: Path) -> None:
    kept = (await agent.json("remember", content="The ferry leaves at noon.", type="semantic"))["memory_id"]
    assert "ferry" in await agent.call("recall", query="ferry")
    await agent.call("pin", memory_id=kept)
    await agent.call("unpin", memory_id=kept)
    read = await agent.client.read_resource(f"memory://{kept}")
    assert "ferry" in read.contents[0].text
    assert "ferry" in (await agent.client.read_resource("memory://search?query=ferry")).contents[0].text
    assert json.loads((await agent.client.read_resource("memory://index")).contents[0].text)["total_chunks"]
    prompt = await agent.client.get_prompt("memory_injection", {"query": "when does the ferry leave"})
    assert "ferry" in prompt.messages[0].content.text
    await agent.call("forget", memory_id=kept)


async def decisions(agent: Agent, vault: Path) -> None:
    made = await agent.json("mama_save", type="decision", topic="port", decision="Ships moor at the north pier.")
    await agent.json("mama_update", id=made["id"], outcome="success")
    await agent.json("mama_save", type="checkpoint", summary="Planning the port.", next_steps=["ask"])
    assert "north pier" in await agent.call("mama_search", query="where do ships moor")
    assert "Planning the port." in await agent.call("mama_checkpoint")


async def wiki(agent: Agent, vault: Path) -> None:
    told: list[str | None] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append(message)

    assert "zywiki/auth.md:3 Auth > Tokens" in await agent.call("wiki_search", query="RS256 tokens")
    note_writer(vault.parent / "app")("zywiki/heron.md", "# Heron\n\nThe heron waits.\n")
    assert "zywiki/heron.md" in await agent.call("wiki_search", query="heron waits")
    await agent.client.call_tool("wiki_index", {}, progress_callback=progress)
    assert told
    assert (await agent.json("wiki_index"))["documents"] == 2
    assert (await agent.json("wiki_status"))["total_documents"] == 2
    for tool, asked in {"wiki_search": {"query": "heron"}, "wiki_index": {}, "wiki_status": {}}.items():
        assert "heron" in await agent.call(f"zyflow_{tool}", **asked) or tool != "wiki_search"
    assert "PERMISSION_DENIED" in await agent.refused("wiki_search", query="x", path=str(vault.parent))


async def articles(agent: Agent, vault: Path) -> None:
    source = "https://example.com/harbor"
    kept = await agent.json("save", source=source, categories=["port"], text=ARTICLE, metadata={"title": "The harbor"})
    assert "The harbor" in await agent.call("articles_search", query="when does the harbor open")
    assert "The harbor" in await agent.call("list")
    assert (await agent.json("get", article_id=kept["id"]))["title"] == "The harbor"
    assert "Mondays" in await agent.call("ask", question="when does the harbor open", article_id=kept["id"])
    await agent.call("delete", article_id=kept["id"])


@ERAS
def test_all_of_it(vault: Path, tmp_path: Path, mode: str) -> None:
    """
    Nothing is left out, every answer keeps its size, and a topic is erased only after the person was asked.

    A new memory is found by words and by meaning until it is erased, and an edited file is noticed.
    """
    note_writer(tmp_path / "app")("zywiki/auth.md", "# Auth\n\n## Tokens\n\nTokens are signed with RS256.\n")
    server = stdio(vault, "--toolsets", ",".join(TOOLSETS), "--wiki", str(tmp_path / "app/zywiki"))
    asked: list[str] = []
    sizes: dict[str, int] = {}

    async def ask(_: Any, given: Any) -> ElicitResult:
        asked.append(given.message)
        return ElicitResult(action="accept", content={"really": True})

    class Weighing(Agent):
        async def ask(self, tool: str, **arguments: object) -> Any:
            result = await super().ask(tool, **arguments)
            size = estimate_tokens(result.content[0].text)
            sizes[tool] = max(size, sizes.get(tool, 0))
            return result

    async def main() -> None:
        async with Client(server, mode=mode, elicitation_callback=ask) as client:
            agent = Weighing(client)
            for part in (core_and_desk, backup, memento, decisions, wiki, articles):
                await part(agent, vault)
            await agent.call("erase", topic_id="port", hard=True)
            assert not list((vault / "knowledge").rglob("*.md"))
            assert await agent.found("find", keywords=["crane", "quay"]) == []
            assert agent.used == {tool.name for tool in (await client.list_tools()).tools}
            assert {each.name for each in (await client.list_prompts()).prompts} == {"memory_injection"}
            assert [str(each.uri) for each in (await client.list_resources()).resources] == ["memory://index"]
            templates = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
            assert (len(templates), templates[0].partition("?")[0].startswith("memory://search")) == (2, True)

    anyio.run(main)
    assert len(asked) == 1
    assert {tool: size for tool, size in sizes.items() if size > MOST.get(tool, 2_300)} == {}
