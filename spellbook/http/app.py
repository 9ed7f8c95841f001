"""The one app behind all doors of HTTP: the guard, then MCP, or the routes of pages, API and admin API."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator
from importlib import import_module

import anyio
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from spellbook.http import admin, api, faults, pages
from spellbook.http.doors import Doors, is_mcp
from spellbook.http.guard import AccessRules, Guard
from spellbook.http.pages.view import missing
from spellbook.http.served import Served, in_thread
from spellbook.index.metrics import CALLS
from spellbook.mcp.base import load
from spellbook.system.errors import SpellbookError
from spellbook.watch.background import Background


def make(served: Served, rules: AccessRules | None = None, *, live: bool = True) -> Guard:
    """Return the app that serves a book, behind its guard. A `live` one watches the vault."""
    rules = rules or AccessRules()
    called = threading.Event()
    doors = Doors(served, called, rules.hosts)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        background = Background(served.book, called, load) if live else None
        async with anyio.create_task_group() as tasks:
            doors.tasks = tasks
            # The first client needs it. A thread of its own, because the end does not wait for it.
            threading.Thread(target=import_module, args=("spellbook.mcp.app",), daemon=True).start()
            try:
                yield
            finally:
                with anyio.CancelScope(shield=True):
                    await in_thread(served.jobs.close)
                    if background:
                        await in_thread(background.stop)
                tasks.cancel_scope.cancel()

    app = Starlette(
        routes=[*api.routes(), *pages.ROUTES, *admin.ROUTES],  # they are tried one after the other
        lifespan=lifespan,
        exception_handlers={
            SpellbookError: faults.of_spellbook,
            HTTPException: missing,
            ClientDisconnect: faults.of_gone,
            Exception: faults.of_anything,
        },
    )
    app.state.served = served
    app.state.called = called
    app.state.doors = doors

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and is_mcp(scope):
            await doors(scope, receive, send)
            return
        if scope["type"] == "http" and not scope["path"].startswith("/static/"):
            called.set()
            served.book.meter.add(CALLS)
        await app(scope, receive, send)

    def count_refusal(status: int) -> None:
        if status == 429:
            error = SpellbookError("A rate limit was met.")
            served.book.meter.failed("guard", "http", error, code="RATE_LIMIT_EXCEEDED", message=error.message)

    guard = app.state.guard = Guard(route, served.tokens, rules, count_refusal)
    return guard
