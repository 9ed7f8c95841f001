"""What a limited caller is told: of the notes that it may see, and of the machine that serves them nothing."""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route
from starlette.testclient import TestClient

from spellbook.capture.ledger import Ledger
from spellbook.http import admin, api, pages
from spellbook.http.guard import AccessRules
from spellbook.http.served import Served
from spellbook.library import book as books
from spellbook.library import limited
from spellbook.mcp.tool import READ, TOOLS
from spellbook.mcp.tool_names import TOOLSETS
from tests.helpers import PATIENCE, note_writer, until

from .running import asked
from .test_api import META, tool

GIVEN: dict[str, Any] = {
    "query": "crane",
    "keywords": ["crane"],
    "question": "crane",
    "text": "A crane.",
    "path": "a.md",
}
NAMES = ("id", "chunk_id", "memory_id", "topic_id", "article_id", "name")
tzset: Callable[[], None] = getattr(time, "tzset", lambda: None)
"""Takes over the time zone of the environment, which Windows cannot."""

TIME = r'"timestamp": ?"[^"]*"'

Ask = Callable[[Callable[[TestClient, Path], Any]], list[Any]]
"""Asks both machines."""

QUERIES = ("", "?q=", "?topic=cranes", "?id=a", "?name=cranes", "?folder=/", "?entry=1", "?day=2024-03-01")


def fill(vault: Path) -> None:
    """Write notes of all scopes, some of agents, with the same times on every machine."""
    write = note_writer(vault)
    everyone = {"privacy_scope": "public", "created": "2024-03-01T12:00:00Z"}
    write(
        "a.md",
        "# Crane\n\nThe crane. See [[b]].\n\n## More\n\n- [ ] It lifts.\n",
        **everyone,
        topic="cranes",
        tags="[x]",
    )
    write("b.md", "# Quay\n\nThe quay.\n", **everyone, agent="Codex", category="project", topic="cranes")
    write("c.md", "# Choice\n\nTwo cranes.\n", **everyone, category="decision", topic="plans")
    write("d.md", "# Page\n\nA page.\n", **everyone, category="article", categories="[sea]", source="https://a.test/")
    write("e.md", "---\nprivacy_scope: public\nnot: [\n---\nBroken.\n")
    write("secret.md", "# Hidden\n\nThe vault's own.\n")
    for place in vault.rglob("*.md"):
        os.utime(place, (1.7e9, 1.7e9))


def live(served: Served, release: threading.Event) -> None:
    """Let a machine do what leaves a trace: settings, tokens, jobs, captured sessions, errors, searches, clients."""
    book, vault = served.book, served.book.config.vault
    Ledger(str(vault)).turn(True, vault)
    Ledger(str(vault)).put(("seen", "b", 1))
    write = note_writer(vault)
    write("sessions/s.md", "## You\n\nhello\n", category="session", trust="agent")
    write("secret2.md", "# Hidden too\n\nSee [[secret]].\n", tags="[hidden]", topic="cranes")
    book.reindex()
    book.snapshots.create()
    for _ in range(3):
        book.search("crane")
        book.meter.failed("search", "http", ValueError("x"))
    book.show("a")
    served.tokens.add("owner", "admin")
    served.tokens.add("phone", "write")
    served.phone = "http://192.168.0.9:17950/login?token=x"
    served.clients["Codex 1.0"] = 1.0
    served.noticed["disk"] = 1.0
    served.started -= 5_000
    served.jobs.wait(served.jobs.start("check", lambda report: book.check(progress=report)).id, PATIENCE)
    served.jobs.start("reindex", lambda report: release.wait(PATIENCE))


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """Ask two machines that have the same public notes and nothing else in common, as the same public token."""
    fill(tmp_path / "notes")
    release = threading.Event()
    first: dict[str, str] = {"SPELLBOOK_LANG": "en", "TZ": "UTC", "LANG": "C.UTF-8"}
    second = {"SPELLBOOK_LANG": "ko", "TZ": "Asia/Seoul", "LANG": "ko_KR.UTF-8", "SPELLBOOK_RATE": "500"}
    made: list[tuple[TestClient, Path, Mapping[str, str]]] = []
    with ExitStack() as stack:
        for name, environment in (("one", first), ("두 번째", second)):
            vault = shutil.copytree(tmp_path / "notes", tmp_path / name / "vault")
            for variable, value in {**environment, "SPELLBOOK_DATA": str(tmp_path / name / "data")}.items():
                monkeypatch.setenv(variable, value)
            tzset()
            made.append(
                (opened(stack, vault, tmp_path / name / "state", release if made else None), vault, environment)
            )

        def ask(question: Callable[[TestClient, Path], Any]) -> list[Any]:
            answers = []
            for client, vault, environment in made:
                for variable, value in environment.items():
                    monkeypatch.setenv(variable, value)
                tzset()
                answers.append(question(client, vault))
            return answers

        yield ask
        release.set()
    monkeypatch.undo()
    tzset()


