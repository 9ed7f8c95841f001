"""
The one app behind all doors of HTTP: the guard, then MCP, or the routes of pages, API and admin API.

MCP is streamable HTTP at /mcp and /, and the older SSE at /sse and /messages/. Each token has its own MCP server over
the book as it sees it, made at its first request: a session belongs to the token that began it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from spellbook.http import admin, api, faults, pages
from spellbook.http.guard import MESSAGES, MOST_BYTES, SSE, AccessRules, Guard, is_mcp
from spellbook.http.headers import arrived
from spellbook.http.oauth.addresses import STREAMABLE, challenge
from spellbook.http.pages.view import environment, missing
from spellbook.http.served import Served, in_thread
from spellbook.http.tokens import Caller
from spellbook.index.metrics import CALLS
from spellbook.mcp.app import SpellbookServer, build
from spellbook.settings import translate
from spellbook.settings.config import service
from spellbook.system import package_files
from spellbook.system.errors import SpellbookError
from spellbook.system.threads import expect_waiting
from spellbook.text.json_values import mapping_of, parsed
from spellbook.watch.background import Background


def make(served: Served, rules: AccessRules | None = None, *, live: bool = True) -> Guard:
    """Return the app that serves a book, behind its guard. A `live` one watches the vault."""
    rules = rules or AccessRules()
    package_files.at_start()
    called = threading.Event()
    doors = Doors(served, called, rules)
    routes = [*api.ROUTES, *pages.ROUTES, *admin.ROUTES]  # they are tried one after the other
    if rules.public:  # else nobody waits for the SDK's parts of OAuth
        routes += import_module("spellbook.http.oauth.routes").routes(served.grants, rules.public)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if service(served.book.config.embedder):
            expect_waiting()
        background = Background(served.book, called) if live else None
        async with anyio.create_task_group() as tasks:
            doors.tasks = tasks
            # A thread of its own, because the end does not wait for it.
            threading.Thread(target=_load_ahead, daemon=True).start()
            try:
                yield
            finally:
                with anyio.CancelScope(shield=True):
                    await in_thread(served.jobs.close)
                    if background:
                        await in_thread(background.stop)
                tasks.cancel_scope.cancel()

    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={
            **dict.fromkeys((SpellbookError, ClientDisconnect, Exception), faults.of_error),
            HTTPException: missing,
        },
    )
    app.state.served = served
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

    guard = app.state.guard = Guard(route, served.tokens, rules, count_refusal, served.grants if rules.public else None)
    return guard


def _load_ahead() -> None:
    """Load what the first page and the first client need, also because an update may replace the files."""
    environment()
    translate.table()
    translate.table(pages.__name__)
    import_module("spellbook.mcp.app")


class Doors:
    """The MCP servers of all tokens."""

    def __init__(self, served: Served, called: threading.Event, rules: AccessRules) -> None:
        """`called` is set by the first call of a tool."""
        self._served = served
        self._called = called
        self._public = rules.public
        self.servers: dict[tuple[Caller, str], tuple[SpellbookServer, Starlette, Starlette]] = {}
        """Each token's MCP server, and its two transports, streamable HTTP and SSE."""
        self._guard = anyio.Lock()
        self.tasks: TaskGroup | None = None
        """Where the sessions run; set while the server runs."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = replace(scope["spellbook.caller"], by_cookie=False)
        async with self._guard:
            mcp, streamable, sse = self.servers.get((caller, caller.id)) or await self._open(caller)
        if scope["method"] == "POST":  # the SDK logs a trace for a body that breaks off
            body = await Request(scope, receive).body()
            if caller.is_grant and not caller.has("write") and _writes(mcp, body):
                refused = faults.fault(
                    403,
                    "PERMISSION_DENIED",
                    "This app may only read: connect it again, and allow it to write.",
                    headers=challenge(self._public, scope["path"], "insufficient_scope"),
                )
                await refused(scope, receive, send)
                return
            receive = arrived(body, receive)
        path = scope["path"]
        if path in {"/", f"{STREAMABLE}/"}:
            scope = {**scope, "path": STREAMABLE, "raw_path": STREAMABLE.encode()}
        await (streamable if scope["path"] == STREAMABLE else sse)(scope, receive, send)

    async def _open(self, caller: Caller) -> tuple[SpellbookServer, Starlette, Starlette]:
        assert self.tasks is not None
        state = self._served
        mcp = await in_thread(
            lambda: build(
                state.book_of(caller),
                state.toolsets,
                live=False,
                door="http",
                called=self._called,
                may_write=caller.has("write"),
                log=state.log,
                clients=state.clients,
            )
        )
        bounds: dict[str, Any] = {
            "max_request_body_size": MOST_BYTES,
            # The guard has compared host and origin.
            "transport_security": TransportSecuritySettings(enable_dns_rebinding_protection=False),
        }
        streamable = mcp.streamable_http_app(streamable_http_path=STREAMABLE, **bounds)
        sse = mcp.sse_app(sse_path=SSE, message_path=MESSAGES, **bounds)

        async def sessions(*, task_status: TaskStatus[None]) -> None:
            async with mcp.session_manager.run():
                task_status.started()
                await anyio.sleep_forever()

        await self.tasks.start(sessions)
        made = self.servers[caller, caller.id] = mcp, streamable, sse
        return made


def _writes(mcp: SpellbookServer, body: bytes) -> bool:
    """Say whether a request, or one of several in it, calls a tool that changes notes."""
    message = parsed(body)
    sent = map(mapping_of, message if isinstance(message, list) else [message])
    named = [mapping_of(each.get("params")).get("name") for each in sent if each.get("method") == "tools/call"]
    return any(mcp.writes(name) for name in named if isinstance(name, str))
