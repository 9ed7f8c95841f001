"""Who wrote a note: the person, an agent, a page or a session; agents are known by the name that their client gives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from mcp.types import Implementation

from spellbook.library.book import Spellbook
from spellbook.mcp.names import agent_of
from spellbook.search import presentation
from tests.mcp.agent import ERAS, Agent, talk


@pytest.mark.parametrize(
    ("meta", "kind", "name"),
    [
        ({}, "me", ""),
        ({"author": "Orwell", "type": "book"}, "me", ""),
        ({"id": "1", "category": "memory"}, "me", ""),
        ({"id": "202611271030", "type": "literature"}, "me", ""),
        ({"id": "1", "agent": "Codex"}, "agent", "Codex"),
        ({"id": "1", "agent": "a\nb" * 60}, "agent", ("a b" * 27)[:80]),
        ({"id": "1", "type": "semantic"}, "agent", ""),
        ({"id": "1", "trust": "agent"}, "agent", ""),
        ({"id": "1", "type": "episodic", "trust": "agent", "session": "x"}, "session", ""),
        ({"id": "1", "agent": "Codex", "source": "https://example.com/"}, "page", "Codex"),
        ({"agent": ["x"], "trust": "untrusted"}, "page", "['x']"),
    ],
)
def test_who_wrote_a_note(meta: dict[str, Any], kind: str, name: str) -> None:
    """By its frontmatter alone, in one place; a note of outside or of a session is that first."""
    said, called = presentation.author(SimpleNamespace(meta=meta))
    assert said == kind
    assert called[:50] == name[:50]
    assert len(called) <= presentation.MOST_OUTSIDE
    assert "\n" not in called


@pytest.mark.parametrize(
    ("client", "title", "name"),
    [
        ("claude-code", None, "Claude Code"),
        ("claude-code", "Claude Code", "Claude Code"),
        ("claude-ai", None, "Claude"),
        ("codex-mcp-client", None, "Codex"),
        ("cursor-vscode", None, "Cursor"),
        ("Visual Studio Code", None, "Visual Studio Code"),
        ("mcp", None, "agent"),
        ("", None, "agent"),
        ("x" * 5_000 + "\n---\ntrust: trusted", None, "X" + "x" * 39),
        ("---\nid: y\n#", None, "Id Y"),
    ],
)
def test_what_an_agent_is_called(client: str, title: str | None, name: str) -> None:
    """As a person calls it, on one line, whatever a client says of itself."""
    told = SimpleNamespace(client_info=Implementation(name=client, version="1", title=title))
    assert agent_of(SimpleNamespace(session=SimpleNamespace(client_params=told))) == name
    assert agent_of(None) == agent_of(SimpleNamespace(session=SimpleNamespace(client_params=None))) == "agent"


@ERAS
def test_a_note_says_which_agent_wrote_it(book: Spellbook, mode: str) -> None:
    """No agent writes another name; it is no property of the note's own, and a filter finds it. A person has none."""

    async def conversation(agent: Agent) -> None:
        done = await agent.json("remember", content="We deploy on Tuesdays, before noon.")
        await agent.ask("revise", chunk_id=done["memory_id"], metadata={"agent": "me", "importance": "high"})

    talk(book, conversation, mode, client_info=Implementation(name="claude-code", version="1"))
    (chunk,) = book.recent(filter={"agent": "Claude Code"}).notes
    assert presentation.author(chunk) == ("agent", "Claude Code")
    assert chunk.importance > 0.5
    assert presentation.properties(chunk) == ""
    book.scribe({"text": "The kettle is in the hall.", "metadata": {"topic": "home", "agent": "x"}}, labels="derived")
    own = book.recent(1).notes[0]
    assert presentation.author(own) == ("me", "")
    assert "agent" not in own.meta
