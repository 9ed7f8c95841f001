"""Who logs in, and that no other page can use what a browser keeps."""

from __future__ import annotations

import time

from spellbook.http.guard import COOKIE
from spellbook.http.tokens import COOKIE_SECONDS

NOTE = "projects/배포"


def test_a_person_logs_in_and_out(guarded, full, served):
    """A page asked for leads to the login and back; the cookie is for this server and no script; logout ends it."""
    secret = served.tokens.add("me", "admin")
    page = guarded.open(f"/note/{NOTE}?part=1")
    assert "Log in" in page
    form = guarded.form(page, "/login")
    assert form["to"] == "/note/projects/%EB%B0%B0%ED%8F%AC?part=1" or form["to"] == f"/note/{NOTE}?part=1"
    assert "The token is wrong." in guarded.send("/login", 401, **{**form, "token": "sb_wrong"}).text
    answer = guarded.client.post("/login", data={**form, "token": secret}, follow_redirects=False)
    cookie = answer.headers["set-cookie"].lower()
    assert all(each in cookie for each in ("httponly", "samesite=strict", "path=/", f"max-age={COOKIE_SECONDS}"))
    assert secret.lower() not in cookie
    page = guarded.open(answer.headers["location"])
    assert "배포합니다" in page
    assert secret not in page
    guarded.send("/logout", **guarded.form(page, "/logout"))
    assert COOKIE not in guarded.client.cookies
    assert "Log in" in guarded.open("/")


def test_ten_wrong_tokens_a_minute(guarded, served):
    """Then the right one is refused as well, from this address."""
    secret = served.tokens.add("me")
    for _ in range(10):
        guarded.send("/login", 401, token="sb_wrong")
    assert guarded.client.post("/login", data={"token": secret}).status_code == 429


def test_a_cookie_that_ended_leads_to_the_login(guarded, full, served, monkeypatch):
    """It is taken away, so that opening pages with it is no attack; a script of the page goes there, too."""
    guarded.send("/login", token=served.tokens.add("me"))
    assert "Newest notes" in guarded.open("/")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + COOKIE_SECONDS + 1)
    answer = guarded.client.get("/job", headers={"hx-request": "true"})
    assert (answer.status_code, answer.headers["hx-redirect"]) == (401, "/login")
    assert COOKIE not in guarded.client.cookies
    for _ in range(15):
        assert "Log in" in guarded.open("/search?q=x")
    monkeypatch.undo()
    guarded.send("/login", token=served.tokens.add("other"))
    served.tokens.remove("other")
    assert "Log in" in guarded.open("/")


def test_a_form_needs_what_only_our_pages_know(guarded, full, served):
    """A cookie alone changes nothing: not by a page's action, not by the API."""
    guarded.send("/login", token=served.tokens.add("me", "admin"))
    csrf = guarded.form(guarded.open("/"), "/logout")["csrf"]
    for wrong in ({}, {"csrf": ""}, {"csrf": "0" * 64}, {"csrf": csrf[:-1]}, {"csrf": "é"}):
        assert "not from a page of this server" in guarded.send("/do/pin", 403, id=NOTE, pinned="true", **wrong).text
        assert guarded.send("/logout", 403, **wrong)
    assert guarded.client.post("/api/undo", json={}).status_code == 403
    guarded.send("/do/pin", id=NOTE, pinned="true", csrf=csrf, to="/")
    guarded.client.cookies.clear()
    guarded.send("/login", token=served.tokens.add("other", "admin"))
    guarded.send("/do/pin", 403, id=NOTE, pinned="true", csrf=csrf)


def test_a_link_from_elsewhere_opens_a_page(guarded, served):
    """A strict cookie does not come with it, so the page asks again by itself; other pages are refused by the guard."""
    guarded.send("/login", token=served.tokens.add("me", "admin"))
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert guarded.client.get("/", headers=link).status_code == 200
    guarded.client.cookies.clear()
    answer = guarded.client.get("/search?q=x", headers=link)
    assert (answer.status_code, 'http-equiv="refresh"' in answer.text) == (401, True)


def test_a_logout_ends_the_cookie(guarded, served):
    """Whoever kept a copy of it is not let in; another login with the same token still is, and a stream ends."""
    secret = served.tokens.add("me", "admin")
    guarded.send("/login", token=secret)
    kept = {"cookie": f"{COOKIE}={guarded.client.cookies[COOKIE]}"}
    other = {"cookie": f"{COOKIE}={served.tokens.cookie(secret)}"}
    guarded.send("/logout", **guarded.form(guarded.open("/"), "/logout"))
    assert guarded.client.get("/api/jobs", headers=kept).status_code == 401
    assert guarded.client.get("/api/jobs", headers=other).status_code == 200
    guarded.send("/login", token=secret)
    assert "Nothing here yet" in guarded.open("/")


def test_where_a_form_leads_is_here(guarded, full, served):
    """After a login or an action, an address of another server is not followed, however it is written."""
    secret = served.tokens.add("me")
    guarded.send("/login", token=secret)
    action = {"id": NOTE, "pinned": "true", "csrf": guarded.form(guarded.open("/"), "/logout")["csrf"]}

    def leads(path: str, **fields: str) -> str:
        return str(guarded.client.post(path, data=fields, follow_redirects=False).headers["location"])

    elsewhere = (
        *("https://evil.test/", "//evil.test", "///evil.test", "////evil.test", "/\\evil.test", "\\\\evil.test"),
        *("http:evil", "http:/x", "\nhttps://x", "javascript:1", "\x00/", "/\t/evil.test", "\t//evil.test"),
        *("/\n/evil.test", "/a\\..\\..//evil.test", "a", " //a", ""),
    )
    for to in elsewhere:
        assert leads("/do/pin", **action, to=to).startswith("/?done="), to
    assert {leads("/login", token=secret, to=to) for to in elsewhere} == {"/"}
    for to in ("/note/a?part=1#s-b", "/search?q=https://evil.test//x", "/note/a//b", "/%2F%2Fevil.test"):
        assert leads("/login", token=secret, to=to) == to
