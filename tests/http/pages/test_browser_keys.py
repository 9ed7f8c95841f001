"""Keys, forms, pictures and graphs in a real browser."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from spellbook.library.book import Spellbook
from tests.helpers import held, note_writer, until
from tests.http.pages.conftest import Place
from tests.http.running import Serving

from .conftest import IN_BROWSER

pytestmark = list(IN_BROWSER)
PHONE = {"viewport": {"width": 360, "height": 640}, "has_touch": True, "is_mobile": True}


def test_a_person_writes_a_note_by_keys(tab: Callable[..., Any], place: Place) -> None:
    """`n` opens the form from any page, but not while one types; Ctrl-Enter saves; a refused text is not lost."""
    page = tab(locale="en-US", expecting="409|400")
    page.goto(place.url + "/search")
    page.keyboard.type("no")
    assert page.locator("#q").input_value() == "no"
    page.goto(place.url + "/contents")
    page.keyboard.press("n")
    page.wait_for_url("**/new")
    page.keyboard.type("The key is ghp_" + "a1B2c3D4e5" * 4)
    page.keyboard.press("Control+Enter")
    page.get_by_text("Nothing was saved. Take the secret out").wait_for()
    page.wait_for_load_state()
    assert "ghp_a1B2" in page.locator("textarea").input_value()
    page.locator("textarea").fill("The umbrella is in the hall.")
    page.goto(place.url + "/new")  # the text is still there in this tab
    assert page.locator("textarea").input_value() == "The umbrella is in the hall."
    page.get_by_role("button", name="Save").click()
    page.get_by_text("The umbrella is in the hall.").first.wait_for()
    page.wait_for_url("**/note/**")
    page.goto(place.url + "/new")
    assert page.locator("textarea").input_value() == ""
    assert [path for path in held(place.vault) if path.startswith("memory/inbox/")]


def test_a_thumb_reaches_everything_on_a_phone(tab: Callable[..., Any], place: Place) -> None:
    """At 360 px the menu is a bar at the bottom, all pages are within it, and a note is saved without scrolling."""
    page = tab(locale="ko-KR", **PHONE)
    page.goto(place.url)
    bar = page.get_by_role("navigation", name="페이지")
    names = [each.inner_text() for each in bar.locator("a:visible, button:visible, summary:visible").all()]
    assert names == ["새 노트", "홈", "검색", "목차", "더 보기"]
    for each in bar.locator("a:visible, button:visible, summary:visible").all():
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


def test_contents_unfold_and_narrow(tab: Callable[..., Any], place: Place) -> None:
    """A deep branch is fetched when it is unfolded, once; the trees narrow as one types, and come back."""
    note_writer(place.vault)("area/one/two/three/deep.md", "The deepest note.")
    until(lambda: httpx.get(f"{place.url}/api/notes/deep").status_code == 200)
    page = tab(locale="en-US")
    page.goto(place.url + "/contents")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    area = page.locator(".tree li").filter(has=page.get_by_role("link", name="area", exact=True))
    area.locator("summary").first.click()
    one = page.locator(".tree .tree li").filter(has=page.get_by_role("link", name="one", exact=True))
    one.locator("summary").first.click()
    page.get_by_role("link", name="two", exact=True).wait_for()
    one.locator("summary").first.click()
    one.locator("summary").first.click()
    assert len([url for url in asked if "folder=" in url]) == 1
    page.locator("#find").press_sequentially("three")
    page.get_by_role("link", name="area/one/two/three").wait_for()
    assert page.locator(".tree li").count() == 1
    page.locator("#find").fill("")
    area.first.wait_for()
    page.get_by_role("link", name="area", exact=True).click()
    page.get_by_role("link", name="deep").click()
    page.get_by_text("The deepest note.").wait_for()


# -- search by the keyboard: the dialog of every page, moving through hits, and the list of keys


def test_search_by_the_keyboard(tab: Callable[..., Any], place: Place) -> None:
    """From any page: ask, move, open; more hits go on where one was; questions are remembered here alone."""
    for number in range(14):
        note_writer(place.vault)(f"{number}.md", f"# Day {number}\n\nThe lighthouse blinks, {number} times.\n")
    until(lambda: httpx.get(f"{place.url}/api/notes/13").status_code == 200)
    page = tab(locale="en-US", viewport={"width": 1280, "height": 800})

    def focus() -> str:
        return str(page.evaluate("document.activeElement.getAttribute('href') ?? document.activeElement.id"))

    page.goto(place.url + "/settings")
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
    page.keyboard.press("Control+k")  # also where there is a box, which has a key of its own
    assert focus() == "ask"
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    assert focus() == "q"

    page.locator("#q").fill("rollback")
    page.wait_for_url("**/search?q=rollback*")
    page.go_back()  # the whole page is there again
    page.locator("#q").wait_for()
    assert page.url.endswith("/search?q=lighthouse")

    page.goto(place.url + "/search")
    recent = page.locator("main [data-recent] a")
    assert recent.all_text_contents() == ["lighthouse", "rollback"]
    assert recent.first.get_attribute("href") == "/search?q=lighthouse"
    page.get_by_role("button", name="Forget them").click()
    page.locator("main [data-recent]").wait_for(state="hidden")
    assert page.evaluate("JSON.parse(localStorage['spellbook.questions'])") == []


def test_the_box_on_home_asks_and_keeps(tab: Callable[..., Any], place: Place) -> None:
    """Enter asks, Ctrl-Enter saves and stays on the page; a saved text is no question."""
    page = tab(locale="en-US")
    page.goto(place.url)
    page.locator("h1").wait_for(state="attached")
    box = page.get_by_role("searchbox", name="Write or ask")
    box.fill("The ladder leans in the shed.")
    page.keyboard.press("Control+Enter")
    page.get_by_role("status").get_by_text("Saved").wait_for()
    page.locator("main a.title", has_text="The ladder leans in the shed").wait_for()
    box.fill("where is the ladder")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=where+is+the+ladder")
    page.locator(".hit", has_text="ladder").wait_for()
    assert page.evaluate("JSON.parse(localStorage['spellbook.questions'])") == ["where is the ladder"]


def test_hostile_questions_and_titles_stay_text(tab: Callable[..., Any], place: Place) -> None:
    """What was asked, and what a title says, are shown as text, in the dialog and among recent questions."""
    hostile = "<img src=x onerror=document.title='owned'> lighthouse"
    (place.vault / "evil.md").write_text(f'---\ntitle: "{hostile}"\n---\nThe lighthouse.\n', "utf-8")
    until(lambda: httpx.get(f"{place.url}/api/notes/evil").status_code == 200)
    page = tab(locale="ko-KR", color_scheme="dark", viewport={"width": 360, "height": 800}, bypass_csp=True)
    page.goto(place.url + "/settings")
    page.evaluate("localStorage['spellbook.questions'] = 'no JSON'")
    page.keyboard.press("Control+k")
    page.locator("#ask").fill(hostile)
    page.locator("#found [data-question]").wait_for()
    page.locator("#found p a, #found p").first.wait_for()
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []
    page.keyboard.press("Escape")
    page.goto(place.url + "/search?q=" + "%3Cimg src=x onerror=document.title='owned'%3E")
    page.goto(place.url + "/search")
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


TEXT = "Words of a paragraph that is long enough to fill some lines. " * 30
NOTE = f"""---
created: 2026-05-02
tags: [바다]
---
# Log of the ship

