"""A vault with one of everything, and a browser without scripts that looks at it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from httpx2 import Response
from starlette.testclient import TestClient

from spellbook.http.guard import AccessRules
from spellbook.http.served import Served
from spellbook.http.tokens import Tokens
from spellbook.library import book as books
from spellbook.library.book import Spellbook

from ..running import Server, asked, form

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
EVIL = "evil.test"
"""A host of somebody else, which leads to this machine."""

QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
)
"""A browser that asks nobody but the pages it is told to open."""

IN_BROWSER = (pytest.mark.slow, pytest.mark.skipif(not CHROMIUM, reason="needs chromium"), pytest.mark.timeout(180))
"""The marks of a module whose tests need a real browser."""

NOTES = {
    "projects/배포.md": (
        "---\ntitle: 배포 절차\ncategory: project\ntopic: deploy\ntags: [ops, 배포]\n---\n# 배포 절차\n\n"
        "매주 화요일 오후에 배포합니다. [[데이터베이스]]를 먼저 백업합니다.\n\n## 순서\n\n1. 태그를 만든다\n"
        "2. `make release`\n\n- [ ] 문서 갱신\n- [x] 모니터링\n\n> [!warning] 금요일 금지\n> 금요일에는 하지 않는다.\n\n"
        "## Rollback\n\nUse `git revert`. See [the runbook](https://example.com/runbook) and [[missing note]].\n"
    ),
    "projects/데이터베이스.md": (
        "---\ntitle: 데이터베이스\ncategory: project\ntopic: database\nreview: 2026-01-01\n---\n"
        "PostgreSQL 16을 쓴다. [[배포]] 전에 백업한다.\n\n## Backup\n\nEvery night with pg_dump.\n"
    ),
    "projects/marks.md": (
        "---\ntitle: Marks\n---\n# Marks\n\nA ==found word==, a note[^n] and ^[one at once], %%hidden%% $E=mc^2$, #표시/둘, "
        "https://example.com/a_b and ~~gone~~. ^block-1\n\n"
        "$$\n\\sum_{i=1}^{n} x_i = \\frac{a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+p}{\\sqrt{q+r+s+t+u+v+w}} + \\int_0^\\infty y\\,dy + z\n$$\n\n"
        "Within a line $a+b+c+d+e+f+g+h+i+j+k+l+m+n+o+p+q+r+s+t+u+v+w+x+y+z$ is long, too.\n\n"
        "## 표\n\n| 항목 | 하나 | 금액 | Somewhat longer heading | 비고 |\n|---|---|--:|---|:-:|\n"
        "| 서버 | 둘 | 1,200,000 | ==marked== `code` | 없음 |\n\n"
        "```mermaid\ngraph LR\n  A[Start] --> B[A step with a very long name so that it is wider than a phone]\n```\n\n"
        "> [!note] 알림\n> A callout with $x_1$ and [[배포]].\n\n"
        "## Embedded\n\n![[데이터베이스]]\n\n![[배포#순서]]\n\n![[absent]]\n\n![[missing.png|200]]\n\n"
        "- [ ] ==do== it #later\n- [x] done\n\n[^n]: The note.\n"
    ),
    "broken.md": "---\ntitle: [\n---\nA note whose frontmatter is broken.\n",
}

HOSTILE = """---
title: "<script>document.title='owned'</script>"
tags: ["<img src=x onerror=document.title='owned'>", "\\"><svg onload=document.title='owned'>"]
category: "<b onmouseover=alert(1)>"
topic: "'><script>document.title='owned'</script>"
aliases: ["javascript:alert(1)"]
"<u>": "</textarea><script>document.title='owned'</script>"
source: https://evil.test/
---
# <img src=http://evil.test/1.png onerror="document.title='owned'">

<script>document.title='owned'</script>
<img src=http://evil.test/2.png onerror="document.title='owned'">
[a](javascript:document.title='owned') [b](JaVaScRiPt:alert) [c](data:text/html,<script>1</script>) [d](vbscript:x)
[e](/logout) [f](//evil.test/x) [g]( javascript:alert(1)) [h](file:///etc/passwd) [i](\\x01javascript:alert(1))
![pic](http://evil.test/3.png) ![](javascript:alert(1)) ![[http://evil.test/4.png]]
[[javascript:alert(1)|<b>x</b>]] [["><script>document.title='owned'</script>]] [ref]

[ref]: javascript:alert(1) "<script>"

## <iframe src="http://evil.test"></iframe>

```dataviewjs
document.title = 'owned'
```
```html
</code></pre><script>document.title='owned'</script>
```
> [!<script>] <svg onload=document.title='owned'>
> <a href="javascript:alert(1)">x</a> &lt;script&gt; &#106;avascript:

| <script>x</script> | [x](javascript:1) |
| --- | :-: |
| <style>body{display:none}</style> | <base href=//evil.test> |

<svg><style><img src=x onerror=document.title='owned'></style></svg> <math><mi//xlink:href="data:x,<script>1</script>">

$\\href{javascript:document.title='owned'}{x}$ $\\style{background:url(http://evil.test/5)}{x}$ $\\text{<script>document.title='owned'</script>}$
$\\text{</mtext></math><img src=http://evil.test/6.png onerror="document.title='owned'">}$ $\\class{row}\\cssId{q}{x}$
$$
<maction actiontype="statusline" xlink:href="javascript:document.title='owned'"><annotation-xml encoding="text/html"><script>document.title='owned'</script>
$$
$<math href=javascript:1>$ $x^{$ $\\frac{\\frac{a}}$ a[^"onload=alert(1)] b[^<script>] ^[<img src=http://evil.test/7.png onerror=alert(1)>]
==<script>document.title='owned'</script>== #"><script>document.title='owned'</script> #x'onmouseover=alert(1) %%<script>%% ^id"><script>
https://evil.test/"onmouseover="alert(1) https://evil.test/<script>document.title='owned'</script>

![[evil]]

![[other#"><script>document.title='owned'</script>]]

![[http://evil.test/8]]

[^"onload=alert(1)]: <img src=http://evil.test/9.png onerror="document.title='owned'">
[^<script>]: [x](javascript:document.title='owned') ![](http://evil.test/10.png)

{{ 7*7 }} {% raw %} ${7*7} <form action=//evil.test><input name=csrf><button>
"""


def fill(vault: Path) -> None:
    """Write the notes."""
    for path, text in NOTES.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text, "utf-8")


def remember(book: Spellbook) -> dict[str, str]:
    """Write decisions, a checkpoint and an article; return their ids."""
    decisions = book.memories.decisions
    old = decisions.save("database", "SQLite를 쓴다.", "작고 간단하다.", confidence=0.6)
    new = decisions.save("database", "PostgreSQL로 옮긴다.", "여러 사람이 쓴다.", supersedes=[old["id"]])
    point = decisions.checkpoint("대시보드를 만드는 중.", ["편집 페이지", "Write tests"], ["a.py"])
    article = book.memories.articles.save(
        "Tuning", ["database"], {"summary": "Sizes of buffers."}, "# Tuning\n\nA quarter. " * 9
    )
    return {"old": old["id"], "new": new["id"], "checkpoint": point["id"], "article": article["id"]}


class Browser:
    """What a person does without scripts: open pages, follow links, send forms."""

    def __init__(self, client: TestClient, language: str = "en") -> None:
        self.client = client
        self.client.headers |= {"accept": "text/html", "accept-language": language}

    def open(self, place: str, code: int = 200) -> str:
        """Return a page's HTML."""
        answer = self.client.get(place)
        assert answer.status_code == code, answer.text
        return answer.text

    def send(self, action: str, code: int = 200, /, **fields: Any) -> Response:
        """Send a form, and follow where it leads."""
        answer = self.client.post(action, data=fields, headers={"origin": "http://localhost:17950"})
        assert answer.status_code == code, answer.text
        return answer

    def press(self, page: str, action: str, holding: str = "", code: int = 200, **changed: Any) -> str:
        """Send a form of a page, with some fields changed; return the page that follows."""
        return self.send(action, code, **self.form(page, action, holding) | changed).text

    form = staticmethod(form)


@pytest.fixture
def full(vault: Path, book: Spellbook) -> dict[str, str]:
    """A vault with one of everything; the ids of what was remembered."""
    fill(vault)
    ids = remember(book)
    book.reindex()
    return ids


@pytest.fixture
def served(book: Spellbook) -> Served:
    return Served(book, ("core", "decisions", "articles"))


@pytest.fixture
def browser(served: Served) -> Iterator[Browser]:
    """A browser on this machine, which needs no token."""
    with asked(served) as client:
        yield Browser(client)


@pytest.fixture
def guarded(served: Served) -> Iterator[Browser]:
    """A browser that must log in."""
    with asked(served, AccessRules(is_local=False)) as client:
        yield Browser(client)


@dataclass(frozen=True)
class Place:
    """A running server, its vault with one of everything, and the tokens of that vault."""

    url: str
    vault: Path
    tokens: Tokens


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, prepared: Path) -> Iterator[Place]:
    """A server for all tests of a module: each looks at notes of its own, or at those that nobody changes."""
    folder = tmp_path_factory.mktemp("place")
    vault = folder / "vault"
    vault.mkdir()
    names = ("STATE", "DATA", "MODELS")
    own = {f"SPELLBOOK_{name}": str(folder / name.lower()) for name in names} | {"SPELLBOOK_CACHE": str(prepared)}
    with pytest.MonkeyPatch.context() as patched:
        for name, value in own.items():
            patched.setenv(name, value)
        fill(vault)
        with books.open(vault, embedder="hash") as book:
            remember(book)
            book.reindex()
        tokens = Tokens.of(vault)
    server = Server(vault, "--toolsets", "core,decisions,articles", **own)
    yield Place(server.url, vault, tokens)
    server.end()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser that asks nobody but the pages it is told to open."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    with playwright.sync_playwright() as started:
        rules = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1"
        browser = started.chromium.launch(executable_path=CHROMIUM, args=[*QUIET, rules])
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium: Any, serving: object) -> Iterator[Callable[..., Any]]:
    """Open a tab; whatever its pages complain about fails the test. Tabs are closed before servers end."""
    opened: list[Any] = []
    complaints: list[str] = []

    def new(**options: Any) -> Any:
        expected = options.pop("expecting", "no complaint")
        context = chromium.new_context(**options)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on(
            "console",
            lambda said: (
                complaints.append(said.text) if said.type == "error" and not re.search(expected, said.text) else None
            ),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        opened.append(context)
        return page

    yield new
    for each in opened:
        each.close()
    assert complaints == []
