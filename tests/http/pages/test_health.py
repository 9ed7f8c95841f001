"""Health says what to do, in sentences; decisions, activity, history and empty pages say what a person needs."""

from __future__ import annotations

import datetime as dt
import re
import threading

from spellbook.system.errors import InvalidInput
from tests import repositories


def test_health_is_five_lines_with_what_to_do(browser, full, served, write_note, vault):
    """Backup, repeated notes, links, broken notes, index: each with its button or link, and no figure of the machine."""

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
    assert f"Last backup: {dt.date.today()}" in page
    assert "Notes that say the same: 1. Contradictions: 0." in page
    assert "Preview a merge" in page
    assert 'href="/note/broken.md">broken.md:3' in page
    for word in ("chunk", "Chunk", "ptimi", "%", " ms", "Figures"):
        assert word not in page.partition("<h1>")[2].partition("</main>")[0]
    for path in ("b.md", "broken.md", "projects/배포.md", "projects/데이터베이스.md"):
        (vault / path).unlink()
    browser.send("/do/check", to="/upkeep")
    served.jobs.wait(served.jobs.all()[0].id, 30)
    assert {kind for kind, _ in lines(browser.open("/links"))} == {"good"}


def test_a_job_is_seen_to_end_without_scripts(browser, served):
    """While one runs, Health is asked for again by the browser itself, and no other page, where somebody may type."""
    go = threading.Event()
    job = served.jobs.start("check", lambda report: go.wait(30) and None)
    assert '<noscript><meta http-equiv="refresh"' in browser.open("/upkeep")
    assert 'http-equiv="refresh"' not in browser.open("/new")
    go.set()
    served.jobs.wait(job.id, 30)
    page = browser.open("/upkeep")
    assert 'http-equiv="refresh"' not in page
    assert "Running" not in page
    assert 'Checks done.</strong> <a href="/upkeep">See them' in page


def test_links_are_repaired_after_a_look(browser, full, book, vault, write_note):
    """
    What was moved outside is shown with its difference, written after a second press, and can be undone.

    Of many links the first are listed, and how many more there are; Health asks for this part of the page.
    """
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


def test_who_may_less_gets_less_of_health(guarded, served, full, write_note):
    """
    Who only reads gets no button, no link's place, no figures; and the list of links is refused.

    Who sees a part gets neither titles of duplicates nor the words of a job's error, which may name notes.
    """
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


def test_activity_has_days_sessions_and_one_tense(browser, book, write_note):
    """Filters by day and by session; a move names both places."""
    decisions = book.memories.decisions
    for text in ("Use tabs.", "Use spaces."):
        decisions.save("style", text, session="work-7")
    decisions.save("db", "Use SQLite.", session="work-8")
    write_note("a.md", "# A\n")
    book.move("a.md", "b.md")
    book.undo()
    page = browser.open("/activity")
    assert "<h2>Today</h2>" in page
    assert '>Session work-7</a> <span class="small">2 changes</span>' in page
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


def test_a_history_is_told_in_the_language_of_the_browser(browser, vault, book, write_note):
    """
    Where each version is kept; that there is no git is said once, quietly.

    Of a note that is gone, too: each version says what it changed, and what stands in a note stays text.
    """
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
    assert "This note is gone." in page
    assert '<span class="tag">deleted</span>' in page
    assert '<span class="del">-Green &lt;script&gt;tea' in page


def test_empty_pages_say_what_will_stand_there(browser):
    """
    And how it gets there; a filter that fits nothing is no empty page.

    An unknown page is one for a browser; a program gets JSON, and so does whoever sends something.
    """
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
    assert "openapi" not in page
    assert "INVALID_INPUT" not in page
    assert "Edit a field" in browser.send("/do/properties", 400, id="projects/배포").text
    for language, words, trash in (
        ("en", "This note is gone or renamed.", "Trash"),
        ("ko", "없는 노트입니다.", "휴지통"),
    ):
        browser.client.headers["accept-language"] = language
        pages = [browser.open(place, 404) for place in ("/note/nope", "/history/nope", "/note/nope?edit=nope%23")]
        pages += [browser.send(place, 404, id="nope", name="x").text for place in ("/do/pin", "/do/move")]
        for page in pages:
            assert f"<h1>{words}" in page
            assert 'action="/search"' in page
            assert f'<a class="button" href="/activity#trash">{trash}</a>' in page
            assert not re.search("MEMORY_NOT_FOUND|ids are in|get_index", page)
    browser.client.headers["accept-language"] = "en"
    page = browser.open("/decisions?topic=database")
    old, new = page.split('<li class="old">')[1].split("<li>")[:2]
    assert "superseded" in old
    assert "The decision that replaced this one → PostgreSQL로 옮긴다" in old
    assert "/do/outcome" not in old
    assert ">pending<" not in old
    assert "0.6" in old
    assert "← The decision before SQLite를 쓴다" in new
    assert "/do/outcome" in new
    assert "confidence" not in new
    assert "SQLite" not in browser.open("/decisions?outcome=pending").replace("before SQLite", "")
    browser.client.headers["accept-language"] = "ko"
    page = browser.open("/decisions")
    assert "이 결정을 대신한 결정 →" in page
    assert "← 이전 결정" in page
