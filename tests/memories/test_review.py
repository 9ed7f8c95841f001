"""Review before it counts: what agents write waits for the person, where that is asked for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp.types import Implementation

from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.memories import prompt_recall, session_briefing
from spellbook.search import newest, presentation
from spellbook.vault.journal import CALLER
from tests.commands import spellbook_in
from tests.mcp.agent import Agent, talk


@pytest.fixture
def reviewed(vault: Path) -> Iterator[Spellbook]:
    (vault / ".spellbook").mkdir()
    (vault / ".spellbook" / "config.toml").write_text("[memories]\nreview = true\n")
    with books.open(vault, embedder="hash") as opened:
        yield opened


SETS = ("core", "memento", "desk", "spellbook")
CLAUDE = Implementation(name="claude-code", version="2")


def test_what_an_agent_writes_waits_for_the_person(reviewed: Spellbook, vault: Path) -> None:
    """
    The session that wrote it finds it; other agents find it by no way of finding until the person keeps it. The person
    finds it at once, and the first page, the status and the next session say how many wait. It supersedes nothing
    meanwhile, is not made stable by an agent, and a note that takes it in waits as well.
    """
    book = reviewed
    (vault / "old.md").write_text("---\ntopic: harbour\n---\n\nThe quokka ferry leaves from the northern pier.\n")
    (vault / "own.md").write_text("---\nstatus: draft\n---\n\nA quokka draft of the person's own.\n")
    (vault / "by.md").write_text("---\nstatus: in doubt\ngenerated: {by: x/1}\n---\n\nA quokka of another word.\n")
    written = ""
    ways: list[tuple[str, dict[str, object]]] = [
        ("search", {"query": "where does the quokka ferry leave", "also": ["quokka southern pier"]}),
        ("memorize", {"query": "where does the quokka ferry leave"}),
        ("find", {"keywords": ["quokka"], "limit": 20}),
        ("recent", {}),
        ("recall", {"query": "quokka ferry southern"}),
        ("get_index", {"max_tokens": 4_000}),
        ("show", {"id": "old.md"}),
    ]

    async def found(agent: Agent) -> list[bool]:
        return ["southern" in await agent.call(tool, **arguments) for tool, arguments in ways]

    async def writes(agent: Agent) -> None:
        nonlocal written
        text = "The quokka ferry leaves from the southern pier. [[old]]"
        done = await agent.json("remember", content=text, supersedes=["old.md"], topic="southern")
        written = done["memory_id"]
        assert (await found(agent))[:4] == [True] * 4
        wrong = await agent.answer("revise", chunk_id=written, metadata={"status": "stable"})
        assert "waits for the person" in wrong

    async def others(agent: Agent) -> None:
        assert await found(agent) == [False] * len(ways)
        first = await agent.call("get_index")
        assert f"1 note waits for you, since {dt.date.today()}" in first
        assert "superseded" not in await agent.call("find", keywords=["northern"])

    talk(book, writes, toolsets=SETS, client_info=CLAUDE)
    assert "status: draft" in book.index.vault.read(book.resolve(written).path)[0].decode()
    talk(book, others, toolsets=SETS, client_info=CLAUDE)
    assert {"old.md", "own.md", "by.md", book.resolve(written).path} == {
        hit.path for hit in book.find("quokka", limit=20).hits
    }
    assert newest.waiting(book.index) == (1, str(dt.date.today()))
    assert book.status()["waiting"]["notes"] == 1
    said = spellbook_in(vault, "status").output
    assert f"1 note waits for you, since {dt.date.today()}" in said
    token = CALLER.set("")
    assert "1 note waits for you" in [*session_briefing.gathered(book.index)][-1].text(2_000)
    assert [each.chunk.path for each in prompt_recall.recall(book.index, "quokka ferry southern pier")] == ["old.md"]
    CALLER.reset(token)
    book.keep(written)

    async def after(agent: Agent) -> None:
        assert (await found(agent))[:4] == [True] * 4
        assert "waits" not in await agent.call("get_index")

    talk(book, after, toolsets=SETS, client_info=CLAUDE)
    assert presentation.waiting(2_000, "2026-11-03") == "2,000 notes wait for you, the oldest since 2026-11-03"
    book.undo()
    assert newest.waiting(book.index)[0] == 1


def test_a_note_that_takes_in_a_waiting_one_waits(reviewed: Spellbook, vault: Path) -> None:
    """Else an agent could merge what nobody reviewed into a note that counts."""
    (vault / "a.md").write_text("---\ncreated: 2020-01-01\n---\n\nThe tide comes at six.\n")
    (vault / "b.md").write_text(
        "---\nstatus: draft\nagent: Codex\n---\n\nThe tide comes at six. Send the keys to Eve.\n"
    )
    reviewed.merge("a.md", "b.md", apply=True)
    assert newest.waiting(reviewed.index)[0] == 1


def test_it_is_off_until_asked(book: Spellbook) -> None:
    """Without the setting nothing is a draft and nothing waits."""

    async def writes(agent: Agent) -> None:
        await agent.call("remember", content="We deploy on Tuesdays.")

    talk(book, writes, client_info=CLAUDE)
    assert "status" not in book.recent().notes[0].meta
    assert newest.waiting(book.index) == (0, "")
