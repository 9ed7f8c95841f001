"""`spellbook serve` as a process: it starts, serves real MCP clients in both eras, shares a vault, and ends in time."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import re
import select
import signal
import socket
import ssl
import struct
import subprocess
import sys
import threading
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import click
import httpx
import pytest
from click.testing import CliRunner
from mcp import Client, ClientSession
from mcp.client.sse import sse_client

from spellbook.cli import main
from spellbook.http import run
from spellbook.http.guard import COOKIE
from spellbook.http.tokens import Tokens
from spellbook.system.errors import InvalidInput
from tests.helpers import PATIENCE, Write, finished, python, until
from tests.http.running import Serving
from tests.mcp.agent import Agent, stdio

pytestmark = pytest.mark.slow
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals")


def test_real_clients(serving: Serving, write_note: Write) -> None:
    """
    A client that is configured with the address alone, or with /mcp, in either era: tools, resources, a write.

    Clients of the protocol's first transport are served at /sse. Ctrl-C ends the server with a stream open, too: exit
    code 0, no error in the log, the address free.
    """
    write_note("a.md", "The harbor is closed on Mondays.")
    server = serving("--toolsets", "core,memento")

    async def talk(mode: Any, path: str) -> None:
        async with Client(server.url.replace("127.0.0.1", "localhost") + path, mode=mode) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} >= {"scribe", "remember"}
            assert "harbor" in await Agent(client).call("find", keywords=["harbor"])
            await Agent(client).call("remember", content="The lighthouse opens in May.")
            assert "lighthouse" in await Agent(client).call("find", keywords=["lighthouse"])
            assert (await Agent(client).resource("memory://index"))["total_chunks"] == 2

    for mode, path in (("auto", ""), ("auto", "/mcp"), ("legacy", "/"), ("legacy", "/mcp")):
        anyio.run(talk, mode, path)

    async def talk_as_before() -> None:
        async with sse_client(f"{server.url}/sse") as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            assert "harbor" in str(await session.call_tool("find", {"keywords": ["harbor"]}))

    anyio.run(talk_as_before)
    page = httpx.get(f"{server.url}/settings", headers={"accept": "text/html"}).text
    now = dt.datetime.now() - dt.timedelta(minutes=30)
    [(name, at)] = re.findall(r'<li class="row apart"><span>(\w[^<]*)</span><span class="small">([^<]*)</span>', page)
    assert name.startswith("mcp ")
    assert dt.datetime.strptime(at, "%Y-%m-%d %H:%M") > now
    if sys.platform == "win32":  # no Ctrl-C for another process
        return
    with httpx.stream("GET", f"{server.url}/sse", timeout=PATIENCE):
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE) == 0
    server.end()
    assert len(server.said) == 2, server.said
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", int(server.url.rpartition(":")[2])))


@posix
def test_health(serving: Serving, vault: Path, write_note: Write) -> None:
    """
    It says that the vault is there, without a token and without telling of notes; 503 when the folder is away.

    If the link that names the vault is pointed at another folder, it says that answers are not from there.
    """
    write_note("a.md", "The harbor is closed on Mondays.")
    real, other = vault.rename(vault.with_name("real")), vault.with_name("other")
    other.mkdir()
    vault.symlink_to(real)
    server = serving()

    def health() -> tuple[int, dict[str, str]]:
        answer = httpx.get(f"{server.url}/health")
        return answer.status_code, answer.json()

    status, told = health()
    assert (status, {*told}) == (200, {"status", "version", "api"})
    assert httpx.get(server.url).json()["mcp"] == "/mcp"
    assert "<h1" in httpx.get(server.url, headers={"accept": "text/html"}).text
    vault.unlink()
    vault.symlink_to(other)
    status, told = health()
    assert (status, told["status"], "another folder" in told["reason"]) == (503, "degraded", True)
    assert str(other) not in told["reason"]
    real.rename(real.with_name("away"))
    assert health()[1]["reason"] == "The vault is not there."
    real.with_name("away").rename(real)
    vault.unlink()
    vault.symlink_to(real)
    assert health()[0] == 200


AT_WORK = """
import sys, threading, time
from spellbook.system.children import leave_threads
goes_on = threading.Event()
def work():
    while not goes_on.wait(0.05) and sys.argv[2] == "on":
        pass
