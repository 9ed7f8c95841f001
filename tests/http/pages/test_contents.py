"""The table of contents and the pages that list notes; the page that searches, and what it says of why a note was found."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pytest

from spellbook.http.pages import contents, rendering
from spellbook.library.book import Spellbook
from spellbook.search import presentation
from spellbook.search.scores import FOREIGN

from ..running import shows
from .conftest import Browser


def rows(page: str) -> dict[str, int]:
    """The rows of a page's trees, with their counts."""
    found = re.findall(r'<li><a href="/contents[^"]*">([^<]*)</a> <span class="small">([\d,]+)</span>', page)
    return {unescape(name): int(count.replace(",", "")) for name, count in found}


@pytest.mark.parametrize(
    ("title", "text", "line"),
    [
        ("Keel", "# Keel\n\nWood.\n", "Wood."),
        ("We sail…", "We sail at noon.", "at noon."),
        ("We sail", "We sail; the tide turns.", "the tide turns."),
        ("배", "배포는 화요일.", "배포는 화요일."),
        ("Same.", "Same.", ""),
        ("", "", ""),
        ("x", "<!-- 2026-01-01 ab -->\n> **You:** hi\n- [ ] tick\n| a | b |", "You: hi tick a b"),
        ("x", "word " * 200, "word " * 43 + "word …"),
        ("x", "a" * 900, "a" * 220 + " …"),
    ],
)
def test_a_line_of_a_note(title, text, line):
    """It says what the title does not, without marks, and is short."""
    assert rendering.gist(SimpleNamespace(title=title, text=text)) == line


def test_a_large_vault_is_a_small_page(browser, vault, book, write_note):
    """
    Of three hundred folders with as many in them, the first level comes, bounded, and says what is left out.

    Spellbook's own guides are in no tree. Hostile names of folders, tags and topics stay text, on the page and in addresses.
    """
    write_note("system/en/chunking.md", "How to cut.", category="system", guide="chunking", tags="[guide]")
    for number in range(210):
        place = vault / f"folder {number}" / "inner"
        place.mkdir(parents=True)
        (place / "note.md").write_text(f"Note {number}.", "utf-8")
    book.reindex()
    page = browser.open("/contents")
    assert "and 10 more; the filter finds them" in page
    assert not re.search("inner|system|tag=guide", page)
    assert len(page) < 120_000
    assert rows(browser.open("/contents?find=folder 209/")) == {"folder 209/inner": 1}
    evil = '"><script>alert(1)<script>'
    write_note(f"{evil}/&amp;/deep/x.md", "x", tags='["<svg onload=1>"]', category="'<i>'", topic="'<b onclick=1>'")
    book.reindex()
    for place in ("", f"?folder={quote(evil)}", "?find=script", f"?folder={quote(evil)}/%26amp;"):
        page = browser.open(f"/contents{place}")
        assert "<script>a" not in page, place
        assert not re.search("<svg onload|<b onclick|<i>", page), place
    assert rows(browser.open(f"/contents?folder={quote(evil)}")) == {"&amp;": 1}


PART = {"hx-request": "true"}


def hits(page: str) -> list[str]:
    """The addresses of a page's hits, in order."""
    return [unescape(each) for each in re.findall(r'<h2><a data-hit href="([^"]+)"', page)]


@pytest.fixture
def many(vault: Path, book: Spellbook) -> None:
    """Twenty-three notes about one thing, one of which has four sections about it."""
    for number in range(22):
        (vault / f"day {number}.md").write_text(f"# Day {number}\n\nThe lighthouse blinks, {number} times.\n", "utf-8")
    sections = "".join(f"## Watch {number}\n\nThe lighthouse, the lighthouse!\n\n" for number in range(4))
    (vault / "keeper.md").write_text(f"# Keeper of the light\n\n{sections}", "utf-8")
    book.reindex()


