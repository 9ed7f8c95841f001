"""Who logs in, and that no other page can use what a browser keeps."""

from __future__ import annotations

import time

from spellbook.http.guard import COOKIE
from spellbook.http.tokens import COOKIE_SECONDS

from ..running import code

NOTE = "projects/배포"


def test_a_person_logs_in_and_out(guarded, full, served):
    """
    A page asked for leads to the login and back; the cookie is for this server and no script; logout ends it.

    Whoever kept a copy of it is not let in; another login with the same token still is. An address that is too long
    for the login leads to the first page.
    """
    secret = served.tokens.add("me", "admin")
    page = guarded.open(f"/note/{NOTE}?part=1")
    form = guarded.form(page, "/login")
    assert form["to"] in {"/note/projects/%EB%B0%B0%ED%8F%AC?part=1", f"/note/{NOTE}?part=1"}
    assert "The token is wrong." in guarded.send("/login", 401, **{**form, "token": "sb_wrong"}).text
    answer = guarded.client.post("/login", data={**form, "token": secret}, follow_redirects=False)
    cookie = answer.headers["set-cookie"].lower()
    assert all(each in cookie for each in ("httponly", "samesite=strict", "path=/", f"max-age={COOKIE_SECONDS}"))
    assert secret.lower() not in cookie
    page = guarded.open(answer.headers["location"])
    assert ("배포합니다" in page, secret in page) == (True, False)
    kept = {"cookie": f"{COOKIE}={guarded.client.cookies[COOKIE]}"}
    other = {"cookie": f"{COOKIE}={served.tokens.cookie(secret)}"}
    guarded.send("/logout", **guarded.form(page, "/logout"))
    assert COOKIE not in guarded.client.cookies
    assert "Log in" in guarded.open("/")
    assert [guarded.client.get("/api/jobs", headers=each).status_code for each in (kept, other)] == [401, 200]
    for letters, expected in {100: "/login?to=", 60_000: "/login"}.items():
        answer = guarded.client.get("/search", params={"q": "a" * letters}, follow_redirects=False)
        assert answer.headers["location"].startswith(expected)
        assert guarded.client.get(answer.headers["location"]).status_code == 200


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


def test_what_a_cookie_may_do(guarded, full, served):
    """
    It reads; alone it changes nothing: a page's form sends what only our pages know, a script our header.

    A strict cookie does not come with a link from elsewhere, so the page asks again by itself.
    """
    guarded.send("/login", token=served.tokens.add("me", "admin"))
    csrf = guarded.form(guarded.open("/"), "/logout")["csrf"]
    for wrong in ({}, {"csrf": ""}, {"csrf": "0" * 64}, {"csrf": csrf[:-1]}, {"csrf": "é"}):
        assert "not from a page of this server" in guarded.send("/do/pin", 403, id=NOTE, pinned="true", **wrong).text
        assert guarded.send("/logout", 403, **wrong)
    guarded.send("/do/pin", id=NOTE, pinned="true", csrf=csrf, to="/")
    assert code(guarded.client.delete("/api/jobs/x")) == (403, "PERMISSION_DENIED")
    assert code(guarded.client.delete("/api/jobs/x", headers={"x-spellbook": "1"})) == (404, "MEMORY_NOT_FOUND")
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert guarded.client.get("/", headers=link).status_code == 200
    guarded.client.cookies.clear()
    answer = guarded.client.get("/search?q=x", headers=link)
    assert (answer.status_code, 'http-equiv="refresh"' in answer.text) == (401, True)
    guarded.send("/login", token=served.tokens.add("other", "admin"))
    guarded.send("/do/pin", 403, id=NOTE, pinned="true", csrf=csrf)


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
