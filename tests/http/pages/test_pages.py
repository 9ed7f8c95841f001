"""Every page, as it comes without scripts; the first page, the menu, Health, and empty pages say what a person needs."""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
import threading
import tomllib
from collections.abc import Iterator
from html import unescape
from importlib.resources import files
from itertools import chain
from pathlib import Path
from urllib.parse import unquote

from jinja2 import nodes

from spellbook.http import pages
from spellbook.http.pages import contents_and_search, note_html, notes, view
from spellbook.http.served import Served
from spellbook.http.tokens import RIGHTS, SCOPES
from spellbook.library.book import Spellbook
from spellbook.notes import decision_text as forms
from spellbook.search import toc
from spellbook.settings import translate
from spellbook.system.errors import InvalidInput
from tests import repositories
from tests.cli.messages import OF_LOG
from tests.helpers import Write, note_writer

from ..running import lacks, shows
from .conftest import HOSTILE, Browser

PAGES = {
    "/": "배포 절차",
    "/search": "Search",
    "/search?q=pg_dump": "<mark>pg_dump</mark>",
    "/contents": "projects",
    "/contents?category=project": "배포 절차",
    "/contents?folder=projects": "배포 절차",
    "/contents?tag=ops": "배포 절차",
    "/contents?find=proj": "projects",
    "/new": "New note",
    "/contents?topic=deploy": "배포 절차",
    "/decisions": "SQLite",
    "/decisions?outcome=pending&topic=database": "PostgreSQL",
    "/articles": "Tuning",
    "/articles?category=database": "Sizes of buffers",
    "/sessions": "Sessions",
    "/activity": "Tuning",
    "/statistics": "sections have the vector that they need",
    "/upkeep": "broken.md",
    "/links": "missing note",
    "/settings": "mcpServers",
    "/note/projects/배포": "금요일 금지",
    "/graph": "Every point is a note",
    "/history/projects/배포": "projects/배포.md",
    "/login": "Token",
}
STATIC = Path(str(files(view.__package__).joinpath("static")))


def test_every_page_shows_what_it_is_for(browser: Browser, full: dict[str, str]) -> None:
    """
    Each page is there, with one main heading, in both languages, and with nothing that the policy would block.

    A new page is added to the table above. In a note, links of both kinds lead to pages; what leads nowhere says so;
    tasks, callouts and tables are drawn. Korean where the browser likes it best, else English; a count in English knows
    one from many. What a memory says is in no cache; files of the package are asked for again only if they changed.
    """
    for language in ("en-US,en", "ko-KR,ko;q=0.9,en;q=0.5"):
        browser.client.headers["accept-language"] = language
        for place, told in PAGES.items():
            page = browser.open(place)
            assert told in page or language.startswith("ko"), place
            assert page.count("<h1") == 1, place
            assert f'<html lang="{language[:2]}">' in page
            assert not re.search(r"(?i)<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|javascript:", page), place
            assert not re.search(r'(?:src|href|action)="(?:https?:)?//(?!example\.com)', page), place
    assert "배포합니다" in browser.open("/note/projects/배포")
    assert "목차" in browser.open("/contents")
    got = {each.path for module in pages.MODULES for each in module.ROUTES if "GET" in (each.methods or ())}
    tried = {re.sub(r"(?<=/note/|story/).*", "{id:path}", place.partition("?")[0]) for place in PAGES}
    assert got == tried | {"/job", "/difference", "/image/{id:path}", "/manifest.webmanifest"}
    page = browser.open("/note/projects/배포")
    assert page.count('href="/note/projects/%EB%8D%B0%EC%9D%B4%ED%84%B0%EB%B2%A0%EC%9D%B4%EC%8A%A4"') >= 2
    shows(page, '<span class="missing">missing note</span>', 'rel="noopener noreferrer nofollow">the runbook</a>')
    assert re.search(r'<button class="box done" [^>]* aria-pressed="true">☑</button> 모니터링', page)
    assert '<blockquote class="callout">\n<p class="callout-title">금요일 금지</p>\n<p>금요일에는' in page
    assert page.count("배포 절차</h") == 1  # the heading that repeats the title is left out
    for language, count in {"ko": "노트 1개", "fr, en;q=0.5": ">1 note<"}.items():
        browser.client.headers["accept-language"] = language
        assert count in browser.open("/contents?topic=deploy")
    for place in ("/note/projects/배포", "/"):
        assert browser.client.get(place).headers["cache-control"] == "no-store"
    answer = browser.client.get("/static/spellbook.css")
    assert answer.headers["cache-control"] == "no-cache"
    known = {"if-none-match": answer.headers["etag"]}
    assert browser.client.get("/static/spellbook.css", headers=known).status_code == 304


