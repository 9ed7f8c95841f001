"""The first page and the menu; Health, activity, history and empty pages say what a person needs."""

from __future__ import annotations

import re
import threading
from html import unescape

from spellbook.system.errors import InvalidInput
from tests import repositories

from ..running import lacks, shows


def part(page: str, heading: str) -> str:
    """The list below a heading of the page."""
    return page.partition(f"<h2>{heading}</h2>")[2].partition("</ul>")[0]


def titles(part: str) -> list[str]:
    """The notes that a part of a page lists."""
    return [unescape(each) for each in re.findall(r'<a class="title" href="/note/[^"]*">([^<]*)</a>', part)]


def test_a_first_visit_has_three_cards(browser, book, write_note):
    """
    Guides are no notes; nothing warns.

    Empty pages say what will stand there and how it gets there; a filter that fits nothing is no empty page. An unknown
    page is one for a browser; a program gets JSON, and so does whoever sends something.
    """
    write_note("system/en/chunking.md", "How to cut.", category="system", guide="chunking")
    page = browser.open("/")
    cards = re.findall('<div class="figure"><h3>([^<]*)</h3>', page)
    assert cards == ["Write the first note", "Connect Claude", "Open a folder of notes"]
    assert re.findall(r'data-copy="([^"]*)"', page) == re.findall(r'<code id="([^"]*)">', page)
    assert 'class="attention"' not in page
    for place, words in (
        ("/", "Write the first note"),
        ("/decisions", "Remember our decision"),
        ("/articles", "spellbook save https://example.com/page"),
        ("/activity", "can be undone"),
    ):
        page = browser.open(place)
        assert '<section class="empty">' in page, place
        assert words in page, place
    assert "Newest notes" not in browser.open("/")
    for place in ("/decisions?outcome=failed", "/articles?category=x", "/activity?day=2020-01-01"):
        assert '<section class="empty">' not in browser.open(place), place
    for path in ("/nowhere", "/static/none.css", "/api/none", "/<script>alert(1)</script>"):
        page = browser.open(path, 404)
        assert "There is no such page" in page
        assert "<script>alert" not in page
    assert browser.client.get("/nowhere", headers={"accept": "*/*"}).json()["error"]["code"] == "MEMORY_NOT_FOUND"
    origin = {"origin": "http://localhost:17950"}
    assert browser.client.post("/nowhere", headers=origin).json()["error"]["code"] == "MEMORY_NOT_FOUND"
    browser.client.headers["accept-language"] = "ko"
    assert "없는 페이지입니다" in browser.open("/nowhere", 404)


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


def test_a_browser_is_told_how_to_install(browser, guarded, served, full, vault):
    """
    The manifest has its type, pictures that are there, and fills the form of a new note, by GET.

    Without a login there is none where one is needed; who may only read shares nothing into the vault. The box asks and
    keeps without a script, by two buttons of one form; what is refused comes back, and no secret of the form is in an
    address.
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


def test_a_job_says_its_error_to_whoever_sees_all(served, guarded):
    """Who sees a part gets no words of a job's error, which may name notes; a list of all links is an admin's."""
    tokens = [served.tokens.add("owner", "admin"), served.tokens.add("guest", "read", "public")]

    def fail(report: object) -> None:
        raise InvalidInput("private.md: cannot be read.", "")

    served.jobs.wait(served.jobs.start("reindex", fail).id, 30)
    for token, is_told, status in zip(tokens, (True, False), (200, 403), strict=True):
        guarded.client.headers["authorization"] = f"Bearer {token}"
        assert ("private.md" in guarded.open("/job")) is is_told
        assert guarded.client.get("/admin/links").status_code == status


def test_a_job_is_seen_to_end_without_scripts(browser, served, write_note):
    """
    While one runs, Health is asked for again by the browser itself, and no other page, where somebody may type.

    Of many links the first are listed, and how many more there are; Health asks for this part of the page.
    """
    go = threading.Event()
    job = served.jobs.start("check", lambda report: go.wait(30) and None)
    assert '<noscript><meta http-equiv="refresh"' in browser.open("/upkeep")
    assert 'http-equiv="refresh"' not in browser.open("/new")
    go.set()
    served.jobs.wait(job.id, 30)
    page = browser.open("/upkeep")
    lacks(page, 'http-equiv="refresh"', "Running")
    assert 'Checks done.</strong> <a href="/upkeep">See them' in page
    write_note("site.md", "".join(f"[{number}](/reference/r{number}) " for number in range(1_203)))
    assert "and 1,103 more" in browser.open("/links").partition('<li id="links">')[2].partition("</li>")[0]
    assert '<li id="links" hx-get="/links" hx-select="#links > *"' in browser.open("/upkeep")


def test_what_stands_in_a_note_stays_text_in_its_history(browser, book, vault):
    """Also where the note is gone, and is in git alone."""
    tea = b"# Tea\n\nGreen <script>tea</script>.\n"
    repositories.write(vault, [{"tea.md": tea}, {"tea.md": tea.replace(b"Green", b"Black")}, {"c.md": b"# C\n"}])
    book.reindex()
    page = browser.open("/history/tea.md")
    shows(page, "This note is gone.", '<span class="tag">deleted</span>', '<span class="del">-Green &lt;script&gt;tea')
