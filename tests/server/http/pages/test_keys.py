"""Search by the keyboard, in a real browser: the dialog of every page, moving through hits, and the list of keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from spellbook.library.book import Spellbook

from ..running import Server
from .conftest import IN_BROWSER

pytestmark = list(IN_BROWSER)


def test_search_by_the_keyboard(
    tab: Any, serving: Callable[..., Server], full: dict[str, str], vault: Path, book: Spellbook
) -> None:
    """From any page: ask, move, open; more hits go on where one was; questions are remembered here alone."""
    for number in range(14):
        (vault / f"{number}.md").write_text(f"# Day {number}\n\nThe lighthouse blinks, {number} times.\n", "utf-8")
    book.reindex()
    server = serving("--toolsets", "core")
    page = tab(locale="en-US", viewport={"width": 1280, "height": 800})

    def focus() -> str:
        return str(page.evaluate("document.activeElement.getAttribute('href') ?? document.activeElement.id"))

    page.goto(server.url + "/settings")
    page.keyboard.press("?")
    page.locator("#keys[open]").get_by_text("Search from anywhere").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    page.locator("#palette[open]").wait_for()
    page.keyboard.type("Rollback?n/")  # keys are letters where one types
    page.locator("#ask").fill("rollback")
    page.locator("[data-question=rollback] [data-hit]").first.wait_for()
    assert page.locator("#found mark").count()
    assert focus() == "ask"
    page.keyboard.press("ArrowDown")
    assert focus().startswith("/note/")
    page.keyboard.press("ArrowUp")
    assert focus() == "ask"
    page.keyboard.press("Enter")  # the first hit
    page.wait_for_url("**/note/**")

    page.keyboard.press("Control+k")
    page.locator("#palette [data-recent] a", has_text="rollback").wait_for()
    page.locator("#ask").fill("lighthouse")
    page.locator("[data-question=lighthouse]").wait_for()
    page.locator("#found").get_by_role("link", name="All hits for").click()
    page.wait_for_url("**/search?q=lighthouse")
    assert focus() == "q"
    for _ in range(11):
        page.keyboard.press("ArrowDown")
    assert "offset=10" in focus()
    page.keyboard.press("Enter")
    page.locator(".hit").nth(13).wait_for()
    page.wait_for_function("document.activeElement.matches('.hit:nth-of-type(11) [data-hit]')")
    page.keyboard.press("ArrowUp")
    tenth = page.locator(".hit h2 a").nth(9).get_attribute("href")
    assert focus() == tenth
    page.keyboard.press("Control+k")  # where there is a box, it is the box
    assert focus() == "q"

    page.goto(server.url + "/search")
    recent = page.locator("main [data-recent] a")
    assert recent.all_text_contents() == ["lighthouse", "rollback"]
    assert recent.first.get_attribute("href") == "/search?q=lighthouse"
    page.get_by_role("button", name="Forget them").click()
    page.locator("main [data-recent]").wait_for(state="hidden")
    assert page.evaluate("JSON.parse(localStorage['spellbook.questions'])") == []


def test_hostile_questions_and_titles_stay_text(
    tab: Any, serving: Callable[..., Server], full: dict[str, str], vault: Path, book: Spellbook
) -> None:
    """What was asked, and what a title says, are shown as text, in the dialog and among recent questions."""
    hostile = "<img src=x onerror=document.title='owned'> lighthouse"
    (vault / "evil.md").write_text(f'---\ntitle: "{hostile}"\n---\nThe lighthouse.\n', "utf-8")
    book.reindex()
    server = serving("--toolsets", "core")
    page = tab(locale="ko-KR", color_scheme="dark", viewport={"width": 360, "height": 800}, bypass_csp=True)
    page.goto(server.url + "/settings")
    page.evaluate("localStorage['spellbook.questions'] = 'no JSON'")
    page.keyboard.press("Control+k")
    page.locator("#ask").fill(hostile)
    page.locator("#found [data-question]").wait_for()
    page.locator("#found p a, #found p").first.wait_for()
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []
    page.keyboard.press("Escape")
    page.goto(server.url + "/search?q=" + "%3Cimg src=x onerror=document.title='owned'%3E")
    page.goto(server.url + "/search")
    page.locator("main [data-recent] a", has_text="<img").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("img[onerror]").count() == 0
    assert page.title() != "owned"
    page.locator("#q").blur()
    page.keyboard.press("?")
    page.locator("#keys[open]").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    found = Axe().run(page).response["violations"]
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []
