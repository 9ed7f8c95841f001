"""What a stranger tries at a server with a public name, and what each try gets: nothing."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from spellbook.http.oauth.grants import Grants
from spellbook.http.served import Served
from spellbook.http.tokens import Tokens

from ..running import may_of
from .remote import BOTH, CALLBACK, CLAUDE, CODE, HOST, ISSUER, READ, App, answered, shown

EVIL = "https://evil.example/callback"
NO_REDIRECT: dict[str, dict[str, str | None]] = {
    "another app": {"client_id": "https://evil.example/client.json"},
    "no app": {"client_id": None},
    "a path that goes up": {"client_id": "https://claude.ai/oauth/../oauth/mcp-oauth-client-metadata"},
    "a name that only begins alike": {"client_id": CLAUDE + "x"},
    "an app that nobody registered": {"client_id": "00000000-0000-4000-8000-000000000000"},
    "another redirect": {"redirect_uri": EVIL},
    "no redirect": {"redirect_uri": None},
    "a redirect with a query": {"redirect_uri": CALLBACK + "?to=evil"},
    "a redirect with a fragment": {"redirect_uri": CALLBACK + "#x"},
    "a redirect with a slash": {"redirect_uri": CALLBACK + "/"},
    "a redirect with another case": {"redirect_uri": CALLBACK.replace("claude", "Claude")},
    "a redirect with a user": {"redirect_uri": CALLBACK.replace("claude.ai", "claude.ai@evil.example")},
    "a redirect below another name": {"redirect_uri": CALLBACK.replace("claude.ai", "claude.ai.evil.example")},
    "a redirect like it": {"redirect_uri": CALLBACK.replace("claude.ai", "claude-ai")},
    "a redirect without TLS": {"redirect_uri": CALLBACK.replace("https", "http")},
    "a redirect with a port": {"redirect_uri": CALLBACK.replace("claude.ai", "claude.ai:8443")},
    "a redirect that goes up": {"redirect_uri": "https://claude.ai/api/mcp/x/../auth_callback"},
    "a script": {"redirect_uri": "javascript:alert(1)"},
    "a line feed": {"redirect_uri": CALLBACK + "\n"},
    "Claude at this machine": {"redirect_uri": "http://localhost:5/callback"},
    "a program at Claude": {"client_id": CODE},
    "a program at another machine": {"client_id": CODE, "redirect_uri": "http://10.0.0.5:5/callback"},
    "a program at a port that is none": {"client_id": CODE, "redirect_uri": "http://localhost:65536/callback"},
    "a program at another path": {"client_id": CODE, "redirect_uri": "http://localhost:5/other"},
    "a program at a name like localhost": {
        "client_id": CODE,
        "redirect_uri": "http://localhost.evil.example:5/callback",
    },
}
TOLD: dict[str, tuple[str, dict[str, str | None]]] = {
    "plain": ("invalid_request", {"code_challenge_method": "plain"}),
    "no method, which is plain": ("invalid_request", {"code_challenge_method": None}),
    "no challenge": ("invalid_request", {"code_challenge": None}),
    "a short challenge": ("invalid_request", {"code_challenge": "abc"}),
    "a token at once": ("unsupported_response_type", {"response_type": "token"}),
    "another resource": ("invalid_target", {"resource": "https://evil.example/mcp"}),
    "a resource like ours": ("invalid_target", {"resource": f"{ISSUER}.evil.example/mcp"}),
    "a right to everything": ("invalid_scope", {"scope": "vault:admin"}),
}


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_may_not_be_asked(remote: App, method: str) -> None:
    """
    An unknown app or redirect gets a page and no redirect, in either language; another fault is told to the app, with
    state and iss. A field that comes twice is refused, since two readers might take a different one.
    """
    person = {"token": remote.token, "answer": "yes"}
    for name, changed in NO_REDIRECT.items():
        headers = {**remote.browser, "accept-language": "ko"}
        answer = remote.http.request(method, remote.query(**changed), data=person, headers=headers)
        assert (answer.status_code, answer.headers.get("location")) == (400, None), name
        assert "모르는 앱" in answer.text
    twice = remote.http.request(method, remote.query() + "&state=2", data=person)
    assert twice.status_code == 400
    for name, (error, changed) in TOLD.items():
        answer = remote.http.request(method, remote.query(**changed), data=person)
        back = answered(answer)
        assert (back["error"], back["state"], back["iss"]) == (error, "s t&a=te", ISSUER), name
        assert answer.headers["location"].startswith(f"{CALLBACK}?"), name


def test_who_may_consent(remote: App, served: Served) -> None:
    """
    Only who has logged in with a token of the file, on our own page: no stranger, no app, no form of another page, no
    frame, no login that ends with the server. A grant has no more than its token.
    """
    tokens = served.tokens
    for method in ("GET", "POST"):
        answer = remote.http.request(method, remote.query())
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/login")
        answer = remote.http.request(method, remote.query(), headers={"authorization": f"Bearer {remote.token}"})
        assert answer.status_code == 303
    to = parse_qs(urlsplit(remote.http.get(remote.query()).headers["location"]).query)["to"]
    assert to == [remote.query()]
    pair = remote.connect(BOTH, write="yes")
    for wrong in ("", "wrong", remote.token + "x", pair["access_token"], pair["refresh_token"]):
        assert remote.http.post("/login", data={"token": wrong}).status_code == 401, wrong
    for ends in (tokens.lend(), tokens.link()):
        person = App(remote.http, ends)
        assert (person.page().status_code, person.consent().status_code) == (303, 303)
    csrf = tokens.csrf(remote.browser["cookie"].partition("=")[2])
    page = remote.page().text
    assert csrf in page
    assert 'type="password"' not in page
    for form, origin, code in (
        ({"csrf": ""}, ISSUER, 200),
        ({"csrf": tokens.csrf("x")}, ISSUER, 200),
        ({"csrf": "\ud800"}, ISSUER, 200),
        ({"answer": "maybe"}, ISSUER, 200),
        ({}, "https://evil.example", 403),
        ({}, "null", 403),
        ({}, ISSUER, 302),
    ):
        sent = urlencode({"csrf": csrf, "answer": "yes", **form}, errors="surrogatepass")
        answer = remote.http.post(remote.query(), content=sent, headers={**remote.browser, "origin": origin})
        assert answer.status_code == code, (form, origin)
    assert answered(remote.consent(answer="no"))["error"] == "access_denied"
    # A page without a referrer has no origin.
    assert remote.consent("", {"origin": "null", "sec-fetch-site": "same-origin"}).status_code == 302
    reader, team = App(remote.http, tokens.add("reader", "read")), App(remote.http, tokens.add("team", "read", "team"))
    for limited in (reader, team):
        assert 'name="write"' not in limited.page(limited.query(scope=BOTH)).text
        assert limited.connect(BOTH, write="yes")["scope"] == READ
    sees = {each.by: (each.may, each.sees) for each in served.grants.all()}
    assert sees == {"me": ("read", "private"), "reader": ("read", "private"), "team": ("read", "team")}
    frame = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
    assert remote.page(**frame).status_code == 403
    link = {**frame, "sec-fetch-dest": "document"}
    assert 'http-equiv="refresh"' in remote.http.get(remote.query(), headers=link).text


def test_what_a_person_may_allow(remote: App) -> None:
    """Writing may be ticked for an app that asks for it or for no scope at all, and never for one that asks to read."""
    for scope, is_offered in (
        (BOTH, True),
        ("vault:write", True),
        (None, True),
        (" offline_access", True),
        (READ, False),
    ):
        asked = remote.query(scope=scope)
        assert ('name="write"' in remote.page(asked).text) is is_offered, scope
        assert "checked" not in remote.page(asked).text
        for ticked, right in (({}, READ), ({"write": "yes"}, BOTH if is_offered else READ)):
            assert remote.exchange(remote.code(asked, **ticked)).json()["scope"] == right, (scope, ticked)


def test_what_a_code_and_a_refresh_token_are_good_for(remote: App) -> None:
    """A code: once, for its app, redirect, verifier and resource. A refresh token: its app and no more scope."""
    code = remote.code()
    for error, changed in (
        ("invalid_client", {"client_id": "https://evil.example/client.json"}),
        ("invalid_client", {"client_id": None}),
        ("invalid_grant", {"client_id": CODE}),
        ("invalid_grant", {"redirect_uri": None}),
        ("invalid_grant", {"redirect_uri": CALLBACK + "?"}),
        ("invalid_grant", {"redirect_uri": CALLBACK.replace("claude.ai", "claude.com")}),
        ("invalid_grant", {"code_verifier": "w" * 50}),
        ("invalid_request", {"code_verifier": None}),
        ("invalid_target", {"resource": "https://evil.example/mcp"}),
        ("invalid_grant", {"code": code + "x"}),
        ("invalid_request", {"grant_type": "password"}),
        ("invalid_request", {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}),
    ):
        answer = remote.exchange(code, **changed)
        assert (answer.json()["error"], answer.status_code) == (error, 401 if error == "invalid_client" else 400), (
            changed
        )
    own = f"client_id={CLAUDE}&grant_type=authorization_code&redirect_uri={CALLBACK}&code={code}"
    sent = f"{own}&code_verifier=wrong&code_verifier={'v' * 50}"
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert remote.http.post("/token", content=sent, headers=form).status_code == 400
    assert remote.http.post("/token", json={"code": code}).status_code == 400
    assert remote.http.post("/token", content=b"\xff=%ff", headers=form).status_code in {400, 401}
    assert remote.http.get("/token").status_code == 405
    pair = remote.exchange(code).json()
    assert remote.refresh(pair["access_token"]).json()["error"] == "invalid_grant"
    assert remote.refresh(pair["refresh_token"], client_id=CODE).json()["error"] == "invalid_grant"
    assert remote.refresh(pair["refresh_token"], scope=BOTH).json()["error"] == "invalid_scope"
    assert remote.refresh(pair["refresh_token"], resource=EVIL).json()["error"] == "invalid_target"
    assert remote.exchange(code, code_verifier="w" * 50).json()["error"] == "invalid_grant"
    assert remote.call(pair["access_token"]).status_code == 401  # a code that came twice ended its grant
    assert remote.refresh(pair["refresh_token"]).json()["error"] == "invalid_grant"
    both = remote.connect(BOTH, write="yes")
    less = remote.refresh(both["refresh_token"], scope=f" {READ} offline_access").json()
    assert less["scope"] == READ
    assert remote.refresh(less["refresh_token"]).json()["scope"] == BOTH


def test_what_an_access_token_opens(remote: App) -> None:
    """
    MCP, by its header alone: no page, no API, no login, no address. With vault:read a tool that writes is refused with
    the scope that it needs; a forged Host or a proxy's header lets nobody in without a token.
    """
    token = remote.connect()["access_token"]
    bearer = {"authorization": f"Bearer {token}"}
    assert remote.call(token).status_code == 400  # the SDK misses a session
    for path in ("/api/search?query=x", "/api/status", "/admin/links", "/", "/settings", "/api/tokens"):
        assert remote.http.get(path, headers={**bearer, "accept": "application/json"}).status_code == 401, path
    assert remote.http.post("/login", data={"token": token}).status_code == 401
    assert remote.http.post(f"/mcp?token={token}&access_token={token}", json={}).status_code == 401
    assert remote.http.post("/mcp", json={}, headers={"cookie": f"spellbook={token}"}).status_code == 401
    writing = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "remember", "arguments": {}}}
    for message in (writing, [writing]):
        answer = remote.call(token, message)  # type: ignore[arg-type]
        assert answer.status_code == 403
        way = answer.headers["www-authenticate"]
        assert 'error="insufficient_scope"' in way
        assert f'scope="{BOTH}"' in way
        assert f'resource_metadata="{ISSUER}/.well-known/oauth-protected-resource/mcp"' in way
    writer = remote.connect(BOTH, write="yes")["access_token"]
    assert remote.call(writer, writing).status_code == 400
    old = {"authorization": f"Bearer {remote.token}"}
    assert remote.http.get("/api/status", headers=old).status_code == 200  # a token in a header, as before
    for headers in (
        {"host": "127.0.0.1:17950"},
        {"host": "localhost"},
        {"host": HOST, "x-forwarded-for": "127.0.0.1"},
        {"host": HOST, "x-forwarded-host": "localhost", "forwarded": "for=127.0.0.1;host=localhost"},
    ):
        assert remote.http.post("/mcp", json={}, headers=headers).status_code == 401, headers
        document = remote.http.get("/.well-known/oauth-authorization-server", headers=headers).json()
        assert document["issuer"] == ISSUER
    assert remote.http.post("/mcp", json={}, headers={"host": "evil.example"}).status_code == 421


def test_registering(remote: App, served: Served) -> None:
    """
    An app registers redirects of known apps and of this machine, with a secret if it asks for one, by form or header.

    Secrets are hashes on disk. Fifty are kept, and none that has a grant is forgotten; one address gets 20 a minute.
    """
    loopback = "http://127.0.0.1:4711/oauth/callback"
    wrong: tuple[object, ...] = (
        [EVIL],
        [loopback, EVIL],
        [],
        "x",
        None,
        ["http://127.0.0.1:4711/x"],
        [loopback] * 11,
        ["\ud800"],
        [{}],
    )
    for uris in wrong:
        answer = remote.http.post("/register", content=json.dumps({"redirect_uris": uris}))
        assert answer.status_code == 400, uris
        assert answer.json()["error"] in {"invalid_redirect_uri", "invalid_client_metadata"}
    for body in (b"", b"[]", b"{", b"[" * 4_000, b"\xff"):
        assert remote.http.post("/register", content=body).status_code == 400
    assert remote.http.post("/register", content=b"x" * 33_000).status_code == 413
    about = {"redirect_uris": [loopback], "client_name": "mcp\u202e-remote<b>", "scope": "vault:admin"}
    public = remote.http.post("/register", json=about)
    assert public.status_code == 201
    assert public.json().keys().isdisjoint({"client_secret", "client_secret_expires_at"})
    secret = remote.http.post("/register", json={**about, "token_endpoint_auth_method": "client_secret_basic"}).json()
    assert secret["client_secret_expires_at"] == 0
    app = App(remote.http, remote.token, secret["client_id"], "http://127.0.0.1:5/oauth/callback")
    page = app.page().text
    assert "<b>127.0.0.1</b>" in page
    assert "\u202e" not in page
    code = app.code()
    assert app.exchange(code).json()["error"] == "invalid_client"
    assert app.exchange(code, client_secret="wrong").status_code == 401
    both = base64.b64encode(f"{app.id}:{secret['client_secret']}".encode()).decode()
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": app.redirect, "code_verifier": "v" * 50}
    answer = remote.http.post("/token", data=form, headers={"authorization": f"Basic {both}"})
    assert answer.status_code == 200, answer.text
    kept = served.grants.file.read_text("utf-8")
    assert secret["client_secret"] not in kept
    assert answer.json()["refresh_token"] not in kept
    assert answer.json()["access_token"] not in kept
    statuses = [remote.http.post("/register", json=about).status_code for _ in range(12)]
    assert statuses[-1] == 429
    assert app.refresh(answer.json()["refresh_token"], client_secret=secret["client_secret"]).status_code == 200


def test_a_grant_below_the_token_of_the_environment(tmp_path: Path) -> None:
    """It is listed wherever the variable is set or not, and lets an app in only where the token is the same as then."""
    own = {"SPELLBOOK_TOKEN": "a long word that nobody guesses"}
    there, gone, other = (
        Grants(Tokens(tmp_path / "tokens.json", environment))
        for environment in (own, {}, {"SPELLBOOK_TOKEN": "another long word of the same"})
    )
    tokens = Tokens(tmp_path / "tokens.json", own)
    made = there.begin(CLAUDE, "Claude", tokens.all()[0], "write")
    access, refresh = there.renew(made.id, "write")
    assert may_of(there.caller(access)) == "write"
    for grants in (gone, other):
        assert [each.name for each in grants.all()] == [made.name]
        assert grants.caller(access) is None
        assert grants.refreshed_by(refresh) is None
        with pytest.raises(KeyError):
            grants.renew(made.id, "write")


def test_a_damaged_file_of_grants(remote: App, served: Served) -> None:
    """It lets no app in, and tells no stranger where it lies; tokens work, and can be removed, as before."""
    access = remote.connect()["access_token"]
    served.grants.file.write_text("{", "utf-8")
    for answer in (
        remote.http.post("/register", json={"redirect_uris": [CALLBACK]}),
        remote.refresh("spr_x"),
        remote.call(access),
        remote.call("spa_x"),
    ):
        assert answer.status_code == 500
        assert "grants.json" not in answer.text
    bearer = {"authorization": f"Bearer {remote.token}"}
    assert remote.http.get("/api/status", headers=bearer).status_code == 200
    assert served.grants.remove("me").name == "me"
    assert remote.http.get("/api/status", headers=bearer).status_code == 401


def test_strangers_do_not_lock_the_owner_out(remote: App, served: Served) -> None:
    """
    Wrong tokens are slowed, by address and in all, on the page too; a token that nobody can guess is let in meanwhile, by
    header and on the page. An app that logs out ends its grant, Settings ends one, and a token that is removed all of its.
    """
    pair = remote.connect()
    statuses = [remote.http.post("/login", data={"token": f"guess {number}"}).status_code for number in range(12)]
    assert (statuses[0], statuses[-1]) == (401, 429)
    assert remote.http.post("/login", data={"token": remote.token}).status_code == 303
    assert remote.http.get("/api/status", headers={"authorization": "Bearer guess"}).status_code == 429
    assert remote.http.get("/api/status", headers={"authorization": f"Bearer {remote.token}"}).status_code == 200
    assert remote.consent().status_code == 302
    assert remote.call(pair["access_token"]).status_code == 400
    assert remote.call("spa_" + "x" * 43).status_code == 401
    revoke = {"token": pair["refresh_token"], "client_id": CODE}
    assert remote.http.post("/revoke", data=revoke).status_code == 200
    assert remote.call(pair["access_token"]).status_code == 400  # another app's
    assert remote.http.post("/revoke", data={**revoke, "client_id": CLAUDE}).status_code == 200
    assert remote.call(pair["access_token"]).status_code == 401
    tokens = served.tokens
    admin = App(remote.http, tokens.add("admin", "admin"))
    access = admin.connect()["access_token"]
    cookie = tokens.cookie(admin.token) or ""
    jar = {"cookie": f"spellbook={cookie}", "accept": "text/html", "origin": ISSUER}
    [grant] = [each for each in served.grants.all() if each.by == "admin"]
    assert grant.name in shown(remote.http.get("/settings", headers=jar).text)
    gone = {"csrf": tokens.csrf(cookie), "name": grant.name, "to": "/settings"}
    assert remote.http.post("/do/revoke", data=gone, headers=jar).status_code == 303
    assert remote.call(access).status_code == 401
    second = App(remote.http, tokens.add("second"))
    access = second.connect()["access_token"]
    code = second.code()
    tokens.remove("second")
    assert remote.call(access).status_code == 401
    assert second.exchange(code).json()["error"] == "invalid_grant"
    tokens.add("second")
    assert remote.call(access).status_code == 401
