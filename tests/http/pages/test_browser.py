"""The dashboard in a real browser against a real server: what it looks like, what it runs, and what it refuses."""

from __future__ import annotations

import http.server
import json
import os
import re
import threading
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

from spellbook.http.tokens import Tokens
from spellbook.library.book import Spellbook
from tests.helpers import held, note_writer, session_writer, until
from tests.http.running import Serving

from .conftest import EVIL, HOSTILE, IN_BROWSER, Place, fill, remember

pytestmark = list(IN_BROWSER)

NOTE = "/note/projects/배포"
PAGES = f"""
    / /new?text=x&url=https://example.com/ /search?q=백업 /contents /contents?folder=projects
    /decisions /articles /sessions /note/session-a /activity /statistics /links /settings {NOTE} /graph
    /upkeep /contents?category=memory /note/projects/marks
    {NOTE}?add=yes {NOTE}?edit=projects/배포%23rollback /history/projects/배포 /nowhere /login
""".split()
EMPTY = ("/decisions", "/articles", "/sessions", "/activity", "/")
"""Pages that say what will stand there while there is no note."""

PHONE = {"has_touch": True, "is_mobile": True, "viewport": {"width": 360, "height": 740}}
_ALL = [*product(("en-US", "ko-KR"), (False, True))]
IS_ALL = os.environ.get("SPELLBOOK_LOOKS") == "all"
LOOKS = (_ALL[:2], _ALL[2:]) if IS_ALL else ((_ALL[0], _ALL[-1]),)
"""Languages, and whether on a phone: two that differ in both; with SPELLBOOK_LOOKS=all both of each language."""

WIDTHS = (320, 360, 768, 1280)

SMALL = """() => [...document.querySelectorAll("a, button, summary, input:not([type=hidden], [type=radio]), select, textarea")]
    .filter((each) => each.checkVisibility() && !each.closest("p, .prose, dd, .skip, dialog"))
    .map((each) => [each, getComputedStyle(each, "::after").position === "absolute" ? each.offsetParent : each])
    .map(([each, pressed]) => [each.outerHTML.slice(0, 120), pressed.getBoundingClientRect()])
    .filter(([, box]) => box.width && box.height < 43.5).map(([text, box]) => `${box.height} ${text}`)"""
"""What a finger is to press that is less than 44 px high; links within a sentence may be. A title takes its whole row."""


@pytest.mark.timeout(900 if IS_ALL else 180)
@pytest.mark.parametrize("looks", LOOKS, ids=lambda looks: looks[0][0])
def test_every_page_is_accessible_and_fits(
    tab: Callable[..., Any], serving: Serving, vault: Path, book: Spellbook, looks: Any
) -> None:
    """
    axe finds nothing, in light and dark, with everything unfolded; with SPELLBOOK_LOOKS=all, in each of the widths.

    In Korean and on a phone, too, nothing is wider than the screen, a finger finds 44 px, and no page asks another host.
    """
    from axe_playwright_python.sync_playwright import Axe

    server = serving("--toolsets", "core,decisions,articles")
    asked: list[str] = []

    def judge(page: Any, place: str) -> None:
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        page.emulate_media(color_scheme="dark")
        found += page.evaluate("axe.run(document, {runOnly: {type: 'rule', values: ['color-contrast']}})")["violations"]
        page.emulate_media(color_scheme="light")
        assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == [], place

    def look(page: Any, place: str, *, is_touched: bool) -> None:
        page.goto(server.url + place)
        if "graph" in place:  # a script asks for more
            page.wait_for_load_state("networkidle")
        page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 740})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (place, width)
            assert not is_touched or width > 360 or page.evaluate(SMALL) == [], (place, width)
            if IS_ALL or (width == WIDTHS[-1] and not is_touched):
                judge(page, f"{place}, {width} px")

    pages = [
        tab(locale=language, bypass_csp=True, expecting="404", **(PHONE if is_touched else {}))
        for language, is_touched in looks
    ]
    for page in pages:
        page.on("request", lambda request: asked.append(request.url))
    for place in EMPTY:
        look(pages[-1], place, is_touched=True)
        assert pages[-1].locator("section.empty").count() == 1, place
    fill(vault)
    session_writer(vault)("a", "배포는 화요일에 한다. " * 9, "Done.", "Rotate the signing keys.")
    remember(book)
    book.memories.remember("The umbrella is in the hall, because it rains.")
    book.reindex()
    for place in PAGES:
        for page, (_, is_touched) in zip(pages, looks, strict=True):
            look(page, place, is_touched=is_touched)
    assert [url for url in asked if not url.startswith(server.url)] == []
    pages[-1].goto(server.url)
    assert pages[-1].locator(".acts").count()


@pytest.fixture
def tokens(place: Place) -> Iterator[Tokens]:
    """The tokens of the shared server; there are none before and afterwards."""
    yield place.tokens
    for each in place.tokens.all():
        place.tokens.remove(each.name)


def test_a_person_with_a_thumb_and_no_script(chromium: Any, place: Place) -> None:
    """On a phone whose browser runs no script: find, read, write, correct, move and undo a note, in eleven taps."""
    write = note_writer(place.vault)
    write("area/one/deep.md", "The deepest note.")
    context = chromium.new_context(java_script_enabled=False, locale="en-US", **PHONE)
    page = context.new_page()
    page.set_default_timeout(60_000)
    taps: list[str] = []

    def tap(place: Any) -> None:
        taps.append(str(place))
        place.first.tap()

    press: Callable[[str], None] = lambda name: tap(page.get_by_role("button", name=name, exact=True))  # noqa: E731
    go: Callable[[str], None] = lambda name: tap(page.locator(".menu").get_by_role("link", name=name))  # noqa: E731
    page.goto(place.url)
    tap(page.locator("main input[name=q]"))
    page.keyboard.type("revert")
    page.keyboard.press("Enter")
    tap(page.locator(".hit h2 a"))
    page.get_by_role("link", name="Edit Rollback").wait_for()
    go("New note")
    page.locator("textarea").fill("The umbrella is in the hall.")
    press("Save")
    tap(page.get_by_role("link", name="Edit", exact=True))
    tap(page.locator("textarea"))
    page.locator("textarea").fill("The umbrella is in the car.")
    press("Save")
    page.locator(".prose", has_text="in the car").wait_for()
    press("Move")
    press("projects")
    page.get_by_text("Moved to projects.").wait_for()
    assert [path for path in held(place.vault) if path.startswith("projects/umbrella")]
    press("Undo")
    page.get_by_text("Undone: back to memory/inbox from projects.").wait_for()
    assert [path for path in held(place.vault) if path.startswith("memory/inbox/umbrella")]
    assert len(taps) <= 11, taps
    page.goto(f"{place.url}{NOTE}")
    tap(page.get_by_role("button", name="문서 갱신"))
    page.locator('button.box[aria-pressed="true"]', has_text="☑").nth(1).wait_for()
    assert "- [x] 문서 갱신" in (place.vault / "projects/배포.md").read_text("utf-8")
    go("Contents")
    page.locator("#find").fill("one")
    press("Filter")
    page.get_by_role("link", name="area/one", exact=True).tap()
    page.get_by_role("link", name="deep").tap()
    page.get_by_text("The deepest note.").wait_for()
    page.get_by_text("More", exact=True).tap()
    page.locator(".menu .rest").get_by_role("link", name="Settings").tap()
    press("한국어")
    page.get_by_role("heading", name="설정", exact=True).wait_for()
    context.close()


def test_a_phone_is_logged_in_by_its_code(tab: Callable[..., Any], place: Place, tokens: Tokens) -> None:
    """The token is behind the #: it is sent to the login alone, and stands neither in the address nor in a Referer."""
    secret = tokens.add("phone")
    page = tab(locale="en-US", **PHONE)
    seen: list[str] = []
    page.on("request", lambda request: seen.append(f"{request.method} {request.url} {request.headers}"))
    page.goto(f"{place.url}/login#{secret}")
    page.wait_for_url(f"{place.url}/")
    page.get_by_role("heading", name="Home").wait_for()
    assert [each for each in seen if secret in each] == []
    page.go_back()
    assert secret not in page.url


