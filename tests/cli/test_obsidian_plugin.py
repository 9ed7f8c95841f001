"""The plugin for Obsidian in a real browser, with a stand-in for Obsidian, against a real server."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import spellbook
from spellbook.cli.clients.obsidian_plugin import SHIPPED
from tests.http.pages.conftest import IN_BROWSER
from tests.http.pages.conftest import chromium as chromium
from tests.http.running import Server

pytestmark = list(IN_BROWSER)
TOKEN = "a token of sixteen letters"

NOTES = {
    "ops/sessions.md": "---\ntags: [login]\n---\n# Login sessions\n\nSee [[backup]].\n\n## Why PostgreSQL\n\n"
    "We keep login sessions in PostgreSQL instead of Redis.\n",
    "ops/backup.md": "# Backup\n\nEvery night a dump of PostgreSQL is taken.\n\n## Restore\n\nOn the standby machine.\n",
    "garden.md": "# Garden\n\nTomatoes want sun, water and a warm wall.\n",
    "wall.md": "# Walls\n\nA warm wall holds the sun until night: tomatoes and figs like it.\n",
    "evil.md": "---\ntitle: \"<img src=x onerror=document.title='owned'>\"\n---\n\n## <b>Zebra</b>\n\n"
    "<script>document.title='owned'</script> zebra <img src=x onerror=document.title='owned'>\n",
}


class Desk:
    """A page with the stand-in: the requests that the plugin made, and what answers them."""

    def __init__(self, page: Any, vault: Path) -> None:
        self.page = page
        self.asked: list[dict[str, Any]] = []
        self.answer: Callable[[dict[str, Any]], dict[str, Any] | None] = sent
        page.route("**/*", lambda route: route.fulfill(body="<!doctype html><title>desk</title>"))
        page.expose_function("askServer", self._ask)
        page.expose_function("readFiles", lambda: {path: (vault / path).read_text("utf-8") for path in NOTES})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any] | None:
        self.asked.append(request)
        return self.answer(request)

    def load(self, address: object, language: str | None = None) -> None:
        """Open Obsidian with the plugin."""
        self.page.goto("http://obsidian.test/")
        if language:
            self.page.evaluate("language => localStorage.setItem('language', language)", language)
        self.page.add_script_tag(content=(Path(__file__).parent / "obsidian.js").read_text("utf-8"))
        code = (SHIPPED / "main.js").read_text("utf-8")
        self.page.evaluate("([code, data]) => loadPlugin(code, data)", [code, json.dumps({"address": address})])

    def status(self, text: str) -> None:
        """Wait until the status bar says this."""
        self.page.locator(".status-bar", has_text=text).wait_for()

    def search(self, query: str) -> Any:
        """Type a question into the search, and return the list of what is found."""
        self.page.evaluate("desk.commands.search.callback()")
        self.page.locator(".prompt").press_sequentially(query)
        return self.page.locator(".results")

    def open(self, path: str) -> None:
        self.page.evaluate("path => new Leaf().openFile(app.vault.getFileByPath(path))", path)

    @property
    def opened(self) -> list[list[Any]]:
        found: list[list[Any]] = self.page.evaluate("desk.opened")
        return found


def sent(request: dict[str, Any]) -> dict[str, Any] | None:
    """Send a request as Obsidian sends it: no Origin, no error for a status; None if nothing answers."""
    try:
        with urllib.request.urlopen(
            urllib.request.Request(request["url"], headers=request.get("headers") or {})
        ) as got:
            return {"status": got.status, "text": got.read().decode()}
    except urllib.error.HTTPError as error:
        with error:
            return {"status": error.code, "text": error.read().decode()}
    except OSError:
        return None


@pytest.fixture
def filled(vault: Path) -> Path:
    """A small vault whose index is up to date."""
    for path, text in NOTES.items():
        (vault / path).parent.mkdir(exist_ok=True)
        (vault / path).write_text(text, "utf-8")
    with spellbook.open(vault, embedder="hash") as book:
        book.reindex()
    return vault


@pytest.fixture
def desk(chromium: Any, filled: Path) -> Iterator[Desk]:
    """A page; whatever it says on the console, or throws, fails the test."""
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(60_000)
    complaints: list[str] = []
    page.on("console", lambda said: complaints.append(said.text) if said.type in {"error", "warning"} else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    found = Desk(page, filled)
    yield found
    page.evaluate("desk.plugin.unload()")
    assert page.title() == "desk"
    context.close()
    assert complaints == []


@pytest.fixture
def server(filled: Path) -> Iterator[Server]:
    running = Server(filled)
    yield running
    running.end()


def test_search_and_related_notes(desk: Desk, server: Server) -> None:
    """
    A hit shows title, heading and an excerpt; Enter opens its note at the line of the section.

    A question is asked after a pause, not at each letter; without one, and without an answer, the list says so. The
    pane shows notes that are linked and near, for the open note, and again after a pause in writing. HTML in a title, a
    heading or a text is shown as it is written; no element and no script comes of it.
    """
    page = desk.page
    desk.load(server.url)
    desk.status("Spellbook: up to date")
    results = desk.search("which login sessions are in PostgreSQL")
    item = results.locator(".item", has_text="Why PostgreSQL").first
    item.wait_for()
    shown = item.inner_text().splitlines()
    assert shown[0] == "Login sessions"
    assert "Why PostgreSQL" in shown[1]
    assert shown[2] == "We keep login sessions in PostgreSQL instead of Redis."
    page.keyboard.press("Enter")
    page.wait_for_function("desk.opened.length")
    assert desk.opened == [["ops/sessions.md", NOTES["ops/sessions.md"].splitlines().index("## Why PostgreSQL")]]
    assert {each["url"].partition("/api/")[0] for each in desk.asked} == {server.url}
    desk.asked.clear()
    results = desk.search("tomatoes")
    results.locator(".item", has_text="Garden").wait_for()
    assert len([each for each in desk.asked if "/api/search" in each["url"]]) < len("tomatoes")
    page.locator(".prompt").fill("")
    results.get_by_text("Type a question").wait_for()
    page.locator(".prompt").fill("quetzalcoatlus")
    results.get_by_text("No note answers this.").wait_for()

    desk.load(server.url)
    page.evaluate("desk.commands.related.callback()")
    pane = page.locator(".pane").first
    pane.get_by_text("Open a note").wait_for()
    desk.open("ops/sessions.md")
    pane.get_by_text("linked from here").wait_for()
    assert pane.get_by_role("link", name="Backup").count() == 1
    desk.open("garden.md")
    pane.get_by_text("Close in meaning").wait_for()
    page.locator("textarea").fill("We keep login sessions in PostgreSQL instead of Redis.")
    link = pane.get_by_role("link", name="Login sessions")
    link.wait_for()
    link.click()
    page.wait_for_function("desk.opened.length === 3")
    assert desk.opened[-1][0] == "ops/sessions.md"

    desk.search("zebra").locator(".item", has_text="<img src=x").first.wait_for()
    page.keyboard.press("Enter")
    page.locator("textarea").fill("A warm wall. [[evil]] zebra")
    page.locator(".pane", has_text="Garden").wait_for()
    assert page.locator("img, script[src], b").count() == 0


def test_korean_and_a_server_that_is_away(desk: Desk, server: Server) -> None:
    """
    With Obsidian in Korean, commands, the status bar and the settings are Korean. Without the server the status bar,
    the search and the pane say how to start it, and no error is thrown.
    """
    desk.load(server.url, "ko")
    desk.status("최신 상태")
    assert desk.page.evaluate("desk.commands.search.name") == "의미와 단어로 검색"
    desk.page.evaluate("desk.tab.display()")
    desk.page.locator(".settings", has_text="서버 주소").wait_for()
    desk.load(server.url, "en")
    desk.page.evaluate("desk.commands.related.callback()")
    desk.open("garden.md")
    desk.status("up to date")
    server.end()
    desk.status("server not running")
    desk.page.locator(".pane").first.get_by_text("Run `spellbook serve`").wait_for()
    desk.search("tomatoes").get_by_text(f"Nothing answers at {server.url}").wait_for()
    desk.page.locator(".status-bar").click()
    desk.page.locator(".notice", has_text="spellbook serve").wait_for()


def test_a_token_is_pasted_into_the_settings(desk: Desk, filled: Path) -> None:
    """A server with tokens is said so; a wrong token is sent once. The right one is not in data.json, and goes nowhere else."""
    server = Server(filled, SPELLBOOK_TOKEN=TOKEN)
    try:
        desk.load(server.url)
        desk.status("token needed")
        desk.page.evaluate("desk.tab.display()")
        address, token = desk.page.locator(".settings input").all()
        assert token.get_attribute("type") == "password"
        token.fill("wrong")
        token.blur()
        desk.page.wait_for_function("desk.plugin.token() === 'wrong'")
        desk.page.evaluate("desk.commands.related.callback()")
        desk.open("garden.md")
        desk.page.locator(".pane", has_text="spellbook token add").wait_for()
        assert len([each for each in desk.asked if each.get("headers")]) == 1
        token.fill(TOKEN)
        token.blur()
        desk.status("up to date")
        desk.page.locator(".settings", has_text="up to date").wait_for()
        before = len(desk.asked)
        desk.answer = lambda request: None
        address.fill("https://elsewhere.test/")
        address.blur()
        desk.status("server not running")
        assert {each["url"].partition("api/")[0] for each in desk.asked[before:]} == {"https://elsewhere.test/"}
        assert all(not each.get("headers") for each in desk.asked[before:])
        assert json.loads(desk.page.evaluate("desk.data")) == {"address": "https://elsewhere.test/"}
    finally:
        server.end()


def test_other_addresses_and_answers(desk: Desk) -> None:
    """
    Only this machine or https is asked; any other address never is, and the status bar says which are allowed. Pending
    texts are counted; an answer that is not Spellbook's is a server error, and the search says so.
    """
    for address in (
        *("http://192.168.0.5:17950", "http://notes.example.org", "http://127.0.0.1.example.org:17950"),
        *("https://me:secret@notes.example.org", "file:///etc/passwd", "javascript:alert(1)", "nonsense"),
    ):
        desk.load(address)
        desk.status("address not allowed")
        assert desk.asked == []
    desk.search("tomatoes").get_by_text("with https").wait_for()
    assert desk.asked == []
    for status, text, expected in (
        (200, '{"pending": 12}', "12 pending"),
        (200, "<html>", "server error"),
        (200, '{"hits": 3}', "server error"),
        (200, "null", "server error"),
        (404, "[]", "server error"),
        (503, '{"error": {"message": "Busy.", "details": {"hint": "Wait."}}}', "server error"),
    ):
        answer = {"status": status, "text": text}
        desk.answer = lambda request, answer=answer: answer  # type: ignore[misc]
        desk.load("http://localhost:1")
        desk.status(expected)
    assert desk.page.locator(".status-bar").get_attribute("title") == "Busy. Wait."
