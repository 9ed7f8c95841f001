"""New note, the menu and the contents in a real browser, by keys and by thumb."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.helpers import held

from ..running import Server
from .conftest import IN_BROWSER

pytestmark = list(IN_BROWSER)
PHONE = {"viewport": {"width": 360, "height": 640}, "has_touch": True, "is_mobile": True}


def test_a_person_writes_a_note_by_keys(
    tab: Any, serving: Callable[..., Server], full: dict[str, str], vault: Path
) -> None:
    """`n` opens the form from any page, but not while one types; Ctrl-Enter saves; a refused text is not lost."""
    server = serving("--toolsets", "core")
    page = tab(locale="en-US", expecting="409|400")
    page.goto(server.url + "/search")
    page.keyboard.type("no")
    assert page.locator("#q").input_value() == "no"
    page.goto(server.url + "/contents")
    page.keyboard.press("n")
    page.wait_for_url("**/new")
    page.keyboard.type("The key is ghp_" + "a1B2c3D4e5" * 4)
    page.keyboard.press("Control+Enter")
    page.get_by_text("Nothing was saved. Take the secret out").wait_for()
    page.wait_for_load_state()
    assert "ghp_a1B2" in page.locator("textarea").input_value()
    page.locator("textarea").fill("The umbrella is in the hall.")
    page.goto(server.url + "/new")  # the text is still there in this tab
    assert page.locator("textarea").input_value() == "The umbrella is in the hall."
    page.get_by_role("button", name="Save").click()
    page.get_by_text("The umbrella is in the hall.").first.wait_for()
    page.wait_for_url("**/note/**")
    page.goto(server.url + "/new")
    assert page.locator("textarea").input_value() == ""
    assert [path for path in held(vault) if path.startswith("memory/inbox/")]


def test_a_thumb_reaches_everything_on_a_phone(tab: Any, serving: Callable[..., Server], full: dict[str, str]) -> None:
    """At 360 px the menu is a bar at the bottom, all pages are within it, and a note is saved without scrolling."""
    server = serving("--toolsets", "core")
    page = tab(locale="ko-KR", **PHONE)
    page.goto(server.url)
    bar = page.get_by_role("navigation", name="페이지")
    assert bar.get_by_role("link").all_text_contents()[:4] == ["새 노트", "홈", "검색", "목차"]
    for each in bar.locator("a:visible, summary:visible").all():
        box = each.bounding_box()
        assert box["height"] >= 44
        assert box["width"] >= 44
        assert box["y"] + box["height"] <= 640
    bar.get_by_text("더 보기").tap()
    bar.get_by_role("link", name="변경 기록").tap()
    page.get_by_role("heading", name="변경 기록").wait_for()
    bar.get_by_role("link", name="새 노트").tap()
    page.wait_for_url("**/new")
    page.locator("textarea").fill("우산은 현관에 있다.")
    save = page.get_by_role("button", name="저장")
    box = save.bounding_box()
    assert box["height"] >= 44
    assert box["y"] + box["height"] <= bar.bounding_box()["y"]
    save.tap()
    page.wait_for_url("**/note/**")


def test_contents_unfold_and_narrow(
    tab: Any, serving: Callable[..., Server], full: dict[str, str], write_note: Callable[..., Path], book: Any
) -> None:
    """A deep branch is fetched when it is unfolded, once; the trees narrow as one types, and come back."""
    write_note("area/one/two/three/deep.md", "The deepest note.")
    book.reindex()
    server = serving("--toolsets", "core")
    page = tab(locale="en-US")
    page.goto(server.url + "/contents")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    area = page.locator(".tree li").filter(has=page.get_by_role("link", name="area", exact=True))
    area.locator("summary").first.click()
    one = page.locator(".tree .tree li").filter(has=page.get_by_role("link", name="one", exact=True))
    one.locator("summary").first.click()
    page.get_by_role("link", name="two", exact=True).wait_for()
    one.locator("summary").first.click()
    one.locator("summary").first.click()
    assert len([url for url in asked if "branch=" in url]) == 1
    page.locator("#find").press_sequentially("three")
    page.get_by_role("link", name="area/one/two/three").wait_for()
    assert page.locator(".tree li").count() == 1
    page.locator("#find").fill("")
    area.first.wait_for()
    page.get_by_role("link", name="area", exact=True).click()
    page.get_by_role("link", name="deep").click()
    page.get_by_text("The deepest note.").wait_for()
