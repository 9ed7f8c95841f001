"""
MCP over HTTP: streamable HTTP at /mcp and /, and the older SSE at /sse and /messages/.

Each token has its own MCP server over the book as it sees it, made at its first request: a session belongs to the token
that began it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup, TaskStatus
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from spellbook.http.callers import Caller
from spellbook.http.served import Served, in_thread
from spellbook.mcp.app import build

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

MOST_BYTES = 24_000_000
"""Most bytes of a request: a note of 10 MB, escaped."""

_STREAMABLE, _SSE, _MESSAGES = "/mcp", "/sse", "/messages/"


def is_mcp(scope: Scope) -> bool:
    """Say whether a request is for MCP; at / that is a POST, a DELETE, and a GET that asks for a stream of events."""
    path, method = scope["path"], scope["method"]
    if path == "/":
        accepted = b",".join(value for name, value in scope["headers"] if name == b"accept")
        return method in {"POST", "DELETE"} or (method == "GET" and b"text/event-stream" in accepted)
    return path in {_STREAMABLE, f"{_STREAMABLE}/", _SSE} or path.startswith(_MESSAGES)


class Doors:
    """The MCP servers of all tokens."""

    def __init__(self, served: Served, called: threading.Event, hosts: Sequence[str]) -> None:
        """`called` is set by the first call of a tool; `hosts` are the names of this server."""
        self._served = served
        self._called = called
        self._names = [*hosts, *(f"{host}:*" for host in hosts if ":" not in host or host.endswith("]"))]
        self._doors: dict[tuple[Caller, str], tuple[Starlette, Starlette]] = {}
        """The two transports, streamable HTTP and SSE, of each token's MCP server."""
        self._guard = anyio.Lock()
        self.tasks: TaskGroup | None = None
        """Where the sessions run; set while the server runs."""

    @property
    def count(self) -> int:
        """How many MCP servers there are: one for each token that has asked."""
        return len(self._doors)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = replace(scope["spellbook.caller"], by_cookie=False)
        async with self._guard:
            streamable, sse = self._doors.get((caller, caller.id)) or await self._open(caller)
        if scope["method"] == "POST":  # the SDK logs a trace for a body that breaks off
            receive = _whole(await Request(scope, receive).body(), receive)
        path = scope["path"]
        if path in {"/", f"{_STREAMABLE}/"}:
            scope = {**scope, "path": _STREAMABLE, "raw_path": _STREAMABLE.encode()}
        await (streamable if scope["path"] == _STREAMABLE else sse)(scope, receive, send)

    async def _open(self, caller: Caller) -> tuple[Starlette, Starlette]:
        assert self.tasks is not None
        mcp = await in_thread(self._build, caller)
        origins = [f"{scheme}://{name}" for name in self._names for scheme in ("http", "https")]
        security = TransportSecuritySettings(allowed_hosts=self._names, allowed_origins=origins)
        streamable = mcp.streamable_http_app(
            streamable_http_path=_STREAMABLE,
            max_request_body_size=MOST_BYTES,
            transport_security=security,
        )
        sse = mcp.sse_app(
            sse_path=_SSE,
            message_path=_MESSAGES,
            max_request_body_size=MOST_BYTES,
            transport_security=security,
        )

        async def sessions(*, task_status: TaskStatus[None]) -> None:
            async with mcp.session_manager.run():
                task_status.started()
                await anyio.sleep_forever()

        await self.tasks.start(sessions)
        self._doors[caller, caller.id] = streamable, sse
        return streamable, sse

    def _build(self, caller: Caller) -> MCPServer:
        return build(
            self._served.book_of(caller),
            self._served.toolsets,
            live=False,
            door="http",
            called=self._called,
            may_write=caller.has("write"),
            log=self._served.log,
            clients=self._served.clients,
        )


def _whole(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a request whose body has arrived, and then the end of its connection."""
    messages: list[Message] = [{"type": "http.request", "body": body}]

    async def take() -> Message:
        return messages.pop() if messages else await receive()

    return take
