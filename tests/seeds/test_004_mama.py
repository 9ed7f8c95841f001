"""MAMA: an agent keeps design decisions and finds them, through a real server on stdio."""

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from spellbook.library import book as books
from tests.mcp.agent import text_of

pytestmark = pytest.mark.slow

Call = Callable[..., Awaitable[Any]]


@asynccontextmanager
async def server(vault: Path) -> AsyncIterator[tuple[Client, Call]]:
    """A server with the toolset on a vault; `call` returns JSON where a tool answers so."""
    arguments = ["-m", "spellbook", "--vault", str(vault), "mcp", "--toolsets", "core,decisions"]
    settings = {"SPELLBOOK_EMBEDDER": "hash", "SPELLBOOK_STATE": str(vault.parent / "state")}
    async with Client(StdioServerParameters(command=sys.executable, args=arguments, env=settings)) as client:

        async def call(tool: str, **given: object) -> Any:
            answer = await client.call_tool(tool, given)
            text = text_of(answer.content[0])
            assert not answer.is_error, text
            return json.loads(text) if text.startswith("{") else text

        yield client, call


def test_a_day_of_decisions(vault: Path) -> None:
    """AC1 to AC8, in the order in which an agent meets them; then the next day, after the index was deleted."""

    async def day() -> dict[str, Any]:
        async with server(vault) as (client, call):
            named = {tool.name for tool in (await client.list_tools()).tools}
            assert {"mama_save", "mama_search", "mama_update", "mama_checkpoint"} <= named  # AC1
            chicken = {"type": "decision", "topic": "voxel:chicken_design"}
            small = {"decision": "닭 모델은 복셀 16×16×16으로 만든다.", "reasoning": "만들기 쉽다."}
            first = await call("mama_save", **chicken, **small, confidence=0.8)
            assert first["id"]  # AC2
            large = {"decision": "닭 모델은 복셀 32×32×32로 만든다.", "supersedes": first["id"]}
            second = await call("mama_save", **chicken, **large)
            left = {"next_steps": ["부리를 다시 만든다"], "open_files": ["src/chicken.py"]}
            point = await call("mama_save", type="checkpoint", summary="닭 모델을 고치는 중.", **left)
            assert point["id"]  # AC3
            found = (await call("mama_search", query="닭 모델 복셀 크기", type="decision", format="json"))["items"]
            scores = [item["similarity"] for item in found]
            assert [item["id"] for item in found] == [second["id"], first["id"]]
            assert all(0 <= score <= 1 for score in scores)
            assert scores == sorted(scores, reverse=True)  # AC4
            newest = (await call("mama_search", format="json", limit=10))["items"]
            assert [item["id"] for item in newest] == [point["id"], second["id"], first["id"]]  # AC5
            for outcome in ("success", "partial", "FAILED"):
                told = await call("mama_update", id=second["id"], outcome=outcome, reason="저가형에서 느리다")
                assert told["outcome"] == outcome.lower()  # AC6
            loaded = await call("mama_checkpoint")
            for part in ("닭 모델을 고치는 중.", "부리를 다시 만든다", "src/chicken.py"):
                assert part in loaded  # AC7
            last = (await call("mama_checkpoint", format="json"))["checkpoint"]
            steps = [{"text": "부리를 다시 만든다", "done": False}]
            assert (last["summary"], last["next_steps"], last["open_files"]) == (
                "닭 모델을 고치는 중.",
                steps,
                ["src/chicken.py"],
            )
            assert last["created_at"] == newest[0]["created_at"]
            return {"search": await asked(call)}

    async def asked(call: Call) -> Any:
        items = (await call("mama_search", query="닭 모델", format="json"))["items"]
        return [{key: value for key, value in item.items() if key != "similarity"} for item in items]

    async def next_day() -> Any:
        async with server(vault) as (_, call):
            return await asked(call)

    before = anyio.run(day)["search"]
    # The superseded one waits for no outcome, and a checkpoint has none.
    assert sorted(str(item.get("outcome")) for item in before) == ["None", "None", "failed"]
    state = vault.parent / "state"
    state.rename(vault.parent / "gone")  # AC8: everything is made anew from the notes
    with books.open(vault, embedder="hash", state=state) as book:
        book.reindex()
    assert anyio.run(next_day) == before
