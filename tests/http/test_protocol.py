"""Connections that are slow, too many, or no HTTP: they are cut off, and others are answered. With limits made short."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn

from spellbook.http.run import Address, TimedConnection, bound
from tests.helpers import PATIENCE

from .running import shows

CHUNK = b"a" * 100_000


class Quick(TimedConnection):
    """The protocol with short limits."""

    head_seconds = 0.5
    read_seconds = 0.5
    most = 5


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer "ok"; at /endless send without an end, at /held only once the client is gone."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while scope["path"] == "/endless":
        await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
        await asyncio.sleep(0)  # to a client that is gone, all is sent at once
    if scope["path"] == "/held":
        await send({"type": "http.response.body", "body": b"ok", "more_body": True})
        while (await receive())["type"] != "http.disconnect":
            pass
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a running server."""
    address = Address(bound("127.0.0.1", 0), "127.0.0.1")
    config = uvicorn.Config(app, http=Quick, ws="none", lifespan="off", log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([address.socket],))
    thread.start()
    yield address.socket.getsockname()[1]
    server.should_exit = True
    thread.join(PATIENCE)


@contextlib.contextmanager
def asking(port: int, sent: bytes) -> Iterator[socket.socket]:
    """A connection that has sent something."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(sent)
        yield connection


def is_cut(connection: socket.socket) -> bool:
    """Read until the server closes the connection; raises TimeoutError if it does not."""
    with contextlib.suppress(ConnectionError):
        while connection.recv(1_000_000):
            pass
    return True


def test_who_is_slow_or_sends_no_http(port):
    """
    Neither the first request of a connection nor the next is waited for long, and no answer for one who takes none of it.

    The answer to what is no HTTP has the shape and the headers of all others.
    """
    head = b"GET / HTTP/1.1\r\nHost: a\r\n"
    for sent in (b"", head + b"X-A", head + b"\r\n"):
        with asking(port, sent) as connection:
            assert is_cut(connection)
    with asking(port, b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n") as connection:
        connection.recv(10)
        threading.Event().wait(3 * Quick.read_seconds)  # a client that reads nothing
        assert is_cut(connection)
    with asking(port, b"\x16\x03\x01\r\n\r\n") as connection:
        answer = connection.recv(5_000)
    assert answer.startswith(b"HTTP/1.1 400 ")
    shows(answer, b"x-spellbook-api: v1.0.0", b'"INVALID_INPUT"')


def test_too_many_connections(port):
    """
    Those without a request go first, the oldest before all others.

    Requests under way are not cut off for others, which are told to come again.
    """
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(asking(port, b"")) for _ in range(Quick.most)]
        assert httpx.get(f"http://127.0.0.1:{port}/").text == "ok"
        assert is_cut(idle[0])
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(asking(port, b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")) for _ in range(Quick.most)]
        for each in held:
            while b"ok" not in each.recv(1_000):
                pass
        answer = httpx.get(f"http://127.0.0.1:{port}/")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.headers["x-spellbook-api"] == "v1.0.0"
        held[0].close()
        while httpx.get(f"http://127.0.0.1:{port}/").status_code == 503:  # until the server has seen it
            pass


@pytest.mark.parametrize("path", ["/held", "/"])
def test_a_body_that_turns_out_to_be_no_http(port, path, caplog):
    """Once the answer has begun the connection ends, with a line of the log at most."""
    with asking(port, f"POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".encode()) as connection:
        begun = b""
        while b"ok" not in begun:
            piece = connection.recv(1_000)
            assert piece, begun
            begun += piece
        connection.sendall(b"ZZZZ\r\n")
        assert is_cut(connection)
    assert not [each for each in caplog.records if each.exc_info]
    assert len(caplog.records) <= 1
