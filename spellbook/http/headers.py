"""A request and its answer on their way: bounds of what arrives, and the headers of what is sent."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from spellbook.http.faults import fault
from spellbook.http.oauth.addresses import AUTHORIZE

API = "v1.0.0"
POLICY = "content-security-policy"
HEADERS = {
    POLICY: "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-spellbook-api": API,
}


_OPENED = {AUTHORIZE, "/login"}
"""Pages that an app may open in a window of its own, where it waits for the answer."""


class Body:
    """A request as it arrives, within bounds of bytes and seconds; `refused` is the answer once it is beyond them."""

    def __init__(self, receive: Receive, most: int, seconds: float) -> None:
        self._receive = receive
        self._most, self._seconds = most, seconds
        self._until = time.monotonic() + seconds
        self._size = 0
        self._is_whole = False
        self.refused: Response | None = None

    async def __call__(self) -> Message:
        if self.refused:
            return {"type": "http.disconnect"}
        if self._is_whole:  # what follows is the end of the connection, however long that takes
            return await self._receive()
        message: Message = {"type": "http.disconnect"}
        with anyio.move_on_after(max(0.0, self._until - time.monotonic())) as limit:
            message = await self._receive()
        self._size += len(message.get("body", b""))
        self._is_whole = not message.get("more_body", False)
        if limit.cancelled_caught:
            self.refused = fault(408, "INVALID_INPUT", f"The request did not arrive within {self._seconds:.0f} s.")
        elif self._size > self._most:
            self.refused = fault(413, "INVALID_INPUT", over(self._most))
        return {"type": "http.disconnect"} if self.refused else message


class Sent:
    """An answer on its way: it gets every answer's headers, and is replaced or ended once its request is refused."""

    def __init__(
        self, scope: Scope, send: Send, body: Body | None = None, is_known: Callable[[], bool] = lambda: True
    ) -> None:
        self._scope = scope
        self._send = send
        self._is_known = is_known
        self._has_begun = self._is_over = False
        self.body = body

    async def __call__(self, message: Message) -> None:
        is_start = message["type"] == "http.response.start"
        if is_start and not self._has_begun:
            if self.body and self.body.refused:
                await self.refuse()
                return
            self._has_begun = True
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                own = headers.get(name)
                if name == POLICY and own and "form-action" not in own:
                    own = f"{own}, {value}"  # a route may be stricter: a browser keeps each of several policies
                headers[name] = own or value
            if self._scope["path"] in _OPENED:
                headers["cross-origin-opener-policy"] = "unsafe-none"
            kept = "no-cache" if self._scope["path"].startswith("/static/") else "no-store"  # asked whether it changed
            headers["cache-control"] = headers.get("cache-control", kept)
        elif is_start or (message.get("more_body") and not self._is_known()):
            # The SDK answers again at the end of a stream of events.
            message = {"type": "http.response.body"}
        if not self._is_over:
            await self._send(message)
            self._is_over = message["type"] == "http.response.body" and not message.get("more_body")

    async def refuse(self) -> None:
        """Send the answer of a request that was refused while it arrived, unless another has begun."""
        body, self.body = self.body, None
        if body and body.refused and not self._has_begun:
            await body.refused(self._scope, body, self)


def arrived(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a request whose body has arrived, and then the end of its connection."""
    messages: list[Message] = [{"type": "http.request", "body": body}]

    async def take() -> Message:
        return messages.pop() if messages else await receive()

    return take


def over(most: int, what: str = "The request") -> str:
    """Return the message for what has more bytes than allowed."""
    return f"{what} is over {f'{most // 1_000_000} MB' if most >= 1_000_000 else f'{most // 1_000} KB'}."
