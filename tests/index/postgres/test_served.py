"""A server without files: it answers from published vaults, and only reads."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from spellbook.index import sync
from spellbook.index.postgres import database as databases
from spellbook.index.postgres.publish import publish
from spellbook.library import published
from spellbook.server.http.app import make
from spellbook.server.http.callers import Caller
from spellbook.server.http.served import Served
from spellbook.system.errors import InvalidInput, PermissionDenied, StorageError, VaultNotFound
from tests.helpers import note_writer, opened


@pytest.fixture
def served(tmp_path, database, monkeypatch):
    """Two published vaults, whose files are gone, and the book of a server of both."""
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    for name, word in (("ops", "crane"), ("home", "kettle")):
        write = note_writer(tmp_path / name)
        write(
            "a.md",
            f"# A {word}\n\nThe {word} stands in the harbour.\n",
            privacy_scope="team" if name == "ops" else "private",
        )
        with opened(tmp_path / name) as index:
            sync.run(index)
            publish(index, database)
        (tmp_path / name / "a.md").unlink()
    book = published.open(database=database)
    yield book
    book.close()


def test_one_question_over_several_vaults(served):
    """Hits of all vaults in one ranking, each named with its vault; an id opens what it names."""
    for verb in (served.search, served.find, served.memorize):
        assert {hit.path for hit in verb("harbour", min_score=0).hits} == {"ops/a.md", "home/a.md"}
    assert served.search("the kettle in the harbour").hits[0].path == "home/a.md"
    assert [each.title for each in served.show("ops/a")] == ["A crane"]
    assert (served.state().notes, served.state().pending) == (2, 0)


def test_it_only_reads(served):
    """It has no verb that writes or needs files; the whole book and what is kept on purpose say why."""
    for change in (lambda: served.whole, lambda: served.memories.remember("x"), lambda: served.memories.pin("ops/a")):
        with pytest.raises(PermissionDenied, match="This server has no files"):
            change()


def test_a_limited_token_sees_its_notes_alone(served):
    """A team token finds and counts notes of the team alone."""
    team = Served(served).book_of(Caller("team", "read", "team"))
    assert {hit.path for hit in team.find("harbour").hits} == {"ops/a.md"}
    assert team.state().notes == 1
    assert team.find("kettle").hits == ()


def test_over_http(served):
    """The API answers as ever, and refuses what writes with 403."""
    app = make(Served(served), live=False)
    with TestClient(app, "http://localhost:17950", raise_server_exceptions=False) as client:
        told = client.get("/api/search", params={"q": "crane harbour", "mode": "find"}).json()
        assert told["hits"][0]["path"] == "ops/a.md"
        assert client.get("/api/recent").json()["total"] == 2
        answer = client.post("/api/reindex", json={})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "PERMISSION_DENIED")


def test_its_pages_are_of_all_vaults(served):
    """Home lists notes, contents begin with the vaults, a new note that nobody can write stays in its form."""
    app = make(Served(served), live=False)
    with TestClient(app, "http://localhost:17950", headers={"accept": "text/html"}) as client:
        page = client.get("/").text
        assert ">A crane</a>" in page
        assert ">A kettle</a>" in page
        assert "Recently read" not in page  # it counts no use
        page = client.get("/contents").text
        assert "/contents?folder=home" in page
        assert "/contents?folder=ops" in page
        page = client.get("/contents?folder=home").text
        assert "A kettle" in page
        assert "A crane" not in page
        answer = client.post("/do/new", data={"text": "The anchor is blue."})
        assert answer.status_code == 400
        assert "The anchor is blue.</textarea>" in answer.text


def test_what_cannot_be_served(database, vault, monkeypatch):
    """Without a database, or with a name that nobody published, opening says so."""
    with pytest.raises((StorageError, InvalidInput), match="SPELLBOOK_DATABASE_URL is not set"):
        published.open()
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    with opened(vault) as index:
        sync.run(index)
        publish(index, database)
    with pytest.raises(VaultNotFound, match="no vault 'nowhere'"):
        published.open(["nowhere"], database)


def test_a_database_that_is_away(served, database, silent, monkeypatch):
    """A question, a list and /health say so with 503 and what to do; nothing names the server."""
    monkeypatch.setattr(databases, "CONNECT_SECONDS", 2)
    app = make(Served(served), live=False)
    with TestClient(app, "http://localhost:17950", raise_server_exceptions=False) as client:
        assert client.get("/health").status_code == 200
        database.close()
        database.url = silent
        for path in ("/api/search?q=crane", "/api/recent", "/api/status"):
            answer = client.get(path)
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (503, "STORAGE_ERROR"), path
            assert "SPELLBOOK_DATABASE_URL" in error["details"]["hint"]
            assert "127.0.0.1" not in answer.text
        assert client.get("/health").json()["status"] == "degraded"
        assert client.get("/health").status_code == 503
