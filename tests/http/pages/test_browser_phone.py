"""A phone: a day's work by few taps, search from every page, and saves that a lost network does not lose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from spellbook.http.tokens import Tokens
from tests.helpers import note_writer, until

from .conftest import IN_BROWSER, Place

pytestmark = list(IN_BROWSER)
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}

LOST = {
    "en-US": ("Not saved. The text is kept on this device.", "Try again", "Not done: the server does not answer."),
    "ko-KR": (
        "저장하지 못했습니다. 글은 이 기기에 남아 있습니다.",
        "다시 시도",
        "처리하지 못했습니다. 서버가 응답하지 않습니다.",
    ),
}


@pytest.fixture
def memory(place: Place) -> Iterator[str]:
    """A note of an agent, by its id; it is gone afterwards."""
    text = "창고 열쇠는 화요일에 바꾼다. The key of the shed is changed on Tuesday."
    note_writer(place.vault)("memory/shed.md", text, id="shed", title="Shed", source="claude-code", trust="agent")
    until(lambda: httpx.get(f"{place.url}/api/notes/shed").status_code == 200)
    yield "shed"
    (place.vault / "memory/shed.md").unlink(missing_ok=True)


@pytest.mark.parametrize("language", LOST)
def test_a_day_by_eleven_taps(tab: Callable[..., Any], place: Place, memory: str, language: str) -> None:
    """
    Correct what an agent kept, undo it, look at its history, forget it, undo that, write a note, and search twice.

    The history says by words what changed, and nothing of it is cut at the edge.
    """
    page, taps = tab(locale=language, **PHONE), list[str]()

    def tap(target: Any) -> None:
        target.first.tap()
        taps.append(str(target))

    def press(action: str, within: Any = page) -> None:
        tap(within.locator(f'[action="{action}"] button:visible, [formaction="{action}"]'))

    def ask(question: str) -> None:
        press("/search", page.locator(".menu"))
        page.keyboard.type(question)
        found = page.locator(f'#found [data-question="{question}"] a').first.get_attribute("href")
        page.keyboard.press("Enter")
        page.wait_for_url(f"**{found}")  # a tab that is closed while it goes to a page may never close

    file = place.vault / "memory/shed.md"
    row = page.locator("main li", has=page.get_by_role("link", name="Shed", exact=True))
    page.goto(place.url)
    tap(row.locator(".acts a"))
    page.locator("textarea:focus").fill("창고 열쇠는 수요일에 바꾼다. The key of the shed is changed on Tuesday.")
    press("/do/edit")
    page.locator(".prose", has_text="수요일에").wait_for()
    press("/do/undo", page.locator(".alert"))
    page.locator(".prose", has_text="화요일에").wait_for()
    tap(page.locator('main [href^="/history/"]'))
    page.locator(".diff").first.wait_for()
    assert page.locator(".diff del").first.inner_text().strip() == "수요일에"
    assert page.locator(".diff ins").first.inner_text().strip() == "화요일에"
    assert "updated" not in page.locator(".diff").first.inner_text()
    assert page.evaluate(
        "[...document.querySelectorAll('.diff')].every((each) => each.scrollWidth <= each.clientWidth)"
    )
    tap(page.locator('.menu [href="/"]'))
    press("/do/erase", row)
    page.locator(".alert.done").wait_for()
    assert not file.exists()
    press("/do/undo", page.locator(".alert"))
    row.wait_for()
    assert "화요일에" in file.read_text("utf-8")
    tap(page.locator("main [name=q]"))
    page.keyboard.type(f"The ladder leans in the shed, {language}.")
    press("/do/new")
    page.get_by_role("link", name=f"shed, {language}").first.wait_for()
    ask("열쇠")
    ask("ladder")
    assert len(taps) <= 11, taps


PAGES = """
    / /new /search /search?q=key /contents /graph /decisions /articles /activity /statistics /upkeep /settings /nowhere
    /note/shed /history/shed
"""


def test_search_opens_on_every_page(tab: Callable[..., Any], place: Place, memory: str) -> None:
    """By Ctrl-K, ⌘K and the menu's button; arrows, Enter and Esc work, also while one types; a screen reader hears it."""
    wide, phone = tab(locale="en-US", expecting="404"), tab(locale="ko-KR", expecting="ERR_INTERNET|^htmx:", **PHONE)
    ask = "document.activeElement.id"
    for number, address in enumerate(PAGES.split()):
        wide.goto(place.url + address)
        wide.locator("#palette").wait_for(state="attached")
        wide.keyboard.press("Meta+k" if number % 2 else "Control+k")
        assert wide.evaluate(ask) == "ask", address
        wide.keyboard.press("Escape")
        assert wide.locator("#palette[open]").count() == 0
        wide.locator(".asking button").click()
        assert wide.evaluate(ask) == "ask", address
    wide.keyboard.type("shed")
    wide.locator("#heard", has_text="note").wait_for()
    wide.keyboard.press("ArrowDown")
    assert "/note/" in str(wide.evaluate("document.activeElement.href"))
    wide.keyboard.press("Enter")
    wide.wait_for_url("**/note/**")

    phone.goto(f"{place.url}/graph")
    phone.locator(".menu").get_by_role("button", name="검색").tap()
    phone.keyboard.type("열쇠")
    phone.locator("#heard", has_text="노트").wait_for()
    assert phone.evaluate("document.documentElement.scrollWidth") <= 360
    phone.context.set_offline(True)
    phone.keyboard.type("와 창고")
    phone.locator("#heard", has_text="서버가 응답하지 않습니다.").wait_for()
    assert phone.locator("#found a").count() == 0
    phone.context.set_offline(False)
    phone.locator("#palette").get_by_role("button", name="닫기").tap()
    assert phone.locator("#palette[open]").count() == 0


