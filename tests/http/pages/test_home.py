"""The first page and the menu; Health, activity, history and empty pages say what a person needs."""

from __future__ import annotations

import datetime as dt
import re
import threading
from html import unescape

import pytest

from spellbook.capture.ledger import Ledger
from spellbook.library.book import Spellbook
from spellbook.system.errors import InvalidInput
from tests import repositories
from tests.helpers import Write

from ..running import lacks, shows


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
    shows(page, "<p>Erased</p>", "What your agents kept lately")
    assert titles(agents(page)) == ["Fact 2"]
    page = browser.press(page, "/do/undo")
    assert titles(agents(page)) == ["Fact 1"]
    browser.send("/do/keep", 404, id="nothing")
    assert Ledger(str(vault)).folder.stat().st_mode & 0o077 == vault.stat().st_mode & 0o077


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


def test_health_is_five_lines_with_what_to_do(browser, full, served, write_note, vault, guarded):
    """
    Backup, repeated notes, links, broken notes, index: each with its button or link, and no figure of the machine.

    Who only reads gets no button, no link's place, no figures; and the list of links is refused. Who sees a part gets
    neither titles of duplicates nor the words of a job's error, which may name notes.
    """

    def lines(page: str) -> list[tuple[str, str]]:
        return re.findall(r'<p class="line (\w+)">([^<]*)</p>', page)

    assert lines(browser.open("/links")) == [
        ("warn", "No backup yet."),
        ("warn", "Not checked yet: do notes say the same, or contradict each other?"),
        ("warn", "1 broken link"),
        ("warn", "Notes to fix: 1"),
        ("good", "Everything can be found."),
    ]
    for name in "ab":
        write_note(f"{name}.md", "The quick brown fox jumps over the lazy dog near the river bank.", topic="fox")
    for action in ("/do/check", "/do/snapshot", "/do/reindex"):
        assert f'action="{action}"' in browser.open("/upkeep")
        browser.send(action, to="/upkeep")
        served.jobs.wait(served.jobs.all()[0].id, 30)
    page = browser.open("/upkeep")
    shows(page, f"Last backup: {dt.date.today()}", "Notes that say the same: 1. Contradictions: 0.", "Preview a merge")
    assert 'href="/note/broken.md">broken.md:3' in page
    for word in ("chunk", "Chunk", "ptimi", "%", " ms", "Figures"):
        assert word not in page.partition("<h1>")[2].partition("</main>")[0]
    for path in ("b.md", "broken.md", "projects/배포.md", "projects/데이터베이스.md"):
        (vault / path).unlink()
    browser.send("/do/check", to="/upkeep")
    served.jobs.wait(served.jobs.all()[0].id, 30)
    assert {kind for kind, _ in lines(browser.open("/links"))} == {"good"}
    for name in "ab":
        write_note(f"{name}.md", "The quick brown fox jumps over the lazy dog near the river bank.", topic="fox")
    owner, guest = served.tokens.add("owner", "admin"), served.tokens.add("guest", "read", "public")

    def look(token: str, place: str, status: int = 200) -> str:
        guarded.client.headers["authorization"] = f"Bearer {token}"
        return guarded.open(place, status)

    reader = served.tokens.add("reader", "read")
    assert "/do/" not in look(reader, "/upkeep")
    look(reader, "/links", 403)
    assert guarded.client.get("/admin/links").status_code == 403
    guarded.client.headers["authorization"] = f"Bearer {owner}"
    guarded.client.post("/api/check")
    served.jobs.wait(served.jobs.all()[0].id, 30)

    def fail(report: object) -> None:
        raise InvalidInput("private.md: cannot be read.", "")

    for place, words in (("/upkeep", "/note/a#"), ("/job", "private.md")):
        assert words in look(owner, place)
        assert words not in look(guest, place)
        served.jobs.wait(served.jobs.start("reindex", fail).id, 30)


