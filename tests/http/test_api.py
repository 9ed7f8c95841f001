"""The API beyond what transcripts show: rights, ids, concurrent changes, what is refused; the figures and alerts of admins."""

from __future__ import annotations

import datetime as dt
import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from filelock import FileLock
from starlette.testclient import TestClient

from spellbook.cli import main
from spellbook.http import admin
from spellbook.http import api as routes
from spellbook.http.guard import AccessRules
from spellbook.http.served import Served
from spellbook.http.tokens import RIGHTS
from spellbook.index import metrics
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.system.errors import SearchError
from tests.helpers import Write, raw, rows, until
from tests.mcp.agent import Agent, talk

from .running import asked, code

WRITE = {
    *("POST /api/notes", "PATCH /api/notes/{id}", "DELETE /api/notes/{id}", "POST /api/restore", "POST /api/undo"),
    *("POST /api/move", "POST /api/merge", "POST /api/links/mend", "POST /api/articles", "POST /api/snapshots"),
    *("POST /api/decisions/{id}/outcome", "POST /api/reindex", "POST /api/check", "DELETE /api/jobs/{id}"),
}
ADMIN = {"POST /api/migrate", "POST /api/import"}
"""Beside everything below /admin."""

READ = {
    *("GET /api/status", "GET /api/index", "GET /api/topic", "GET /api/graph/whole", "GET /api/search", "GET /api/why"),
    *("GET /api/recent", "GET /api/history", "GET /api/notes/{id}", "GET /api/log", "GET /api/articles"),
    *("GET /api/snapshots", "GET /api/check", "GET /api/jobs", "GET /api/jobs/{id}"),
}


def right_of(called: str) -> str:
    """The least right that an endpoint asks for."""
    if called in ADMIN or "/admin" in called:
        return "admin"
    return "write" if called in WRITE else "read"


def test_every_endpoint_has_its_right(book: Spellbook) -> None:
    """
    As the tables above say, which a person reads.

    Without a token 401, with a lesser one 403; with the right one whatever the verb says of an empty request.
    """
    known = {f"{each.method} {each.path}": each.right for each in (*routes.ENDPOINTS, *admin.ENDPOINTS)}
    assert {called for called in known if "/admin" not in called} == WRITE | ADMIN | READ
    assert known == {called: right_of(called) for called in known}
    served = Served(book)
    with asked(served, AccessRules(is_local=False)) as client:
        tokens = {may: {"authorization": f"Bearer {served.tokens.add(may, may)}"} for may in RIGHTS}
        for called, needed in sorted(known.items()):
            method, path = called.replace("{id}", "nothing").split()
            assert client.request(method, path).status_code == 401, called
            for may in RIGHTS[: RIGHTS.index(needed)]:
                answer = client.request(method, path, headers=tokens[may])
                assert code(answer) == (403, "PERMISSION_DENIED"), (called, may)
            answer = client.request(method, path, headers=tokens[needed])
            assert answer.status_code not in {401, 403, 500}, (called, answer.text)