![[deck.png|20]] ![far](https://elsewhere.test/far.png)

{TEXT}

## First day

{TEXT}

## Second day

{TEXT} ![the deck](deck.png)

## Third day

{TEXT}
"""


def png(width: int, height: int) -> bytes:
    """A picture of one colour."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\x50\x90\xc0" * width) * height
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")


@pytest.fixture
def ship(vault: Path, book: Spellbook) -> None:
    """A note with pictures, and sixty notes in four folders that are linked with each other."""
    (vault / "log").mkdir()
    (vault / "log/deck.png").write_bytes(png(40, 30))
    (vault / "log/ship.md").write_text(NOTE, "utf-8")
    for number in range(60):
        folder = vault / f"part {number % 4}"
        folder.mkdir(exist_ok=True)
        links = f"[[note {number // 3}]] [[ship]]" if number % 5 else ""
        (folder / f"note {number}.md").write_text(
            f"# Matter {number} of the harbour\n\nText {number}. {links}", "utf-8"
        )
    book.reindex()


def test_pictures_title_and_edit_links(tab: Callable[..., Any], serving: Serving, ship: None) -> None:
    """Pictures load from here alone; at an anchor the title is in sight above the section; edit links stand in line."""
    server = serving("--toolsets", "core")
    page = tab(locale="en-US", viewport={"width": 1280, "height": 700}, reduced_motion="reduce")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{server.url}/note/log/ship#s-second-day")
    bar, section = page.locator(".bar").bounding_box(), page.locator("#s-second-day").bounding_box()
    assert bar["y"] == 0
    assert bar["height"] <= section["y"] < 200
    assert "Log of the ship" in page.locator(".bar").inner_text()
    places = page.locator(".section > .edit").evaluate_all("(all) => all.map((each) => each.getBoundingClientRect().x)")
    assert len(places) == 4
    assert len(set(places)) == 1
    for at, width in ((0, 20), (1, 40)):
        picture = page.locator(".prose img").nth(at)
        picture.scroll_into_view_if_needed()
        assert picture.evaluate("async (each) => { await each.decode(); return [each.naturalWidth, each.width]; }") == [
            40,
            width,
        ]
    assert all(url.startswith(server.url) for url in asked)
    page.get_by_text("Edit properties").click()
    assert page.locator("[name='is.tags']").is_visible()


