"""The API's routes beyond what transcripts show: every form of an id, concurrent changes, and what is refused."""

from __future__ import annotations

import contextlib
import unicodedata
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from spellbook.cli import main
from spellbook.http import api as routes
from spellbook.system.errors import SearchError
from tests import repositories
from tests.helpers import raw, rows
from tests.mcp.agent import talk

from .running import code

KEYS = "# Keys\n\nKeys are rotated every ninety days.\n\n## How\n\nBy the script in ops, see [[deploy]].\n"


@pytest.fixture
def filled(write_note, book):
    write_note("ops/keys.md", KEYS)
    write_note("deploy.md", "---\nsupersedes: '[[keys]]'\ncategory: decision\n---\n# Deploy\n\nOn Fridays never.\n")
    write_note(unicodedata.normalize("NFD", "메모/한글 노트.md"), "# 한글\n\n서울에서 만난다.\n")
    book.reindex()
    return book


def test_further_texts(api, filled):
    """`also` may stand in an address several times, at most three; other names may not."""
    further = ["Keys are rotated every ninety days", "열쇠"]
    told = api.get("/api/search", params={"q": "what about locks", "also": further}).json()
    assert ("ops/keys.md", further) == ([hit["path"] for hit in told["hits"]][1], told["also"])  # after its successor
    for wrong in ({"also": ["a", "b", "c", "d"]}, {"limit": [1, 2]}):
        assert api.get("/api/search", params={"q": "keys", **wrong}).status_code == 400
    asked = {"q": "what about locks", "id": "ops/keys.md", "also": "Keys are rotated every ninety days"}
    assert api.get("/api/why", params=asked).json()["rows"][0]["place"] == 2


def test_a_damaged_index_of_words_is_a_search_error_at_every_door(api, filled, vault, monkeypatch):
    """The code is SEARCH_ERROR for programs, agents and people, and asking again, as the hint says, finds the note."""
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    command = ["--vault", str(vault), "find", "Fridays"]

    def damage():
        rows(filled.index.catalog, "UPDATE words_data SET block = x'00ff00ff00ff' WHERE id > 10")

    for mode in ("find", "search"):
        damage()
        answer = api.get("/api/search", params={"q": "Fridays", "mode": mode})
        assert code(answer) == (500, "SEARCH_ERROR")
        assert answer.json()["error"]["details"]["hint"].startswith("Ask again")
        found = api.get("/api/search", params={"q": "Fridays", "mode": "find"}).json()
        assert [hit["path"] for hit in found["hits"]] == ["deploy.md"]

    async def conversation(agent):
        return await agent.refused("find", keywords="Fridays"), await agent.found("find", keywords="Fridays")

    damage()
    refused, paths = talk(filled, conversation)
    assert "SEARCH_ERROR" in refused
    assert paths == ["deploy.md"]
    damage()
    done = CliRunner().invoke(main, command)
    assert (done.exit_code, "Ask again" in done.stderr) == (1, True)
    assert "deploy.md" in CliRunner().invoke(main, command).stdout
    damage()
    with pytest.raises(SearchError):
        filled.find("Fridays")
    assert [hit.path for hit in filled.find("Fridays").hits] == ["deploy.md"]


def test_an_index_of_words_that_is_gone_says_what_to_delete(filled):
    """Where the words have no table, the hint names the file to delete, and the next question finds the note."""
    sql = "PRAGMA writable_schema = 1; DELETE FROM sqlite_master WHERE name = 'words'"
    with contextlib.closing(raw(filled.index.catalog.file)) as database:
        database.executescript(sql)
    filled.index.catalog.close()
    with pytest.raises(SearchError) as raised:
        filled.find("Fridays")
    assert raised.value.hint.startswith(f"Delete {filled.index.catalog.file}: it is rebuilt")
    filled.index.catalog.close()
    for side in ("", "-wal", "-shm"):
        filled.index.catalog.file.with_name(filled.index.catalog.file.name + side).unlink(missing_ok=True)
    assert [hit.path for hit in filled.find("Fridays").hits] == ["deploy.md"]