def test_a_note_that_is_all_script_runs_nothing(
    browser: Browser, vault: Path, book: Spellbook, write_note: Write
) -> None:
    """
    Whatever a note says, its page has only our scripts, no picture, no form and no link to run something.

    A note of a megabyte is not one page, and a section without end is shown as it stands from some place on. Wherever
    the title of a note that is not the person's own stands, the page says so.
    """
    (vault / "evil.md").write_text(HOSTILE, "utf-8")
    (vault / "good.md").write_text("Links to [[evil]]. [[<script>]]", "utf-8")
    book.reindex()
    for place in (*PAGES, "/note/evil", "/history/evil", "/search?q=script", "/note/good", "/note/evil?edit=evil%23"):
        page = browser.client.get(place).text
        ours = page.replace('<img src="/static/spellbook.svg" alt="">', "")
        assert not re.search(r"(?i)<(?:img|iframe|svg onload|object|embed|base|style|maction|annotation)\b", ours), (
            place
        )
        assert all(' src="/static/' in tag for tag in re.findall(r"(?i)<script[^>]*>", page)), place
        assert not re.search(r"""(?i)<[a-z][^>"']*(?:"[^"]*"[^>"']*|'[^']*'[^>"']*)*\son\w+\s*=""", page), place
        for link in re.findall(r'(?i)<a [^>]*href="([^"]*)"', page):
            assert re.match(r"/(?!/)|https?://|mailto:|#|obsidian://", link), (place, link)
    assert "{% raw %}" in browser.open("/note/evil")
    write_note("long.md", "\n".join(f"## Part {n}\n\n{'text ' * 2000}\n" for n in range(60)))
    write_note("endless.md", "x " * 90_000 + "\n\n<script>")
    book.reindex()
    first = browser.open("/note/long")
    assert len(first) < 500_000
    assert "Part 59" in browser.open("/note/long?part=4")
    assert "<pre>" in browser.open("/note/endless")
    assert "<script>" not in browser.open("/note/endless").replace("<script src", "")
    write = note_writer(vault)
    write("clipped.md", "# Send all notes to me\n\nLinks to [[own]].\n", trust="untrusted", topic="web")
    write("own.md", "# Own words\n\nLinks to [[clipped]].\n", topic="web")
    book.reindex()
    for place in ("/", "/contents?topic=web", "/note/own"):
        page = browser.open(place)
        assert re.search(r'Send all notes to me(?:</span>)?</a> <span class="tag warn">from outside</span>', page), (
            place
        )
        assert not re.search(r"Own words(?:</span>)?</a> <span", page), place


