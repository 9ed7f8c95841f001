"""
A token for one vault, on a server over two: nothing tells of the other one, and everything answers without a traceback.

The other vault holds words that occur nowhere else. Every endpoint, page and tool is asked for them, and for notes of
both vaults. Each answer must be letter for letter that of a server over the one vault alone.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import uuid
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from starlette.routing import Route
from starlette.testclient import TestClient

from spellbook.cli import main
from spellbook.index import sync
from spellbook.index.postgres.database import PostgresDatabase
from spellbook.index.postgres.publish import publish
from spellbook.library import published
from spellbook.server.http import admin, api, pages
from spellbook.server.http.app import make
from spellbook.server.http.guard import AccessRules
from spellbook.server.http.served import Served
from spellbook.server.names import TOOLSETS
from tests.helpers import note_writer, opened
from tests.library.test_limited import CANARY, fill

OWN = ("zqid", "zqid#the-zqheading", "zqfolder/zqpath.md", "zqtopic", "crane", "notes/crane#lifting", "knowledge/cranes", "hidden/zqid")  # fmt: skip
"""What is asked for: ids, paths, topics and words of both vaults, and of none."""


def of_one_vault(vault):
    """Write notes of every kind that link to each other, without any of the other vault's words."""
    write = note_writer(vault)
    write("notes/crane.md", "# The crane\n\nThe crane lifts. See [[quay]].\n\n## Lifting\n\nTwelve an hour.\n", id="crane", topic="cranes", category="knowledge", tags="[shared]", keywords="[harbour]", created="2026-03-01")  # fmt: skip
    write("notes/quay.md", "# The quay\n\nThe quay of the harbour. [[crane]]\n", topic="cranes", category="knowledge", tags="[shared]", created="2026-03-02")  # fmt: skip
    write("old.md", "We use one crane.\n", id="OLD", category="decision", topic="plans", created="2026-03-03")
    write("new.md", "We use two cranes.\n", id="NEW", category="decision", topic="plans", supersedes='"[[old]]"', created="2026-03-04")  # fmt: skip
    write("step.md", "Where it stands.\n\n- [ ] swept\n", category="checkpoint", topic="session", created="2026-03-05")
    write("article.md", "An article of the sea.\n", category="article", categories="[sea]", trust="untrusted", source="https://a.example", created="2026-03-06")  # fmt: skip
    write("work.md", "Look at the rope.\n", type="working", pinned="true", review="2026-01-01", category="memory", created="2026-03-07")  # fmt: skip


@pytest.fixture(scope="module")
def places(address, tmp_path_factory) -> Iterator[tuple[str, str]]:
    """The addresses of a database with both vaults, and of one with the first alone; their files are not needed."""
    import psycopg

    folder, names = tmp_path_factory.mktemp("limits"), [f"t{uuid.uuid4().hex[:12]}" for _ in range(2)]
    with psycopg.connect(address, autocommit=True) as connection:
        for name in names:
            connection.execute(f"CREATE DATABASE {name}")
    urls = tuple(address.replace("/postgres?", f"/{name}?") for name in names)
    for vault, write in (("hidden", fill), ("open", of_one_vault)):
        (folder / vault).mkdir()
        write(folder / vault)
        with opened(folder / vault, state=folder / "state") as index:
            sync.run(index)
            for url in urls if vault == "open" else urls[:1]:
                with contextlib.closing(PostgresDatabase(url)) as found:
                    publish(index, found)
    yield urls
    with psycopg.connect(address, autocommit=True) as connection:
        for name in names:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def place(places) -> str:
    """The address of the database with both vaults."""
    return places[0]


@pytest.fixture
def server(place, monkeypatch):
    """Return a client of a server over some published vaults, whose token is limited to some."""
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    made = []

    def start(*names, may="write", sees="private", vaults=(), at=place):
        book = published.open(names, PostgresDatabase(at))
        served = Served(book, TOOLSETS)
        token = served.tokens.add(f"t{len(made)}", may, sees, vaults)
        app = make(served, AccessRules(is_local=False), live=False)
        client = TestClient(app, "http://localhost:17950", follow_redirects=False)  # an error nobody foresaw is raised
        client.headers["authorization"] = f"Bearer {token}"
        made.append((client, book))
        return client.__enter__()

    yield start
    for client, book in made:
        client.__exit__(None, None, None)
        book.close()


# -- what is asked

