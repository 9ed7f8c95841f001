"""`spellbook serve`: each route of the API for five callers, and the OpenAPI document."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from . import vault
from .place import PATIENCE, Place, lines, shown, slug
from .tools import ARTICLE, CHUNK, FERRY, HARBOR, NEW, OLD, Q

CALLERS = {
    "none": (),
    "read": ("--may", "read"),
    "write": ("--may", "write"),
    "public": ("--may", "read", "--sees", "public"),
    "admin": ("--may", "admin"),
}
"""Each caller and the options of its token."""

HEADERS = (
    "content-type",
    "etag",
    "location",
    "retry-after",
    "www-authenticate",
    "allow",
    "hx-redirect",
    "x-spellbook-api",
    "vary",
)
"""Headers of an answer that are recorded."""

N = "/api/notes/"
# fmt: off
ROUTES: list[tuple[str, str, dict[str, Any]]] = [
    *(("GET", path, {}) for path in ("/", "/health", "/api/status", "/api/openapi.json", "/api/nothing", "/api/jobs", "/api/jobs/none", "/api/check", "/api/snapshots", "/.well-known/oauth-authorization-server", "/mcp", "/favicon.ico")),
    *(("GET", "/api/index", each) for each in ({}, {"max_tokens": 60}, {"max_tokens": 1}, {"scope": "lantern"}, {"as_of": "HEAD~1"}, {"x": 1})),
    *(("GET", "/api/topic", each) for each in ({"name": "port"}, {"name": "project/deploy", "max_tokens": 60}, {"name": "none"}, {}, {"name": "deploy", "as_of": "HEAD~1"})),
    *(("GET", "/api/graph", each) for each in ({"id": "en/deploy.md"}, {"id": OLD, "limit": 2}, {"id": "none"}, {}, {"id": "links.md", "limit": 0})),
    *(("GET", "/api/search", each) for each in ({"q": Q}, {"q": "키 교체", "limit": 2}, {"q": "sessions", "mode": "memorize", "limit": 2}, {"q": "fence closed", "mode": "find"}, {"q": "backup", "also": "a dump at night", "limit": 1}, {"q": "backup", "filter": '{"topic": "database"}', "per_note": 1}, {"q": "backup", "filter": "x"}, {"q": "backup", "min_score": 2}, {"q": "backup", "max_tokens": 60, "limit": 3}, {"q": ""}, {}, {"q": "a", "limit": 101}, {"q": "a", "mode": "x"}, {"q": "harbor", "as_of": "HEAD~1", "limit": 1}, {"query": "harbor"}, {"q": "zebra spaceship quantum"})),
    *(("GET", "/api/why", each) for each in ({"q": Q, "limit": 2}, {"q": Q, "id": "article/harbor.md"}, {"q": Q, "id": "none"}, {"q": "fence", "mode": "find", "limit": 1}, {})),
    *(("GET", "/api/history", each) for each in ({"id": "en/deploy.md"}, {"id": "none"}, {"id": "en/deploy.md", "limit": 0}, {})),
    *(("GET", "/api/recent", each) for each in ({}, {"limit": 2, "offset": 1}, {"filter": '{"category": "decision"}'}, {"limit": 0}, {"as_of": "never"})),
    *(("GET", N + each, {}) for each in ("en/deploy.md", "ko/배포.md", OLD, ARTICLE, "en%2Fkeys.md", "en/deploy.md%23rollback", "none", "../x", "faulty.md", "hostile.md")), ("GET", N + "en/deploy.md", {"as_of": "HEAD~1"}),
    *(("GET", "/api/articles", each) for each in ({}, {"category": "sea", "limit": 1}, {"offset": -1})), *(("GET", "/api/log", each) for each in ({}, {"limit": 1}, {"path": "en/deploy.md"}, {"limit": 0})),
    *(("POST", "/api/notes", each) for each in (CHUNK, {**CHUNK, "force": True}, {"text": ""}, {"text": "Boat.", "metadata": {"topic": "x"}}, {"text": "key AKIAIOSFODNN7EXAMPLE", "metadata": {"topic": "a", "keywords": ["b"]}}, {})),
    *(("PATCH", N + "en/coffee.md%23cleaning", each) for each in ({"append": "And in autumn."}, {"content": "Descale it.", "dry_run": True}, {"replace": {"old": "autumn", "new": "May"}}, {"metadata": {"importance": "high", "questions": None}}, {"content": "x", "expected_hash": "0" * 16}, {}, {"content": "a", "append": "b"}, {"wrong": 1})), ("PATCH", N + "none", {"append": "x"}),
    *(("DELETE", N + each, {}) for each in ("en/budget.md%23approval", "en/budget.md", "none")), ("DELETE", N + "plain/11%20budget.txt.md", {"hard": "true"}),
    *(("POST", "/api/restore", each) for each in ({"name": "en/budget.md"}, {"name": "none"}, {})), *(("POST", "/api/undo", each) for each in ({"dry_run": True}, {}, {"entry": 9_999}, {"entry": 0})),
    *(("POST", "/api/move", each) for each in ({"old": "en/search.md", "new": "found/"}, {"old": "en/search.md", "new": "found/search.md", "dry_run": False}, {"old": "none", "new": "x"}, {"old": "links.md", "new": "../x"})),
    *(("POST", "/api/merge", each) for each in ({"a": "twins/a.md", "b": "twins/b.md"}, {"a": "twins/a.md", "b": "twins/b.md", "keep": "b", "dry_run": False}, {"a": "links.md"})),
    *(("POST", "/api/articles", each) for each in ({"source": "https://example.com/tides", "categories": ["sea"], "text": HARBOR, "metadata": {"title": "Tides"}}, {"source": "https://example.com/tides", "categories": []}, {"source": "https://127.0.0.1:9/x", "categories": ["a"]})),
    *(("POST", f"/api/decisions/{id}/outcome", {"outcome": "success", "reason": "It survived."}) for id in (NEW, "none")), ("POST", f"/api/decisions/{NEW}/outcome", {"outcome": "x"}),
    ("POST", "/api/snapshots", {}), ("POST", "/api/reindex", {"full": True}), ("POST", "/api/migrate", {"to": "hash"}), ("POST", "/api/migrate", {"to": "nothing:x"}), ("POST", "/api/import", {"file": "/nowhere.zip"}), ("POST", "/api/import", {}), ("POST", "/api/check", {}), ("GET", "/api/check", {}),
    *(("POST", "/admin/memory/cleanup", each) for each in ({"dry_run": True}, {"working_days": 0}, {"working_days": -1})), ("GET", "/admin/stats/forgetting", {}),
    *(("POST", "/admin/memory/review", each) for each in ({"memory_id": FERRY, "days": 3}, {"memory_id": FERRY, "at": "2028-01-01"}, {"memory_id": "none", "days": 1}, {"memory_id": FERRY})), ("GET", "/admin/memory/reviews", {}), ("GET", "/admin/memory/reviews", {"due": "true"}),
    ("GET", "/admin/alerts/performance", {}), ("GET", "/admin/stats/errors", {}), ("POST", "/admin/errors/resolve", {"errorId": "none", "resolvedBy": "me"}), ("POST", "/admin/database/optimize", {}), ("POST", "/admin/database/optimize", {"actions": ["x"]}), ("POST", "/admin/cache/clear", {"cacheType": "all"}), ("POST", "/admin/cache/clear", {"cacheType": "x"}), ("GET", "/admin/stats/cache", {}), ("GET", "/admin/stats/performance", {}), ("PUT", "/api/status", {}),
]
# fmt: on
"""Method, address and what is given, in a query or a body, in the order in which they are asked."""


class Web:
    """A running server, asked over one connection at a time."""

    def __init__(self, place: Place, *options: str, **more: str) -> None:
        command = [
            str(place.python),
            "-m",
            "spellbook",
            "serve",
            "--port",
            "0",
            "--toolsets",
            "core,decisions,articles",
            *options,
        ]
        self.place = place
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            cwd=place.root / "work",
            env=place.env(**more),
        )
        self.said: list[str] = []
        assert self.process.stderr
        for line in self.process.stderr:
            self.said.append(line)
            if line.startswith("http://"):
                break
        else:
            raise RuntimeError("".join(self.said))
        self.port = int(self.said[-1].split(":")[2].split("/")[0].split()[0])

    def ask(
        self, method: str, path: str, body: bytes | None = None, *, tick: bool = True, **headers: str
    ) -> tuple[int, Mapping[str, str], str]:
        """Return status, headers and body of an answer."""
        if tick:
            self.place.tick()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return (
                answer.status,
                {name.lower(): value for name, value in answer.getheaders()},
                answer.read().decode("utf-8", "backslashreplace"),
            )
        finally:
            connection.close()

    def close(self) -> str:
        """End the server; return its exit code and what it said."""
        self.process.terminate()
        _, rest = self.process.communicate(timeout=PATIENCE)
        return f"[code] {self.process.returncode}\n{''.join(self.said)}{rest}"


@contextlib.contextmanager
def serving(place: Place, *options: str, **more: str) -> Iterator[Web]:
    """A server that ends with the block; what it said is recorded."""
    web = Web(place, *options, **more)
    try:
        yield web
    finally:
        place.write("said.txt", web.close())


def tokens(place: Place, *options: str) -> dict[str, str]:
    """Make a token for each caller; return the headers that it sends."""
    made = {"none": ""}
    for name, may in CALLERS.items():
        if name != "none":
            made[name] = place.do("token", "add", name, *may, *options).strip()
    return made


def record(place: Place) -> None:
    """Record every route."""
    vault.make(place)
    known = tokens(place)
    with serving(place) as web:
        for number, (method, path, given) in enumerate(ROUTES, 1):
            told = [f"{method} {path} {shown(given)}"]
            for name, token in known.items():
                told.append(f"\n== {name}\n{answer(web, method, path, given, token)}")
                if method == "POST":
                    finish(web, known["admin"])
            place.write(f"{number:03d}-{slug([method, path, *given])}.txt", "\n".join(told))


def answer(web: Web, method: str, path: str, given: dict[str, Any], token: str) -> str:
    """Ask, and return the status, some headers and the body as lines."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    path, body = quote(path, safe="/%"), None
    if method in {"GET", "DELETE"}:
        path += f"?{urlencode(given)}" if given else ""
    elif given:
        body, headers["content_type"] = json.dumps(given).encode(), "application/json"
    status, got, text = web.ask(method, path, body, **headers)
    return "\n".join([str(status), *(f"{name}: {got[name]}" for name in HEADERS if name in got), lines(text)])


def finish(web: Web, token: str) -> None:
    """Wait until no job runs."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        # How often this asks differs from run to run, so the clock stands still meanwhile.
        _, _, text = web.ask("GET", "/api/jobs", tick=False, authorization=f"Bearer {token}")
        if not any(job["state"] == "running" for job in json.loads(text)["jobs"]):
            return
        time.sleep(0.05)