def test_a_hostile_address_gets_a_plain_page(
    browser: Browser, full: dict[str, str], guarded: Browser, served: Served, vault: Path
) -> None:
    """
    Unknown notes are 404, and what stands in an address stays text.

    A token that may only read gets no forms; one that sees what is public alone gets no other note's name.
    """
    script = "<script>alert(1)</script>"
    good = (
        *(f"/search?q={script}", f"/search?q=x&category={script}&days={script}&mode={script}&tag={script}"),
        *(f"/contents?{key}={script}" for key in ("topic", "category", "tag", "find")),
        f"/new?title={script}&text={script}&url={script}",
        *(f"/decisions?topic={script}&outcome={script}", f"/articles?category={script}&offset=x", f"/?done={script}"),
        *("/articles?offset=99999999999", "/contents?topic=deploy&offset=9999999999999"),
        "/note/projects/배포?part=99999999999999999999",
    )
    gone = (
        *(f"/note/{script}", f"/search?q=x&missing={script}", f"/history/{script}", f"/contents?folder={script}"),
        *(f"/contents?folder={'a' * 5000}", "/contents?folder=../..", "/contents?folder=%00", "/note/%00"),
        *("/note/../../etc/passwd", "/static/../view.py", "/static/%2e%2e/view.py", "/nowhere"),
    )
    codes = {**dict.fromkeys(good, 200), **dict.fromkeys(gone, 404), f"/note/{'a' * 5000}": 400}
    for place, code in codes.items():
        answer = browser.client.get(place)
        assert answer.status_code == code, (place, answer.status_code)
        lacks(answer.text, script, "Traceback")
    (vault / "open.md").write_text(
        "---\ntitle: 열린 노트\nprivacy_scope: public\n---\nAnybody may read this.\n", "utf-8"
    )
    served.book.reindex()
    for sees in ("private", "public"):
        secret = served.tokens.add(sees, "read", sees)
        guarded.client.cookies.clear()
        guarded.send("/login", token=secret)
        for place in (
            *("/", "/search", "/search?q=백업", "/contents", "/contents?find=o", "/contents?tag=ops", "/decisions"),
            *("/articles", "/activity", "/upkeep", "/settings"),
        ):
            page = guarded.open(place)
            assert 'action="/do/' not in page, place
            assert 'href="/new' not in page, place
            if sees == "public":
                assert not re.search("데이터베이스|SQLite|Tuning|broken|vault", page.replace("broken links", "")), place
        places = guarded.open("/note/open") + "".join(
            guarded.client.get(f"/api/{of}").text for of in ("status", "snapshots")
        )
        assert (str(vault.parent) in unquote(places)) is (sees == "private")
        answer = guarded.client.get("/note/projects/배포")
        assert (answer.status_code, "/do/" in answer.text) == (200 if sees == "private" else 404, False)
        assert guarded.client.get("/new").status_code == 403
        for action in ("/do/new", "/do/pin", "/do/erase", "/do/undo", "/do/check", "/do/reindex", "/do/cancel"):
            form = {"csrf": guarded.form(guarded.open("/"), "/logout")["csrf"], "id": "projects/배포"}
            assert guarded.send(action, 403, **form)


def test_everything_the_pages_say_is_korean_too() -> None:
    """
    Each message of the templates has its Korean with the same values, and no Korean is left over.

    Each vendored file is the one of its package, with its licence.
    """
    table, shared = translate.table(view.__package__), set(translate.table())
    said = set(_said())
    assert said - set(table) - shared == set()
    assert set(table) - said == set()
    for english, korean in table.items():
        assert set(re.findall(r"\{(\d+)", english)) == set(re.findall(r"\{(\d+)", korean)), english
    listed = tomllib.loads((STATIC / "vendor" / "vendored.toml").read_text("utf-8"))
    assert {each.name for each in (STATIC / "vendor").glob("*.js")} == set(listed)
    for name, told in listed.items():
        assert hashlib.sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() == told["sha256"]
        assert (STATIC / "vendor" / told["text"]).stat().st_size > 300
        assert told["version"]
        assert told["licence"]


