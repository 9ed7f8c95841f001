"""Who needs a token: each kind of request, at each kind of server, at each of its doors."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any

import pytest
from starlette.testclient import TestClient

from spellbook.http.app import make
from spellbook.http.guard import LOOPBACK, AccessRules
from spellbook.http.served import Served
from spellbook.library.book import Spellbook

from .running import asked, bearer, code, shows, status


@pytest.fixture
def served(book: Spellbook) -> Served:
    return Served(book)


THROUGH = """
    Forwarded Via CDN-Loop X-Forwarded X-Forwarded-For X-Forwarded-Host X-Forwarded-Proto X-Forwarded-Server
    X_Forwarded_For X-Forward-For Forwarded-For Z-Forwarded-For X-Real-IP X-RealIP X-Client-IP Client-IP
    X-Cluster-Client-IP X-Original-Host X-Original-URL X-Host X-Scheme X-Request-Start Front-End-Https
    CF-Connecting-IP CF-Ray CF-Visitor CF-IPCountry True-Client-IP Tailscale-User-Login Tailscale-Funnel-Request
    ngrok-skip-browser-warning X-Tunnel-Authorization X-GitHub-Ssh-Key X-MS-Client-Principal
    Fly-Client-IP Fly-Region X-Envoy-External-Address X-Envoy-Expected-Rq-Timeout-Ms Fastly-Client-IP Fastly-SSL
    Akamai-Origin-Hop X-Amzn-Trace-Id X-Amz-Cf-Id CloudFront-Viewer-Address X-ARR-SSL X-ARR-LOG-ID X-Azure-ClientIP
    X-Azure-SocketIP X-Vercel-Id X-NF-Client-Connection-IP X-AppEngine-User-IP X-Goog-IAP-JWT-Assertion
    WL-Proxy-Client-IP X-ProxyUser-Ip Incap-Client-IP X-Sucuri-ClientIP Ali-CDN-Real-IP
    Remote-Addr Remote-User X-Remote-User X-Auth-Request-Email X-Authentik-Username X-WebAuth-User
"""
"""Headers that proxies, tunnels and networks add."""

OWN = "mcp-protocol-version sec-ch-ua-platform x-request-id traceparent x-client-name baggage origin-trial"
"""Headers that clients send by themselves."""

LISTENS = {
    "here": AccessRules(),
    "a public name": AccessRules((*LOOPBACK, "notes.example")),
    "another address": AccessRules(is_local=False),  # or a trusted proxy
    "AUTH=none": AccessRules(is_open=True),
    "AUTH=none beyond": AccessRules(is_local=False, is_open=True),
    "AUTH=none in a container": AccessRules(is_local=False, is_open=True, is_contained=True),
    "AUTH=none with a public name": AccessRules((*LOOPBACK, "notes.example"), is_open=True, is_contained=True),
}
OPEN, CONTAINED = {"here", "AUTH=none", "AUTH=none beyond"}, {"AUTH=none in a container"}
AT = "127.0.0.1"
HERE = (AT, 17950)
FREE = (
    # Host, the caller's address, what it connected to, the scheme, and the servers that answer without a token
    ("127.0.0.1:17950", AT, HERE, "http", OPEN | CONTAINED),
    ("LocalHost:17950", AT, HERE, "http", OPEN | CONTAINED),
    ("[::1]:17950", "::1", ("::1", 17950), "http", OPEN | CONTAINED),
    ("127.0.0.1", AT, (AT, 80), "http", OPEN | CONTAINED),
    ("localhost", AT, (AT, 443), "https", OPEN | CONTAINED),
    # Another port: a tunnel (ssh -L), a port that an engine maps, a proxy that sends a name alone
    ("localhost", AT, HERE, "http", CONTAINED),
    ("127.0.0.1:80", AT, HERE, "http", CONTAINED),
    ("[::1]:8080", AT, HERE, "http", CONTAINED),
    ("localhost:1795", AT, HERE, "http", CONTAINED),
    ("localhost:80", AT, (AT, 443), "https", CONTAINED),
    # Another machine that says it asks for localhost
    ("localhost:17950", "192.168.0.9", HERE, "http", CONTAINED),
    ("localhost:17950", "::ffff:10.0.0.1", HERE, "http", CONTAINED),
    ("localhost:17950", "fe80::1", HERE, "http", CONTAINED),
    ("localhost:17950", "", HERE, "http", CONTAINED),
    ("localhost:17950", AT, ("192.168.0.7", 17950), "http", CONTAINED),
    ("localhost:17950", "172.17.0.1", ("172.17.0.2", 17950), "http", CONTAINED),
)
OTHER = """
    notes.example notes.example:17950 evil.example:17950 localhost.evil.example 0.0.0.0:17950 user@localhost:17950
    localhost:17950@evil.example localhost.:17950 127.0.0.1.:17950 127.1:17950 2130706433:17950 0x7f000001:17950
    0177.0.0.1:17950 [::ffff:127.0.0.1]:17950 [::]:17950 localhost:017950 localhost:+17950 localhost: localhost,x