def test_a_note_by_its_path_or_a_chunks_id(api, filled):
    """A slash may be encoded or not, and Korean may be composed or not. Relations, links and use are those of both sides."""
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


IDS = ("..%2F..%2Fsecret.md", "%2E%2E/secret.md", "%2Fetc%2Fpasswd", "x%00.md", "%FF%FE", "..", ".", "C:%5Cx", "-")


def test_no_id_leads_out_of_the_vault(api, filled, vault):
    """Whatever an id is, a file that is no note of the vault is not found."""
    (vault.parent / "secret.md").write_text("# Secret\n\nseagull\n")
    for id in IDS:
        answer = api.get(f"/api/notes/{id}")
        assert answer.status_code in {400, 404, 405}, id  # a client takes a `.` away, and /api/notes is for POST
        assert "seagull" not in answer.text


def test_an_etag(api, filled):
    """A note that did not change is not sent again; a changed one has another tag."""
    first = api.get("/api/notes/deploy.md")
    tag = first.headers["etag"]
    assert tag == f'"{first.json()["hash"]}"'
    for given in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        again = api.get("/api/notes/deploy.md", headers={"if-none-match": given})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    (filled.config.vault / "deploy.md").write_text("# Deploy\n\nDaily.\n")
    changed = api.get("/api/notes/deploy.md", headers={"if-none-match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


def test_a_change_for_a_hash(api, filled):
    """If-Match is expected_hash: with an old tag 409 with the difference, and nothing is written."""
    tag = api.get("/api/notes/ops/keys.md").headers["etag"]
    done = api.patch("/api/notes/ops%2Fkeys.md", json={"append": "Ask Ann."}, headers={"if-match": tag})
    assert done.status_code == 200
    assert "+Ask Ann." in done.json()["difference"]
    before = (filled.config.vault / "ops/keys.md").read_text()
    for late in ({"headers": {"if-match": tag}}, {"json": {"append": "Ask Bob.", "expected_hash": tag.strip('"')}}):
        answer = api.patch("/api/notes/ops/keys.md", **{"json": {"append": "Ask Bob."}, **late})
        assert code(answer) == (409, "CONFLICT")
        assert (filled.config.vault / "ops/keys.md").read_text() == before
    mine = {"json": {"content": "# Keys\n\nMine.", "expected_hash": "a" * 16}}
    answer = api.patch(f"/api/notes/{quote(filled.show('ops/keys.md')[0].id, safe='')}", **mine)
    assert code(answer) == (409, "CONFLICT")
    assert "+Mine." in answer.json()["error"]["details"]["difference"]
    assert "-Keys are rotated" in answer.json()["error"]["details"]["difference"]
    both = {"json": {"append": "x", "expected_hash": "a" * 16}, "headers": {"if-match": tag}}
    assert code(api.patch("/api/notes/ops/keys.md", **both)) == (400, "INVALID_INPUT")


WRONG = [
    ("/api/search", {"query": ""}, "query"),
    ("/api/search", {"q": "x" * 20_001}, "query"),
    ("/api/search", {"q": "x", "query": "y"}, "q"),
    ("/api/search", {"q": "x", "limit": "many"}, "limit"),
    ("/api/search", {"q": "x", "mode": "guess"}, "mode"),
    ("/api/search", {"q": "x", "filter": "{"}, "filter"),
    ("/api/search", {"q": "x", "filter": "[1]"}, "filter"),
    ("/api/search", {"q": "x", "min_score": "2"}, "min_score"),
    ("/api/search", {"q": ["x", "y"]}, "q"),
    ("/api/recent", {"offset": "-1"}, "offset"),
    ("/api/graph/whole", {"limit": "5001"}, "limit"),
    ("/api/topic", {}, "name"),
    ("/api/status", {"x": "1"}, "x"),
]
BODIES = [
    *((body, "") for body in (b"{", b"[1]", b'{"text": NaN}', b"[" * 100_000, b"\xff", b'{"text": "\\ud800"}')),
    (b"", "text"),
    (b'{"text": "x"}', "metadata"),
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


def test_errors_are_counted_without_what_was_asked(api, filled):
    """By verb, door and code."""
    api.get("/api/search", params={"q": "my secret question", "limit": "999"})
    api.get("/api/notes/my-secret-note")
    filled.meter.flush()
    found = filled.index.catalog.usage.failures()
    assert {(each.kind.verb, each.kind.door, each.kind.code) for each in found} == {
        ("search", "http", "INVALID_INPUT"),
        ("note", "http", "MEMORY_NOT_FOUND"),
    }
    assert not any("secret" in each.kind.message for each in found)


def test_the_document(api):
    """It is valid, and holds every route of the API and no other."""
    validator = pytest.importorskip("openapi_spec_validator")
    document = api.get("/api/openapi.json").json()
    validator.validate(document)
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    served = {
        (method, route.path.replace("{id:path}", "{id}"))
        for route in routes.routes()
        for method in route.methods - {"HEAD"}
    }
    assert served <= described
    assert {path for _, path in described - served if not path.startswith("/admin/")} == set()


def test_another_time(api, book, write_note):
    """`as_of` finds what held then, and reads the version of a note that did, with all of them; other text is refused."""
    write_note("old.md", "# Old\n\nKeys are kept in a drawer.\n", created="2025-01-01")
    write_note("new.md", "# New\n\nKeys are kept in a safe.\n", valid_from="2025-06-01", supersedes="old")
    asked = {"q": "keys", "min_score": 0, "as_of": "2025-03"}
    assert [hit["path"] for hit in api.get("/api/search", params=asked).json()["hits"]] == ["old.md"]
    told = api.get("/api/notes/new", params={"as_of": "2025-03"}).json()
    assert (told["note"], told["text"].split()[-1]) == ("old", "drawer.")
    assert [(each["id"], each["why"]) for each in told["timeline"]] == [
        ("old", ["from 2025-01-01 until 2025-06-01"]),
        ("new", ["from 2025-06-01"]),
    ]
    assert code(api.get("/api/notes/new", params={"as_of": "2024"})) == (404, "MEMORY_NOT_FOUND")
    assert code(api.get("/api/search", params={**asked, "as_of": "soon"})) == (400, "INVALID_INPUT")


def test_history_is_that_of_the_command_line(api, book, vault):
    """The versions of a note and where each is kept."""
    old = KEYS.replace("ninety", "thirty")
    first, second = repositories.write(vault, [{"ops/keys.md": old.encode()}, {"ops/keys.md": KEYS.encode()}])
    book.reindex()
    told = api.get("/api/history", params={"id": "ops/keys.md"}).json()["versions"]
    assert [source for each in told for source in each["sources"]] == [f"commit {second}", "file", f"commit {first}"]
    printed = CliRunner().invoke(main, ["--vault", str(vault), "history", "ops/keys"]).output
    assert printed.index(f"commit {second[:12]}") < printed.index(f"commit {first[:12]}")


def test_migrate_and_import_are_jobs(api, filled, tmp_path):
    """A file of the folder for exports alone; an embedder that the vault cannot use is refused at once."""
    folder = filled.config.snapshot_folder / "exports"
    folder.mkdir(parents=True)
    filled.export(folder / "all.json")
    (filled.config.vault / "ops/keys.md").unlink()
    begun = api.post("/api/import", json={"file": "all.json"})
    job = api.app_served.jobs.wait(begun.json()["job"]["id"], 30)
    assert (begun.status_code, job.state, job.result["added"]) == (202, "done", ["ops/keys.md"])
    for wrong in ("../all.json", "/etc/passwd", str(tmp_path / "x.json"), "none.json"):
        assert code(api.post("/api/import", json={"file": wrong})) == (400, "INVALID_INPUT")
    begun = api.post("/api/migrate", json={"to": "hash:64"})
    if begun.status_code == 202:
        assert api.app_served.jobs.wait(begun.json()["job"]["id"], 30).state == "done"
    assert code(api.post("/api/migrate", json={"to": "nothing of the kind"})) == (400, "INVALID_INPUT")