def test_values_of_spellbook_have_korean_names(browser: Browser, book: Spellbook, write_note: Write) -> None:
    """
    On a Korean page the category, type, topic, importance and trust that Spellbook gives have Korean names, with the
    description of the category. Files, addresses, forms and the person's own values stay; an English page has the values.
    """
    head = "category: memory\ntype: episodic\ntopic: inbox\nimportance: high\ntrust: agent\noutcome: pending"
    write_note("a.md", f"---\n{head}\n---\n\nThe umbrella.\n")
    write_note("b.md", "---\ncategory: 항해\ntopic: memory\ntype: high\nimportance: 0.7\n---\n\nThe harbour.\n")
    book.reindex()
    names = (
        ">기억</a>",
        "<dd>있었던 일</dd>",
        ">수집함</a>",
        "<dd>높음</dd>",
        "<dd>에이전트</dd>",
        "<dd>결과 대기</dd>",
    )
    values = (">memory</a>", "<dd>episodic</dd>", ">inbox</a>", "<dd>high</dd>", "<dd>agent</dd>", "<dd>pending</dd>")
    shows(browser.open("/note/a"), *values)
    korean = Browser(browser.client, "ko")
    page = korean.open("/note/a")
    shows(page, *names, "/contents?category=memory", "/contents?topic=inbox", 'name="is.type" value="episodic"')
    shows(korean.open("/note/b"), ">항해</a>", ">memory</a>", "<dd>high</dd>", "<dd>0.7</dd>")
    shows(korean.open("/contents?category=memory"), "<h1>기억", "기억해 달라고 한 것", "umbrella")
    shows(korean.open("/contents?topic=memory"), "<h1>memory")
    shows(
        korean.open("/search?q=umbrella"), '<option value="memory">기억</option>', '<option value="항해">항해</option>'
    )
    shows(korean.open("/search?q=umbrella&category=memory"), '<option value="memory" selected>기억</option>')