"""
"""Names that are none of this machine's, whatever they lead to."""
DOORS = """
    / /mcp /mcp/ /sse /messages/ /api/search /api/openapi.json /admin/links /settings /note/a /do/save /static
    //static/x /STATIC/x /health/ /login/ /x http://localhost/health
"""


def told(app: Any, host: str | None, peer: str, server: tuple[str, int] = HERE, /, **changed: Any) -> int:
    """Ask an app as no client would, and return the status of its answer; a None for `host` sends no such header."""
    started: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        started.append(message.get("status", 0))

    headers = [(name.lower().encode(), b"x") for name in changed.pop("headers", ())]
    if host is not None:
        headers.append((b"host", host.encode()))
    scope = {"type": "http", "method": "GET", "path": "/api/jobs", "query_string": b"", "scheme": "http", **changed}
    asyncio.run(app({**scope, "client": (peer, 1), "server": server, "headers": headers}, receive, send))
    return started[0]


def test_who_needs_a_token(served: Served) -> None:
    """
    Everybody but a program of this machine that asks directly, by a loopback name and the port, while there is no token.

    A server that has another name, listens elsewhere or knows a proxy asks each request, whatever it says of itself: a
    tunnel may add no header. With SPELLBOOK_AUTH=none such a program never needs one, in a container nobody who asks by
    a loopback name does; what a proxy passed on needs one even so. All doors are shut: pages, MCP in all its forms, the
    API and its description. A damaged file of tokens is an error, not an open door.
    """
    apps = {name: make(served, rules, live=False) for name, rules in LISTENS.items()}
    none = [(host, AT, HERE, "http", set[str]()) for host in (*OTHER.split(), "", None)]
    for (host, peer, server, scheme, free), (name, app) in product([*FREE, *none], apps.items()):
        answered = told(app, host, peer, server, scheme=scheme)
        assert answered in ({200} if name in free else {401, 421}), (host, peer, server, name, answered)
    for header, (name, app) in product(THROUGH.split(), apps.items()):
        assert told(app, "localhost:17950", AT, headers=[header]) == 401, (header, name)
    assert {told(apps["here"], "localhost:17950", AT, headers=[header]) for header in OWN.split()} == {200}
    for path, method in product(DOORS.split(), ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")):
        for name in ("a public name", "another address"):
            given = {"path": path, "method": method, "headers": ["upgrade"]}
            assert told(apps[name], "localhost:17950", AT, **given) == 401, (path, method, name)
    with asked(served) as client:
        told_by = client.get("/api/jobs", headers={"x-forwarded-for": "10.0.0.1"})
        shows(told_by.text, "x-forwarded-for", "spellbook token add", "--trusted-proxy")
        token = served.tokens.add("ada", "read")
        assert code(client.get("/api/jobs")) == (401, "AUTHENTICATION_ERROR")
        assert client.get("/api/jobs").headers["www-authenticate"].startswith("Bearer")
        assert client.get("/health").status_code == 200
        assert status(client, **bearer(token)) == status(client, **bearer(token), via="1.1 x") == 200
        for name in ("AUTH=none", "AUTH=none beyond", "AUTH=none in a container"):
            assert told(apps[name], "localhost:17950", AT) == 200
        served.tokens.remove("ada")
        assert status(client) == 200
    phone = served.tokens.lend()
    app = make(served, AccessRules((*LOOPBACK, "192.168.0.7")), live=False)
    with TestClient(app, "http://192.168.0.7:17950") as client:
        named = ("192.168.0.7:17950", "localhost", "127.0.0.1:17950")
        assert {status(client, host=each) for each in named} == {401}
        assert status(client, **bearer(phone)) == 200
    served.tokens.file.write_text("{")
    with asked(served) as client:
        assert code(client.get("/api/jobs")) == (500, "STORAGE_ERROR")
