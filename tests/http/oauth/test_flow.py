"""The way of an app from its first request to a note, at the real `spellbook serve --public-url`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from click.testing import CliRunner
from mcp.client.auth.oauth2 import OAuthClientProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from pydantic import AnyUrl

from spellbook.cli import main

from .remote import BOTH, CALL, CALLBACK, CLAUDE, CODE, ISSUER, READ, App, answered, shown

pytestmark = pytest.mark.slow
RESOURCE = f"{ISSUER}/.well-known/oauth-protected-resource"


@pytest.fixture
def app(tunnel: Any) -> App:
    return App(tunnel[1], tunnel[3])


def test_what_a_client_reads_first(app: App) -> None:
    """Without a token it is told where to get one; the documents say what hosted apps look for, letter by letter."""
    for method in ("POST", "GET"):
        for sent, error in ({}, ""), ({"authorization": "Bearer spa_dead"}, 'error="invalid_token", '):
            answer = app.http.request(method, "/mcp", headers=sent)
            assert answer.status_code == 401
            way = f'Bearer {error}resource_metadata="{RESOURCE}/mcp", scope="vault:read"'
            assert answer.headers["www-authenticate"] == way
    assert f'"{RESOURCE}"' in app.http.post("/").headers["www-authenticate"]
    for path, resource in (("/mcp", f"{ISSUER}/mcp"), ("", ISSUER)):
        document = app.http.get(f"/.well-known/oauth-protected-resource{path}").json()
        assert document.pop("resource_name")
        assert document == {
            "resource": resource,
            "authorization_servers": [ISSUER],
            "scopes_supported": BOTH.split(),
            "bearer_methods_supported": ["header"],
        }
    one, other = (
        app.http.get(f"/.well-known/{name}") for name in ("oauth-authorization-server", "openid-configuration")
    )
    assert one.json() == other.json()
    assert (
        one.json().items()
        >= {
            "issuer": ISSUER,
            **{
                f"{name}_endpoint": f"{ISSUER}/{path}"
                for name, path in (("authorization", "authorize"), ("token", "token"))
            },
            **{
                f"{name}_endpoint": f"{ISSUER}/{path}"
                for name, path in (("registration", "register"), ("revocation", "revoke"))
            },
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_post", "client_secret_basic"],
            "client_id_metadata_document_supported": True,
            "authorization_response_iss_parameter_supported": True,
        }.items()
    )
    assert app.http.get("/.well-known/jwks.json").status_code == 404


class Tunnel(httpx2.AsyncBaseTransport):
    """Brings a request for the public name to the server on this machine, and adds nothing."""

    def __init__(self, url: str) -> None:
        self._to, self._inner = httpx2.URL(url), httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: Any) -> Any:
        assert str(request.url).startswith(ISSUER)
        url = request.url.copy_with(scheme=self._to.scheme, host=self._to.host, port=self._to.port)
        sent = httpx2.Request(
            request.method, url, headers=request.headers, stream=request.stream, extensions=request.extensions
        )
        return await self._inner.handle_async_request(sent)

    async def aclose(self) -> None:
        await self._inner.aclose()


class Store:
    """Keeps what the SDK's client was given."""

    tokens = info = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.info

    async def set_client_info(self, client_info: Any) -> None:
        self.info = client_info


@pytest.mark.parametrize("metadata", [CLAUDE, None], ids=["known by its address", "registers itself"])
def test_the_clients_of_the_sdk(tunnel: Any, app: App, metadata: Any) -> None:
    """It connects, lists the tools that read, and finds the note; removing its grant ends that in mid-session."""
    store: Any = Store()
    asked: list[str] = []

    async def redirect(url: str) -> None:
        asked.append(url)

    async def callback() -> AuthorizationCodeResult:
        back = answered(await anyio.to_thread.run_sync(app.consent, asked[-1].removeprefix(ISSUER)))
        return AuthorizationCodeResult(code=back["code"], state=back["state"], iss=back["iss"])

    about = OAuthClientMetadata(client_name="Claude", redirect_uris=[AnyUrl(CALLBACK)])
    auth = OAuthClientProvider(f"{ISSUER}/mcp", about, store, redirect, callback, client_metadata_url=metadata)

    async def talk() -> None:
        async with (
            httpx2.AsyncClient(auth=auth, transport=Tunnel(tunnel[0]), timeout=60) as http,
            Client(streamable_http_client(f"{ISSUER}/mcp", http_client=http)) as client,
        ):
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert "find" in names
            assert not names & {"remember", "add", "revise", "forget", "scribe"}
            answer = await client.call_tool("find", {"keywords": ["harbor"]})
            assert "Mondays" in str(answer)

    anyio.run(talk)
    assert (store.info.client_id == CLAUDE) == bool(metadata)
    [asked_of] = asked
    assert {name: value for name, [value] in parse_qs(urlsplit(asked_of).query).items()}["resource"] == f"{ISSUER}/mcp"
    token = store.tokens.access_token
    assert app.call(token).status_code != 401
    person = CliRunner(env={"SPELLBOOK_DATA": str(tunnel[4].parent / "data")})
    listed = person.invoke(main, ["--vault", str(tunnel[4]), "token", "list"]).stdout
    [line] = [each for each in listed.splitlines() if each.startswith("Claude:")]
    removed = person.invoke(main, ["--vault", str(tunnel[4]), "token", "remove", line.split()[0]])
    assert removed.exit_code == 0, removed.output
    assert app.call(token).status_code == 401
    assert (
        app.ask_token(
            grant_type="refresh_token", refresh_token=store.tokens.refresh_token, client_id=store.info.client_id
        ).json()["error"]
        == "invalid_grant"
    )


