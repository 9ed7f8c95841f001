"""Who is let in: hosts, origins, tokens, cookies, rates and sizes; connections that are slow, too many or no HTTP are cut off."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.testclient import TestClient

from spellbook.http.app import make
from spellbook.http.guard import COOKIE, LOOPBACK, MOST_BYTES, AccessRules, Guard, hosts
from spellbook.http.run import Address, TimedConnection, bound
from spellbook.http.served import Served
from spellbook.library.book import Spellbook
from tests.helpers import PATIENCE, Write

from .running import asked, bearer, code, shows, status

ALL = ("/", "/mcp", "/sse", "/messages/", "/health", "/api/jobs", "/admin/x", "/login", "/static/x", "/x")
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture
def served(book: Spellbook) -> Served:
    return Served(book)


@pytest.fixture
def client(served: Served) -> Iterator[TestClient]:
    """A program on this machine."""
    with asked(served) as made:
        yield made


def with_rules(served: Served, **rules: Any) -> TestClient:
    return asked(served, AccessRules(**rules), follow_redirects=False)


FOREIGN = (
    *("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example:17950", "127.0.0.2"),
    *("localhost@evil.example", "localhost/evil", "localhost:x", "[::1", "2130706433", ""),
)


def test_hosts(client: TestClient, served: Served) -> None:
    """
    A name that somebody points at this machine is refused everywhere, and the message names the setting.

    Two Host headers are none. This machine's own names are let in, whatever the port: a proxy or a container may map
    it. So are names of SPELLBOOK_ALLOWED_HOSTS, with a port or for any; the address that was bound is one, 0.0.0.0 is
    none. Refusals, errors and answers alike say that nothing may be framed, guessed or kept.
    """
    for host, path in product(FOREIGN, ALL):
        answer = client.get(path, headers={"host": host})
        assert code(answer) == (421, "PERMISSION_DENIED"), (host, path)
        assert "SPELLBOOK_ALLOWED_HOSTS" in answer.text
    answer = client.get("/health", headers=[("host", "localhost"), ("host", "evil.example")])
    assert code(answer) == (421, "PERMISSION_DENIED")
    own = ("localhost", "LOCALHOST:1", "127.0.0.1:17950", "[::1]:17950")
    assert {client.get("/health", headers={"host": host}).status_code for host in own} == {200}
    assert hosts("0.0.0.0", ("notes.example",)) == (*LOOPBACK, "notes.example")
    assert hosts("192.168.0.7", ()) == (*LOOPBACK, "192.168.0.7")
    assert hosts("fe80::1", ()) == (*LOOPBACK, "[fe80::1]")
    with with_rules(served, hosts=("notes.example", "other.example:81")) as named:
        for status, names in {
            200: ("notes.example", "notes.example:9", "other.example:81"),
            421: ("other.example", "other.example:82", "localhost"),
        }.items():
            assert {named.get("/health", headers={"host": host}).status_code for host in names} == {status}
    for path in ALL:
        for headers in ({}, {"host": "evil.example"}):
            if not headers and path == "/sse":  # a stream, which does not end here
                continue
            answer = client.get(path, headers=headers)
            assert answer.headers["x-spellbook-api"] == "v1.0.0"
            policy = answer.headers["content-security-policy"]
            assert {"default-src 'none'", "frame-ancestors 'none'"} <= {*policy.split("; ")}
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "same-origin"
            assert path == "/static/x" or "no-store" in answer.headers["cache-control"]


ORIGINS = (
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://localhost:8000"},
    {"origin": "http://127.0.0.1:17950"},
    {"origin": "http://["},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
)


def test_pages_of_other_origins(client: TestClient, served: Served) -> None:
    """
    They may ask nothing, with or without a token: DNS rebinding, forms, scripts, frames.

    Its own pages ask; a link elsewhere may lead to a page, but not send anything. A body is too large by what it says
    or by what comes, and malformed JSON is the sender's fault. Without a token no body or head over 32 KB
    is taken in, and what is beyond a body's bound is not read. Clients that look for OAuth get a plain 404, and keep
    the header that they were given.
    """
    for headers, method, path in product(ORIGINS, ("GET", "POST", "DELETE", "OPTIONS"), ALL):
        answer = client.request(method, path, headers=headers)
        assert code(answer) == (403, "PERMISSION_DENIED"), (headers, method, path)
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    for headers in ({"origin": "http://localhost:17950"}, {"sec-fetch-site": "same-origin"}, link):
        assert client.get("/health", headers=headers).status_code == 200
    assert code(client.post("/api/jobs", headers=link)) == (403, "PERMISSION_DENIED")
    size = {"content-length": str(MOST_BYTES + 1)}
    assert code(client.post("/api/jobs", content=b"x", headers=size)) == (413, "INVALID_INPUT")
    much = (b"x" * 1_000_000 for _ in range(MOST_BYTES // 1_000_000 + 1))
    assert client.post("/mcp", content=much, headers={"content-type": "application/json"}).status_code == 413
    accepts = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    assert client.post("/mcp", content=b"{", headers=accepts).status_code == 400
    for path in ("/health", "/login", "/static/app.js", "/.well-known/x"):
        assert code(client.post(path, content=b"x" * 32_001)) == (413, "INVALID_INPUT")
        assert code(client.get(path, headers={"x-a": "a" * 32_001})) == (431, "INVALID_INPUT")
        assert code(client.get(path, params={"to": "a" * 32_001})) == (431, "INVALID_INPUT")
    assert code(client.get("/api/jobs", headers={"x-a": "a" * 64_001})) == (431, "INVALID_INPUT")
    for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server/mcp"):
        assert code(client.get(path)) == (404, "MEMORY_NOT_FOUND")
    pieces: list[bytes] = []
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        pieces.append(b"x" * 1_000)
        return {"type": "http.request", "body": pieces[-1], "more_body": True}

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    scope = {"type": "http", "method": "POST", "path": "/login", "query_string": b"", "client": ("10.0.0.1", 1)}
    asyncio.run(make(served, live=False)({**scope, "headers": [(b"host", b"localhost")]}, receive, send))
    assert (statuses[0], len(pieces)) == (413, 33)


WRONG = (
    {"authorization": "Bearer wrong"},
    {"authorization": "Basic {token}"},
    {"authorization": "{token}"},
    {"authorization": "Bearer {token}x"},
    {"authorization": "Bearer"},
    {"cookie": "spellbook={token}"},
    {"cookie": "spellbook=a.b.c.d"},
    {"x-token": "{token}"},
)


def test_wrong_tokens(served: Served) -> None:
    """
    A token counts as a bearer's alone, never as a cookie, nor in an address; and no answer shows what was sent.

    After ten wrong tokens within a minute an address waits, at the login too, but for those it was let in with before.
    """
    right, known = (served.tokens.add(name) for name in ("ada", "bob"))
    with with_rules(served) as client:
        for given in WRONG:
            headers = {name: value.format(token=right) for name, value in given.items()}
            answer = client.get(f"/api/jobs?token={right}", headers=headers)
            assert code(answer) == (401, "AUTHENTICATION_ERROR"), given
            assert right not in answer.text
    with with_rules(served) as client:
        assert status(client, **bearer(known)) == 200
        assert {status(client, **bearer(str(number))) for number in range(5)} == {401}
        assert {client.post("/login", data={"token": "sb_wrong"}).status_code for _ in range(5)} == {401}
        refused = client.get("/api/jobs", headers=bearer(right))
        assert code(refused) == (429, "RATE_LIMIT_EXCEEDED")
        assert 0 < int(refused.headers["retry-after"]) <= 61
        assert client.post("/login", data={"token": right}).status_code == 429
        assert status(client, **bearer(known)) == 200
        served.tokens.remove("bob")
        assert [status(client, **bearer(known)) for _ in range(2)] == [401, 429]
    with TestClient(client.app, "http://localhost:17950", client=("10.0.0.2", 5)) as other:
        assert status(other, **bearer(right)) == 200


def test_the_rate_of_a_token(served: Served) -> None:
    """Each token has a rate of its own; without a token this machine is not counted, and 0 is no bound."""
    one, other = (bearer(served.tokens.add(name)) for name in ("cid", "bob"))
    with with_rules(served, rate=3) as client:
        assert [status(client, **one) for _ in range(5)] == [200, 200, 200, 429, 429]
        refused = client.get("/api/jobs", headers=one)
        assert code(refused) == (429, "RATE_LIMIT_EXCEEDED")
        assert int(refused.headers["retry-after"]) <= 3601
        assert status(client, **other) == 200
    with with_rules(served, rate=0) as client:
        assert {status(client, **one) for _ in range(5)} == {200}


def test_a_stream_ends_with_its_token(served: Served) -> None:
    """
    A token that is removed, and a cookie that is logged out, get nothing more of an answer that goes on.

    Requests of strangers, without a token, are bounded in number: those of one address before all, and others are
    answered.
    """
    token = served.tokens.add("ada")
    cookie = served.tokens.cookie(token) or ""
    ends: list[Callable[[], object]] = [lambda: served.tokens.remove("ada"), lambda: served.tokens.log_out(cookie)]
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"one", "more_body": True})
        ends.pop()()
        await send({"type": "http.response.body", "body": b"two", "more_body": True})
        await send({"type": "http.response.body", "body": b"three"})

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    for name, value in ((b"cookie", f"{COOKIE}={cookie}"), (b"authorization", f"Bearer {token}")):
        headers = [(b"host", b"localhost"), (name, value.encode())]
        scope = {"type": "http", "method": "GET", "path": "/sse", "headers": headers}
        sent.clear()
        asyncio.run(Guard(app, served.tokens, AccessRules())(scope, receive, send))
        assert [message.get("body") for message in sent[1:]] == [b"one", None]
        assert not sent[-1].get("more_body")
    served.tokens.add("ada")
    held = asyncio.Event()

    async def late(scope: Any, receive: Any, send: Any) -> None:
        await held.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def asks() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def ask(guard: Guard, address: str) -> int:
        started: list[int] = []

        async def send(message: Any) -> None:
            started.append(message.get("status", 0))

        scope = {"type": "http", "method": "GET", "path": "/login", "query_string": b"", "client": (address, 1)}
        await guard({**scope, "headers": [(b"host", b"localhost")]}, asks, send)
        return started[0]

    async def flood(addresses: list[str]) -> list[int]:
        held.clear()
        guard = Guard(late, served.tokens, AccessRules())
        waiting = [asyncio.create_task(ask(guard, address)) for address in addresses]
        await asyncio.sleep(0)
        held.set()
        return [*await asyncio.gather(*waiting), await ask(guard, addresses[0])]

    async def floods() -> None:
        many = await flood([f"10.0.0.{number % 5}" for number in range(5 * 60)])
        assert (many.count(200), many.count(503), many[-1]) == (201, 100, 200)
        assert [many[number:300:5].count(200) for number in range(5)] == [40] * 5
        one = await flood(["10.0.0.9"] * 60 + ["10.0.0.8"])
        assert (one[:60].count(200), one[60]) == (50, 200)

    asyncio.run(floods())


def test_a_reading_token_over_mcp(served: Served, write_note: Write) -> None:
    """It has the reading tools alone, and a session belongs to its token."""
    write_note("a.md", "A harbor.")
    served.book.reindex()
    reader, writer = (
        {"authorization": f"Bearer {served.tokens.add(may, may)}", "accept": "application/json, text/event-stream"}
        for may in ("read", "write")
    )
    begin = {
        **LIST,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    }
    with with_rules(served) as client:
        names: dict[str, str] = {}
        for who, headers in (("read", reader), ("write", writer)):
            session = client.post("/mcp", json=begin, headers=headers).headers["mcp-session-id"]
            headers["mcp-session-id"] = session
            client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
            names[who] = client.post("/mcp", json=LIST, headers=headers).text
        assert '"find"' in names["read"]
        assert '"scribe"' in names["write"]
        assert '"scribe"' not in names["read"]
        call = {**LIST, "method": "tools/call", "params": {"name": "undo", "arguments": {}}}
        assert "PERMISSION_DENIED" in client.post("/mcp", json=call, headers=reader).text
        stolen = {**writer, "mcp-session-id": reader["mcp-session-id"]}
        assert client.post("/mcp", json=LIST, headers=stolen).status_code == 404
        served.tokens.remove("write")
        again = {**writer, "authorization": f"Bearer {served.tokens.add('write', 'write')}"}
        assert client.post("/mcp", json=LIST, headers=again).status_code == 404


CHUNK = b"a" * 100_000


class Quick(TimedConnection):
    """The protocol with short limits."""

    head_seconds = 0.5
    read_seconds = 0.5
    most = 5


async def answering(scope: Any, receive: Any, send: Any) -> None:
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
    config = uvicorn.Config(
        answering, http=Quick, ws="none", lifespan="off", log_config=None, timeout_graceful_shutdown=1
    )
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


def test_who_is_slow_or_sends_no_http(port: int) -> None:
    """
    Neither the first request of a connection nor the rest of the next is waited for long, and no answer for one who
    takes none of it. A connection that was answered may rest meanwhile.

    The answer to what is no HTTP has the shape and the headers of all others.
    """
    head = b"GET / HTTP/1.1\r\nHost: a\r\n"
    for sent in (b"", head + b"X-A", head + b"\r\n"):
        with asking(port, sent) as connection:
            assert is_cut(connection)
    with asking(port, head + b"\r\n") as connection:
        connection.recv(1_000)
        threading.Event().wait(3 * Quick.head_seconds)
        connection.sendall(head + b"\r\n")
        assert b"HTTP/1.1 200 " in connection.recv(1_000)
        connection.sendall(head)
        assert is_cut(connection)
    with asking(port, b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n") as connection:
        connection.recv(10)
        threading.Event().wait(3 * Quick.read_seconds)  # a client that reads nothing
        assert is_cut(connection)
    with asking(port, b"\x16\x03\x01\r\n\r\n") as connection:
        answer = connection.recv(5_000)
    assert answer.startswith(b"HTTP/1.1 400 ")
    shows(answer, b"x-spellbook-api: v1.0.0", b'"INVALID_INPUT"')


def test_too_many_connections(port: int) -> None:
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
def test_a_body_that_turns_out_to_be_no_http(port: int, path: str, caplog: pytest.LogCaptureFixture) -> None:
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
