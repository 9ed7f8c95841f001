"""uvicorn's HTTP protocol with time limits for slow clients, and a limit of connections."""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import h11
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from spellbook.http.faults import fault
from spellbook.http.guard import HEADERS

MOST_CONNECTIONS = 1_000
HEADER_SECONDS = 10.0
"""Seconds within which a client that has connected must have sent the head of a request."""

READ_SECONDS = 30.0
"""Seconds within which a client must take a part of a waiting answer."""


class TimedConnection(H11Protocol):
    """
    Closes a connection whose request or answer takes too long; above the limit, the one that waited longest.
    """

    head_seconds = HEADER_SECONDS
    read_seconds = READ_SECONDS
    most = MOST_CONNECTIONS

    _limit: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _since = 0.0

    @property
    def is_waiting(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > self.most:
            idle = [each for each in self.connections if isinstance(each, TimedConnection) and each.is_waiting]
            oldest = min(idle, key=lambda each: each._since)  # this one is idle, so there is one
            if oldest is self:
                self.app = _busy
            else:
                oldest._since = math.inf  # it is still among them until the loop comes to it
                oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self.read_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._drop("_unread")

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._drop("_limit")
        self._drop("_unread")

    def send_400_response(self, msg: str) -> None:
        if self.cycle and not self.cycle.response_complete:
            self.cycle.disconnected = True  # whatever is still computed has nowhere to go
            self.cycle.message_event.set()
        if self.conn.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:  # an answer has begun
            self.transport.abort()
            return
        answer = fault(400, "INVALID_INPUT", msg, {}, {**HEADERS, "connection": "close"})
        head = h11.Response(status_code=400, headers=answer.raw_headers, reason=b"Bad Request")
        for event in (head, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _watch(self) -> None:
        """Run the time limit while a request is awaited, and only then."""
        if self.is_waiting and self._limit is None:
            self._since = time.monotonic()
            self._limit = self.loop.call_later(self.head_seconds, self._cut)
        elif not self.is_waiting:
            self._drop("_limit")

    def _cut(self) -> None:
        """Close, and do not wait long for a client that does not take the rest of its answer."""
        self.transport.close()
        self._limit = self.loop.call_later(self.read_seconds, self.transport.abort)

    def _drop(self, name: str) -> None:
        if timer := getattr(self, name):
            timer.cancel()
            setattr(self, name, None)


async def _busy(scope: Scope, receive: Receive, send: Send) -> None:
    answer = fault(
        503,
        "RATE_LIMIT_EXCEEDED",
        f"This server has {MOST_CONNECTIONS:,} connections already.",
        {"hint": "Try again in a moment."},
        {**HEADERS, "retry-after": "1", "connection": "close"},
    )
    await answer(scope, receive, send)