def test_a_person_finds_reads_and_edits(tab: Callable[..., Any], place: Place) -> None:
    """By the keyboard: ask as one types, open a hit, edit a section in place, save, undo."""
    page, file = tab(locale="en-US"), place.vault / "projects/데이터베이스.md"
    page.goto(place.url)
    page.locator("h1").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("revert")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=revert**")  # with its scripts: what is typed before them finds nothing
    page.locator("mark").first.wait_for()
    page.locator("#q").fill("pg_dump")
    page.locator("mark", has_text="dump").first.wait_for()
    page.locator("summary", has_text="Why: ").first.click()
    page.get_by_text("whole note").first.wait_for()
    assert "q=pg_dump" in page.url
    page.locator(".hit h2 a", has_text="Backup").click()
    page.locator("section", has_text="Every night").get_by_role("link", name="Edit Backup").click()
    page.locator("textarea").fill("## Backup\n\nEvery hour.\n")
    page.keyboard.press("Control+Enter")
    page.get_by_text("Every hour.").wait_for()
    assert "Every hour." in file.read_text("utf-8")
    page.get_by_role("button", name="Undo").first.click()
    page.get_by_text("Every night").wait_for()
    assert "pg_dump" in file.read_text("utf-8")


def test_a_hostile_note_runs_and_loads_nothing(tab: Callable[..., Any], place: Place) -> None:
    """Whatever a note holds, no script of it runs, and nothing is asked of another host."""
    long = f"\n\n$$\n{'x+' * 50_000}x\n$$\n\n${'x+' * 900}x$\n"
    (place.vault / "evil.md").write_text(HOSTILE, "utf-8")
    (place.vault / "long.md").write_text(long, "utf-8")
    (place.vault / "other.md").write_text("[[evil]]", "utf-8")
    until(lambda: httpx.get(f"{place.url}/api/notes/other").status_code == 200)
    page = tab()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: asked.append(f"dialog {dialog.message}"))
    for address in (
        *("/", "/contents", "/decisions", "/articles", "/activity", "/upkeep", "/graph"),
        *("/note/evil", "/note/long", "/history/evil", "/note/evil?edit=evil%23", "/search?q=owned"),
    ):
        page.goto(place.url + address)
        page.wait_for_load_state("load")
        page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")
        for link in page.locator(".prose a, .hit a").all()[:20]:
            link.hover(force=True, timeout=2000)
        assert page.title() != "owned", address
    assert [url for url in asked if not url.startswith(place.url)] == []


def test_long_work_and_links_come_by_themselves(tab: Callable[..., Any], place: Place) -> None:
    """
    A page that comes while a job runs shows that it ends, also if it ends before the page's scripts come.

    Health comes first, its links follow.
    """
    write = note_writer(place.vault)
    for number in range(300):
        write(f"many/{number}.md", f"Note {number} about the river {number * 7}. " * 20)
    write("site.md", "[a](/reference/r1)")
    page = tab(locale="en-US")

    def running() -> bool:
        return bool(httpx.get(f"{place.url}/api/jobs").json()["jobs"][0]["state"] == "running")

    def after_the_job(route: Any) -> None:
        until(lambda: not running())
        route.continue_()

    for is_late in (False, True):
        if is_late:
            page.route("**/*.js", after_the_job)
        assert httpx.post(f"{place.url}/api/reindex", json={"full": True}).status_code == 202
        page.goto(place.url + "/settings", wait_until="commit")
        page.locator("#job").get_by_text("Running: reindex").wait_for()
        page.locator("#job").get_by_text("Ended: reindex").wait_for(timeout=60_000)
        assert not running()
    page.goto(place.url + "/upkeep")
    page.locator("li", has_text="site.md:1 → /reference/r1").wait_for()


def test_login_logout_and_a_token_that_is_gone(tab: Callable[..., Any], place: Place, tokens: Tokens) -> None:
    """A page asks for the token and goes on where one wanted to be; no script can read the cookie."""
    secret = tokens.add("me", "admin")
    page = tab(locale="en-US", expecting="401")
    page.goto(place.url + NOTE)
    for given in ("sb_wrong", secret):
        page.get_by_label("Token").fill(given)
        page.keyboard.press("Enter")
        (page.get_by_role("heading", name="배포 절차") if given == secret else page.get_by_role("alert")).wait_for()
    assert page.evaluate("document.cookie") == ""
    assert secret not in page.content()
    page.get_by_role("button", name="Log out").click()
    page.get_by_label("Token").wait_for()
    page.goto(place.url)
    page.get_by_label("Token").fill(secret)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Home").wait_for()
    # The manifest is taken with the cookie, without a complaint of the policy.
    taken = page.context.new_cdp_session(page).send("Page.getAppManifest")
    assert taken["errors"] == []
    assert json.loads(taken["data"])["share_target"]["action"] == "/new"
    page.goto(f"{place.url}/new?title=Tides&text=High+at+noon&url=https%3A%2F%2Fexample.com%2F")
    assert page.locator("textarea").input_value() == "High at noon"
    assert page.get_by_label("Where it is from").input_value() == "https://example.com/"
    tokens.remove("me")
    tokens.add("other")
    page.goto(place.url + "/contents")
    page.get_by_label("Token").wait_for()


