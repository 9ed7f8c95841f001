"""As of a date, through the command line, the tools and the API: the same answers, and each says of when it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from spellbook.library import earlier
from spellbook.library.book import Spellbook
from tests import repositories
from tests.commands import spellbook
from tests.server.agent import Agent, talk
from tests.server.http.conftest import api

__all__ = ["api"]

OLD = "# Keys\n\nKeys are rotated every thirty days.\n\n## Who\n\nAnn does it.\n"


@pytest.fixture
def commits(vault: Path, book: Spellbook, monkeypatch: pytest.MonkeyPatch) -> list[repositories.Commit]:
    """The vault as a repository: keys of thirty days on 2026-01-01, of ninety a day later, and a note on tea."""
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    monkeypatch.setenv("SPELLBOOK_SECOND_ENCODER", "off")
    old = {"ops/keys.md": OLD.encode()}
    new = {"ops/keys.md": OLD.replace("thirty", "ninety").encode(), "home/tea.md": b"# Tea\n\nGreen tea.\n"}
    made = repositories.write(vault, [old, new])
    book.reindex()
    return made


def test_commands(vault: Path, commits: list[repositories.Commit]) -> None:
    """Answers are on stdout, of when they are on stderr and in JSON; what means no time is wrong usage."""

    def asked(*arguments: str, code: int = 0) -> Any:
        return spellbook("--vault", vault, *arguments, code=code)

    past = ("--as-of", "2026-01-01")
    for verb, words in (
        ("search", "how often are keys rotated"),
        ("memorize", "how often are keys rotated"),
        ("find", "rotated"),
    ):
        told = json.loads(asked(verb, words, *past, "--json").stdout)
        assert "thirty days" in told["hits"][0]["text"], verb
        assert told["as_of"]["commit"] == commits[0].hash
        assert "ninety days" in json.loads(asked(verb, words, "--json").stdout)["hits"][0]["text"], verb
    shown = asked("show", "ops/keys", *past)
    assert "thirty" in shown.stdout
    assert f"As of 2026-01-01: what was written by commit {commits[0].hash[:12]}" in shown.stderr
    assert "as_of" not in shown.stdout
    for command in (("topics", "--json"), ("recent", "--json")):
        told = asked(*command, *past).stdout
        assert "ops" in told
        assert "tea" not in told
        assert json.loads(told)["as_of"]["asked"] == "2026-01-01"
    refused = asked("search", "keys", "--as-of", "1999", code=2)
    assert "Nothing was written by 1999: the first commit is" in refused.stderr
    versions = asked("history", "ops/keys")
    assert f"commit {commits[1].hash[:12]}" in versions.stdout
    assert "-Keys are rotated every thirty days." in versions.stdout


def test_tools(book: Spellbook, commits: list[repositories.Commit]) -> None:
    """Six tools of core take `as_of`; text begins with of when it is, JSON has it under a key."""
    asked: dict[str, dict[str, Any]] = {
        "search": {"query": "how often are keys rotated"},
        "memorize": {"query": "how often are keys rotated"},
        "find": {"keywords": ["rotated"]},
        "show": {"id": "ops/keys"},
        "recent": {},
        "get_index": {},
    }

    async def conversation(agent: Agent) -> None:
        for tool, arguments in asked.items():
            text = await agent.call(tool, **arguments, as_of="2026-01-01")
            assert text.startswith(f"As of 2026-01-01: what was written by commit {commits[0].hash[:12]}"), tool
            assert "tea" not in text.lower(), tool
            told = await agent.json(tool, **arguments, as_of=commits[0].hash[:8], format="json")
            assert told["as_of"]["commit"] == commits[0].hash, tool
            assert "as_of" not in await agent.json(tool, **arguments, as_of=None, format="json"), tool
        assert "thirty" in await agent.call("show", id="ops/keys", as_of="HEAD~1")
        assert "INVALID_INPUT" in await agent.refused("search", query="keys", as_of="--output=x")

    talk(book, conversation)


def test_api(api: TestClient, commits: list[repositories.Commit]) -> None:
    """The routes that read take `as_of`, and /api/history lists the versions of a note."""
    asked: dict[str, dict[str, Any]] = {
        "/api/search": {"q": "rotated", "mode": "find"},
        "/api/recent": {},
        "/api/index": {},
        "/api/topic": {"name": "ops"},
        "/api/notes/ops/keys.md": {},
    }
    for path, given in asked.items():
        told = api.get(path, params={**given, "as_of": "2026-01-01"}).json()
        assert told["as_of"]["commit"] == commits[0].hash, path
        assert "Tea" not in json.dumps(told), path
        assert "as_of" not in api.get(path, params=given).json(), path
    assert api.get("/api/notes/ops/keys.md", params={"as_of": "HEAD~1"}).json()["text"] == OLD
    refused = api.get("/api/recent", params={"as_of": "never"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "INVALID_INPUT")
    told = api.get("/api/history", params={"id": "ops/keys.md"}).json()
    assert [source.split()[0] for each in told["versions"] for source in each["sources"]] == [
        "commit",
        "file",
        "commit",
    ]
    assert api.get("/api/history", params={"id": "nothing"}).status_code == 404


def test_a_tool_answers_of_now_as_before(book: Spellbook, write_note: Callable[..., Path]) -> None:
    """Without a repository and without `as_of` nothing is asked of git, and nothing is made in the state folder."""
    write_note("a.md", "# Harbour\n\nThe crane lifts.\n")

    async def conversation(agent: Agent) -> None:
        assert await agent.found("search", query="crane", as_of="") == ["a.md"]

    talk(book, conversation)
    assert not (book.config.state / "past").exists()


def test_ages_are_counted_to_the_date(vault: Path, book: Spellbook, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was ten days old then is ten days old in an answer as of then, not as old as it is today."""
    monkeypatch.setenv("SPELLBOOK_SECOND_ENCODER", "off")
    text = "---\nupdated: 2025-12-22T12:00:00Z\n---\n# Keys\n\nKeys are rotated.\n"
    repositories.write(vault, [{"ops/keys.md": text.encode()}])
    book.reindex()
    with earlier.at(book, "2026-01-01") as then:
        [hit] = then.search("keys", min_score=0).hits
    assert [one["reason"] for one in hit.why["adjustments"]] == ["10 days old"]