def opened(stack: ExitStack, vault: Path, state: Path, release: threading.Event | None) -> TestClient:
    """A machine's server, as a public token asks it; with `release` the machine has a life."""
    book = stack.enter_context(books.open(vault, embedder="hash", state=state))
    served = Served(book, (*TOOLSETS,))
    book.reindex()
    limited.seen_by(book, "public").refresh()
    secret = served.tokens.add("guest", "read", "public")
    if release is not None:
        live(served, release)
    client = stack.enter_context(asked(served, AccessRules(is_local=False)))
    client.headers["authorization"] = f"Bearer {secret}"
    return client


def everything(client: TestClient) -> dict[str, str]:
    """Every page, route and tool with its answer."""
    shown = [each.path for each in pages.ROUTES if isinstance(each, Route) and "GET" in (each.methods or ())]
    asked = [each.path for each in (*api.ENDPOINTS, *admin.ENDPOINTS) if each.method == "GET"]
    asked += ["/health", "/api/openapi.json", "/api/nowhere"]
    told = {}
    for paths, headers in ((shown, {"accept": "text/html"}), (asked, {"accept": "application/json"})):
        for path in paths:
            for query in QUERIES:
                for id in ("a", "secret", "none") if "{" in path else ("",):
                    place = re.sub(r"{[^}]*}", id, path) + query
                    told[place] = answered(client, place, headers)
            place = re.sub(r"{[^}]*}", "a", path)
            told[f"{place} in Korean"] = answered(client, place, {**headers, "accept-language": "ko"})
    for name, form in [*TOOLS.items()]:
        if form.annotations is READ:
            taken = form.verb.taken(form.answer, form.names)
            usual = {key: value for key, value in GIVEN.items() if key in taken}
            for value in ("a", "none", "cranes"):
                told[f"{name} {value}"] = tool(client, name, **usual, **{key: value for key in NAMES if key in taken})
    return told


def answered(client: TestClient, place: str, headers: Mapping[str, str]) -> str:
    """The status, headers and text of an answer, without the second in which an error was told."""
    answer = client.get(place, headers=headers, follow_redirects=False)
    kept = {name: value for name, value in answer.headers.items() if name != "content-length"}
    return f"{answer.status_code} {kept} {re.sub(TIME, '', answer.text)}"


def test_no_answer_depends_on_the_machine(machines: Ask) -> None:
    """
    A public token gets the same bytes from every page, route and reading tool, whatever the machine's folders, settings,
    language, time zone, tokens, phone, clients, jobs, captured sessions, snapshots, errors and hidden notes are; also
    while the folder of the notes is away.
    """
    one, other = machines(lambda client, vault: everything(client))
    assert differences(one, other) == {}
    assert sum(text.startswith("200") for text in one.values()) > 100

    def lost(client: TestClient, vault: Path) -> dict[str, str]:
        vault.rename(vault.with_name("gone"))
        until(lambda: "degraded" in client.get("/api/status").text)
        places = ("/", "/note/a", "/statistics", "/upkeep", "/api/status", "/api/notes/a", "/api/recent", "/health")
        told = {place: answered(client, place, {"accept": "text/html"}) for place in places}
        return (
            told
            | {name: tool(client, name) for name in ("recent", "get_index", "stats")}
            | {"show": tool(client, "show", id="a"), "index": resource(client)}
        )

    one, other = machines(lost)
    assert differences(one, other) == {}


def resource(client: TestClient) -> str:
    """What a client gets that reads the table of contents as a resource."""
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28"}
    headers |= {"mcp-method": "resources/read", "mcp-name": "memory://index"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "memory://index", "_meta": META}}
    return client.post("/mcp", json=body, headers=headers).text


def differences(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    return {place: near(one[place], other[place]) for place in one if one[place] != other[place]}


def near(one: str, other: str) -> tuple[str, str]:
    """Where two texts begin to differ."""
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[max(0, at - 40) : at + 40], other[max(0, at - 40) : at + 40]


def test_a_service_that_fails_is_named_to_the_owner_alone(vault: Path, tmp_path: Path) -> None:
    """What the model is, where it runs and why it fails: a limited caller learns that answers may lack something."""
    fill(vault)
    named = re.compile("ollama|secret-model|127.0.0.1", re.I)
    with books.open(vault, embedder="ollama:secret-model@http://127.0.0.1:9", state=tmp_path / "state") as book:
        book.reindex(words_only=True)
        served = Served(book)
        tokens = {sees: served.tokens.add(sees, "read", sees) for sees in ("private", "public")}
        for sees, token in tokens.items():
            with asked(served, AccessRules(is_local=False)) as client:
                client.headers["authorization"] = f"Bearer {token}"
                told = {name: tool(client, name, query="crane") for name in ("search", "memorize")}
                for place in ("/search?q=crane", "/", "/upkeep", "/settings"):
                    told[place] = answered(client, place, {"accept": "text/html"})
                for place in ("search?query=crane", "search?query=crane&mode=memorize", "why?query=crane", "status"):
                    told[place] = answered(client, f"/api/{place}", {"accept": "application/json"})
            if sees == "private":
                assert {"search?query=crane", "/search?q=crane", "status", "search"} <= {
                    place for place, text in told.items() if named.search(text)
                }
            else:
                assert {place: found[0] for place, text in told.items() if (found := named.search(text))} == {}
                assert "not everything could be searched" in told["search"]