@pytest.mark.parametrize("language", LOST)
def test_a_lost_network_loses_no_text(tab: Callable[..., Any], place: Place, memory: str, language: str) -> None:
    """The page stays and says it, for an edit, a new note and a button; a conflict that arose meanwhile is shown."""
    kept, again, undone = LOST[language]
    page = tab(locale=language, expecting="ERR_INTERNET|409", **PHONE)
    file = place.vault / "memory/shed.md"
    lost, retry = page.get_by_role("alert"), page.get_by_role("button", name=again)
    save = page.locator("main form .main")
    page.goto(f"{place.url}/note/{memory}?edit={memory}")
    before = file.read_text("utf-8")
    page.locator("textarea").fill("The key is under the mat.")
    page.context.set_offline(True)
    save.tap()
    lost.get_by_text(kept).wait_for()
    assert page.locator("textarea").input_value() == "The key is under the mat."
    assert file.read_text("utf-8") == before
    retry.tap()  # still away
    lost.get_by_text(kept).wait_for()
    page.context.set_offline(False)
    retry.tap()
    page.locator(".prose", has_text="under the mat").wait_for()
    assert lost.count() == 0

    page.goto(f"{place.url}/note/{memory}?edit={memory}")
    page.locator("textarea").fill(f"Mine: under the stone, {language}.")
    page.context.set_offline(True)
    save.tap()
    lost.get_by_text(kept).wait_for()
    file.write_text(file.read_text("utf-8").replace("under the mat", "in the drawer"), "utf-8")
    page.context.set_offline(False)
    retry.tap()
    page.locator(".alert.critical").wait_for()
    texts = page.locator("main textarea").evaluate_all("(all) => all.map((each) => each.value)")
    assert [text.strip() for text in texts] == [f"Mine: under the stone, {language}.", "The key is in the drawer."]
    assert "in the drawer" in file.read_text("utf-8")
    page.go_back()  # the draft is there again, and still a conflict
    page.get_by_role("status").first.wait_for()
    assert page.locator("textarea").input_value() == f"Mine: under the stone, {language}."
    save.tap()
    page.locator(".alert.critical").wait_for()
    page.locator("main form .main").tap()
    page.locator(".alert.done").wait_for()
    assert "under the stone" in file.read_text("utf-8")
    assert (
        page.evaluate("Object.keys({...localStorage, ...sessionStorage}).filter((each) => each.includes('draft'))")
        == []
    )

    page.goto(place.url)
    row = page.locator("main li", has=page.get_by_role("link", name="Shed", exact=True))
    page.context.set_offline(True)
    row.locator('[action="/do/erase"] button').tap()
    lost.get_by_text(undone).wait_for()
    page.context.set_offline(False)
    retry.tap()
    page.locator(".alert.done").wait_for()
    assert not file.exists()

    page.goto(f"{place.url}/new")
    page.locator("textarea").fill("비 오는 날에는 창문을 닫는다.")
    page.context.set_offline(True)
    save.tap()
    lost.get_by_text(kept).wait_for()
    page.context.set_offline(False)
    other = page.context.new_page()  # the tab was lost, too
    other.goto(f"{place.url}/new")
    assert other.locator("textarea").input_value() == "비 오는 날에는 창문을 닫는다."
    page.evaluate("localStorage.clear()")


def test_a_login_that_ended_keeps_the_text(tab: Callable[..., Any], place: Place, memory: str) -> None:
    """A save leads to the login, and the login back to the text, which is saved then."""
    tokens: Tokens = place.tokens
    page = tab(locale="ko-KR", expecting="401", **PHONE)
    try:
        page.goto(f"{place.url}/login#{tokens.add('one')}")
        page.wait_for_url(f"{place.url}/")
        page.goto(f"{place.url}/note/{memory}?edit={memory}")
        page.locator("textarea").fill("열쇠는 서랍에 있다.")
        tokens.remove("one")
        secret = tokens.add("two")
        page.locator("main form .main").tap()
        page.locator("[name=token]").fill(secret)
        page.keyboard.press("Enter")
        page.locator("textarea").wait_for()
        page.wait_for_load_state()  # its script brings the draft back
        assert page.locator("textarea").input_value() == "열쇠는 서랍에 있다."
        page.locator("main form .main").tap()
        page.locator(".prose", has_text="서랍에").wait_for()
    finally:
        for each in tokens.all():
            tokens.remove(each.name)
