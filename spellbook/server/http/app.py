"""The one Starlette app behind all doors of HTTP."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.exceptions import HTTPException

from spellbook.errors import SpellbookError
from spellbook.server.http import admin, api, faults, pages
from spellbook.server.http.guard import Guard
from spellbook.server.http.served import Served, in_thread


def make(served: Served, mcp: MCPServer) -> Guard:
    """Return the app that serves a book, behind its guard."""
    protocol = mcp.streamable_http_app(streamable_http_path="/mcp")

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with mcp.session_manager.run():  # the lifespan of an app whose routes are taken never runs
            try:
                yield
            finally:
                await in_thread(served.jobs.close)

    app = Starlette(
        routes=[*pages.routes(), *api.routes(), *admin.routes(), *protocol.routes],
        lifespan=lifespan,
        exception_handlers={
            SpellbookError: faults.of_spellbook,
            HTTPException: faults.of_http,
            Exception: faults.of_anything,
        },
    )
    app.state.served = served
    return Guard(app)