def test_the_graph_of_all_notes(tab: Callable[..., Any], serving: Serving, ship: None) -> None:
    """Names never lie on each other; it zooms by wheel, buttons, keys and fingers; lists narrow; a click opens."""
    server = serving("--toolsets", "core")
    page = tab(locale="en-US", viewport={"width": 1280, "height": 800})
    page.goto(f"{server.url}/contents")
    page.get_by_role("link", name="Graph of all notes").click()
    page.locator("#graph[data-settled]").wait_for()
    assert page.locator("#graph-count").inner_text() == "61 of 61 notes, 96 links"
    assert page.locator("#graph-list a").first.inner_text() == "Log of the ship"
    apart = """names.length && names.every(({box: a}, at) => names.slice(at + 1).every(({box: b}) =>
        a[0] >= b[2] || b[0] >= a[2] || a[1] >= b[3] || b[1] >= a[3]))"""
    assert page.evaluate(apart)
    before = page.evaluate("view.k")
    page.get_by_role("button", name="Zoom in").click()
    assert page.evaluate("view.k") > before
    page.get_by_role("button", name="Show all").click()
    assert page.evaluate("view.k") == pytest.approx(before)
    page.evaluate("canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: -500, clientX: 500, clientY: 400}))")
    assert page.evaluate("view.k") == pytest.approx(before * 2)
    page.locator("#graph").focus()
    page.keyboard.press("0")
    x = page.evaluate("view.x")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("view.x") == pytest.approx(x - 50)
    page.evaluate(
        """() => {
        const event = (type, id, x, y) => canvas.dispatchEvent(new PointerEvent(type, {pointerId: id, clientX: x, clientY: y}));
        canvas.setPointerCapture = () => {};
        for (const [id, x] of [[1, 500], [2, 600]]) event("pointerdown", id, x, 400);
        event("pointermove", 2, 700, 400);
        for (const id of [1, 2]) event("pointerup", id, 700, 400);
        }"""
    )
    assert page.evaluate("view.k") == pytest.approx(before * 2, rel=0.01)
    page.keyboard.press("0")
    page.get_by_label("Find in the graph").fill("matter 17 of")
    assert page.locator("#graph-list a").all_inner_texts() == ["Matter 17 of the harbour"]
    page.get_by_label("Find in the graph").fill("")
    page.get_by_label("Colour by").select_option("folder")
    page.get_by_role("button", name="part 2 15").click()
    assert page.locator("#graph-list a").count() == 15
    page.get_by_role("button", name="part 2 15").click()
    page.locator("#graph-list a", has_text="Log of the ship").focus()
    assert page.evaluate("hovered.title") == "Log of the ship"
    assert page.evaluate(apart)
    x, y = page.evaluate("onScreen(nodes[0])")
    ink = f"[...context.getImageData(({x}) * devicePixelRatio, ({y}) * devicePixelRatio, 1, 1).data]"
    assert page.evaluate(ink)[3] == 255
    page.locator("#graph").click(position={"x": x, "y": y})
    page.wait_for_url("**/note/log/ship")
