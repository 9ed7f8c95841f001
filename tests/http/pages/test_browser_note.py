"""A note with its pictures, and graphs, in a real browser."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from spellbook.library.book import Spellbook

from .conftest import IN_BROWSER

pytestmark = list(IN_BROWSER)

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


def test_pictures_title_and_edit_links(tab, serving, ship):
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


def test_the_graph_of_all_notes(tab, serving, ship):
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
