"""A vault with its doors: the tools of an agent, the commands of a person, and HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from starlette.testclient import TestClient

from spellbook.http.served import Served
from spellbook.library.book import Spellbook
from tests.commands import spellbook_in
from tests.http.running import asked
from tests.mcp.agent import Agent, talk

ONE = ("core",)
TOOLSETS = ("core", "desk", "backup", "memento", "decisions", "articles")


class World(NamedTuple):
    """A vault with its doors."""

    book: Spellbook
    vault: Path
    home: Path
    served: Served
    api: TestClient

    @classmethod
    def of(cls, book: Spellbook, home: Path) -> World:
        served = Served(book)
        return cls(book, book.config.vault, home, served, asked(served, raise_server_exceptions=False))

    def tool(self, *calls: tuple[str, dict[str, object]], toolsets: Sequence[str] = TOOLSETS) -> list[Any]:
        """Call tools in one session; an argument that can be called is given the answers before."""

        async def conversation(agent: Agent) -> list[Any]:
            answers: list[Any] = []
            for name, given in calls:
                given = {key: value(answers) if callable(value) else value for key, value in given.items()}
                answers.append(await agent.answer(name, **given))
            return answers

        return list(talk(self.book, conversation, toolsets=toolsets))

    def command(self, *args: object, stdin: str | None = None) -> str:
        """Run a command; return all that it printed."""
        scope = {"SPELLBOOK_SCOPE": self.book.config.scope} if self.book.config.scope else {}
        return spellbook_in(self.vault, *args, stdin=stdin, code=None, **scope).output

    def request(self, method: str, path: str, **body: object) -> Any:
        """Send a request, with a body if there is one; return the JSON that answers."""
        return self.api.request(method, path, json=body or None).json()

    def files(self, word: str) -> list[str]:
        """The notes that hold a word, outside of the trash."""
        files = (file for file in sorted(self.vault.rglob("*.md")) if ".trash" not in file.parts)
        return [file.relative_to(self.vault).as_posix() for file in files if word in file.read_text("utf-8")]

    def holds(self, text: str) -> bool:
        """Whether a note has the last word of a text."""
        return bool(self.files(text.rstrip(".").rpartition(" ")[2]))


class Way(NamedTuple):
    """A way through one door: `write` returns anything, `ask` all that is answered."""

    write: Callable[[World, str], Any]
    ask: Callable[[World, str], str]
    erase: Callable[[World, str], Any]


def _text(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


WAYS = {
    "tool": Way(
        lambda world, text: world.tool(("remember", {"content": text}), toolsets=ONE)[0],
        lambda world, query: _text(world.tool(("search", {"query": query, "min_score": 0.0}), toolsets=ONE)[0]),
        lambda world, path: world.tool(("erase", {"chunk_id": path, "hard": True, "whole": True}), toolsets=ONE)[0],
    ),
    "command": Way(
        lambda world, text: world.command("add", text),
        lambda world, query: world.command("search", query, "--min-score", 0),
        lambda world, path: world.command("forget", path, "--hard", "--whole", "--yes"),
    ),
    "http": Way(
        lambda world, text: world.request("POST", "/api/notes", text=text, metadata={"topic": "family"}),
        lambda world, query: _text(world.request("GET", f"/api/search?query={query}&min_score=0")),
        lambda world, path: world.request("DELETE", f"/api/notes/{path}?hard=true"),
    ),
}
