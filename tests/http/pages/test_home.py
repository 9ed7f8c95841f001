"""The first page, the menu, and what a browser needs to put them on a home screen."""

from __future__ import annotations

import datetime as dt
import re
from html import unescape

import pytest

from spellbook.capture.ledger import Ledger
from spellbook.library.book import Spellbook
from tests.helpers import Write


def part(page: str, heading: str) -> str:
    """The list below a heading of the page."""
    return page.partition(f"<h2>{heading}</h2>")[2].partition("</ul>")[0]


def agents(page: str) -> str:
    """The list of notes of agents."""
    return page.partition("<h2>What your agents kept")[2].partition("</section>")[0]


def titles(part: str) -> list[str]:
    """The notes that a part of a page lists."""
    return [unescape(each) for each in re.findall(r'<a class="title" href="/note/[^"]*">([^<]*)</a>', part)]


@pytest.fixture
def kept(write_note: Write, book: Spellbook) -> None:
    """Two notes of agents of today, one of an earlier day, and one of the person."""
    now = dt.datetime.now().astimezone()
    for number, (name, days) in enumerate((("Claude Code", 0), ("", 0), ("Codex", 3))):
        meta = {"id": f"A{number}", "type": "semantic", "category": "memory", **({"agent": name} if name else {})}
        created = (now - dt.timedelta(days=days)).isoformat()
        write_note(
            f"memory/{number}.md", f"Fact {number}. Its reason.", title=f"Fact {number}", created=created, **meta
        )
    write_note("mine.md", "My own words.")
    book.reindex()


def test_home_is_the_inbox_of_agents(browser, full, kept):
    """A box, notes of agents of today, what is due, what is open, the newest; no figure of the machine."""
    page = browser.open("/")
    order = ("Write or ask", "What your agents kept today", "Due for review", "Open decisions", "Newest notes")
    assert [page.index(each) for each in order] == sorted(page.index(each) for each in order)
    assert {"Fact 0", "Fact 1"} <= set(titles(agents(page)))
    assert "Fact 2" not in agents(page)
    assert "My own words." not in agents(page)
    assert re.search(r"Its reason\.</p>\s*<p class=\"small\"><span class=\"by agent\">Claude Code</span> · <time", page)
    assert '<span class="by agent">an agent</span>' in page
    assert "데이터베이스" in part(page, "Due for review")
    assert "PostgreSQL로" in part(page, "Open decisions")
    assert "배포 절차" in part(page, "Newest notes")
    assert "Fact 0" not in part(page, "Newest notes")
    for word in ("Chunks", "chunks", "Last snapshot", "Take a snapshot", "Findable by meaning", "Recently read"):
        assert word not in page


def test_a_note_of_an_agent_is_kept_corrected_or_forgotten(browser, kept, vault):
    """Kept, it leaves the list and stays as it is; forgotten, it is in the trash until undo; earlier ones follow."""
    page = browser.open("/")
    before = (vault / "memory/0.md").read_bytes()
    vault.chmod(0o700)
    page = browser.press(page, "/do/keep", "A0")
    assert titles(agents(page)) == ["Fact 1"]
    assert "Fact 0" in part(page, "Newest notes")
    assert (vault / "memory/0.md").read_bytes() == before
    correct = re.search(r'href="([^"]+)">Correct</a>', page)
    assert "<textarea" in browser.open(unescape(correct[1]))
    page = browser.press(page, "/do/erase", "A1")
    assert "<p>Erased</p>" in page
    assert "What your agents kept lately" in page
    assert titles(agents(page)) == ["Fact 2"]
    page = browser.press(page, "/do/undo")
    assert titles(agents(page)) == ["Fact 1"]
    browser.send("/do/keep", 404, id="nothing")
    assert Ledger(str(vault)).folder.stat().st_mode & 0o077 == vault.stat().st_mode & 0o077


