"""How lists, Home and the graph use the room of a screen, in a real browser."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spellbook.library.book import Spellbook
from tests.helpers import note_writer
from tests.http.pages.conftest import Place
from tests.http.running import Serving

from .conftest import IN_BROWSER

pytestmark = list(IN_BROWSER)
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}
SENTENCE = "The spare key of the archive in the second cellar hangs behind the door of the porter, who asks for a name"
LINES = "(each) => each.clientHeight / parseFloat(getComputedStyle(each).lineHeight)"


def test_a_list_has_twelve_rows_on_a_phone(
    tab: Callable[..., Any], serving: Serving, vault: Path, book: Spellbook
) -> None:
    """Each with its title and a line of its text; a finger opens it anywhere; a long title takes two lines."""
    write = note_writer(vault)
    for number in range(20):
        write(f"log/day {number}.md", f"The wind of day {number} came from the north. " * 3)
    write("cellar/long.md", "Ask Mina. " * 20, title=SENTENCE)
    book.reindex()
    page = tab(locale="ko-KR", **PHONE)
    page.goto(serving("--toolsets", "core").url + "/contents?folder=log")
    rows = page.locator(".list > li")
    assert rows.count() == 20
    tops = rows.evaluate_all("(all) => all.map((each) => each.getBoundingClientRect().top)")
    room = page.evaluate("innerHeight - document.querySelector('.menu').offsetHeight")
    assert tops[12] - tops[0] <= room
    assert rows.first.locator(".gist").is_visible()
    box = rows.nth(2).bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] - 4, box["y"] + box["height"] - 4)
    page.wait_for_url("**/note/log/day*")
    page.goto(page.url.partition("/note")[0] + "/contents?folder=cellar")
    assert page.locator(".list .clamp").evaluate(LINES) == pytest.approx(2, abs=0.1)


def test_home_uses_both_halves_of_a_wide_window(
    tab: Callable[..., Any], serving: Serving, vault: Path, book: Spellbook
) -> None:
    """What waits and the newest notes stand beside what agents kept, or beside the newest; a phone has one column."""
    write = note_writer(vault)
    (vault / "own.md").write_text("My own words.", "utf-8")
    book.reindex()
    url = serving("--toolsets", "core").url
    page = tab(locale="en-US", viewport={"width": 1280, "height": 800})

    def at(name: str) -> tuple[int, int]:
        box = page.get_by_role("heading", name=name).bounding_box()
        return round(box["x"]), round(box["y"])

    page.goto(url)
    left, right = at("Newest notes"), at("What your agents saved")
    assert (left[0] < 640 < right[0], abs(left[1] - right[1]) < 12) == (True, True)
    for number in range(6):
        created = (dt.datetime.now(dt.UTC) - dt.timedelta(hours=number)).isoformat()
        write(
            f"kept {number}.md", f"{SENTENCE} {number}.", agent="Claude", title=f"{SENTENCE} {number}", created=created
        )
    write("due.md", "Look at the rope again.", review="2026-01-01")
    book.reindex()
    page.goto(url)
    kept, due, newest = (at(name) for name in ("What your agents saved", "Due for review", "Newest notes"))
    assert kept[0] < 640 < due[0] == newest[0]
    assert due[1] < newest[1] < 800
    edges = page.evaluate("""() => [...document.querySelectorAll("main > .ask, main > .columns")]
        .map((each) => each.getBoundingClientRect()).map(({left, right}) => [left, right])""")
    area = page.evaluate("(({left, right}) => left + right)(document.querySelector('main').getBoundingClientRect())")
    assert edges[0] == edges[1]
    assert sum(edges[0]) == pytest.approx(area, abs=2)
    first, second = (page.locator(".acts").first.locator("button, .button").nth(number) for number in (0, 1))
    colour = "(each) => [getComputedStyle(each).borderTopColor, getComputedStyle(document.body).color, getComputedStyle(each).color]"
    assert "rgba(0, 0, 0, 0)" not in first.evaluate(colour)[0]
    assert second.evaluate(colour)[1] == second.evaluate(colour)[2]
    assert page.locator(".acts").first.evaluate(f"(each) => ({LINES})(each.parentElement.querySelector('.clamp'))") >= 2
    page.set_viewport_size({"width": 360, "height": 740})
    places = [at(name) for name in ("What your agents saved", "Due for review", "Newest notes")]
    assert len({x for x, _ in places}) == 1
    assert places == sorted(places, key=lambda place: place[1])


def test_a_graph_without_links_says_how_to_make_one(
    tab: Callable[..., Any], serving: Serving, vault: Path, book: Spellbook
) -> None:
    """Points without a line say nothing; the first link brings the picture."""
    write = note_writer(vault)
    write("one.md", "A note.")
    write("two.md", "Another note.")
    book.reindex()
    page = tab(locale="en-US")
    page.goto(serving("--toolsets", "core").url + "/graph")
    page.get_by_text("No note links to another yet").wait_for()
    assert page.locator("#graph").count() == 0
    write("two.md", "Another note, after [[one]].")
    book.reindex()
    page.reload()
    page.locator("#graph[data-settled]").wait_for()
    assert not page.get_by_text("No note links to another yet").is_visible()


def test_filters_and_menu_of_a_phone(tab: Callable[..., Any], place: Place) -> None:
    """All ways to search are within the screen, the rest fades at its edge; New note is lit on its own page alone."""
    page = tab(locale="en-US", **PHONE)
    page.goto(place.url + "/search?q=x")
    chips = page.locator("#asking .chips")
    boxes = [each.bounding_box() for each in chips.locator(".chip").all()]
    assert max(box["x"] + box["width"] for box in boxes) < 360 - 32
    assert "gradient" in chips.evaluate("(each) => getComputedStyle(each).maskImage")
    chips.get_by_label("Held on").focus()
    box = chips.get_by_label("Held on").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    colour = "(each) => getComputedStyle(each).color"
    new, other = page.locator(".menu > .new"), page.locator(".menu li a[href='/contents']").first
    assert new.evaluate(colour) == other.evaluate(colour)
    page.goto(place.url + "/new")
    assert new.evaluate(colour) != other.evaluate(colour)