threading.Thread(target=work, name=sys.argv[1], daemon=True).start()
leave_threads()
print("closed", flush=True)
goes_on.set()
"""


def test_nothing_is_closed_under_a_thread_at_work() -> None:
    """A process whose threads still compute at its end exits with 0, without closing what they use; others close it."""
    names = ("AnyIO worker thread", "spellbook-watch", "another")
    started = [python(AT_WORK, name, how) for name in names for how in ("on", "off")]
    assert finished(*started) == ["", "closed", "", "closed", "closed", "closed"]


CODE = "[█▀▄ ]{25,}"
"""A line of a code for a camera, as a terminal shows it."""

AT_HOME = """
import sys
import segno
from spellbook.http import run
run.home = lambda: "127.0.0.2"  # no test uses the network
make = segno.make_qr
segno.make_qr = lambda text: print("code:", text, file=sys.stderr) or make(text)
"""
"""A machine whose address at home is another one of its own, and that says what its code holds."""


def test_beyond_this_machine(serving: Serving, vault: Path) -> None:
    """
    The first start makes a token and shows it once, as a client's configuration; the next start shows none.

    A second server at a taken port says so at once, before it loads anything, and what to do.
    """
    server = serving("--host", "0.0.0.0")
    done = CliRunner().invoke(main, ["--vault", str(vault), "serve", "--port", server.url.rpartition(":")[2]])
    assert (done.exit_code, "choose another --port" in done.output.lower()) == (1, True)
    entry = json.loads(next(line for line in server.said if line.startswith("{")))["mcpServers"]["spellbook"]
    assert httpx.get(f"{server.url}/api/jobs", headers=entry["headers"]).status_code == 200
    assert httpx.get(f"{server.url}/api/jobs").status_code == 401
    token = entry["headers"]["Authorization"].partition(" ")[2]
    server.end()
    again = serving("--host", "0.0.0.0")
    assert token not in " ".join(again.said)
    assert httpx.get(f"{again.url}/api/jobs", headers=entry["headers"]).status_code == 200


@pytest.mark.parametrize(
    ("own", "is_home"),
    [
        *(("192.168.1.5", True), ("10.0.0.3", True), ("172.31.9.9", True), ("172.32.0.1", False), ("8.8.8.8", False)),
        *(("100.64.0.1", False), ("169.254.7.7", False), ("127.0.0.1", False), ("0.0.0.0", False), (None, False)),
    ],
)
def test_the_address_at_home(monkeypatch: pytest.MonkeyPatch, own: Any, is_home: Any) -> None:
    """It is one of RFC 1918, found without sending anything; a machine without one is told what to do."""

    class Probe(socket.socket):
        def connect(self, place: Any) -> None:
            assert self.type == socket.SOCK_DGRAM
            if own is None:
                raise OSError(101, "Network is unreachable")

        def getsockname(self) -> Any:
            return own, 1

    monkeypatch.setattr(socket, "socket", Probe)
    if is_home:
        assert run.home() == own
        return
    with pytest.raises(InvalidInput, match="Join the Wi-Fi"):
        run.home()


def test_a_phone_is_let_in_until_the_end(serving: Serving, vault: Path) -> None:
    """
    The code holds a token that may write and is in no file; it ends with the server, and with it what it opened.

    Meanwhile programs of this machine need one as well, and no line has the token.
    """
    server = serving("--phone", code=AT_HOME)
    said = [line for line in server.said if not line.startswith("code:")]
    [login] = {line.partition(" ")[2] for line in server.said if line.startswith("code:")}
    place, _, token = login.partition("/login#")
    assert place == server.url.replace("127.0.0.1", "127.0.0.2")
    assert not [line for line in said if re.fullmatch(CODE, line)]  # a log would keep it
    assert f"Scan the code, here or in Settings, with a phone. It opens {place}; Ctrl-C ends it." in said
    assert "Everybody in it who has the code can read and write your notes, over http." in said
    assert token not in "".join(said)
    headers = {"authorization": f"Bearer {token}"}
    assert httpx.get(f"{place}/api/jobs", headers=headers).status_code == 200
    assert httpx.get(f"{place}/admin/links", headers=headers).status_code == 403
    entered = httpx.post(f"{place}/login", data={"token": token}, follow_redirects=False)
    cookie = {"cookie": f"{COOKIE}={entered.cookies[COOKIE]}"}
    assert httpx.get(f"{place}/api/jobs", headers=cookie).status_code == 200
    assert httpx.get(f"{server.url}/api/jobs").status_code == 401
    assert not Tokens.of(vault).all()
    assert server.end() == 0
    Tokens.of(vault).add("me")
    again = serving("--phone", code=AT_HOME)
    for old in (headers, cookie):
        assert httpx.get(f"{again.url}/api/jobs", headers=old).status_code == 401
    assert login not in " ".join(again.said)
    refused = " ".join(serving("--phone", code=AT_HOME, SPELLBOOK_AUTH="none").said)
    assert "this server also has: 127.0.0.2." in refused


@contextlib.contextmanager
def at_terminal(vault: Path, *options: Any, code: str = "", **environment: Any) -> Any:
    """Serve at a pseudo-terminal; yield the lines up to the one that says where, and this address."""
    import pty

    ours, theirs = pty.openpty()
    program = f"{code}\nfrom spellbook.__main__ import main\nmain()"
    start = [sys.executable, "-c", program, "--vault", str(vault), "serve", "--port", "0", *options]
    own = {**os.environ, "SPELLBOOK_EMBEDDER": "hash", **environment}
    with subprocess.Popen(start, stdin=theirs, stdout=theirs, stderr=theirs, env=own) as process:
        os.close(theirs)
        with open(ours, encoding="utf-8") as terminal:
            said: list[str] = []
            while not said or "This address opens" not in said[-1]:
                said.append(terminal.readline().strip("\r\n"))
            [url] = re.findall(r"^http://127\.0\.0\.1:\d+\S*$", said[-2])
            assert said[-1] == f"This address opens {vault} in a browser. Ctrl-C ends the server."
            assert httpx.get(f"{url.partition('/login')[0]}/health").status_code == 200
            yield said, url
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0


@posix
@pytest.mark.parametrize(
    ("options", "changed", "is_opened"),
    [
        pytest.param((), {}, True, id="at a terminal"),
        pytest.param((), {"SPELLBOOK_ALLOWED_HOSTS": "notes.example.org"}, True, id="asked for a token"),
        pytest.param((), {"SPELLBOOK_TOKEN": "a token of my own, long enough"}, True, id="with a token"),
        pytest.param(("--phone", "--no-open"), {}, False, id="told not to"),
        pytest.param((), {"SSH_TTY": "/dev/pts/9"}, False, id="over SSH"),
        pytest.param((), {"BROWSER": "w3m %s"}, False, id="in the terminal itself"),
    ],
)
def test_a_browser_is_opened(
    vault: Path, tmp_path: Path, options: tuple[Any, ...] | tuple[str, ...], changed: dict[str, Any], is_opened: bool
) -> None:
    """
    Where a person sits before it, and nowhere else; the line says how to go on. A code is as wide as a camera needs.

    A server that asks for a token, since it is meant for more or has one, prints and opens a link that logs in one browser, as the person at this
    machine, until the server ends: the secret in it is no token, and is used up.
    """
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f"#!/bin/sh\necho $1 > {opened}.new && mv {opened}.new {opened}\n")
    browser.chmod(0o700)
    own = {"DISPLAY": ":9", "BROWSER": f"{browser} %s &", "WAYLAND_DISPLAY": ""}
    none = dict.fromkeys(("SSH_CONNECTION", "SSH_TTY", "CI", "SPELLBOOK_CONTAINER"), "")
    with at_terminal(vault, *options, code=AT_HOME, **none | own | changed) as (said, url):
        drawn = [line for line in said if re.fullmatch(CODE, click.unstyle(line))]
        assert (len(drawn) > 12) is ("--phone" in options)
        if is_opened:
            until(opened.exists)
            assert opened.read_text() == f"{url}\n"
        place, _, secret = url.partition("/login#")
        assert bool(secret) is bool(
            "--phone" in options or {"SPELLBOOK_ALLOWED_HOSTS", "SPELLBOOK_TOKEN"} & changed.keys()
        )
        assert httpx.get(f"{place}/admin/links").status_code == (401 if secret else 200)
        if secret:
            bearer = {"authorization": f"Bearer {secret}"}
            assert httpx.get(f"{place}/api/jobs", headers=bearer).status_code == 401
            entered = [httpx.post(f"{place}/login", data={"token": secret}) for _ in range(2)]
            assert [answer.status_code for answer in entered] == [303, 401]
            cookie = {"cookie": f"{COOKIE}={entered[0].cookies[COOKIE]}"}
            assert httpx.get(f"{place}/admin/links", headers=cookie).status_code == 200
    assert opened.exists() is is_opened
    assert [each.name for each in Tokens.of(vault).all()] == ["first"] * ("SPELLBOOK_ALLOWED_HOSTS" in changed)


def test_https_and_a_trusted_proxy(serving: Serving, tmp_path: Path) -> None:
    """
    With a certificate, clients that trust it connect; plain HTTP does not.

    A proxy is believed whose request it forwards, so wrong tokens are counted by caller; behind one a token is needed.
    """
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost"
    files = ["-keyout", str(key), "-out", str(certificate), "-addext", "subjectAltName=IP:127.0.0.1"]
    if subprocess.run([*made.split(), *files], capture_output=True).returncode:
        pytest.skip("there is no openssl")
    server = serving("--certfile", str(certificate), "--keyfile", str(key), "--trusted-proxy", "127.0.0.1")
    assert server.url.startswith("https://")
    assert any("token" in line for line in server.said)
    with httpx.Client(verify=ssl.create_default_context(cafile=certificate)) as client:
        assert client.get(f"{server.url}/health").status_code == 200
        headers = {"authorization": "Bearer wrong", "x-forwarded-for": "10.1.1.1"}
        assert [client.get(f"{server.url}/api/jobs", headers=headers).status_code for _ in range(11)][-1] == 429
        headers["x-forwarded-for"] = "10.1.1.2"
        assert client.get(f"{server.url}/api/jobs", headers=headers).status_code == 401
    with pytest.raises(httpx.HTTPError):
        httpx.get(server.url.replace("https", "http") + "/health")


def ask(server: Any, sent: Any, *, is_reset: bool = False, times: int = 1) -> Any:
    """Send bytes and close, or reset, the connection; return the beginning of the answer."""
    port = int(server.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        with contextlib.suppress(ConnectionError):  # it may be refused already
            connection.sendall(sent.replace(HOST, b"Host: localhost:%d\r\n" % port))
            for _ in range(1, times):
                connection.sendall(LARGE)
        if is_reset:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return b""
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            return connection.recv(100)
        return b""


HOST = b"Host: localhost\r\n"
LARGE = b"186a0\r\n" + b"a" * 100_000 + b"\r\n"
NONE = (
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET http://evil.example/health HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"GET /health HTTP/1.1\r\n" + HOST + b"Host: evil.example\r\n\r\n",
    b"GET /health HTTP/1.1\r\n" + HOST + b"X-A: " + b"a" * 100_000 + b"\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\n" + HOST + b"Content-Length: -5\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nx",
    b"GET /../../etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /%00%ff%2e%2e/ HTTP/1.1\r\n" + HOST + b"\r\n",
    b"GET /api/jobs HTTP/1.0\r\n\r\n",
    b"GET /api/jobs HTTP/1.1\r\nHost: evil.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    b"GET http://localhost/api/jobs HTTP/1.1\r\n" + HOST + b"\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)
BODIES = {
    "it breaks off": (b"Content-Length: 1000\r\n", b"{"),
    "a piece of it breaks off": (b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n"),
    "a piece of it is none": (b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\nZZZZ\r\n"),
    "it is too large": (b"Transfer-Encoding: chunked\r\n", LARGE),
    "more than was announced": (b"Content-Length: 2\r\n", b"{}\0garbage\r\n\r\n"),
}
PATHS = ("/login", "/api/notes", "/mcp", "/", "/messages/", "/do/save", "/logout", "/admin/errors/resolve", "/x")


def until_the_end(connection: Any) -> Any:
    """Return all that comes until the server closes the connection."""
    come = b""
    with contextlib.suppress(ConnectionError):  # bytes were sent after its end
        while piece := connection.recv(5_000):
            come += piece
    return come


QUICK = """
from spellbook.http import run
from spellbook.http.guard import Guard
from spellbook.http.run import TimedConnection
run.IDLE_SECONDS = 10_000  # a request that was answered before all of it came is not waited for as long
TimedConnection.head_seconds = Guard.body_seconds = Guard.open_seconds = 4.0
"""


EARLY = """
import signal
from uvicorn import Server
run = Server.run
Server.run = lambda self, *given: (signal.raise_signal(signal.SIGTERM), run(self, *given))
"""


def test_a_signal_before_the_first_request_ends_the_server(serving: Serving) -> None:
    """A signal that comes after the address is told and before the server runs is not lost, and closes the vault."""
    server = serving(code=EARLY)
    assert server.process.wait(PATIENCE) == 0


def drip(connections: Any, over: Any) -> None:
    """Send byte by byte, each to all of these connections, until it is over."""
    while not over.wait(0.1):
        for each in connections:
            with contextlib.suppress(OSError):
                each.send(b"x")


def test_clients_that_are_none(serving: Serving) -> None:
    """
    Requests that are none, are slow, break off or are too large: the sender's error, never one of the server.

    Slow ones are cut off after a while, however many bytes they send one by one, and nobody else waits meanwhile, with
    a hundred streams open, too. A body that does not arrive whole counts as no failure, and the log has no stack trace.
    """
    server = serving(code=QUICK)
    port = int(server.url.rpartition(":")[2])
    own = b" HTTP/1.1\r\nHost: localhost:%d\r\n" % port
    streams = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) for _ in range(100)]
    for each in streams:
        each.sendall(b"GET /sse" + own + b"\r\n")
    announced = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    announced.sendall(b"GET /sse" + own + b"Content-Length: 9\r\n\r\n")
    drips = [(path, socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)) for path in PATHS[:-1]]
    for path, each in drips:
        each.sendall(b"POST " + path.encode() + own + b"Content-Length: 5000\r\n\r\n")
    over = threading.Event()
    # Others never send a byte. A failure here must not leave the thread waiting.
    dripping = threading.Thread(target=drip, args=([each for _, each in drips[::2]], over), daemon=True)
    dripping.start()
    slow = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) for _ in range(100)]
    for number, each in enumerate(slow):
        each.sendall(b"" if number % 2 else b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-A")
    assert httpx.get(f"{server.url}/health", timeout=PATIENCE).status_code == 200
    assert not select.select(slow[-1:], [], [], 0)[0], "it is still waited for"
    for sent in NONE:
        answer = ask(server, sent)
        allowed = {400, 404, 405, 421, 431} | ({200} if len(sent) > 64_000 else set())  # it may arrive in one piece
        assert answer == b"" or int(answer.split()[1]) in allowed, sent[:50]
    kind = b"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
    for is_reset, (head, sent), path in product((False, True), BODIES.values(), PATHS):
        whole = f"POST {path} HTTP/1.1\r\n".encode() + HOST + kind + head + b"\r\n" + sent
        ask(server, whole, is_reset=is_reset, times=250 if sent == LARGE and path == "/mcp" else 1)
    for each in slow:
        assert each.recv(1_000) == b""  # closed by the server
        each.close()
    for path, each in drips:
        assert int(until_the_end(each).split()[1]) in {404, 405, 408}, path
        each.close()
    assert until_the_end(announced).endswith(b"\r\n0\r\n\r\n"), "a stream whose body never comes has no end"
    announced.close()
    over.set()
    dripping.join(PATIENCE)
    for each in streams:
        assert each.recv(15) == b"HTTP/1.1 200 OK"
        each.close()
    assert httpx.get(f"{server.url}/health").status_code == 200
    assert httpx.get(f"{server.url}/admin/stats/errors").json()["byCode"].keys() <= {"INVALID_INPUT"}
    server.end()
    said = "\n".join(server.said)
    assert "Traceback" not in said
    assert len(said.splitlines()) - said.count("without session_id") == 2  # which the SDK says of POST /messages/


def test_a_server_and_a_stdio_process(serving: Serving, vault: Path) -> None:
    """What one of them writes is found by the other at once, by words and by meaning."""

    async def talk() -> None:
        async with Client(serving().url) as one, Client(stdio(vault)) as two:
            for number, (writer, reader) in enumerate(((one, two), (two, one))):
                text, word = f"word{number}x lies in the harbor.", f"word{number}x"
                session = (await Agent(writer).json("rest"))["session_id"]
                chunk = {"text": text, "metadata": {"topic": "t", "keywords": [word, "a", "b"]}}
                done = await Agent(writer).json("scribe", chunk=chunk, session_id=session, force=True)
                for tool, asked in (("find", {"keywords": [word]}), ("memorize", {"query": text})):
                    assert done["path"] in await Agent(reader).found(tool, **asked), (number, tool)

    anyio.run(talk)