def test_the_box_asks_and_keeps(guarded, full, served, vault):
    """Without a script, by two buttons of one form; what is refused comes back, and no secret of the form is in an address."""
    guarded.send("/login", token=served.tokens.add("me", "write"))
    form = guarded.open("/").partition('<form class="search-box ask"')[2].partition("</form>")[0]
    assert form.startswith(' action="/search"')
    assert 'name="q"' in form
    assert "hidden" not in form
    csrf = re.search(r'<button name="csrf" value="(\w+)" formmethod="post" formaction="/do/new"', form)[1]
    page = guarded.send("/do/new", csrf=csrf, q="The umbrella is in the hall.").text
    assert "The umbrella is in the hall" in titles(part(page, "Newest notes"))
    assert 'action="/do/undo"' in page
    assert "You may have this already" in guarded.send("/do/new", 409, csrf=csrf, q="The umbrella is in the hall.").text
    guarded.send("/do/new", 403, q="The umbrella is in the hall.")
    assert len([*vault.glob("memory/inbox/*.md")]) == 1


def test_a_first_visit_has_three_cards(browser, book, write_note):
    """Guides are no notes; nothing warns."""
    write_note("system/en/chunking.md", "How to cut.", category="system", guide="chunking")
    page = browser.open("/")
    cards = re.findall('<div class="figure"><h3>([^<]*)</h3>', page)
    assert cards == ["Write the first note", "Connect Claude", "Open a folder of notes"]
    assert re.findall(r'data-copy="([^"]*)"', page) == re.findall(r'<code id="([^"]*)">', page)
    assert 'class="attention"' not in page


def test_an_alert_is_a_calm_sentence(browser, full, vault, book, served, write_note):
    """
    Each leads to Health, and nothing is red. That no snapshot was made yet waits for a day.

    While notes wait to be embedded, one sentence says so; afterwards nothing. The menu has all pages: on a phone, all but
    three stand behind More, which works without scripts; the present one is marked.
    """

    def sentences() -> list[str]:
        page = browser.open("/")
        assert "alert critical" not in page
        return re.findall(r'class="attention"><a href="/upkeep">([^<]*)</a>', page)

    assert sentences() == ["1 note needs fixing."]
    served.noticed["snapshot"] -= 86_500
    assert len(sentences()) == 2
    book.snapshots.create()
    (vault / "broken.md").unlink()
    assert sentences() == []
    assert "are being read" not in browser.open("/")
    write_note("new.md", "A lighthouse stands on the northern cape.")
    assert re.search(r"\d\d % can be found by meaning so far", browser.open("/"))
    book.reindex()
    assert "are being read" not in browser.open("/")
    browser.client.headers["accept-language"] = "ko"
    page = browser.open("/activity")
    menu = page.partition('<nav class="menu"')[2].partition("</nav>")[0]
    names = re.findall(r"<span>([^<]*)</span></a></li>", menu)
    assert names[:8] == ["홈", "검색", "목차", "결정", "저장한 글", "변경 기록", "상태", "설정"]
    assert names[8:] == names[3:8]
    assert re.search(r'<summary class="here"><svg.*?</svg>\s*<span>더 보기</span>', menu, re.S)
    assert 'href="/activity" aria-current="page"' in menu


def test_a_browser_is_told_how_to_install(browser, guarded, served):
    """
    The manifest has its type, pictures that are there, and fills the form of a new note, by GET.

    Without a login there is none where one is needed; who may only read shares nothing into the vault.
    """
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
    ask = {"accept": "*/*", "sec-fetch-dest": "manifest", "sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"}
    assert guarded.client.get("/manifest.webmanifest", headers=ask).status_code == 401
    guarded.send("/login", token=served.tokens.add("reader", "read"))
    told = guarded.client.get("/manifest.webmanifest", headers=ask).json()
    assert "share_target" not in told
    assert [each["url"] for each in told["shortcuts"]] == ["/search"]
