"""Settings that set; who logs in; and that no other page can use what a browser keeps."""

from __future__ import annotations

import re
import time
from typing import Literal

import pytest

from spellbook.capture.ledger import Ledger
from spellbook.http.guard import COOKIE, AccessRules
from spellbook.http.served import Served
from spellbook.http.tokens import COOKIE_SECONDS, May
from spellbook.library.book import Spellbook

from ..running import asked, code, may_of, shows
from .conftest import Browser


def test_tokens_are_made_and_revoked(
    guarded: Browser, served: Served, full: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    By an admin alone: one is shown once, and is refused as soon as it is revoked.

    A cookie that ended is taken away and leads to the login, so that opening pages with it is no attack; a script of
    the page goes there, too. After a login or an action, an address of another server is not followed, however it is
    written.
    """
    guarded.send("/login", token=served.tokens.add("owner", "admin"))
    page = guarded.open("/settings")
    assert "owner" in page
    form = guarded.form(page, "/do/token")
    page = guarded.send("/do/token", **form | {"name": "tablet", "may": "read"}).text
    [secret] = re.findall(r'<pre id="made"[^>]*>(spb_[\w-]+)</pre>', page)
    assert may_of(served.tokens.caller(secret)) == "read"
    assert secret not in guarded.open("/settings")
    for wrong in ({"name": "tablet"}, {"name": "<b>"}, {"name": ""}, {"name": "x", "may": "all"}):
        guarded.send("/do/token", 400, **form | {"may": "read"} | wrong)
    page = guarded.press(guarded.open("/settings"), "/do/revoke", "Revoke tablet")
    assert "tablet" not in page
    assert served.tokens.caller(secret) is None
    guarded.client.cookies.clear()
    guarded.send("/login", token=served.tokens.add("writer", "write"))
    page = guarded.open("/settings")
    assert "need an admin token" in page
    csrf = guarded.form(page, "/logout")["csrf"]
    for action in ("/do/token", "/do/revoke", "/do/capture"):
        assert f'action="{action}"' not in page
        guarded.send(action, 403, csrf=csrf, name="owner", may="admin", on="yes")
    assert {each.name for each in served.tokens.all()} == {"owner", "writer"}
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
    secret = served.tokens.add("you")
    guarded.send("/login", token=secret)
    pin = {"id": NOTE, "pinned": "true", "csrf": guarded.form(guarded.open("/"), "/logout")["csrf"]}

    def leads(path: str, **fields: str) -> str:
        return str(guarded.client.post(path, data=fields, follow_redirects=False).headers["location"])

    elsewhere = (
        *("https://evil.test/", "//evil.test", "///evil.test", "////evil.test", "/\\evil.test", "\\\\evil.test"),
        *("http:evil", "http:/x", "\nhttps://x", "javascript:1", "\x00/", "/\t/evil.test", "\t//evil.test"),
        *("/\n/evil.test", "/a\\..\\..//evil.test", "a", " //a", ""),
    )
    for to in elsewhere:
        assert leads("/do/pin", **pin, to=to).startswith("/?done="), to
    assert {leads("/login", token=secret, to=to) for to in elsewhere} == {"/"}
    for to in ("/note/a?part=1#s-b", "/search?q=https://evil.test//x", "/note/a//b", "/%2F%2Fevil.test"):
        assert leads("/login", token=secret, to=to) == to


def test_the_first_token_logs_this_browser_in(browser: Browser, served: Served) -> None:
    """Where none was needed until now, the page goes on, and only others must log in."""
    page = browser.open("/settings")
    shows(page, "programs on this computer need none", '<option value="admin" selected>')
    browser.send("/do/token", name="me", may="admin")
    assert COOKIE in browser.client.cookies
    page = browser.open("/settings")
    shows(page, "Log out", '<option value="write" selected>')
    browser.client.cookies.clear()
    assert "Log in" in browser.open("/")


def test_capture_is_switched(browser: Browser, book: Spellbook, served: Served, guarded: Browser) -> None:
    """
    As `spellbook capture on` and `off` do, with words for what it does. What is kept of it is as closed as the vault.

    A phone is locked out: revoked, its token opens nothing, its browser is logged out, and the code is gone. Language
    and colours are kept for a year, also for the login, and go by the browser again; other values change nothing.
    """
    ledger = Ledger(str(book.config.vault))
    book.config.vault.chmod(0o700)
    for on, label in ((True, "Switch it on"), (False, "Switch it off")):
        page = browser.open("/settings")
        assert "without secrets" in page
        form = browser.form(page, "/do/capture", label)
        browser.send("/do/capture", **form)
        assert ledger.switch().is_on is on
    assert not ledger.folder.stat().st_mode & 0o077
    secret = served.tokens.lend()
    served.phone = f"http://192.168.0.7:17950/login#{secret}"
    cookie = served.tokens.cookie(secret) or ""
    assert may_of(served.tokens.caller("", cookie)) == "write"
    page = browser.open("/settings")
    page = browser.press(page, "/do/revoke", "Revoke phone")
    assert 'class="segno"' not in page
    assert served.tokens.caller(secret) is served.tokens.caller("", cookie) is None
    assert 'lang="en">' in browser.open("/")
    page = browser.send("/look", lang="ko").text
    shows(page, "<h1>설정", 'value="ko" aria-pressed="true"')
    page = browser.send("/look", theme="dark").text
    assert '<html lang="ko" data-theme="dark">' in page
    assert '<html lang="ko" data-theme="dark">' in browser.open("/login")
    browser.send("/look", lang="한국어", theme="\r\nx; Path=/a")
    assert '<html lang="en">' in browser.open("/")
    browser.send("/look", lang="ko")
    assert '<html lang="en">' in browser.send("/look", lang="").text
    guarded.send("/login", token=served.tokens.add("reader", "read", "public"))
    csrf = guarded.form(guarded.open("/"), "/logout")["csrf"]
    assert "<h1>설정" in guarded.send("/look", lang="ko", csrf=csrf).text
    guarded.send("/look", 403, lang="en")


@pytest.mark.parametrize(("may", "shows"), [("admin", True), ("write", False), ("phone", True), ("read", False)])
def test_the_code_for_a_phone(served: Served, may: May | Literal["phone"], shows: bool) -> None:
    """An admin and the phone itself see the code, none who may less by its name; else Settings tell the command."""
    with asked(served, AccessRules(is_local=False)) as client:
        browser = Browser(client)
        secret = served.tokens.lend() if may == "phone" else served.tokens.add("phone" if may == "read" else "me", may)
        browser.send("/login", token=secret)
        assert "spellbook serve --phone" in browser.open("/settings")
        served.phone = "http://192.168.0.7:17950/login#spb_x"
        page = browser.open("/settings")
        assert ('class="segno"' in page) is shows
        assert not re.search(r"<svg[^>]* style=|spb_x", page)


NOTE = "projects/배포"


def test_a_person_logs_in_and_out(guarded: Browser, full: dict[str, str], served: Served) -> None:
    """
    A page asked for leads to the login and back; the cookie is for this server and no script; logout ends it.

    Whoever kept a copy of it is not let in; another login with the same token still is. An address that is too long for
    the login leads to the first page. A cookie reads; alone it changes nothing: a page's form sends what only our pages
    know, a script our header. A strict cookie does not come with a link from elsewhere, so the page asks again by
    itself.
    """
    secret = served.tokens.add("me", "admin")
    page = guarded.open(f"/note/{NOTE}?part=1")
    form = guarded.form(page, "/login")
    assert form["to"] in {"/note/projects/%EB%B0%B0%ED%8F%AC?part=1", f"/note/{NOTE}?part=1"}
    assert (
        "The token is wrong, or its link was opened before."
        in guarded.send("/login", 401, **{**form, "token": "sb_wrong"}).text
    )
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
    guarded.send("/login", token=served.tokens.add("you", "admin"))
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