def test_an_app_asks_for_more_when_a_tool_needs_it(tunnel: Any, app: App) -> None:
    """
    A tool that writes is refused in mid-session with the scope that it needs; the SDK's client asks the person for that,
    and the call goes on as one that may write.
    """
    store: Any = Store()
    ticked: list[dict[str, str]] = [{}, {"write": "yes"}]
    asked: list[str] = []

    async def redirect(url: str) -> None:
        asked.append(url.removeprefix(ISSUER))

    async def callback() -> AuthorizationCodeResult:
        form = ticked[len(asked) - 1]
        back = answered(await anyio.to_thread.run_sync(lambda: app.consent(asked[-1], **form)))
        return AuthorizationCodeResult(code=back["code"], state=back["state"], iss=back["iss"])

    about = OAuthClientMetadata(client_name="Claude", redirect_uris=[AnyUrl(CALLBACK)])
    auth = OAuthClientProvider(f"{ISSUER}/mcp", about, store, redirect, callback, client_metadata_url=CLAUDE)

    async def talk() -> None:
        async with (
            httpx2.AsyncClient(auth=auth, transport=Tunnel(tunnel[0]), timeout=60) as http,
            Client(streamable_http_client(f"{ISSUER}/mcp", http_client=http)) as client,
        ):
            assert "remember" not in {tool.name for tool in (await client.list_tools()).tools}
            saved = await client.call_tool("remember", {"text": "The ferry leaves at noon."})
            assert not saved.is_error, saved

    anyio.run(talk)
    assert [parse_qs(urlsplit(each).query)["scope"] for each in asked] == [[READ], [BOTH]]
    assert store.tokens.scope == BOTH
    assert any("ferry" in each.read_text("utf-8") for each in tunnel[4].rglob("*.md"))


def test_the_older_transport(app: App) -> None:
    """At /sse an app's token opens a session as at /mcp, which reads; a tool that writes is refused there, too."""
    bearer = {"authorization": f"Bearer {app.connect()['access_token']}"}
    assert app.http.get("/sse").headers["www-authenticate"].startswith("Bearer resource_metadata=")
    with app.http.stream("GET", "/sse", headers=bearer) as events:
        assert events.status_code == 200
        lines = events.iter_lines()
        place = next(line for line in lines if line.startswith("data: /messages/")).removeprefix("data: ")
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
        assert app.http.post(place, json=begin, headers=bearer).status_code == 202
        writing = {**CALL, "params": {"name": "remember", "arguments": {"text": "x"}}}
        refused = app.http.post(place, json=writing, headers=bearer)
        assert refused.status_code == 403
        assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
        assert app.http.post(place, json=CALL).status_code == 401


def test_a_program_in_a_page_of_another_origin(app: App) -> None:
    """It may ask the documents and the routes for programs, without cookies; nothing else of the server, nor consent."""
    page = {"origin": "http://localhost:6274", "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}
    asks = {**page, "access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    for path in ("/token", "/register", "/revoke"):
        assert app.http.options(path, headers=asks).headers["access-control-allow-origin"] == "*", path
        answer = app.http.post(path, headers=page)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (400, "*"), path
        assert "access-control-allow-credentials" not in answer.headers
    documents = ("oauth-protected-resource/mcp", "oauth-protected-resource", "oauth-authorization-server")
    for name in (*documents, "openid-configuration"):
        answer = app.http.get(f"/.well-known/{name}", headers={**page, "mcp-protocol-version": "2025-06-18"})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "*"), name
    for path in ("/authorize", "/mcp", "/login", "/api/status"):
        answer = app.http.post(path, headers=page)
        assert answer.status_code == 403, path
        assert "access-control-allow-origin" not in answer.headers


def test_what_apps_really_send(app: App) -> None:
    """
    claude.ai's blank scope; a long state, byte by byte; Claude Code on any port; ten refreshes at once get one pair.

    A page says who asks, and where the answer goes.
    """
    page = app.page(app.query(scope=" offline_access", prompt="consent"))
    assert page.status_code == 200
    assert page.headers["cache-control"] == "no-store"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert "form-action 'self' https://claude.ai;" in page.headers["content-security-policy"]
    assert "Connect Claude?" in shown(page.text)
    state = "x/+=%&é" * 400
    asked = app.query(scope=" offline_access", prompt="consent", state=state)
    back = answered(app.consent(asked))
    assert (back["state"], back["iss"]) == (state, ISSUER)
    pair = app.exchange(back["code"])
    assert pair.headers["cache-control"] == "no-store"
    assert pair.json().items() >= {"token_type": "Bearer", "expires_in": 86_400, "scope": READ}.items()
    with ThreadPoolExecutor(10) as pool:
        answers = [*pool.map(lambda _: app.refresh(pair.json()["refresh_token"]), range(10))]
    assert {each.status_code for each in answers} == {200}
    assert len({each.text for each in answers}) == 1
    assert app.call(answers[0].json()["access_token"]).status_code != 401
    local = App(app.http, app.token, CODE, "http://localhost:53123/callback")
    assert "Connect Claude Code?" in shown(local.page().text)
    assert local.connect()["scope"] == READ
    assert app.connect(BOTH)["scope"] == READ  # not ticked
    assert app.connect(BOTH, write="yes")["scope"] == BOTH
