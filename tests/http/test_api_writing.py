"""The API's routes that write, each through to the file, and what they refuse."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from .running import code

KEYS = "# Keys\n\nKeys are rotated every ninety days.\n\n## How\n\nBy the script in ops.\n"
NEW = {"text": "Deploys happen on Tuesdays only.", "metadata": {"topic": "ops", "category": "decision"}}


@pytest.fixture
def filled(write_note, book):
    write_note("ops/keys.md", KEYS)
    book.reindex()
    return book


def test_a_note_is_written_once(api, book):
    """201 with its path; the same again is named and not written: 200."""
    made = api.post("/api/notes", json=NEW)
    assert made.status_code == 201
    assert "Tuesdays" in (book.config.vault / made.json()["path"]).read_text()
    again = api.post("/api/notes", json=NEW)
    assert again.status_code == 200
    assert again.json()["status"] == "warning"
    assert again.json()["duplicates"][0]["path"] == made.json()["path"]
    assert api.post("/api/notes", json={**NEW, "force": True}).status_code == 201


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


def test_erase_restore_undo(api, filled):
    file = filled.config.vault / "ops/keys.md"
    gone = api.delete("/api/notes/ops/keys.md").json()
    assert gone["trash"]
    assert not file.exists()
    assert api.post("/api/restore", json={"name": gone["trash"][0]}).json()["paths"] == ["ops/keys.md"]
    assert file.read_text() == KEYS
    entry = api.delete("/api/notes/ops/keys.md").json()["entry"]
    assert api.post("/api/undo", json={"entry": entry, "dry_run": True}).json()["dry_run"] is True
    assert not file.exists()
    assert "ops/keys.md" in api.post("/api/undo", json={"entry": entry}).json()["paths"]
    assert file.read_text() == KEYS
    assert [each["verb"] for each in api.get("/api/log").json()["entries"]][:2] == ["undo", "erase"]
    assert api.get("/api/log", params={"path": "no.md"}).json()["entries"] == []


def test_move_and_merge_are_previewed_first(api, filled, write_note):
    file = filled.config.vault / "ops/keys.md"
    asked = {"old": "ops/keys.md", "new": "safe/keys.md"}
    assert api.post("/api/move", json=asked).json()["dry_run"] is True
    assert file.exists()
    api.post("/api/move", json={**asked, "dry_run": False})
    assert (filled.config.vault / "safe/keys.md").read_text() == KEYS
    write_note("other.md", "# Keys\n\nKeys are rotated every ninety days.\n\nAnn knows.\n")
    pair = {"a": "safe/keys.md", "b": "other.md"}
    assert api.post("/api/merge", json=pair).json()["trash"] == ""
    assert api.post("/api/merge", json={**pair, "dry_run": False}).json()["trash"]


def test_a_merge_and_a_change_keep_privacy_and_trust(api, book, write_note):
    """What is merged is as private as the more private note; what loses its source stays untrusted."""
    file = write_note("a.md", "The crane lifts.", privacy_scope="public", id="A", age=60)
    write_note("b.md", "The quay is long.", source="https://b.example", id="B")
    book.reindex()
    api.post("/api/merge", json={"a": "A", "b": "B", "dry_run": False})
    assert "privacy_scope: private" in file.read_text()
    assert api.patch("/api/notes/A", json={"metadata": {"source": "me"}}).status_code == 200
    assert "trust: untrusted" in file.read_text()


def test_articles_and_outcomes(api, book):
    given = {"source": "a talk", "categories": ["ops"], "text": "Backups are restored once a month to prove them."}
    assert api.post("/api/articles", json=given).status_code == 201
    assert api.get("/api/articles").json()["total"] == 1
    made = api.post("/api/notes", json=NEW).json()
    id = book.resolve(made["chunk_id"]).note
    told = api.post(f"/api/decisions/{id}/outcome", json={"outcome": "failed", "reason": "Too slow."}).json()
    assert told["outcome"] == "failed"
    assert "Too slow." in (book.config.vault / made["path"]).read_text()


def test_long_work(api, filled):
    """Each is a job: 202 with where to ask for it."""
    assert code(api.get("/api/check")) == (404, "MEMORY_NOT_FOUND")
    for path in ("/api/reindex", "/api/snapshots", "/api/check"):
        begun = api.post(path)
        assert begun.status_code == 202
        id = begun.json()["job"]["id"]
        api.app_served.jobs.wait(id, 30)
        assert api.get(begun.headers["location"]).json()["state"] == "done"
    assert api.get("/api/check").json()["kind"] == "check"
    assert len(api.get("/api/snapshots").json()["snapshots"]) == 1


def test_migrate_and_import_are_jobs(api, filled, tmp_path):
    """A file of the folder for exports alone; an embedder that the vault cannot use is refused at once."""
    folder = filled.config.snapshot_folder / "exports"
    folder.mkdir(parents=True)
    filled.export(folder / "all.json")
    (filled.config.vault / "ops/keys.md").unlink()
    begun = api.post("/api/import", json={"file": "all.json"})
    assert begun.status_code == 202
    job = api.app_served.jobs.wait(begun.json()["job"]["id"], 30)
    assert (job.state, job.result["added"]) == ("done", ["ops/keys.md"])
    for wrong in ("../all.json", "/etc/passwd", str(tmp_path / "x.json"), "none.json"):
        assert code(api.post("/api/import", json={"file": wrong})) == (400, "INVALID_INPUT")
    begun = api.post("/api/migrate", json={"to": "hash:64"})
    if begun.status_code == 202:
        assert api.app_served.jobs.wait(begun.json()["job"]["id"], 30).state == "done"
    assert code(api.post("/api/migrate", json={"to": "nothing of the kind"})) == (400, "INVALID_INPUT")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"{", ""),
        (b"[1]", ""),
        (b'{"text": NaN}', ""),
        (b"[" * 100_000, ""),
        (b"\xff", ""),
        (b"", "text"),
        (b'{"text": "x"}', "metadata"),
        (b'{"text": 3, "metadata": {}}', "text"),
        (b'{"text": "x", "metadata": {}, "force": 0}', "force"),
        (b'{"text": "x", "metadata": {}, "force": "true"}', "force"),
        (b'{"text": "x", "metadata": {}, "id": "y"}', "id"),
        (b'{"text": "x\\ud800", "metadata": {}}', ""),
    ],
)
def test_bodies_that_are_refused(api, book, body, field):
    answer = api.post("/api/notes", content=body, headers={"content-type": "application/json"})
    assert code(answer) == (400, "INVALID_INPUT")
    assert not field or field in answer.json()["error"]["details"]["fields"]
    assert book.log() == []


def test_a_method_that_is_not_there_is_told_the_others(api):
    """All of the address, whichever endpoint has them."""
    answer = api.request("PUT", "/api/notes/x")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "DELETE, GET, HEAD, PATCH"
