"""Every tool, resource, prompt and completion once for real: all toolsets in a child process, in both eras of the protocol."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.types import ElicitResult, PromptReference, ResourceTemplateReference

from spellbook.server.names import TOOLSETS
from spellbook.text.terms import estimate_tokens
from tests.helpers import note_writer
from tests.server.agent import ERAS, Agent

pytestmark = pytest.mark.slow

ARTICLE = "## Opening\n\nThe harbor opens on Mondays, and the lighthouse on Fridays. " * 4
MOST = {"get_index": 900, "search": 2_300, "recall": 2_300, "mama_search": 2_300, "wiki_search": 2_300, "ask": 2_300}
"""Most tokens of an answer, estimated: its budget and the lines of the server's own."""


def memory(word: str) -> dict[str, Any]:
    return {"text": f"The {word} opens on Mondays.", "metadata": {"topic": "port", "keywords": [word, "port", "opens"]}}


async def core_and_desk(agent: Agent, vault: Path) -> None:
    session = (await agent.json("rest", brief=True))["session_id"]
    assert (await agent.json("scribe_validate", chunk=memory("quay")))["valid"]
    one = await agent.json("scribe", chunk=memory("quay"), session_id=session)
    both = await agent.json("scribe_chunk", chunk=[memory("crane"), memory("pier")], session_id=session, force=True)
    for tool, asked in (
        ("memorize", {"query": "quay"}),
        ("find", {"keywords": ["quay"]}),
        ("search", {"query": "quay"}),
    ):
        assert one["path"] in await agent.found(tool, **asked)
    assert "port" in await agent.call("get_index")
    assert "crane" in await agent.call("get_topic", topic_id="port")
    assert "quay" in await agent.call("show", id=one["chunk_id"])
    assert "quay" in await agent.call("recent")
    await agent.call("revise", chunk_id=one["chunk_id"], content="The quay opens on Tuesdays.")
    assert "Tuesdays" in await agent.call("undo", dry_run=True)
    assert "crane" in await agent.call("merge", a=both[0]["path"], b=both[1]["path"])
    await agent.call("move", old=both[1]["path"], new="moved/pier.md", dry_run=False)
    assert (vault / "moved" / "pier.md").exists()
    await agent.call("mend_links")
    trash = (await agent.json("erase", chunk_id=both[0]["chunk_id"], whole=True))["trash"]
    await agent.call("restore", name=trash[0])
    assert "erase" in await agent.call("log")
    assert (await agent.json("stats"))["notes"] == 3
    await agent.call("rebuild_index")
    await agent.json("rest_end", session_id=session)


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
    done = await agent.client.complete(
        ResourceTemplateReference(uri="memory://{+id}"), argument={"name": "id", "value": kept[:4]}
    )
    assert kept in done.completion.values
    done = await agent.client.complete(
        PromptReference(name="memory_injection"), argument={"name": "context_type", "value": ""}
    )
    assert done.completion is not None
    await agent.call("forget", memory_id=kept)


async def decisions(agent: Agent, vault: Path) -> None:
    made = await agent.json("mama_save", type="decision", topic="port", decision="Ships moor at the north pier.")
    await agent.json("mama_update", id=made["id"], outcome="success")
    await agent.json("mama_save", type="checkpoint", summary="Planning the port.", next_steps=["ask"])
    assert "north pier" in await agent.call("mama_search", query="where do ships moor")
    assert "Planning the port." in await agent.call("mama_checkpoint")


async def wiki(agent: Agent, vault: Path) -> None:
    assert (await agent.json("wiki_index"))["indexed"]
    assert "RS256" in await agent.call("wiki_search", query="RS256 tokens")
    assert (await agent.json("wiki_status"))["total_documents"] == 1


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
    """Nothing is left out, every answer keeps its size, and a topic is erased only after the person was asked."""
    note_writer(tmp_path / "app")("zywiki/auth.md", "# Auth\n\n## Tokens\n\nTokens are signed with RS256.\n")
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "spellbook", "--vault", str(vault), "mcp", "--toolsets", ",".join(TOOLSETS)],
        env={**os.environ, "SPELLBOOK_EMBEDDER": "hash", "CLAUDE_PROJECT_DIR": str(tmp_path / "app")},
    )
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
            await agent.call("erase", topic_id="port")
            assert agent.used == {tool.name for tool in (await client.list_tools()).tools}
            assert {each.name for each in (await client.list_prompts()).prompts} == {"memory_injection"}
            assert len((await client.list_resources()).resources) == 1
            assert len((await client.list_resource_templates()).resource_templates) == 2

    anyio.run(main)
    assert len(asked) == 1
    assert {tool: size for tool, size in sizes.items() if size > MOST.get(tool, 2_300)} == {}
