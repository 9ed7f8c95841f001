"""Whether the server and its vault are there: /health, for everybody. What is here: /."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from spellbook._version import __version__
from spellbook.server.http.guard import API
from spellbook.server.http.served import served, waiting

if TYPE_CHECKING:
    from spellbook.published import PublishedBook


async def health(request: Request) -> JSONResponse:
    """Answer 200, or 503 if the folder of notes or the database is away. It tells nothing of the notes."""
    here = served(request)
    is_there = await waiting(
        cast("PublishedBook", here.book).is_there if here.is_published else here.book.config.vault.is_dir
    )
    shown = {"status": "ok" if is_there else "degraded", "version": __version__, "api": API}
    return JSONResponse(shown, 200 if is_there else 503)


async def about(request: Request) -> JSONResponse:
    """Say to a program that asks for / what is here; a browser gets a page."""
    return JSONResponse({"name": "Spellbook", "mcp": "/mcp", "api": "/api/openapi.json", "health": "/health"})


def routes() -> list[BaseRoute]:
    """Return the routes."""
    return [Route("/health", health)]
