"""A client that talks to a server in memory."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver import MCPServer
from mcp.types import TextContent, TextResourceContents, Tool

from spellbook.library.reader import Reader
from spellbook.mcp.app import build
from spellbook.mcp.arguments import lean
from spellbook.mcp.tool_names import DEFAULT


class Agent:
    """A client that records which tools it called."""

    def __init__(self, client: Client, server: MCPServer | None = None) -> None:
        self.client = client
        self.server = server
        self.used: set[str] = set()

    async def ask(self, tool: str, **arguments: object) -> Any:
        self.used.add(tool)
        result = await self.client.call_tool(tool, arguments)
        assert result.structured_content is None
        return result

    async def call(self, tool: str, **arguments: object) -> str:
        result = await self.ask(tool, **arguments)
        text = text_of(result.content[0])
        assert not result.is_error, text
        return text

    async def json(self, tool: str, **arguments: object) -> Any:
        return json.loads(await self.call(tool, **arguments))

    async def answer(self, tool: str, **arguments: object) -> Any:
        """Call a tool and return its answer, read where it is JSON; an error's text where it fails."""
        result = await self.ask(tool, **arguments)
        text = text_of(result.content[0])
        return text if result.is_error else read(text)

    async def resource(self, uri: str) -> Any:
        """Read a resource that is JSON."""
        return json.loads(text_of((await self.client.read_resource(uri)).contents[0]))

    async def tools(self) -> list[Tool]:
        return (await self.client.list_tools()).tools

    async def answered(self) -> list[Tool]:
        """Return every tool that a server in memory answers, with every argument that it takes, listed or not."""
        assert self.server is not None
        whole = await MCPServer.list_tools(self.server)
        for tool in whole:
            for argument in tool.input_schema["properties"].values():
                argument.pop("told", None)
        return [tool.model_copy(update={"input_schema": lean(tool.input_schema)}) for tool in whole]

    async def refused(self, tool: str, **arguments: object) -> str:
        result = await self.ask(tool, **arguments)
        text = text_of(result.content[0])
        assert result.is_error, text
        return text

    async def found(self, tool: str, **arguments: object) -> list[str]:
        return [hit["path"] for hit in (await self.json(tool, format="json", **arguments))["hits"]]


def text_of(part: object) -> str:
    """The text of a part of an answer that has nothing else."""
    assert isinstance(part, TextContent | TextResourceContents)
    return part.text


def read(text: str) -> Any:
    """Return an answer, read where it is JSON."""
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return text


def talk(
    book: Reader,
    conversation: Callable[[Agent], Awaitable[Any]],
    mode: Any = "auto",
    toolsets: Sequence[str] = (DEFAULT,),
    server: MCPServer | None = None,
    **options: Any,
) -> Any:
    """Hold a conversation with a server for `book` in memory, or with `server`; `options` are the client's."""

    async def main() -> Any:
        served = server or build(book, toolsets, live=False)
        async with Client(served, mode=mode, **options) as client:
            return await conversation(Agent(client, served))

    return anyio.run(main)


def conversation(
    toolsets: Sequence[str] = (DEFAULT,),
) -> Callable[[Callable[..., Awaitable[None]]], Callable[..., None]]:
    """Hold a test that takes an `agent`, and fixtures, as a conversation with a server for its `book`."""

    def held(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
        names = [name for name in inspect.signature(test).parameters if name != "agent"]

        def run(**given: Any) -> None:
            own = {name: given[name] for name in names}
            talk(given["book"], lambda agent: test(agent, **own), given.get("mode", "auto"), toolsets)

        fixtures = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in {"book": 0, **dict.fromkeys(names)}
        ]
        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        run.__signature__ = inspect.Signature(fixtures)  # type: ignore[attr-defined]
        return run

    return held


ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])


TEXT = (
    "On 2026-11-21 the Lantern team moved its session tokens from Redis to PostgreSQL, because a logout must survive a failover. "
    "Looking up a token takes 3 ms now. Rejected: Redis with append-only files, since a restore from them takes twenty minutes."
)


CHUNK = {
    "text": TEXT,
    "metadata": {
        "topic": "lantern",
        "category": "decision",
        "keywords": ["PostgreSQL", "Redis", "failover"],
        "questions": ["Why are Lantern's sessions in PostgreSQL?"],
        "entities": [{"name": "Lantern", "type": "project"}],
    },
}


def command(vault: Path, *options: str) -> list[str]:
    return [sys.executable, *options, "-m", "spellbook", "--vault", str(vault), "mcp"]


def stdio(vault: Path, *options: str, **environment: str) -> StdioServerParameters:
    """How a client starts a server for a vault."""
    program, *arguments = command(vault)
    env = {**os.environ, "SPELLBOOK_EMBEDDER": "hash", **environment}
    return StdioServerParameters(command=program, args=[*arguments, *options], env=env)
