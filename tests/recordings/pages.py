"""The dashboard: each page's HTML in two languages, and what its forms do."""

from __future__ import annotations

import re
from urllib.parse import quote, urlencode

from . import vault
from .api import Web, finish, serving, tokens
from .place import Place, slug
from .tools import ARTICLE, FERRY, HARBOR, NEW, OLD, POINT, Q

# fmt: off
PAGES = (
    "/", "/login", "/login?to=/search", "/contents", "/contents?topic=deploy", "/contents?category=decision", "/contents?topic=none", "/contents?offset=20",
    "/search", f"/search?q={quote(Q)}", f"/search?q={quote('키 교체')}&mode=memorize", "/search?q=fence+closed&mode=find", "/search?q=backup&category=project&days=900&tag=guide",
    "/search?q=zebra+spaceship", "/search?q=harbor&as_of=HEAD~1", "/search?q=harbor&as_of=never", "/search?q=harbor&missing=1", "/search?q=x&mode=nothing",
    "/note/en/deploy.md", f"/note/{quote('ko/배포.md')}", f"/note/{OLD}", f"/note/{ARTICLE}", "/note/hostile.md", "/note/faulty.md", "/note/code.md", "/note/none", "/note/links.md", f"/note/{quote('long/이야기.md')}?part=2",
    "/note/en/deploy.md?edit=rollback", "/note/en/deploy.md?as_of=HEAD~1", "/history/en/deploy.md", "/history/none", "/graph/en/deploy.md", "/graph/none",
    "/decisions", "/decisions?topic=sessions", "/decisions?outcome=failed", "/articles", "/articles?category=sea", "/articles?offset=x", "/activity", "/difference?entry=1", "/difference?entry=x",
    "/upkeep", "/settings", "/job", "/job?id=none", "/nothing", "/static/style.css", "/static/none.js",
)
# fmt: on

# fmt: off
FORMS: tuple[tuple[str, dict[str, str]], ...] = (
    ("/do/edit", {"id": "en/coffee.md#cleaning", "old": "x", "content": "## Cleaning\n\nDescale it.", "hash": "0"}), ("/do/edit", {"id": "en/coffee.md#cleaning", "old": "", "content": "## Cleaning\n\nDescale it.\n"}),
    ("/do/properties", {"id": "en/coffee.md", "was.importance": "medium", "is.importance": "high", "new": "season", "value": "spring"}), ("/do/pin", {"id": FERRY, "pinned": "true"}), ("/do/pin", {"id": "none"}),
    ("/do/review", {"id": FERRY, "days": "3"}), ("/do/review", {"id": FERRY, "at": "x"}), ("/do/move", {"id": "en/search.md", "new": "found/search.md"}), ("/do/move", {"id": "en/search.md", "new": "found/search.md", "sure": "yes"}),
    ("/do/erase", {"id": "en/budget.md"}), ("/do/erase", {"id": "en/budget.md", "sure": "yes"}), ("/do/erase-topic", {"topic": "garden"}), ("/do/erase-topic", {"topic": "garden", "sure": "yes", "count": "2"}), ("/do/restore", {"name": "en/budget.md"}), ("/do/restore", {"name": "none"}),
    ("/do/undo", {"entry": "1", "to": "/activity"}), ("/do/undo", {"entry": "999"}), ("/do/outcome", {"id": NEW, "outcome": "success", "reason": "It survived."}), ("/do/outcome", {"id": NEW, "outcome": "x"}), ("/do/tick", {"id": POINT, "step": "close fences"}),
    ("/do/save", {"source": "https://example.com/tides", "categories": "sea, port", "text": HARBOR}), ("/do/save", {"source": "", "categories": ""}), ("/do/file", {"id": ARTICLE, "categories": "sea"}),
    ("/do/merge", {"a": "twins/a.md", "b": "twins/b.md"}), ("/do/merge", {"a": "twins/a.md", "b": "twins/b.md", "keep": "both", "sure": "yes"}), ("/do/cleanup", {}), ("/do/cleanup", {"sure": "yes"}), ("/do/optimize", {}), ("/do/clear", {"cache": "all"}), ("/do/clear", {"cache": "x"}), ("/do/resolve", {"error": "none"}),
    ("/do/examine", {}), ("/do/reindex", {}), ("/do/snapshot", {}), ("/do/check", {}), ("/do/cancel", {"job": "none"}), ("/do/nothing", {}),
)
# fmt: on


def record(place: Place) -> None:
    """Record each page for somebody who may do all and for one who may read public notes, then the forms."""
    vault.make(place)
    known = tokens(place)
    with serving(place) as web:
        cookies = {name: _enter(web, known[name]) for name in ("admin", "public")}
        _look(place, web, "before", cookies)
        for language in ("en", "ko"):
            for number, (path, form) in enumerate(FORMS, 1):
                for name, cookie in cookies.items():
                    _, _, page = web.ask(
                        "GET", "/activity", None, cookie=cookie, accept="text/html", accept_language=language
                    )
                    csrf = re.search(r'name="csrf" value="([^"]*)"', page)
                    sent = urlencode({**form, "csrf": csrf[1] if csrf else ""}).encode()
                    text = _show(
                        web.ask(
                            "POST",
                            path,
                            sent,
                            cookie=cookie,
                            accept="text/html",
                            accept_language=language,
                            content_type="application/x-www-form-urlencoded",
                            origin=f"http://127.0.0.1:{web.port}",
                        )
                    )
                    place.write(
                        f"forms/{language}-{number:02d}-{slug([path])}-{name}.txt", f"POST {path} {form}\n{text}"
                    )
                    finish(web, known["admin"])
        _look(place, web, "after", cookies)
        place.write(
            "wrong-token.txt",
            _show(
                web.ask(
                    "POST",
                    "/login",
                    b"token=wrong",
                    accept="text/html",
                    content_type="application/x-www-form-urlencoded",
                )
            ),
        )
        place.write(
            "logout.txt",
            _show(
                web.ask(
                    "POST",
                    "/logout",
                    b"",
                    cookie=cookies["admin"],
                    accept="text/html",
                    content_type="application/x-www-form-urlencoded",
                )
            ),
        )


def _look(place: Place, web: Web, when: str, cookies: dict[str, str]) -> None:
    for number, path in enumerate(PAGES, 1):
        for language in ("en", "ko"):
            for name, cookie in (*cookies.items(), ("stranger", "")):
                if name != "admin" and (language == "ko" or when == "after"):
                    continue
                text = _show(
                    web.ask(
                        "GET",
                        path,
                        None,
                        accept="text/html",
                        accept_language=language,
                        **({"cookie": cookie} if cookie else {}),
                    )
                )
                place.write(f"{when}/{number:02d}-{slug([path])}-{language}-{name}.html", text)


def _enter(web: Web, token: str) -> str:
    """Log in, and return the cookie."""
    _, headers, _ = web.ask(
        "POST", "/login", urlencode({"token": token}).encode(), content_type="application/x-www-form-urlencoded"
    )
    return headers["set-cookie"].partition(";")[0]


def _show(answer: tuple[int, object, str]) -> str:
    status, headers, text = answer
    assert isinstance(headers, dict)
    kept = [
        f"{name}: {headers[name]}"
        for name in ("location", "hx-redirect", "content-type", "content-language")
        if name in headers
    ]
    return "\n".join([str(status), *kept, text])
