"""`spellbook doctor --public`: the rows that hosted apps ask are asked, and what is wrong is named with the next step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from spellbook.http.oauth.public_check import checks
from spellbook.system.errors import InvalidInput

from .remote import HOST, ISSUER

HTML = {"content-type": "text/html"}


def came(status: int, headers: dict[str, str] | None = None, text: str = "") -> httpx.Response:
    """An answer as it comes from a network."""
    return httpx.Response(status, headers=headers, stream=httpx.ByteStream(text.encode()))


def asked(transport: httpx.BaseTransport) -> list[str]:
    return [problem for _, problems in checks(ISSUER, transport) for problem in problems]


def test_a_server_that_is_right(tunnel: Any) -> None:
    """Nothing is wrong with `serve --public-url`; of another name, each row is."""

    def lead(request: httpx.Request) -> httpx.Response:
        headers = {"host": request.url.host}
        answer = tunnel[1].request(request.method, request.url.path, content=request.content, headers=headers)
        return came(answer.status_code, dict(answer.headers), answer.text)

    assert asked(httpx.MockTransport(lead)) == []
    other = [*checks("https://other.example.org", httpx.MockTransport(lead))]
    assert len(other) == 4
    assert all("Start it with this --public-url" in problem for _, [problem] in other)


def failing(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("no such name", request=request)


@pytest.mark.parametrize(
    ("answer", "step"),
    [
        (failing, "Is the tunnel running"),
        (lambda _: came(403, HTML, "Just a moment…"), "Block AI bots"),
        (lambda _: came(200, {"cf-mitigated": "challenge"}), "Block AI bots"),
        (lambda _: came(308, {"location": f"https://www.{HOST}/"}), "leads on to"),
        (lambda _: came(421), "header Host"),
        (lambda _: came(404), "/.well-known"),
        (lambda _: came(200, text="[" * 100_000), "far too long"),
        (lambda request: came(401 if request.method == "POST" else 200, text="[1]"), "without OAuth"),
        (lambda request: came(401 if request.method == "POST" else 200, text="[" * 9_000), "without OAuth"),
    ],
)
def test_what_is_wrong_is_named(answer: Callable[[httpx.Request], httpx.Response], step: str) -> None:
    """Each row says what came instead and what to do; nothing that came is printed raw, and no redirect is followed."""
    problems = asked(httpx.MockTransport(answer))
    assert len(problems) == 4
    assert all(step in problem and "\x1b" not in problem for problem in problems)


@pytest.mark.parametrize(
    "url",
    [
        *("http://notes.example.org", "notes.example.org", "https://localhost", "https://127.0.0.1", "https://[::1]"),
        *("https://a.localhost", "https://notes.example.org:8443", "https://notes.example.org/mcp", "https://10.0.0.1"),
        *(
            "https://me@notes.example.org",
            "https://notes.example.org?x",
            "https://notes.example.org#x",
            "https://2130706433",
        ),
        *(
            "https://notes.example.org.",
            "https://-a.example.org",
            "https://노트.example",
            "",
            "https://a..b",
            "https://[x",
        ),
    ],
)
def test_which_addresses_can_be_public(url: str) -> None:
    """A name of the internet, https, port 443, nothing more; the server does not start with another one."""
    with pytest.raises(InvalidInput, match="--public-url"):
        next(checks(url))
    assert next(checks("HTTPS://Notes.Example.org:443/", httpx.MockTransport(lambda _: came(404))))