def test_a_damaged_index_of_words_is_a_search_error_at_every_door(
    api: TestClient, write_note: Write, book: Spellbook, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Programs, agents and people get SEARCH_ERROR, and asking again, as the hint says, finds the note.

    Where the words have no table, the hint names the file to delete, and the next question finds the note.
    """
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    write_note("deploy.md", "# Deploy\n\nOn Fridays never.\n")
    book.reindex()
    catalog = book.index.catalog

    async def tool(agent: Agent) -> Any:
        return str(await agent.answer("find", keywords="Fridays"))

    def command() -> str:
        return CliRunner().invoke(main, ["--vault", str(vault), "find", "Fridays"]).output

    def python() -> str:
        try:
            return str(book.find("Fridays"))
        except SearchError as error:
            return f"{error.code}: {error.hint}"

    doors = (
        lambda: api.get("/api/search", params={"q": "Fridays", "mode": "find"}).text,
        lambda: api.get("/api/search", params={"q": "Fridays"}).text,
        lambda: talk(book, tool),
        command,
        python,
    )
    for door in doors:
        rows(catalog, "UPDATE words_data SET block = x'00ff00ff00ff' WHERE id > 10")
        answer = door()
        assert "Ask again" in answer
        assert "SEARCH_ERROR" in answer or door is command
        assert "deploy.md" in door()
    database = raw(catalog.file)
    database.executescript("PRAGMA writable_schema = 1; DELETE FROM sqlite_master WHERE name = 'words'")
    database.close()
    catalog.close()
    assert f"Delete {catalog.file}: it is rebuilt" in python()
    catalog.close()
    for side in ("", "-wal", "-shm"):
        catalog.file.with_name(catalog.file.name + side).unlink(missing_ok=True)
    assert [hit.path for hit in book.find("Fridays").hits] == ["deploy.md"]


BODIES = (b"{", b"[1]", b'{"text": NaN}', b"[" * 100_000, b"\xff", b'{"text": "\\ud800"}', b"")


def test_what_is_wrong_is_named(api: TestClient, book: Spellbook) -> None:
    """
    Malformed and unbounded parameters and bodies: 400 with the field's name; nothing is written.

    The OpenAPI document is valid, and holds every route of the API and no other.
    """
    headers = {"content-type": "application/json"}
    answers = [api.get("/api/search", params={"query": "x" * number}) for number in (0, 20_001)]
    for answer in (*answers, *(api.post("/api/notes", content=body, headers=headers) for body in BODIES)):
        assert code(answer) == (400, "INVALID_INPUT"), answer.text
    assert [[*answer.json()["error"]["details"]["fields"]] for answer in answers] == [["query"]] * 2
    assert book.log() == []
    answer = api.request("PUT", "/api/notes/x")  # the methods of all endpoints of the address
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, HEAD, PATCH")
    validator = pytest.importorskip("openapi_spec_validator")
    document = api.get("/api/openapi.json").json()
    validator.validate(document)
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    served = {
        (method, route.path.replace("{id:path}", "{id}"))
        for route in (*routes.ROUTES, *admin.ROUTES)
        for method in (route.methods or set()) - {"HEAD"}
    }
    assert served == described


# -- no caller over HTTP names a file of the server's disk: none is read, and nobody learns which there are

TEXT = "The proxy listens on port 8443, and a second one waits beside it for the day on which the first one fails. "
HTML = f"<html><title>Proxies</title><body><article><p>{TEXT * 9}</p></article></body>"


META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def tool(client: TestClient, name: str, session: str = "", **arguments: Any) -> str:
    """Call a tool as a stateless client does, or as one that claims a `session`."""
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": name,
        **({"mcp-session-id": session} if session else {}),
    }
    params = {"name": name, "arguments": arguments, "_meta": META}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return str(client.post("/mcp", json=body, headers=headers).json()["result"]["content"][0]["text"])


def test_clients_of_one_token_undo_their_own(book: Spellbook) -> None:
    """Over HTTP a session undoes its own changes alone. A request of no session names the entry, whatever it claims."""
    accept = {"accept": "application/json, text/event-stream"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}

    def begun() -> dict[str, str]:
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        session = client.post("/mcp", json=body, headers=accept).headers["mcp-session-id"]
        own = {**accept, "mcp-session-id": session}
        client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=own)
        return own

    def called(own: dict[str, str], name: str, **arguments: Any) -> str:
        params = {"name": name, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
        return client.post("/mcp", json=body, headers=own).text

    with asked(Served(book)) as client:
        one, other = begun(), begun()
        called(one, "remember", content="The harbor opens at six.")
        called(other, "remember", content="The quay is swept on Mondays.")
        refused = tool(client, "undo", one["mcp-session-id"])
        assert "This session changed nothing" in refused
        assert "undo(2) takes that one back" in refused
        assert "Undid entry 1, add harbor-opens" in called(one, "undo")
        assert "This session changed nothing" in called(one, "undo")
        assert "Undid entry 2, add quay-swept" in called(other, "undo")
        tool(client, "remember", content="The crane lifts at noon.")
        assert "This session changed nothing" in tool(client, "undo")


def test_no_caller_names_a_file_of_the_server(book: Spellbook, tmp_path: Path) -> None:
    """
    `save` takes no file, by the tool, the API or the page, whether there is such a file, none, or one saved before.

    A path beside given text only says where it is from. An import and a folder of documents are those that the server
    was started with, or none.
    """
    page, missing = tmp_path / "secret.html", tmp_path / "missing.html"
    page.write_text(HTML, "utf-8")
    book.memories.articles.save(str(page), ["x"])
    answers = set()
    with asked(Served(book, ("core", "articles", "backup", "wiki"))) as client:
        for place in (page, missing, f"file://{page}", f"~/../..{page}", page.name):
            said = tool(client, "save", source=str(place), categories=["y"])
            api = client.post("/api/articles", json={"source": str(place), "categories": ["y"]})
            form = {"source": str(place), "categories": "y", "text": ""}
            shown = client.post("/do/save", data=form, headers={"origin": "http://localhost:17950"})
            assert (api.status_code, shown.status_code) == (400, 400)
            answers.add((said.partition(": ")[2], api.json()["error"]["message"]))
        assert len(answers) == 1
        assert "no file" in answers.pop()[1]
        assert len(book.recent(filter={"category": "article"}).notes) == 1
        for place in (page, missing, f"../{page.name}", "../../../etc/passwd"):
            assert "is not one of the files in" in tool(client, "import", file_path=str(place))
            assert client.post("/api/import", json={"file": str(place)}).status_code == 400
            assert "PERMISSION_DENIED" in tool(client, "wiki_status", path=str(tmp_path / Path(place).name))
        text = "# Proxies\n\nThe proxy listens on port 8443."
        done = json.loads(tool(client, "save", source=str(page), categories=["y"], text=text))
        assert done["status"] == "saved"
        assert "port 8443" in tool(client, "get", article_id=done["id"], include_content=True)


def alerts(api: Any, **headers: Any) -> Any:
    """The alerts that there are, by id."""
    listed = api.get("/admin/alerts/performance", headers=headers).json()["alerts"]
    return {each["id"]: each for each in listed}


def test_what_was_counted_survives_a_restart(book: Spellbook, vault: Path) -> None:
    """Calls, errors and times are those of all servers of this vault. A refused rate is counted, and is an alert."""
    served = Served(book)
    token = served.tokens.add("me", "admin")
    headers = {"authorization": f"Bearer {token}"}
    with asked(served, AccessRules(is_local=False, rate=4), headers=headers) as client:
        for query in ("keys", "doors"):
            client.get("/api/search", params={"q": query})
        client.get("/api/notes/nothing")
        before = client.get("/admin/stats/performance").json()["result"]
        assert [client.get("/api/recent").status_code for _ in range(2)] == [429, 429]
    book.close()
    with books.open(vault, embedder="hash") as again, asked(Served(again), AccessRules(is_open=True)) as client:
        after = client.get("/admin/stats/performance").json()["result"]
        assert after["search"]["totalSearches"] == before["search"]["totalSearches"] == 2
        assert after["database"]["queryPerformance"]["p95"] == before["database"]["queryPerformance"]["p95"]
        counted = client.get("/admin/stats/errors").json()["byCode"]
        assert counted == {"MEMORY_NOT_FOUND": 1, "RATE_LIMIT_EXCEEDED": 2}
        assert alerts(client)["rate"]["value"] == 2
        assert again.meter.read(1)[1]["calls"] >= 7  # the admin's own calls, too


def test_what_a_caller_did_wrong_is_no_failing_call(api: TestClient, book: Spellbook, write_note: Write) -> None:
    """
    Typing errors of agents raise no alert, however many; Spellbook's own failures do, if there are enough calls.

    The alert of slow searches is about warm ones, enough of them, and the list that its hint names has them first. The
    first search of a process is no warm one, nor is the first one after the model was let go.
    """

    def failing() -> list[str]:
        return [each["what"] for name, each in alerts(api).items() if name == "errors"]

    book.meter.count(f"{metrics.ERRORS} STORAGE_ERROR", 14)
    assert failing() == [], "of a few calls"
    book.meter.count(metrics.CALLS, 95)
    assert failing() == ["14% of the calls of the last hour failed."]
    for wrong in ("INVALID_INPUT", "MEMORY_NOT_FOUND", "CONFLICT", "REST_REQUIRED", "PERMISSION_DENIED"):
        book.meter.count(f"{metrics.ERRORS} {wrong}", 5)
    assert failing() == ["14% of the calls of the last hour failed."]

    def is_slow(*queries: str, ms: float = 900.0, is_warm: bool = True) -> bool:
        for at, query in enumerate(queries):
            book.meter.searched(False, query, ms + at, is_warm=is_warm)
        return "slow_search" in alerts(api)

    assert not is_slow(*(f"cold {number}" for number in range(30)), ms=9_000.0, is_warm=False)
    assert not is_slow(*(f"slow {number}" for number in range(19)))
    assert is_slow("slow 19", ms=919.0)
    told = api.get("/admin/stats/performance", params={"includeDetails": True}).json()["result"]
    slowest = [each["query"] for each in told["database"]["queryPerformance"]["slowQueries"]]
    assert slowest == [f"slow {number}" for number in range(19, 9, -1)]
    assert not is_slow(*["quick"] * 400, ms=5.0)
    write_note("a.md", "# Keys\n\nRotated every ninety days.\n")
    before = len(book.meter.warm(60))
    for verb in (book.find, book.search, book.search, book.find):
        verb("keys")
    book.release(time.monotonic())
    book.search("keys")
    assert len(book.meter.warm(60)) - before == 2


def test_optimize_that_takes_long_goes_on_as_a_job(
    api: TestClient, monkeypatch: pytest.MonkeyPatch, book: Spellbook, vault: Path
) -> None:
    """
    The answer is 202 with the job. Where another process fills Chroma, that one goes on.

    Alerts are sentences in both languages, with values and units, and say since when they hold. Texts without a vector
    are no alert until an hour has passed. Of a vault that went away the alerts say so.
    """
    monkeypatch.setattr("spellbook.http.admin._WAIT", 0.0)
    (vault / "tea.md").write_text("Green tea.\n", "utf-8")
    book.reindex()
    with FileLock(book.config.state / "chroma-follow.lock"):
        done = api.post("/admin/database/optimize", json={"actions": ["index", "vacuum"]})
        assert done.status_code == 202
        until(lambda: api.get(done.headers["location"]).json()["state"] != "running")
        job = api.get(done.headers["location"]).json()
        assert (job["id"], job["kind"], job["state"]) == (done.json()["job"]["id"], "optimize", "done")
    for name in "ab":
        (vault / f"{name}.md").write_text("---\ntitle: [\n---\nbroken", "utf-8")
    book.reindex(words_only=True)
    for _ in range(20):
        book.meter.searched(False, "slow", 25_500.0, is_warm=True)
    first, korean = alerts(api), alerts(api, **{"accept-language": "ko"})
    assert "pending" not in first
    assert first["slow_search"]["what"] == "Searches are slow: 95 % took up to 25.5 s."
    assert korean["slow_search"]["what"] == "검색이 느립니다. 95%가 25.5초 안에 끝났습니다."
    assert first["faults"]["what"] == "2 notes need fixing."
    assert korean["faults"]["what"] == "고칠 노트가 2개 있습니다."
    assert korean["snapshot"]["what"] == "아직 스냅샷을 만든 적이 없습니다."
    assert dt.datetime.fromisoformat(first["faults"]["since"]).timestamp() == pytest.approx(time.time(), abs=5)
    with monkeypatch.context() as later:
        later.setattr(Spellbook, "refresh", lambda *_, **__: None)  # which would embed the texts
        now = time.time()
        later.setattr(time, "time", lambda: now + 3_700)
        shown = alerts(api)
    assert shown["faults"]["since"] == first["faults"]["since"]
    assert shown["pending"]["value"] == 1  # equal texts are one
    vault.rename(vault.with_name("away"))
    assert alerts(api)["degraded"]["severity"] == "critical"