def test_a_job_is_seen_to_end_without_scripts(browser, served, full, book, vault, write_note):
    """
    While one runs, Health is asked for again by the browser itself, and no other page, where somebody may type.

    Links to what was moved outside are repaired after a look: shown with the difference, written after a second press,
    and undone. Of many links the first are listed, and how many more there are; Health asks for this part of the page.
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
    write_note("old/plan.md", "# Plan of the year\n")
    write_note("home.md", "[[old/plan]]\n")
    book.reindex()
    (vault / "old/plan.md").rename(vault / "plan.md")
    page = browser.open("/links")
    assert "1 broken link can be repaired" in page
    page = browser.press(page, "/do/mend")
    assert "[[plan]]" in page
    assert (vault / "home.md").read_text("utf-8") == "[[old/plan]]\n"
    page = browser.press(page, "/do/mend", "sure")
    assert (vault / "home.md").read_text("utf-8") == "[[plan]]\n"
    browser.press(page, "/do/undo")
    assert (vault / "home.md").read_text("utf-8") == "[[old/plan]]\n"
    write_note("site.md", "".join(f"[{number}](/reference/r{number}) " for number in range(1_203)))
    assert "and 1,105 more" in browser.open("/links").partition('<li id="links">')[2].partition("</li>")[0]
    assert '<li id="links" hx-get="/links" hx-select="#links > *"' in browser.open("/upkeep")


def test_activity_has_days_sessions_and_one_tense(browser, book, write_note, vault):
    """
    Filters by day and by session; a move names both places.

    A history tells, in the language of the browser, where each version is kept; that there is no git is said once,
    quietly. Of a note that is gone, too: each version says what it changed, and what stands in a note stays text.
    """
    decisions = book.memories.decisions
    for text in ("Use tabs.", "Use spaces."):
        decisions.save("style", text, session="work-7")
    decisions.save("db", "Use SQLite.", session="work-8")
    write_note("a.md", "# A\n")
    book.move("a.md", "b.md")
    book.undo()
    page = browser.open("/activity")
    shows(page, "<h2>Today</h2>", '>Session work-7</a> <span class="small">2 changes</span>')
    assert re.search(r"<strong>Moved</strong> a\.md → b\.md\s+<span class=\"tag\">undone", page)
    assert "<strong>Taken back</strong> b.md → a.md" in page
    only = browser.open("/activity?session=work-8")
    assert "Use SQLite" in only
    assert "Use tabs" not in only
    assert "Use tabs" in browser.open(f"/activity?day={dt.date.today()}")
    assert "Nothing was changed then." in browser.open("/activity?day=2020-01-01")
    browser.client.headers["accept-language"] = "ko"
    page = browser.open("/activity")
    for word in ("작성", "이동", "되돌림", "오늘"):
        assert word in page
    browser.client.headers["accept-language"] = "ko"
    write_note("a.md", "# A\n\nOne.\n")
    book.reindex()
    book.move("a.md", "b.md")
    page = browser.open("/history/b")
    for words in (r"\d번 이동 후", r"\d번 이동 전", "현재 파일"):
        assert re.search(words, page), words
    assert not re.search(r"\bentry\b|\bmv\b", page)
    assert page.count("git 저장소 안에 있지 않습니다") == 1
    assert 'class="warn' not in page
    browser.client.headers["accept-language"] = "en"
    tea = b"# Tea\n\nGreen <script>tea</script>.\n"
    repositories.write(vault, [{"tea.md": tea}, {"tea.md": tea.replace(b"Green", b"Black")}, {"c.md": b"# C\n"}])
    book.reindex()
    page = browser.open("/history/tea.md")
    shows(page, "This note is gone.", '<span class="tag">deleted</span>', '<span class="del">-Green &lt;script&gt;tea')


def test_a_person_reads_no_words_for_programs(browser, full):
    """
    An error has neither its code, nor a hint that names a tool or an address of the API; other hints stay.

    A note that is gone is said so with ways on, without codes. A superseded decision is marked, not pending, names its
    successor both ways, and has no form; no confidence is made up.
    """
    page = browser.send("/do/edit", 400, id="projects/배포#rollback", note="projects/배포", content=" ").text
    assert "The new content is empty." in page
    assert "erase(id)" not in page
    page = browser.send("/do/review", 400, id="projects/배포", at="yesterday").text
    lacks(page, "openapi", "INVALID_INPUT")
    assert "Edit a field" in browser.send("/do/properties", 400, id="projects/배포").text
    for language, words, trash in (
        ("en", "This note is gone or renamed.", "Trash"),
        ("ko", "없는 노트입니다.", "휴지통"),
    ):
        browser.client.headers["accept-language"] = language
        pages = [browser.open(place, 404) for place in ("/note/nope", "/history/nope", "/note/nope?edit=nope%23")]
        pages += [browser.send(place, 404, id="nope", name="x").text for place in ("/do/pin", "/do/move")]
        for page in pages:
            shows(page, f"<h1>{words}", 'action="/search"', f'<a class="button" href="/activity#trash">{trash}</a>')
            assert not re.search("MEMORY_NOT_FOUND|ids are in|get_index", page)
    browser.client.headers["accept-language"] = "en"
    page = browser.open("/decisions?topic=database")
    old, new = page.split('<li class="old">')[1].split("<li>")[:2]
    shows(old, "superseded", "The decision that replaced this one → PostgreSQL로 옮긴다")
    lacks(old, "/do/outcome", ">pending<")
    assert "0.6" in old
    shows(new, "← The decision before SQLite를 쓴다", "/do/outcome")
    assert "confidence" not in new
    assert "SQLite" not in browser.open("/decisions?outcome=pending").replace("before SQLite", "")
    browser.client.headers["accept-language"] = "ko"
    page = browser.open("/decisions")
    shows(page, "이 결정을 대신한 결정 →", "← 이전 결정")
