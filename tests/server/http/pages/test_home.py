"""The first page, the menu, and what a browser needs to put them on a home screen."""

from __future__ import annotations

import re
from pathlib import Path

from spellbook.library.book import Spellbook
from spellbook.server.http.served import Served
from tests.helpers import Write

from .conftest import Browser


def part(page: str, heading: str) -> str:
    """The list below a heading of the page."""
    return page.partition(f"<h2>{heading}</h2>")[2].partition("</ul>")[0]


def test_home_is_of_notes(browser: Browser, full: dict[str, str]) -> None:
    """It begins with search, then new notes, those read last, what is due, and what is open; no figure of the machine."""
    page = browser.open("/")
    assert page.index('name="q"') < page.index("<h2>Newest notes") < page.index("<h2>Recently read")
    assert "배포 절차" in part(page, "Newest notes")
    assert "데이터베이스" in part(page, "Due for review")
    assert "PostgreSQL로" in part(page, "Open decisions")
    assert 'href="/new"' in page
    for word in ("Chunks", "chunks", "Last snapshot", "Take a snapshot", "Findable by meaning"):
        assert word not in page


def test_what_was_read_last_comes_first(browser: Browser, full: dict[str, str], vault: Path) -> None:
    """Each note once, and no longer when it is gone; without any, the page says what would stand there."""
    assert "Notes that you open are listed here." in browser.open("/")
    for place in ("projects/배포", "projects/데이터베이스", "projects/배포", "broken"):
        browser.open(f"/note/{place}")
    listed = re.findall(r'class="title" href="[^"]*">([^<]*)<', part(browser.open("/"), "Recently read"))
    assert listed == ["broken", "배포 절차", "데이터베이스"]
    (vault / "broken.md").unlink()
    assert "broken" not in part(browser.open("/"), "Recently read")


def test_what_others_read_is_not_told(guarded: Browser, full: dict[str, str], served: Served) -> None:
    """A token that sees a part learns nothing of it."""
    served.book.show("projects/배포")
    guarded.send("/login", token=served.tokens.add("guest", "read", "public"))
    assert "Recently read" not in guarded.open("/")


def test_an_alert_is_one_calm_sentence(browser: Browser, full: dict[str, str], vault: Path, book: Spellbook) -> None:
    """One says what it is, several are counted; both lead to Health, and nothing is red."""

    def sentences() -> list[str]:
        page = browser.open("/")
        assert "alert critical" not in page
        return [each.strip() for each in re.findall(r'class="attention"><a href="/upkeep">([^<]*)<', page)]

    def listed() -> list[str]:
        return [each["what"] for each in browser.client.get("/admin/alerts/performance").json()["alerts"]]

    assert len(listed()) == 2  # a note with a fault, and no snapshot
    assert sentences() == ["2 things need a look."]
    book.snapshots.create()
    assert sentences() == listed()
    assert len(listed()) == 1
    (vault / "broken.md").unlink()
    assert sentences() == listed() == []


def test_home_says_how_far_the_index_is(
    browser: Browser, full: dict[str, str], write_note: Write, book: Spellbook
) -> None:
    """While notes wait to be embedded, in one sentence; afterwards nothing."""
    assert "are being read" not in browser.open("/")
    write_note("new.md", "A lighthouse stands on the northern cape.")
    assert re.search(r"\d\d % can be found by meaning so far", browser.open("/"))
    book.reindex()
    assert "are being read" not in browser.open("/")


def test_the_menu_has_all_pages(browser: Browser, full: dict[str, str]) -> None:
    """On a phone, all but three stand behind More, which works without scripts; the present one is marked."""
    browser.client.headers["accept-language"] = "ko"
    page = browser.open("/activity")
    menu = page.partition('<nav class="menu"')[2].partition("</nav>")[0]
    names = re.findall(r"<span>([^<]*)</span></a></li>", menu)
    assert names[:8] == ["홈", "검색", "목차", "결정", "저장한 글", "변경 기록", "상태", "설정"]
    assert names[8:] == names[3:8]
    assert re.search(r'<summary class="here"><svg.*?</svg>\s*<span>더 보기</span>', menu, re.S)
    assert 'href="/activity" aria-current="page"' in menu


def test_a_browser_is_told_how_to_install(browser: Browser, full: dict[str, str]) -> None:
    """The manifest has its type, pictures that are there, and fills the form of a new note, by GET."""
    assert '<link rel="manifest" href="/manifest.webmanifest" crossorigin="use-credentials">' in browser.open("/")
    answer = browser.client.get("/manifest.webmanifest", headers={"accept": "*/*", "accept-language": "ko"})
    assert answer.headers["content-type"] == "application/manifest+json"
    assert "manifest-src 'self'" in answer.headers["content-security-policy"]
    told = answer.json()
    assert told["share_target"] == {
        "action": "/new",
        "method": "GET",
        "enctype": "application/x-www-form-urlencoded",
        "params": {"title": "title", "text": "text", "url": "url"},
    }
    assert told["shortcuts"][0] == {"name": "새 노트", "url": "/new"}
    for each in told["icons"]:
        assert browser.client.get(each["src"]).headers["content-type"].startswith(each["type"])


def test_a_manifest_is_for_those_who_are_let_in(guarded: Browser, served: Served) -> None:
    """Without a login there is none; who may only read shares nothing into the vault."""
    ask = {"accept": "*/*", "sec-fetch-dest": "manifest", "sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"}
    assert guarded.client.get("/manifest.webmanifest", headers=ask).status_code == 401
    guarded.send("/login", token=served.tokens.add("reader", "read"))
    told = guarded.client.get("/manifest.webmanifest", headers=ask).json()
    assert "share_target" not in told
    assert [each["url"] for each in told["shortcuts"]] == ["/search"]