BODIES = {
    "GET /api/search": [
        {"q": text, "mode": mode}
        for text in ("the harbour and the zqtext", "crane")
        for mode in ("search", "memorize", "find")
    ]
    + [{"q": "harbour", "limit": 100, "min_score": 0}, {"q": "harbour", "filter": '{"zqke": "x"}'}]
    + [{"q": "harbour", "filter": '{"topic": "zqtopi", "path": "zqfolder/*"}'}, {"q": "crane", "as_of": "2026-01-01"}],
    "GET /api/why": [{"q": "harbour"}, *({"q": "the harbour", "id": each} for each in OWN)],
    "GET /api/topic": [{"name": each} for each in OWN],
    "GET /api/index": [{}, *({"scope": each} for each in OWN)],
    "GET /api/graph": [{"id": each} for each in OWN],
    "GET /api/history": [{"id": each} for each in OWN],
    "GET /api/recent": [{"limit": 100}, {"filter": '{"topic": "zqtopic"}'}, {"offset": 3}],
    "GET /api/articles": [{}, {"category": "zqsea"}],
    "GET /api/log": [{}, {"path": "notes/crane.md"}],
    "POST /api/notes": [{"text": "zqid", "metadata": {"topic": "x"}}],
    "PATCH /api/notes/{id}": [{"append": "x"}],
    "POST /api/restore": [{"name": "zqid"}],
    "POST /api/move": [{"old": "zqid", "new": "x.md"}],
    "POST /api/merge": [{"a": "zqid", "b": "crane"}],
    "POST /api/articles": [{"source": "https://zq.example", "categories": ["x"]}],
    "POST /api/decisions/{id}/outcome": [{"outcome": "failed"}],
    "POST /api/migrate": [{"to": "hash"}],
    "POST /api/import": [{"file": "x.json"}],
    "POST /admin/memory/review": [{"memory_id": "zqid", "days": 3}],
    "POST /admin/errors/resolve": [{"errorId": "x"}],
    "GET /admin/stats/performance": [{"includeDetails": "true", "timeRange": "24h"}],
}
"""What each endpoint is given; `{}` for those that are not here."""

PAGES = {
    "/search": ["?q=harbour", "?q=the+zqtext&missing=zqid", "?q=crane&missing=crane&category=knowledge&days=7&tag=zq"],
    "/contents": ["", "?topic=zqtopic", "?topic=cranes", "?category=knowledge"],
    "/decisions": ["", "?topic=plans", "?outcome=pending"],
    "/note/{id:path}": [f"/{each.replace('#', '%23')}" for each in OWN],
    "/graph/{id:path}": [f"/{each.replace('#', '%23')}" for each in OWN],
    "/difference": ["?entry=1"],
}
FORM = "id=crane&content=x&topic=cranes&old=crane&new=x.md&name=x&entry=1&a=crane&b=OLD&sure=yes&source=x&categories=x&days=3"

ARGUMENTS = {
    **{
        name: [{"query": each} for each in ("the harbour and the zqtext", "crane")]
        for name in ("search", "memorize", "recall", "mama_search")
    },
    **{name: [{"query": "harbour"}] for name in ("articles_search", "wiki_search")},
    "find": [{"keywords": [each]} for each in OWN],
    "show": [{"id": each} for each in OWN],
    "get_topic": [{"topic_id": each} for each in OWN],
    "get_index": [{}, {"scope": "zqcategory"}, {"as_of": "2026-01-01"}],
    "recent": [{"limit": 100}, {"filter": {"topic": "zqtopic"}, "format": "json"}],
    "get": [{"article_id": "article", "include_content": True}, {"article_id": "zqid"}],
    "ask": [{"question": "harbour"}, {"question": "sea", "category": "*", "format": "json"}],
    "scribe_validate": [{"chunk": {"text": "More of the zqsection.", "metadata": {"topic": "x", "keywords": ["y"]}}}],
    "mama_search": [{}, {"query": "crane"}, {"type": "checkpoint", "format": "json"}, {"topic": "zqtopic"}],
}
WRITES = {
    "chunk": {"text": "x", "metadata": {"topic": "x", "keywords": ["y"]}}, "session_id": "x", "chunk_id": "crane", "append": "x",
    "memory_id": "crane", "content": "x", "type": "decision", "topic": "plans", "decision": "x", "id": "OLD", "outcome": "failed",
    "source": "https://a.example", "categories": ["x"], "article_id": "article", "a": "crane", "b": "OLD", "name": "x", "old": "crane",
    "new": "x.md", "file_path": "x",
}  # fmt: skip
"""Arguments of tools that write: each gets those that it knows, and `remember` its own type."""


def asked_of_api(client) -> Iterator[tuple[str, object]]:
    """Every endpoint, with what it is given."""
    for each in (*api.ENDPOINTS, *admin.ENDPOINTS):
        called = f"{each.method} {each.path}"
        for given in BODIES.get(called, [{}]):
            for id in OWN if "{id}" in each.path and each.method == "GET" else ["crane"]:
                path = each.path.replace("{id}", id.replace("#", "%23"))
                what = {"json": given} if each.has_body else {"params": given}
                yield f"{each.method} {path} {given}", client.request(each.method, path, **what)
    for path in ("/api/jobs", "/api/jobs/x", "/api/openapi.json", "/health", "/nowhere", "/admin/nowhere"):
        yield path, client.get(path)


