"""Health, decisions and activity in a real browser: what a script adds, and what axe finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..running import Server
from .conftest import IN_BROWSER

pytestmark = list(IN_BROWSER)

PLACES = ("/upkeep", "/links", "/decisions", "/activity", "/articles", "/history/projects/배포", "/nowhere")


def test_health_looks_for_links_by_itself(
    tab: Any, serving: Callable[..., Server], full: dict[str, str], write_note: Callable[..., Path]
) -> None:
    """The page comes first, its links follow; one press leaves out all that begin alike, and another takes it back."""
    write_note("site.md", "[a](/reference/r1) [b](/reference/r2) [c](/reference/r3)")
    page = tab(locale="ko-KR", viewport={"width": 360, "height": 800})
    page.goto(serving().url + "/upkeep")
    row = page.locator("li", has_text="/reference/ 아래로 가는 끊어진 링크 3개")
    row.get_by_role("button", name="검사하지 않기").click()
    page.get_by_text("검사하지 않는 링크:").wait_for()
    assert row.count() == 0
    page.get_by_role("button", name="다시 검사하기").click()
    row.wait_for()


def test_what_was_made_is_accessible_and_fits(tab: Any, serving: Callable[..., Server], full: dict[str, str]) -> None:
    """axe finds nothing on full pages, wide and at 360 px, in light and dark."""
    from axe_playwright_python.sync_playwright import Axe

    server = serving("--toolsets", "core,decisions,articles")
    for locale, scheme, width in (("ko-KR", "light", 1280), ("en-US", "dark", 360)):
        look = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}}
        page = tab(locale=locale, bypass_csp=True, expecting="404", **look)
        for place in PLACES:
            page.goto(server.url + place)
            page.wait_for_load_state("networkidle")
            for details in page.locator("details").all():
                details.evaluate("each => { each.open = true; }")
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (place, width)
            found = Axe().run(page).response["violations"]
            assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == [], place


def test_empty_pages_are_accessible(tab: Any, serving: Callable[..., Server]) -> None:
    """In a vault without a note."""
    from axe_playwright_python.sync_playwright import Axe

    server = serving()
    page = tab(locale="ko-KR", color_scheme="dark", viewport={"width": 360, "height": 800}, bypass_csp=True)
    for place in ("/decisions", "/articles", "/activity", "/upkeep"):
        page.goto(server.url + place)
        page.wait_for_load_state("networkidle")
        assert page.locator("section.empty").count() == 1, place
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, place
        found = Axe().run(page).response["violations"]
        assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == [], place