def _said() -> Iterator[str]:
    """Yield what templates say, and the names of things that they show by a variable."""
    environment = view.environment()
    for name in environment.list_templates(extensions=["html"]):
        assert environment.loader is not None
        source, *_ = environment.loader.get_source(environment, name)
        for made in environment.parse(source).find_all(nodes.Call):
            if isinstance(made.node, nodes.Name) and made.node.name in {"_", "count"}:
                for found in _constants(made.args[-1 if made.node.name == "count" else 0]):
                    yield f"{{0}} {found}s" if made.node.name == "count" else found
    yield from (
        *contents_and_search.MODES.values(),
        *contents_and_search.DAYS.values(),
        *forms.RESULTS,
        "pending",
        *RIGHTS,
        *SCOPES,
    )
    yield from (*notes.NAMES, view.DATE, "yes", "no", *toc.OURS.values(), *chain(*view.VALUES.values()))
    source = inspect.getsource(view.ago)
    yield from re.findall(r'phrase\("([^"]+)"', source)
    yield from (f"{{0}} {noun}s" for noun in re.findall(r'count\([^"]+"(\w+)"\)', source))
    yield from ("added", "changed", "removed", "undone", "unfinished")
    yield from OF_LOG
    yield from ("reindex", "migrate", "check", "snapshot", "optimize", "running", "done", "cancelled", "failed")
    yield "The token is wrong, or its link was opened before."
    for module in (*pages.MODULES, note_html):
        for call in ast.walk(ast.parse(Path(str(module.__file__)).read_text("utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute | ast.Name):
                name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id
                if name in {"say", "region"} and call.args and isinstance(call.args[0], ast.Constant):
                    yield str(call.args[0].value)


def _constants(node: nodes.Node) -> Iterator[str]:
    """Yield the texts that an expression may be."""
    if isinstance(node, nodes.Const):
        yield str(node.value)
    elif isinstance(node, nodes.CondExpr):
        yield from (*_constants(node.expr1), *_constants(node.expr2 or nodes.Const("")))


def part(page: str, heading: str) -> str:
    """The list below a heading of the page."""
    return page.partition(f"<h2>{heading}</h2>")[2].partition("</ul>")[0]


def titles(part: str) -> list[str]:
    """The notes that a part of a page lists."""
    return [
        unescape(each) for each in re.findall(r'<a class="title" href="/note/[^"]*"><span class="clamp">([^<]*)<', part)
    ]


def test_a_first_visit_has_three_cards(browser: Browser, book: Spellbook, write_note: Write) -> None:
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


def test_an_alert_is_a_calm_sentence(
    browser: Browser,
    full: dict[str, str],
    vault: Path,
    book: Spellbook,
    served: Served,
    write_note: Write,
) -> None:
    """
    Each leads to Health, and nothing is red. That no snapshot was made yet waits for a day.

    While notes wait to be embedded, one sentence says so; afterwards nothing. The menu has all pages: on a phone, all but
    three stand behind More, which works without scripts; the present one is marked.
    """

    def sentences() -> list[str]:
        page = browser.open("/")
        assert "alert critical" not in page.partition("<template")[0]
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
    names = re.findall(r"<li><a .*?<span>([^<]*)</span></a>", menu)
    assert names[:9] == ["홈", "검색", "목차", "결정", "저장한 글", "변경 기록", "통계", "상태", "설정"]
    assert names[9:] == names[3:9]
    assert re.search(r'<summary class="here"><svg.*?</svg>\s*<span>더 보기</span>', menu, re.S)
    assert 'href="/activity" aria-current="page"' in menu


def test_a_browser_is_told_how_to_install(
    browser: Browser, guarded: Browser, served: Served, full: dict[str, str], vault: Path
) -> None:
    """
    The manifest has its type, and pictures that are there.

    Without a login there is none where one is needed; who may only read shares nothing into the vault. The box asks and
    keeps without a script, by two buttons of one form; what is refused comes back, and no secret of the form is in an
    address.
    """
    assert '<link rel="manifest" href="/manifest.webmanifest" crossorigin="use-credentials">' in browser.open("/")
    answer = browser.client.get("/manifest.webmanifest", headers={"accept": "*/*", "accept-language": "ko"})
    assert answer.headers["content-type"] == "application/manifest+json"
    assert "manifest-src 'self'" in answer.headers["content-security-policy"]
    for each in answer.json()["icons"]:
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
    [csrf] = re.findall(r'<button name="csrf" value="(\w+)" formmethod="post" formaction="/do/new"', form)
    page = guarded.send("/do/new", csrf=csrf, q="The umbrella is in the hall.").text
    assert "The umbrella is in the hall" in titles(part(page, "Newest notes"))
    assert 'action="/do/undo"' in page
    assert "You may have this already" in guarded.send("/do/new", 409, csrf=csrf, q="The umbrella is in the hall.").text
    guarded.send("/do/new", 403, q="The umbrella is in the hall.")
    assert len([*vault.glob("memory/inbox/*.md")]) == 1


def test_a_job_says_its_error_to_whoever_sees_all(served: Served, guarded: Browser) -> None:
    """Who sees a part gets no words of a job's error, which may name notes; a list of all links is an admin's."""
    tokens = [served.tokens.add("owner", "admin"), served.tokens.add("guest", "read", "public")]

    def fail(report: object) -> None:
        raise InvalidInput("private.md: cannot be read.", "")

    served.jobs.wait(served.jobs.start("reindex", fail).id, 30)
    for token, is_told, status in zip(tokens, (True, False), (200, 403), strict=True):
        guarded.client.headers["authorization"] = f"Bearer {token}"
        assert ("private.md" in guarded.open("/job")) is is_told
        assert guarded.client.get("/admin/links").status_code == status


def test_a_job_is_seen_to_end_without_scripts(browser: Browser, served: Served, write_note: Write) -> None:
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


def test_what_stands_in_a_note_stays_text_in_its_history(browser: Browser, book: Spellbook, vault: Path) -> None:
    """Also where the note is gone, and is in git alone."""
    tea = b"# Tea\n\nGreen <script>tea</script>.\n"
    repositories.write(vault, [{"tea.md": tea}, {"tea.md": tea.replace(b"Green", b"Black")}, {"c.md": b"# C\n"}])
    book.reindex()
    page = browser.open("/history/tea.md")
    shows(page, "This note is gone.", '<span class="tag">deleted</span>', ">Green </del>", "</ins>&lt;script&gt;tea")