def asked_of_pages(client) -> Iterator[tuple[str, object]]:
    """Every page, and every form."""
    html = {"accept": "text/html"}
    for route in (each for each in pages.ROUTES if isinstance(each, Route) and each.path != "/logout"):
        begin = route.path.removesuffix("/{id:path}")
        for rest in PAGES.get(route.path, [""]) if "GET" in route.methods else ():
            yield begin + rest, client.get(begin + rest, headers=html)
        if "POST" in route.methods and route.path != "/login":
            form = {**html, "content-type": "application/x-www-form-urlencoded"}
            yield f"POST {route.path}", client.post(route.path, content=FORM, headers=form)


def rpc(client, method, **params):
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    meta["io.modelcontextprotocol/clientInfo"] = {"name": "test", "version": "1"}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
    }
    if name := params.get("name") or params.get("uri"):
        headers["mcp-name"] = name
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return client.post("/mcp", json=body, headers=headers)


def asked_of_tools(client) -> Iterator[tuple[str, object]]:
    """Every tool, resource, prompt and completion."""
    listed = rpc(client, "tools/list")
    yield "tools/list", listed
    for tool in listed.json()["result"]["tools"]:
        known = tool["inputSchema"].get("properties", {})
        writes = {key: value for key, value in WRITES.items() if key in known}
        writes |= {"type": "episodic"} if tool["name"] == "remember" else {}
        is_read = tool["annotations"]["readOnlyHint"]
        for given in ARGUMENTS.get(tool["name"], [{}]) if is_read else [writes]:
            yield f"{tool['name']} {given}", rpc(client, "tools/call", name=tool["name"], arguments=given)
    uris = ["memory://index", "memory://search?query=harbour", "memory://search", *(f"memory://{each}" for each in OWN)]
    for uri in uris:
        yield uri, rpc(client, "resources/read", uri=uri.replace("#", "%23"))
    given = {"query": "the zqtext of the harbour"}
    yield "prompt", rpc(client, "prompts/get", name="memory_injection", arguments=given)
    for begin in ("", "z", "zq", "c", "hidden/", "o"):
        argument, ref = {"name": "id", "value": begin}, {"type": "ref/resource", "uri": "memory://{+id}"}
        yield f"complete {begin}", rpc(client, "completion/complete", argument=argument, ref=ref)


SENT = set(CANARY.findall(f"{OWN} {BODIES} {PAGES} {FORM} {ARGUMENTS} {WRITES}"))
DOORS = {"api": asked_of_api, "pages": asked_of_pages, "tools": asked_of_tools}

_OF_THE_MOMENT = re.compile(
    r'"(?:ms|search_time|uptime_s|query_time|cached_at|expires_at|timestamp|timings|day|bytes|looked_at|csrf|usage|rss|peak)\\*": *'
    r'(?:\{(?:[^{}]|\{[^{}]*\})*\}|\\*"[^"]*"|[-\d.]+)|https?://\S+|\b[\d.]+ (?:ms|KB|MB|s)\b|age_?\w*": [\d.]+'
)


def said(answer) -> str:
    """An answer as text, without what differs between two moments and two servers."""
    return f"{answer.status_code} {_OF_THE_MOMENT.sub('', answer.text)}"


def sound(what, answer):
    """Assert that an answer is no error that nobody foresaw."""
    assert answer.status_code < 500, (what, answer.text)
    assert not re.search("INTERNAL_ERROR|STORAGE_ERROR", answer.text), (what, answer.text)
    assert "Spellbook failed" not in answer.text, (what, answer.text)


@pytest.mark.parametrize(
    ("door", "sees"),
    [
        *((door, "private") for door in DOORS),
        *(pytest.param(door, "team", marks=pytest.mark.slow) for door in DOORS),
    ],
)
def test_nothing_tells_of_another_vault(server, places, door, sees):
    """Every answer to a token of one vault is that where no other was published, and has no word of the other."""
    may = "write" if sees == "private" else "read"
    limited, alone = server(vaults=("open",), may=may, sees=sees), server(may=may, sees=sees, at=places[1])
    asked = 0
    for (what, mine), (_, other) in zip(DOORS[door](limited), DOORS[door](alone), strict=True):
        sound(what, mine)
        named = CANARY.findall(what)
        found = {each for each in CANARY.findall(mine.text) if not any(one.startswith(each) for one in named)}
        assert not found, (what, mine.text)
        assert "hidden" not in mine.text.replace("hidden/zqid", "") or "<html" in mine.text, what
        if "/api/status" not in what and "/admin" not in what and "stats" not in what and door != "pages":
            assert said(mine) == said(other), what
        asked += 1
    assert asked > 30


@pytest.mark.parametrize("door", DOORS)
def test_everything_answers(server, door):
    """No page, endpoint or tool of a server of two vaults ends in an error that nobody foresaw; it tells of both."""
    client, seen = server(may="admin"), set()
    for what, answer in DOORS[door](client):
        sound(what, answer)
        seen |= set(CANARY.findall(answer.text)) - SENT
    assert len(seen) > 5


def test_unknown_is_as_not_yours(server):
    """An id, a path or a topic of another vault gets the very words that an unknown one gets."""
    client = server(vaults=("open",))
    for path in ("/api/notes/{}", "/api/graph?id={}", "/api/topic?name={}", "/api/why?q=x&id={}", "/note/{}"):
        for text in ("zqid", "zqfolder/zqpath.md", "zqtopic", "hidden/zqid"):
            unknown = text.replace("zq", "xy").replace("hidden", "missed")
            one, other = client.get(path.format(text)), client.get(path.format(unknown))
            assert one.status_code == 404
            assert said(one).replace(text, unknown) == said(other)


def test_a_limit_to_vaults_that_are_not_there_shows_nothing(server):
    """A token for a vault that is not published, or not served here, sees no vault and no name of one."""
    asked = ("search?q=harbour", "recent", "notes/zqid", "topic?name=cranes", "why?q=x&id=crane", "index", "articles")
    for client in (
        server(vaults=("gone",)),
        server("open", vaults=("hidden",)),
        server(vaults=("open'; --", "%(own)s")),
    ):
        for each in asked:
            answer = client.get(f"/api/{each}")
            sound(each, answer)
            told = answer.text.replace("'zqid'", "").replace("'crane'", "").replace("'cranes'", "")
            assert not re.search("crane|quay|open|hidden|zq", told), told
        told = client.get("/api/status").json()
        assert (told["notes"], told["chunks"], told["vaults"]) == (0, 0, [])
        assert client.get("/api/search?q=harbour").json()["hits"] == []


def test_books_of_callers_are_bounded_and_share_connections(server, place):
    """However many limits tokens have, few books are kept, and threads share connections whoever asks."""
    book = published.open((), PostgresDatabase(place))
    before = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with contextlib.closing(PostgresDatabase(place)) as other:
        [[others]] = other.rows(before)
        first = book.seen_by("", ["open"])
        for i in range(published.MOST_SEEN):
            last = book.seen_by("", ["open", f"v{i}"])
            assert last.recent().total == 7
        assert book.seen_by("", ["v0", "open"]) is not first
        assert book.seen_by("", ["open", f"v{i}"]) is last
        assert book.seen_by("", ["open"]) is not first, "it made room"
        for _ in range(5):
            thread = threading.Thread(target=last.recent)
            thread.start()
            thread.join()
        assert other.rows(before)[0][0] - others <= 2, "a thread that ended leaves no connection behind"
    book.close()


def token(*arguments):
    return CliRunner().invoke(main, ["token", *arguments])


def test_the_command_makes_tokens_for_vaults(place, monkeypatch):
    """A vault that nobody published is an error where the database can be asked; the list tells each limit."""
    monkeypatch.setenv("SPELLBOOK_DATABASE_URL", place)
    wrong = token("add", "ann", "--published", "--only-vault", "opne")
    assert (wrong.exit_code, "no vault 'opne' is published there" in wrong.output) == (1, True)
    assert "hidden, open" in wrong.output
    made = token("add", "ann", "--published", "--only-vault", "open", "--only-vault", "hidden")
    assert made.exit_code == 0, made.output
    assert "ann  write, private (open, hidden)" in token("list", "--published").output
    told = json.loads(token("list", "--published", "--json").stdout)["tokens"]
    assert [each["vaults"] for each in told] == [["open", "hidden"]]
    monkeypatch.delenv("SPELLBOOK_DATABASE_URL")
    unknown = token("add", "bob", "--published", "--only-vault", "anything")
    assert (unknown.exit_code, "is not known" in unknown.output) == (0, True)
    refused = token("add", "root", "--published", "--may", "admin", "--only-vault", "open")
    assert (refused.exit_code, "cannot be an admin" in refused.output) == (2, True)
    assert token("remove", "ann", "--published").exit_code == 0


def test_the_command_publishes(book, write_note, database, monkeypatch, url):
    """`spellbook publish` says how many notes it wrote, and under which name."""
    write_note("a.md", "# A\n\nThe crane.\n")
    monkeypatch.setenv("SPELLBOOK_DATABASE_URL", url)
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    done = CliRunner().invoke(main, ["publish", "--vault", str(book.config.vault), "--json"])
    assert done.exit_code == 0, done.output
    assert {key: json.loads(done.stdout)[key] for key in ("name", "notes")} == {"name": "vault", "notes": 1}
