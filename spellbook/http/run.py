"""`spellbook serve`: bind, load, serve, and end in time; with time limits for slow clients."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import math
import signal
import socket
import ssl
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import HANDLED_SIGNALS

from spellbook.http.faults import fault
from spellbook.http.headers import HEADERS
from spellbook.system.errors import InvalidInput, StorageError

_MOST_CONNECTIONS = 1_000
_FILES = 4_096
"""Open files of this process: a connection is one, and macOS allows 256 at first."""

_HOMES = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
"""The networks of RFC 1918, which nobody outside of a home or an office reaches."""

IDLE_SECONDS = 75
"""Seconds for which a connection without a request is kept. Clients keep one shorter, so that they end it first."""

_END_SECONDS = 1
"""Seconds that requests under way get at the end; streams are cut off then."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens: its bound socket, and the scheme of its addresses."""

    socket: socket.socket
    host: str
    scheme: str = "http"

    @property
    def url(self) -> str:
        """The address for a client on this machine."""
        shown = "127.0.0.1" if self.host in {"0.0.0.0", "::"} else self.host
        return f"{self.scheme}://{f'[{shown}]' if ':' in shown else shown}:{self.socket.getsockname()[1]}"


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises InvalidInput for an unknown address, StorageError for one that is taken."""
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise InvalidInput(f"--host {host[:100]}: there is no such address.", "Use 127.0.0.1 or 0.0.0.0.") from error
    has_both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:
        return socket.create_server(place, family=family, backlog=_MOST_CONNECTIONS, dualstack_ipv6=has_both)
    except OSError as error:
        reason = str(error.strerror or error).partition(" (while ")[0]  # Python repeats the address
        raise StorageError(
            f"{host}, port {port}: {reason}.",
            "Is another `spellbook serve` running? Stop it, or choose another --port.",
        ) from error


def home() -> str:
    """Return this machine's address in its home network. Nothing is sent. Raises InvalidInput if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # nobody's (RFC 5737); UDP only chooses the address to send from
        own = ipaddress.ip_address(probe.getsockname()[0])
        if any(own in network for network in _HOMES):
            return str(own)
    raise InvalidInput("This machine has no address in a home network.", "Join the Wi-Fi of the phone and try again.")


def serve(
    app: ASGIApp,
    address: Address,
    ready: Callable[[], object],
    proxies: Sequence[str] = (),
    tls: tuple[str, str] | None = None,
    others: Sequence[Address] = (),
) -> None:
    """
    Serve until SIGINT or SIGTERM, at `others` as well; `ready` is called before.

    `proxies` are the addresses whose X-Forwarded headers are believed; `tls` are the files of certificate and key.
    Raises InvalidInput if these cannot be read.
    """
    config = uvicorn.Config(
        app,
        http=TimedConnection,
        ws="none",
        log_config=None,
        log_level="error",  # its warnings are about requests that are none, which have got their answer
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies) or None,
        timeout_graceful_shutdown=_END_SECONDS,
        timeout_keep_alive=IDLE_SECONDS,
        h11_max_incomplete_event_size=64_000,
        ssl_certfile=tls[0] if tls else None,
        ssl_keyfile=tls[1] if tls else None,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise InvalidInput(
            f"--certfile, --keyfile: {getattr(error, 'strerror', '') or error}.",
            "Give a certificate and its key, as PEM.",
        ) from error

    class HttpServer(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            warnings.simplefilter("ignore")  # Python's, of what is cut off and so never awaited
            await super().shutdown(sockets)

    server = HttpServer(config)
    # What is cut off at the end is no fault that anybody needs to know of.
    for handler in logging.getLogger().handlers:
        handler.addFilter(lambda record: not server.should_exit or record.name.startswith("spellbook"))
    with contextlib.suppress(ImportError, OSError, ValueError):  # Windows has no such limit
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    ready()
    # uvicorn raises a signal again at its end: that must not end the process before the vault is closed.
    before: dict[int, Any] = {number: signal.signal(number, server.handle_exit) for number in HANDLED_SIGNALS}
    try:
        server.run([each.socket for each in (address, *others)])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class TimedConnection(H11Protocol):
    """Closes a connection whose request or answer takes too long; above the limit, the one that waited longest."""

    head_seconds = 10.0
    """Seconds within which a client must have sent the head of a request, or the rest of one that was answered."""

    read_seconds = 30.0
    """Seconds within which a client must take a part of a waiting answer."""

    most = _MOST_CONNECTIONS

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
        self._since = time.monotonic()
        if self.conn.their_state is h11.SEND_BODY:  # else uvicorn ends it after IDLE_SECONDS
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
        f"This server has {_MOST_CONNECTIONS:,} connections already.",
        {"hint": "Try again in a moment."},
        {**HEADERS, "retry-after": "1", "connection": "close"},
    )
    await answer(scope, receive, send)