def test_ten_hits_and_more_on_demand(browser, many):
    """
    Each note is a hit once, over three pages; a link leads on without a script, and a script appends the hits behind it.

    The other sections of a note are folded links below its hit. Whatever the address says, a page has at most ten hits.
    The dialog gets at most eight, a line each, and the way to all, for a script alone; without one the address is the page.
    """
    page, seen = browser.open("/search?q=lighthouse&mode=find"), list[str]()
    assert "23 notes, best first" in page
    assert "2·" not in page
    for count in (10, 10, 3):
        assert len(hits(page)) == count
        seen += hits(page)
        more = re.search(r'class="button" data-hit href="([^"]+)" hx-get="\1"', page)
        assert bool(more) is (count == 10)
        if more:
            address = unescape(more[1])
            page = browser.open(address)
            first = page.partition('<article class="hit">')[2].partition("</article>")[0]
            assert "autofocus" in first  # the keys go on at the first new hit
    assert len({each.partition("#")[0] for each in seen}) == len(seen) == 23
    page = browser.open("/search?q=lighthouse&mode=find")
    (keeper,) = [each for each in re.findall('<article class="hit">.*?</article>', page, re.S) if "Keeper" in each]
    assert "3 more sections" in keeper
    assert len(set(re.findall(r'href="(/note/keeper#s-watch-\d)"', keeper))) == 4
    for offset in ("-1", "x", "7", "999999999", "<script>"):
        assert len(hits(browser.open(f"/search?q=lighthouse&offset={offset}"))) <= 10
    part = browser.client.get("/search?brief=1&q=lighthouse", headers=PART).text
    assert part.count("<li>") == 8
    shows(part, 'href="/search?q=lighthouse"', 'data-question="lighthouse"')
    assert "<h1>" in browser.open("/search?brief=1&q=lighthouse")
    assert browser.client.get("/search?brief=1&q=", headers=PART).text.strip() == ""
    assert "Nothing" in browser.client.get("/search?brief=1&q=zzzzqq&mode=find", headers=PART).text
    page = Browser(browser.client, "ko").open("/search?q=lighthouse&mode=find")
    shows(page, "노트 23개, 관련도순", "다른 섹션 3개")


def test_another_language_is_told_only_of_another_script(book, write_note, browser, vault):
    """
    Of a text in the script of the question the pages do not say so: languages of short texts are mistaken.

    A synonym that led to a note is marked in it, as it is written there, and the reason tells both. An excerpt is cut
    around the sentence that answers.
    """
    write_note("es.md", "El puerto fue reconstruido tras la inundación y está abierto a los barcos del norte.")
    book.reindex()
    asked = "what is the name of the pilot who was there?"
    (hit,) = book.search(asked, min_score=0.0).hits
    korean = replace(hit, chunk=hit.chunk._replace(packed="항구는 북쪽에서 오는 배에 열려 있다."))
    for shown, is_told in (
        (hit, True),
        (contents.explained(hit, asked), False),
        (contents.explained(korean, asked), True),
    ):
        assert any(FOREIGN in reason for reason in presentation.reasons(shown)) is is_told
    (vault / "store.md").write_text("# Store\n\nLogins lie in Redis, not in a redistribution.\n", "utf-8")
    (vault / "saeng.md").write_text("# 저장소\n\n레디스는 빠르다.\n", "utf-8")
    book.reindex()
    page = browser.open("/search?q=레디스")
    shows(page, "<mark>Redis</mark>, not in a redistribution", "<mark>레디스</mark>는", "words: 레디스 = Redis")
    page = Browser(browser.client, "ko").open("/search?q=redis")
    shows(page, "<mark>레디스</mark>는", "단어: redis = 레디스")
    write_note("long.md", f"{'Tea and rain. ' * 60}The lighthouse blinks. {'Rain. ' * 90}")
    page = Browser(browser.client).open("/search?q=lighthouse")
    (bold,) = re.findall('<p class="text">.*?<strong>(.*?)</strong>.*?</p>', page)
    assert re.sub("</?mark>", "", bold) == "The lighthouse blinks."
