"""The page on which an app is let in, in a real browser: on a phone, in both languages, without a script."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from httpx2 import Client

from spellbook.http.tokens import Tokens
from tests.http.running import Serving

from ..oauth.remote import BOTH, CALLBACK, ISSUER, App
from .conftest import IN_BROWSER
from .test_browser import PHONE, SMALL

pytestmark = list(IN_BROWSER)
ELSEWHERE = "http://other.test/"


@pytest.mark.parametrize(
    ("language", "connect", "write"), [("en-US", "Connect", "add, change"), ("ko-KR", "연결", "고치고 지울")]
)
def test_an_app_is_connected_on_a_phone(
    tab: Callable[..., Any], serving: Serving, vault: Path, language: str, connect: str, write: str
) -> None:
    """
    360 px wide, fingers find everything, axe finds nothing, in light and dark; no script is on the page.

    Who has not logged in does so first, also after a mistake, and comes back. "Yes" leads to the app with a code, which
    the policy of the page allows for that app alone; "No" with an error. A browser that has logged in, and comes from a
    page of the app in a window of its own, sees the page at once, and the app still holds the window.
    """
    from axe_playwright_python.sync_playwright import Axe

    token = Tokens.of(vault).add("me")
    cookie = Tokens.of(vault).cookie(token)
    server = serving("--public-url", ISSUER)
    place = server.url + App(Client(), "").query(scope=BOTH)
    page: Any = tab(locale=language, bypass_csp=False, expecting="401", **PHONE)
    back: list[str] = []

    def lead(route: Any) -> None:
        back.append(route.request.url)
        route.fulfill(status=200, content_type="text/html", body="<title>app</title>done")

    page.context.route(f"{CALLBACK}**", lead)
    page.route(
        ELSEWHERE,
        lambda route: route.fulfill(
            content_type="text/html", body=f'<a href="{place}" target="_blank" rel="opener">go</a>'
        ),
    )

    def came() -> dict[str, str]:
        page.wait_for_url(f"{CALLBACK}**")
        return {name: value for name, [value] in parse_qs(urlsplit(back[-1]).query).items()}

    page.goto(place)
    page.locator("[name=token]").fill("wrong")
    page.locator("button.main").click()
    page.get_by_role("alert").wait_for()
    page.locator("[name=token]").fill(token)
    page.locator("button.main").click()
    page.get_by_role("button", name=connect, exact=True).wait_for()
    assert page.url == place
    assert page.locator("script").count() == 0
    assert page.locator("b").inner_text() == "claude.ai"
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate(SMALL) == []
    assert not page.get_by_role("checkbox", name=re.compile(write)).is_checked()
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name=connect, exact=True).click()
    given = came()
    assert given.keys() == {"code", "state", "iss"}
    page.goto(ELSEWHERE)
    with page.expect_popup() as opened:
        page.get_by_text("go").click()
    window = opened.value
    window.get_by_role("button", name=connect, exact=True).click()
    window.wait_for_url(f"{CALLBACK}**")
    assert window.evaluate("opener !== null")
    window.close()
    page.goto(place)
    page.get_by_role("button").nth(1).click()
    assert came()["error"] == "access_denied"
    looked = tab(locale=language, bypass_csp=True, expecting="400", **PHONE)
    looked.context.add_cookies([{"name": "spellbook", "value": cookie, "url": server.url}])
    for of in (place, server.url + App(Client(), "").query(client_id="x")):
        looked.goto(of)
        for scheme in ("light", "dark"):
            looked.emulate_media(color_scheme=scheme)
            found = Axe().run(looked, options={"resultTypes": ["violations"]}).response["violations"]
            assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []
