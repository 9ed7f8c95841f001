"""Writes on a server without files: the vault's own machine does them, or nothing is written and the caller is told."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import uvicorn
from starlette.testclient import TestClient

from spellbook.index.postgres.database import PostgresDatabase
from spellbook.index.postgres.publish import publish
from spellbook.library import book as books
from spellbook.library import published
from spellbook.server import publisher
from spellbook.server.handover import TOKEN, Writers
from spellbook.server.http.app import make
from spellbook.server.http.guard import AccessRules
from spellbook.server.http.served import Served
from spellbook.server.http.tokens import Tokens
from spellbook.server.names import TOOLSETS
from spellbook.system.errors import InvalidInput
from tests.helpers import PATIENCE, held, note_writer
from tests.index.postgres.test_limits import rpc

SECRET = "a-token-of-the-vaults-machines"


@contextlib.contextmanager
def listening(app, **options):
    """Serve an app on a port of this machine; yield its address."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, **options))
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        try:
            yield f"{'https' if options else 'http'}://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def machines(tmp_path, url, database, monkeypatch):
    """Two machines with files that publish their vaults, by the vault's name: its folder and its address."""
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    monkeypatch.setenv("SPELLBOOK_DATABASE_URL", url)
    monkeypatch.setenv("SPELLBOOK_TOKEN", SECRET)
    monkeypatch.setattr(publisher, "LOOK_SECONDS", 0.02)
    with contextlib.ExitStack() as stack:
        found = {}
        for name in ("ops", "home"):
            write = note_writer(tmp_path / name)
            write("a.md", f"# A of {name}\n\nThe crane of {name} lifts twelve.\n")
            book = stack.enter_context(books.open(tmp_path / name, state=tmp_path / "state" / name))
            book.reindex()
            publish(book.index, database)
            running = publisher.started(book)
            stack.callback(running.stop)
            address = stack.enter_context(
                listening(make(Served(book, TOOLSETS), AccessRules(is_local=False), live=False))
            )
            found[name] = tmp_path / name, address
        monkeypatch.delenv("SPELLBOOK_TOKEN")
        yield found


@pytest.fixture
def reader(url, monkeypatch):
    """Return a client of a server over published vaults, whose writes go to some machines."""
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    with contextlib.ExitStack() as stack:

        def start(urls, token=SECRET, *, may="write", sees="private", vaults=(), seconds=5.0, names=()):
            book = stack.enter_context(published.open(names, PostgresDatabase(url)))
            writers = Writers(urls, {TOKEN: token}, seconds=seconds)
            served = Served(book, TOOLSETS, writers=writers)
            key = served.tokens.add(f"t{len(served.tokens.all())}", may, sees, vaults)
            client = stack.enter_context(
                TestClient(make(served, AccessRules(is_local=False), live=False), "http://localhost:17950")
            )
            client.headers["authorization"] = f"Bearer {key}"
            return client

        yield start


def urls_of(machines):
    return {name: address for name, (_, address) in machines.items()}


def call(client, tool, **arguments):
    result = rpc(client, "tools/call", name=tool, arguments=arguments).json()["result"]
    return result["content"][0]["text"], result["isError"]


def error(answer):
    told = answer.json()["error"]
    return f"{told['message']} {told['details'].get('hint', '')}"


def test_a_note_is_written_changed_and_erased(machines, reader):
    """Through the API: the answer has the reader's ids, the same reader finds it at once, the file is on the machine."""
    client, folder = reader(urls_of(machines)), machines["home"][0]
    given = {"text": "We bought a kettle.", "metadata": {"topic": "kitchen"}}
    answer = client.post("/api/notes", json=given, headers={"x-spellbook-vault": "home"})
    told = answer.json()
    assert (answer.status_code, told["status"], "visible" in told) == (201, "success", False)
    assert told["path"].startswith("home/")
    assert (folder / told["path"].removeprefix("home/")).read_text("utf-8").rstrip().endswith("We bought a kettle.")
    assert client.get("/api/search?q=kettle&mode=find").json()["hits"][0]["path"] == told["path"]
    note = client.get(f"/api/notes/{told['path']}").json()
    chunk = note["chunks"][0]
    wrong = {"content": "A pot.", "expected_hash": "0" * 16}
    refused = client.patch(f"/api/notes/{chunk['id'].replace('#', '%23')}", json=wrong)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "CONFLICT")
    change = {"replace": {"old": "a kettle", "new": "a pot"}, "expected_hash": chunk["hash"]}
    revised = client.patch(f"/api/notes/{chunk['id'].replace('#', '%23')}", json=change).json()
    assert revised["path"] == told["path"]
    assert "+We bought a pot." in revised["difference"]
    moved = client.post("/api/move", json={"old": told["path"], "new": "home/pots/one.md", "dry_run": False}).json()
    assert moved["moved"] == [[told["path"], "home/pots/one.md"]]
    erased = client.delete("/api/notes/home/pots/one.md").json()
    assert erased["trash"][0].startswith("home/.trash/")
    assert client.get("/api/search?q=pot&mode=find").json()["hits"] == []
    assert client.post("/api/restore", json={"name": erased["trash"][0]}).json()["paths"] == ["home/pots/one.md"]
    undone = client.post("/api/undo", json={}, headers={"x-spellbook-vault": "home"}).json()
    assert undone["verb"] == "restore"


def test_tools_write_too(machines, reader):
    """Through MCP: a session, a memory, a change in words with the reader's ids; where the vault is not clear, it is asked."""
    client = reader(urls_of(machines))
    tools = {each["name"]: each for each in rpc(client, "tools/list").json()["result"]["tools"]}
    assert "vault" in tools["scribe"]["inputSchema"]["properties"]
    assert "vault" not in tools["search"]["inputSchema"]["properties"]
    text, is_error = call(client, "rest")
    assert is_error
    assert "It is not clear into which vault" in text
    assert "home, ops" in text
    session = json.loads(call(client, "rest", vault="ops", brief=True)[0])["session_id"]
    chunk = {"text": "The quay is swept on Mondays.", "metadata": {"topic": "quay", "keywords": ["quay", "Mondays"]}}
    told = json.loads(call(client, "scribe", vault="ops", chunk=chunk, session_id=session)[0])
    assert told["chunk_id"].startswith("ops/")
    assert "swept" in call(client, "show", id=told["chunk_id"])[0]
    text, _ = call(client, "revise", chunk_id=told["chunk_id"], replace={"old": "Mondays", "new": "Fridays"})
    assert f"Revised {told['chunk_id']} in" in text
    assert text.startswith("In the vault ops; other ids here begin with ops/")
    assert "Fridays" in call(client, "find", keywords=["Fridays"])[0]
    text, is_error = call(client, "revise", chunk_id="ops/nowhere", append="x")
    assert (is_error, "MEMORY_NOT_FOUND: In the vault ops:" in text) == (True, True)
    assert json.loads(call(client, "remember", vault="home", content="Tea at four.")[0])["path"].startswith(
        "home/memory/"
    )
    text, is_error = call(client, "rebuild_index")
    assert (is_error, "This server has no files" in text) == (True, True)


def test_who_may_not_write_here_does_not_there(machines, reader):
    """A reading token, one of the team, and one of another vault gain nothing by the hand-over; nothing is written."""
    before = {name: held(folder) for name, (folder, _) in machines.items()}
    given, urls = {"text": "x", "metadata": {"topic": "x"}}, urls_of(machines)
    for who, code in (({"may": "read"}, 403), ({"may": "read", "sees": "team"}, 403), ({"vaults": ("home",)}, 400)):
        client = reader(urls, **who)
        answer = client.post("/api/notes", json=given, headers={"x-spellbook-vault": "ops"})
        assert answer.status_code == code, answer.text
        assert "ops" not in error(answer).replace("'ops'", "")
        assert call(client, "remember", content="x", vault="ops")[1]
        client.delete("/api/notes/ops/a.md")
        call(client, "erase", chunk_id="ops/a")
    team = reader(urls, may="read", sees="team", vaults=("ops",))
    file = Tokens.of_published().file  # a person may have edited it
    file.write_text(file.read_text().replace('"may": "read"', '"may": "write"'))
    assert team.delete("/api/notes/a").status_code == 403
    assert "PERMISSION_DENIED" in call(team, "erase", chunk_id="a")[0]
    client = reader({"home": urls["home"]})
    answer = client.post("/api/notes", json=given, headers={"x-spellbook-vault": "ops"})
    assert (answer.status_code, "knows no machine of the vault 'ops'. Nothing was written" in error(answer)) == (
        403,
        True,
    )
    answer = client.post("/api/merge", json={"a": "ops/a", "b": "home/a", "dry_run": False})
    assert (answer.status_code, "Ids of several vaults" in error(answer)) == (400, True)
    answer = client.post("/api/reindex", json={})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
    assert {name: held(folder) for name, (folder, _) in machines.items()} == before


def test_one_vault_needs_no_name(machines, reader):
    """Where a caller sees one vault, ids have no vault before them, in what is sent and in what is answered."""
    client = reader(urls_of(machines), vaults=("ops",))
    told = client.post("/api/notes", json={"text": "We have one quay.", "metadata": {"topic": "quay"}}).json()
    assert told["path"].startswith("quay/") or "/" in told["path"]
    assert not told["path"].startswith("ops/")
    assert (machines["ops"][0] / told["path"]).is_file()
    text, _ = call(client, "revise", chunk_id=told["chunk_id"], append="It is long.")
    assert text.startswith(f"Revised {told['chunk_id']} in {told['path']}")
    page = client.get(f"/note/{told['path']}", headers={"accept": "text/html"})
    assert "It is long." in page.text
    form = {"id": told["chunk_id"], "content": "Two quays.", "old": "", "to": "/"}
    assert (
        client.post("/do/edit", data=form, headers={"accept": "text/html"}, follow_redirects=False).status_code == 303
    )
    assert "Two quays." in (machines["ops"][0] / told["path"]).read_text("utf-8")


class _Odd(BaseHTTPRequestHandler):
    """A machine that answers as `server.odd` says."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        status, headers, body = self.server.odd
        if status == 0:
            self.server.release.wait(PATIENCE)
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_PATCH = do_POST

    def log_message(self, *_):
        pass


@pytest.fixture
def odd():
    """A machine that is no Spellbook, or a slow one."""
    server = HTTPServer(("127.0.0.1", 0), _Odd)
    server.release = threading.Event()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.release.set()
    server.shutdown()
    thread.join()
    server.server_close()


KNOWN, UNKNOWN = "Nothing was written.", "It is not known whether it was written."
FAULT = json.dumps({"error": {"code": "PERMISSION_DENIED", "message": "It may only read.", "details": {}}}).encode()
FULL = json.dumps({"error": {"code": "STORAGE_ERROR", "message": "The disk is full.", "details": {}}}).encode()


@pytest.mark.parametrize(
    ("answer", "says", "status"),
    [
        pytest.param((0, {}, b""), UNKNOWN, 502, id="slow"),
        pytest.param((302, {"location": "http://evil.example/"}, b""), KNOWN, 502, id="elsewhere"),
        pytest.param((200, {}, b"<html>Welcome</html>"), UNKNOWN, 502, id="no Spellbook"),
        pytest.param((502, {}, b"<html>Bad gateway</html>"), UNKNOWN, 502, id="proxy"),
        pytest.param((401, {}, b"{}"), KNOWN, 502, id="wrong token"),
        pytest.param((403, {}, FAULT), KNOWN, 502, id="reading token"),
        pytest.param((500, {}, FULL), "The disk is full.", 500, id="full"),
        pytest.param((200, {"content-length": "99"}, b"{}"), UNKNOWN, 502, id="cut off"),
    ],
)
def test_a_machine_that_does_not_answer_as_it_should(machines, reader, odd, answer, says, status):
    """The caller is told that nothing was written, or that this is not known; the token is in no message."""
    odd.odd = answer
    client = reader({"ops": f"http://127.0.0.1:{odd.server_port}"}, vaults=("ops",), seconds=0.4)
    told = client.post("/api/notes", json={"text": "x", "metadata": {"topic": "x"}})
    assert (told.status_code, says in error(told)) == (status, True), told.text
    assert SECRET not in told.text
    text, is_error = call(client, "remember", content="x")
    assert (is_error, says in text) == (True, True), text


def test_a_machine_that_is_away_or_is_not_what_it_says(machines, reader, tmp_path):
    """No answer, a wrong token, and a certificate that nobody vouches for: nothing was written."""
    given = {"text": "x", "metadata": {"topic": "x"}}
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        away = reader({"ops": f"http://127.0.0.1:{taken.getsockname()[1]}"}, vaults=("ops",))
        answer = away.post("/api/notes", json=given)
        assert (answer.status_code, "does not answer. Nothing was written." in error(answer)) == (502, True)
    stranger = reader(urls_of(machines), "another-token", vaults=("ops",))
    answer = stranger.post("/api/notes", json=given)
    assert (answer.status_code, "does not know the token of this server. Nothing was written." in error(answer)) == (
        502,
        True,
    )
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    options = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    try:
        subprocess.run(["openssl", *options, "-keyout", key, "-out", cert], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no openssl")

    async def app(scope, receive, send):
        raise AssertionError("nothing may be sent")

    with listening(app, ssl_keyfile=key, ssl_certfile=cert, lifespan="off") as address:
        answer = reader({"ops": address}, vaults=("ops",)).post("/api/notes", json=given)
    assert (answer.status_code, "is not valid. Nothing was written." in error(answer)) == (502, True)


def test_a_server_without_files_hands_nothing_on(machines, reader):
    """A write that was handed to another such server, by mistake, ends there."""
    other = reader(urls_of(machines), vaults=("ops",))
    with listening(other.app, lifespan="off") as address:
        address = address.replace("https", "http")
        token = other.headers["authorization"].removeprefix("Bearer ")
        client = reader({"ops": address}, token, vaults=("ops",))
        answer = client.post("/api/notes", json={"text": "x", "metadata": {"topic": "x"}})
        assert (answer.status_code, "no files either. Nothing was written." in error(answer)) == (502, True)
        text, is_error = call(client, "remember", content="x")
        assert (is_error, "Nothing was written." in text) == (True, True)


@pytest.mark.parametrize(
    ("pairs", "token", "says"),
    [
        (["ops"], "x", "is not NAME=URL"),
        (["ops=ftp://a"], "x", "is not NAME=URL"),
        (["ops=https://a", "ops=https://b"], "x", "once for a vault"),
        (["ops=https://u:p@a"], "x", "is not an address"),
        (["ops=https://a?x=1"], "x", "is not an address"),
        (["ops=http://notes.example.org"], "x", "Use https"),
        (["ops=https://a"], "", f"{TOKEN} is not set"),
    ],
)
def test_what_an_operator_names_wrongly(monkeypatch, pairs, token, says):
    """A wrong --writes-to ends the start with what is wrong."""
    monkeypatch.setenv(TOKEN, token)
    with pytest.raises(InvalidInput, match=says.replace("?", r"\?")):
        Writers.of(pairs)
