"""Settings that set: language, colours, tokens, capture; and which programs are connected."""

from __future__ import annotations

import re

import pytest

from spellbook.capture.ledger import Ledger
from spellbook.http.guard import COOKIE, AccessRules

from ..running import asked
from .conftest import Browser


def test_language_and_colours_are_chosen_in_a_browser(browser, guarded, served):
    """Both are kept for a year, also for the login, and go by the browser again; other values change nothing."""
    assert 'lang="en">' in browser.open("/")
    page = browser.send("/look", lang="ko").text
    assert "<h1>설정" in page
    assert 'value="ko" aria-pressed="true"' in page
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


def test_tokens_are_made_and_revoked(guarded, served):
    """By an admin alone: one is shown once, and is refused as soon as it is revoked."""
    guarded.send("/login", token=served.tokens.add("owner", "admin"))
    page = guarded.open("/settings")
    assert "owner" in page
    form = guarded.form(page, "/do/token")
    page = guarded.send("/do/token", **form | {"name": "tablet", "may": "read"}).text
    [secret] = re.findall(r'<pre id="made"[^>]*>(spb_[\w-]+)</pre>', page)
    assert served.tokens.caller(secret).may == "read"
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


def test_the_first_token_logs_this_browser_in(browser, served):
    """Where none was needed until now, the page goes on, and only others must log in."""
    page = browser.open("/settings")
    assert "programs on this computer need none" in page
    assert '<option value="admin" selected>' in page
    browser.send("/do/token", name="me", may="admin")
    assert COOKIE in browser.client.cookies
    page = browser.open("/settings")
    assert "Log out" in page
    assert '<option value="write" selected>' in page
    browser.client.cookies.clear()
    assert "Log in" in browser.open("/")


def test_capture_is_switched(browser, book):
    """As `spellbook capture on` and `off` do, with words for what it does."""
    ledger = Ledger(str(book.config.vault))
    for on, label in ((True, "Switch it on"), (False, "Switch it off")):
        page = browser.open("/settings")
        assert "without secrets" in page
        form = browser.form(page, "/do/capture", label)
        browser.send("/do/capture", **form)
        assert ledger.switch["on"] is on


@pytest.mark.parametrize(("may", "shows"), [("admin", True), ("write", False), ("phone", True), ("read", False)])
def test_the_code_for_a_phone(served, may, shows):
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


def test_a_phone_is_locked_out(browser, served):
    """Revoked, its token opens nothing, its browser is logged out, and the code is gone."""
    secret = served.tokens.lend()
    served.phone = f"http://192.168.0.7:17950/login#{secret}"
    cookie = served.tokens.cookie(secret)
    assert served.tokens.caller_by_cookie(cookie).may == "write"
    page = browser.open("/settings")
    page = browser.press(page, "/do/revoke", "Revoke phone")
    assert 'class="segno"' not in page
    assert served.tokens.caller(secret) is served.tokens.caller_by_cookie(cookie) is None
