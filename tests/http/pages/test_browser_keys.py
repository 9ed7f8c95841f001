"""New note, the menu, the contents and search in a real browser, by keys and by thumb."""

from __future__ import annotations

import httpx

from tests.helpers import held, note_writer, until

from .conftest import IN_BROWSER

pytestmark = list(IN_BROWSER)
PHONE = {"viewport": {"width": 360, "height": 640}, "has_touch": True, "is_mobile": True}


def test_a_person_writes_a_note_by_keys(tab, place):
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


def test_a_thumb_reaches_everything_on_a_phone(tab, place):
    """At 360 px the menu is a bar at the bottom, all pages are within it, and a note is saved without scrolling."""
    page = tab(locale="ko-KR", **PHONE)
    page.goto(place.url)
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


def test_contents_unfold_and_narrow(tab, place):
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


def test_search_by_the_keyboard(tab, place):
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
    page.keyboard.press("Control+k")  # where there is a box, it is the box
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


def test_the_box_on_home_asks_and_keeps(tab, place):
    """Enter asks, Ctrl-Enter keeps and stays on the page; what is kept is no question."""
    page = tab(locale="en-US")
    page.goto(place.url)
    page.locator("h1").wait_for(state="attached")
    box = page.get_by_role("searchbox", name="Write or ask")
    box.fill("The ladder leans in the shed.")
    page.keyboard.press("Control+Enter")
    page.get_by_role("status").get_by_text("Saved.").wait_for()
    page.locator("main a.title", has_text="The ladder leans in the shed").wait_for()
    box.fill("where is the ladder")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=where+is+the+ladder")
    page.locator(".hit strong", has_text="ladder").wait_for()
    assert page.evaluate("JSON.parse(localStorage['spellbook.questions'])") == ["where is the ladder"]


def test_hostile_questions_and_titles_stay_text(tab, place):
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
