"""The API's routes beyond what transcripts show: rights, ids, concurrent changes, and what is refused."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from spellbook.cli import main
from spellbook.http import admin
from spellbook.http import api as routes
from spellbook.http.guard import AccessRules
from spellbook.http.served import Served
from spellbook.http.tokens import RIGHTS
from spellbook.library.book import Spellbook
from spellbook.system.errors import SearchError
from tests.helpers import raw, rows
from tests.mcp.agent import talk

from .running import asked, code

KEYS = "# Keys\n\nKeys are rotated every ninety days.\n\n## How\n\nBy the script in ops, see [[deploy]].\n"

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


def test_every_endpoint_has_its_right(book):
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


@pytest.fixture
def filled(write_note, book):
    write_note("ops/keys.md", KEYS)
    write_note("deploy.md", "---\nsupersedes: '[[keys]]'\ncategory: decision\n---\n# Deploy\n\nOn Fridays never.\n")
    write_note(unicodedata.normalize("NFD", "메모/한글 노트.md"), "# 한글\n\n서울에서 만난다.\n")
    book.reindex()
    return book


def test_a_damaged_index_of_words_is_a_search_error_at_every_door(api, filled, vault, monkeypatch):
    """
    Programs, agents and people get SEARCH_ERROR, and asking again, as the hint says, finds the note.

    Where the words have no table, the hint names the file to delete, and the next question finds the note.
    """
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    catalog = filled.index.catalog

    async def tool(agent):
        return str(await agent.answer("find", keywords="Fridays"))

    def command() -> str:
        return CliRunner().invoke(main, ["--vault", str(vault), "find", "Fridays"]).output

    def python() -> str:
        try:
            return str(filled.find("Fridays"))
        except SearchError as error:
            return f"{error.code}: {error.hint}"

    doors = (
        lambda: api.get("/api/search", params={"q": "Fridays", "mode": "find"}).text,
        lambda: api.get("/api/search", params={"q": "Fridays"}).text,
        lambda: talk(filled, tool),
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
    assert [hit.path for hit in filled.find("Fridays").hits] == ["deploy.md"]


IDS = ("..%2F..%2Fsecret.md", "%2E%2E/secret.md", "%2Fetc%2Fpasswd", "x%00.md", "%FF%FE", "..", ".", "C:%5Cx", "-")


def test_a_note_by_its_path_or_a_chunks_id(api, filled, vault):
    """
    A slash may be encoded or not, and Korean may be composed or not. Relations, links and use are those of both sides.

    Whatever an id is, a file that is no note of the vault is not found.
    """
    korean = "메모/한글 노트.md"
    for id in ("ops/keys.md", "ops%2fkeys.md", quote(korean), quote(korean, safe="")):
        told = api.get(f"/api/notes/{id}").json()
        assert told["path"] == filled.resolve(told["path"]).path
        assert told["chunks"][0]["hash"] == filled.show(told["path"])[0].hash
    assert api.get(f"/api/notes/{quote(unicodedata.normalize('NFD', korean))}").json()["path"] == told["path"]
    chunk = filled.show("ops/keys.md")[1]
    told = api.get(f"/api/notes/{quote(chunk.id, safe='')}").json()
    assert ([each["id"] for each in told["chunks"]], told["text"]) == ([chunk.id], KEYS)
    assert told["relations"] == {"by:supersedes": [filled.resolve("deploy.md").note]}
    assert told["use"]["count"] >= 1
    told = api.get("/api/notes/deploy.md").json()
    assert told["relations"]["supersedes"] == [filled.resolve("ops/keys.md").note]
    assert [each["path"] for each in told["backlinks"]] == ["ops/keys.md"]
    (vault.parent / "secret.md").write_text("# Secret\n\nseagull\n")
    for id in IDS:
        answer = api.get(f"/api/notes/{id}")
        assert answer.status_code in {400, 404, 405}, id  # a client takes a `.` away, and /api/notes is for POST
        assert "seagull" not in answer.text


def test_a_tag_and_a_change_for_it(api, filled):
    """
    A note that did not change is not sent again, in whatever form its tag comes; a changed one has another tag.

    If-Match is expected_hash: with an old tag 409 with the difference, and nothing is written.
    """
    tag = api.get("/api/notes/ops/keys.md").headers["etag"]
    for given in (f"W/{tag}", f'"x", {tag}', "*"):
        again = api.get("/api/notes/ops/keys.md", headers={"if-none-match": given})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    done = api.patch("/api/notes/ops%2Fkeys.md", json={"append": "Ask Ann."}, headers={"if-match": tag})
    assert "+Ask Ann." in done.json()["difference"]
    changed = api.get("/api/notes/ops/keys.md", headers={"if-none-match": tag})
    assert (changed.status_code, changed.headers["etag"] == tag) == (200, False)
    before = (filled.config.vault / "ops/keys.md").read_text()
    for late in ({"headers": {"if-match": tag}}, {"json": {"append": "Ask Bob.", "expected_hash": tag.strip('"')}}):
        answer = api.patch("/api/notes/ops/keys.md", **{"json": {"append": "Ask Bob."}, **late})
        assert code(answer) == (409, "CONFLICT")
    mine = {"json": {"content": "# Keys\n\nMine.", "expected_hash": "a" * 16}}
    answer = api.patch(f"/api/notes/{quote(filled.show('ops/keys.md')[0].id, safe='')}", **mine)
    assert code(answer) == (409, "CONFLICT")
    difference = answer.json()["error"]["details"]["difference"]
    assert ("+Mine." in difference, "-Keys are rotated" in difference) == (True, True)
    both = {"json": {"append": "x", "expected_hash": "a" * 16}, "headers": {"if-match": tag}}
    assert code(api.patch("/api/notes/ops/keys.md", **both)) == (400, "INVALID_INPUT")
    assert (filled.config.vault / "ops/keys.md").read_text() == before


WRONG = [
    ("/api/search", {"query": ""}, "query"),
    ("/api/search", {"q": "x" * 20_001}, "query"),
    ("/api/search", {"q": "x", "query": "y"}, "q"),
    ("/api/search", {"q": "x", "limit": "many"}, "limit"),
    ("/api/search", {"q": "x", "mode": "guess"}, "mode"),
    ("/api/search", {"q": "x", "filter": "{"}, "filter"),
    ("/api/search", {"q": "x", "filter": "[1]"}, "filter"),
    ("/api/recent", {"offset": "-1"}, "offset"),
    ("/api/graph/whole", {"limit": "5001"}, "limit"),
]
BODIES = [
    *((body, "") for body in (b"{", b"[1]", b'{"text": NaN}', b"[" * 100_000, b"\xff", b'{"text": "\\ud800"}')),
    (b"", "text"),
    (b'{"text": "x", "metadata": {}, "force": 0}', "force"),
    (b'{"text": "x", "metadata": {}, "force": "true"}', "force"),
    (b'{"text": "x", "metadata": {}, "id": "y"}', "id"),
]


def test_what_is_wrong_is_named(api, book):
    """Unknown, repeated, malformed and unbounded parameters and bodies: 400 with the field's name; nothing is written."""
    answers = [(api.get(path, params=params), field) for path, params, field in WRONG]
    headers = {"content-type": "application/json"}
    answers += [(api.post("/api/notes", content=body, headers=headers), field) for body, field in BODIES]
    for answer, field in answers:
        assert code(answer) == (400, "INVALID_INPUT"), answer.text
        assert not field or field in answer.json()["error"]["details"]["fields"]
    assert book.log() == []
    answer = api.request("PUT", "/api/notes/x")  # the methods of all endpoints of the address
    assert (answer.status_code, answer.headers["allow"]) == (405, "DELETE, GET, HEAD, PATCH")


