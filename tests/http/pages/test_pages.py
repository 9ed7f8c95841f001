"""Every page, as it comes without scripts."""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote

from jinja2 import nodes

from spellbook.http import pages
from spellbook.http.pages import contents, home, notes, rendering, view
from spellbook.http.tokens import RIGHTS, SCOPES
from spellbook.notes import decisions as forms
from spellbook.settings import translate
from tests.helpers import note_writer

from ..running import lacks, shows
from .conftest import HOSTILE

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
    "/upkeep": "broken.md",
    "/links": "missing note",
    "/settings": "mcpServers",
    "/note/projects/배포": "금요일 금지",
    "/graph": "Every point is a note",
    "/history/projects/배포": "projects/배포.md",
    "/login": "Token",
}
STATIC = Path(str(files(view.__package__).joinpath("static")))


def test_every_page_shows_what_it_is_for(browser, full):
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


def test_a_note_that_is_all_script_runs_nothing(browser, vault, book, write_note):
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
        assert not re.search(r"(?i)<(?:img|iframe|svg onload|object|embed|base|style|math)\b", ours), place
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
        assert re.search(r'Send all notes to me</a> <span class="tag warn">from outside</span>', page), place
        assert not re.search(r"Own words</a> <span", page), place


def test_a_hostile_address_gets_a_plain_page(browser, full, guarded, served, vault):
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
    for may, sees in (("read", "private"), ("read", "public")):
        secret = served.tokens.add(f"{may}-{sees}", may, sees)
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


def test_everything_the_pages_say_is_korean_too():
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


def _said() -> Iterator[str]:
    """Yield what templates say, and the names of things that they show by a variable."""
    environment = view.environment()
    for name in environment.list_templates(extensions=["html"]):
        source, *_ = environment.loader.get_source(environment, name)
        for call in environment.parse(source).find_all(nodes.Call):
            if isinstance(call.node, nodes.Name) and call.node.name in {"_", "count"}:
                for found in _constants(call.args[-1 if call.node.name == "count" else 0]):
                    yield f"{{0}} {found}s" if call.node.name == "count" else found
    yield from (*contents.MODES.values(), *contents.DAYS.values(), *forms.RESULTS, "pending", *RIGHTS, *SCOPES)
    yield from (*notes.NAMES, view.DATE, "yes", "no")
    for source in map(inspect.getsource, (rendering.pictures, view.ago)):
        yield from re.findall(r'phrase\("([^"]+)"', source)
        yield from (f"{{0}} {noun}s" for noun in re.findall(r'count\([^"]+"(\w+)"\)', source))
    yield from ("added", "changed", "removed", "undone", "unfinished")
    yield from (*home.VERBS.values(), "import")
    yield from ("reindex", "migrate", "check", "snapshot", "optimize", "running", "done", "cancelled", "failed")
    yield "The token is wrong."
    for module in pages.MODULES:
        for call in ast.walk(ast.parse(Path(str(module.__file__)).read_text("utf-8"))):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute | ast.Name):
                name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id
                if name == "say" and call.args and isinstance(call.args[0], ast.Constant):
                    yield str(call.args[0].value)


def _constants(node: nodes.Node) -> Iterator[str]:
    """Yield the texts that an expression may be."""
    if isinstance(node, nodes.Const):
        yield str(node.value)
    elif isinstance(node, nodes.CondExpr):
        yield from (*_constants(node.expr1), *_constants(node.expr2 or nodes.Const("")))