class _Foreign(http.server.BaseHTTPRequestHandler):
    """A page of somebody else, which tries to reach the memory in every way that a page has."""

    target = ""

    def do_GET(self) -> None:
        body = f"""<!doctype html><body><script>
          const tried = [];
          const told = (name) => (result) => tried.push(name + ": " + result);
          (async () => {{
            for (const place of ["/api/search?q=x", "/api/status", "/", "/mcp", "/health"])
              for (const mode of ["cors", "no-cors"])
                await fetch("{self.target}" + place, {{mode, credentials: "include"}})
                  .then(async (answer) => told(place + " " + mode)(answer.type + " " + await answer.text()))
                  .catch(() => told(place + " " + mode)("refused"));
            for (const [place, type] of [["/api/undo", "text/plain"], ["/do/pin", "application/x-www-form-urlencoded"], ["/mcp", "text/plain"]])
              await fetch("{self.target}" + place, {{method: "POST", mode: "no-cors", credentials: "include",
                headers: {{"content-type": type}}, body: 'id=projects/배포&pinned=true'}}).catch(() => 0);
            await new Promise((done) => {{
              const events = new EventSource("{self.target}/sse");
              events.onerror = () => {{ told("events")("refused"); events.close(); done(); }};
              events.onopen = () => {{ told("events")("opened"); done(); }};
            }});
            const frame = document.createElement("iframe");
            frame.name = "frame"; frame.src = "{self.target}/";
            frame.onload = () => {{
              const form = document.createElement("form");
              form.method = "post"; form.action = "{self.target}/do/pin"; form.target = "frame";
              form.innerHTML = '<input name=id value="projects/배포"><input name=pinned value=true>';
              document.body.append(form);
              frame.onload = () => {{ document.title = "tried"; document.body.dataset.tried = JSON.stringify(tried); }};
              form.submit();
            }};
            document.body.append(frame);
          }})();
        </script>""".encode()
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_a_page_of_another_origin_reads_and_changes_nothing(
    tab: Callable[..., Any], place: Place, tokens: Tokens
) -> None:
    """
    By fetch, form, frame or events, on the same machine, and by a name that leads to it (DNS rebinding).

    First where no token is needed, then with the cookie of a login.
    """
    port = place.url.rpartition(":")[2]
    before = held(place.vault)
    page = tab(locale="en-US", expecting=".")
    foreign = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Foreign)
    threading.Thread(target=foreign.serve_forever, daemon=True).start()

    def attack() -> None:
        evil = f"http://{EVIL}:{port}"
        for host, target in (("127.0.0.1", place.url), ("localhost", place.url), (EVIL, place.url), (EVIL, evil)):
            _Foreign.target = target
            page.goto(f"http://{host}:{foreign.server_port}/")
            page.locator("body[data-tried]").wait_for()
            tried = page.evaluate("JSON.parse(document.body.dataset.tried)")
            assert len(tried) == 11
            assert all(re.search(": (refused|opaque )$", each) for each in tried), tried
        # A name that leads to this machine, as a page whose address was bound anew would use it.
        assert page.goto(f"{evil}/api/search?q=x").status == 421
        assert held(place.vault) == before
        page.goto(place.url)

    try:
        attack()
        page.get_by_role("heading", name="Home").wait_for()
        secret = tokens.add("me", "admin")
        page.goto(place.url)
        page.get_by_label("Token").fill(secret)
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="Home").wait_for()
        attack()
        page.get_by_role("heading", name="Home").wait_for()
    finally:
        foreign.shutdown()
        foreign.server_close()
