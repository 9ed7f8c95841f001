"""Routes /health, whether the server and its vault are there, for everybody, and /, the addresses of this server."""

from __future__ import annotations

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from spellbook import __version__
from spellbook.http.guard import API
from spellbook.http.served import Served, served_of
from spellbook.mcp.base import limiter

_looking: RunVar[CapacityLimiter] = RunVar("spellbook.looking")
_LOOKING = 2
"""Threads that strangers can make wait for a disk that hangs."""


async def health(request: Request) -> JSONResponse:
    """Answer 200, or 503 if the notes' folder is away, or elsewhere. It tells nothing of the notes."""
    here = served_of(request)
    lacks = await to_thread.run_sync(_lacks, here, limiter=limiter(_looking, _LOOKING))
    shown = {"status": "degraded" if lacks else "ok", "version": __version__, "api": API}
    return JSONResponse({**shown, "reason": lacks} if lacks else shown, 503 if lacks else 200)


def _lacks(here: Served) -> str:
    """Return the reason why nothing can be answered, "" for none."""
    if not here.book.config.vault.is_dir():
        return "The vault is not there."
    if here.book.config.is_elsewhere:
        return "The vault's path leads to another folder than its index came from. Start the server again."
    return ""


async def about(request: Request) -> JSONResponse:
    """Tell a program that asks for / the addresses of this server; a browser gets a page."""
    return JSONResponse({"name": "Spellbook", "mcp": "/mcp", "api": "/api/openapi.json", "health": "/health"})


ROUTES = [Route("/health", health)]
