"""
Completion of ids, topics and categories in resource templates and prompts.

Only notes that the server's scope sees are offered, at most 100 values, by prefix.
"""

from __future__ import annotations

from typing import Any

import anyio.to_thread
from mcp.server.mcpserver import MCPServer
from mcp.types import Completion

from spellbook.library.reader import Reader

_COLUMNS = {"id": "id", "memory_id": "id", "topic": "topic", "category": "category"}
MOST = 100
"""Most values that the protocol lets a server return."""


def register(mcp: MCPServer, book: Reader) -> None:
    """Complete arguments of these names in any template or prompt of `mcp`."""

    async def complete(ref: Any, argument: Any, context: Any) -> Completion | None:
        column = _COLUMNS.get(argument.name)
        if column is None:
            return None

        def look() -> list[str]:  # in a thread as a whole: the index may have to be brought up to date first
            return book.index.catalog.starting(column, argument.value, book.index.visible, MOST + 1)

        values = await anyio.to_thread.run_sync(look)
        return Completion(values=values[:MOST], has_more=len(values) > MOST)

    mcp.completion()(complete)  # type: ignore[no-untyped-call]  # the SDK has not typed it