def test_the_document(api):
    """It is valid, and holds every route of the API and no other."""
    validator = pytest.importorskip("openapi_spec_validator")
    document = api.get("/api/openapi.json").json()
    validator.validate(document)
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    served = {
        (method, route.path.replace("{id:path}", "{id}"))
        for route in (*routes.ROUTES, *admin.ROUTES)
        for method in route.methods - {"HEAD"}
    }
    assert served == described


def test_migrate_and_import_are_jobs(api, filled):
    """A file of the folder for exports alone; an embedder that the vault cannot use is refused at once."""
    folder = filled.config.snapshot_folder / "exports"
    folder.mkdir(parents=True)
    filled.export(folder / "all.json")
    (filled.config.vault / "ops/keys.md").unlink()
    begun = api.post("/api/import", json={"file": "all.json"})
    job = api.app_served.jobs.wait(begun.json()["job"]["id"], 30)
    assert (begun.status_code, job.state, job.result["added"]) == (202, "done", ["ops/keys.md"])
    begun = api.post("/api/migrate", json={"to": "hash:64"})
    if begun.status_code == 202:
        assert api.app_served.jobs.wait(begun.json()["job"]["id"], 30).state == "done"
    assert code(api.post("/api/migrate", json={"to": "nothing of the kind"})) == (400, "INVALID_INPUT")


# -- no caller over HTTP names a file of the server's disk: none is read, and nobody learns which there are

TEXT = "The proxy listens on port 8443, and a second one waits beside it for the day on which the first one fails. "
HTML = f"<html><title>Proxies</title><body><article><p>{TEXT * 9}</p></article></body>"


def tool(client: TestClient, name: str, **arguments: Any) -> str:
    """Call a tool as a stateless client does."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": name,
    }
    params = {"name": name, "arguments": arguments, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return str(client.post("/mcp", json=body, headers=headers).json()["result"]["content"][0]["text"])


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
