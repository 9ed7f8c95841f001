"""The verbs of `book.memories` from Python: they write what the tools write."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import spellbook
from spellbook.library.book import Spellbook
from tests.mcp.agent import talk

TEXT = "# Herons\n\nA heron waits at the ferry until the tide turns."
LABELS = {"summary": "What herons do.", "tags": ["birds"], "author": "Ada", "published": "2026-03-14"}


def through(book: Spellbook, tool: str, **given: Any) -> dict[str, Any]:
    """Call a tool and return its answer."""
    answer: dict[str, Any] = talk(
        book, lambda agent: agent.json(tool, **given), toolsets=("memento", "decisions", "articles")
    )
    return answer


def told(answer: dict[str, Any], book: Spellbook) -> tuple[dict[str, Any], str]:
    """Return an answer and its note, without what differs from one note to the next: ids, times, and who wrote it."""
    text = (book.config.vault / answer["path"]).read_text("utf-8").replace("agent: agent\n", "")
    kept = {key: value for key, value in answer.items() if key not in {"id", "memory_id", "generation"}}
    times = re.compile(r"\d{4}-\d\d-\d\dT[\d:+.Z-]+")
    return json.loads(times.sub("TIME", json.dumps(kept))), times.sub("TIME", re.sub(r"(?m)^id: .*$", "id: ID", text))


@pytest.fixture
def books(tmp_path: Path):
    """Two empty vaults."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        spellbook.open(tmp_path / "one", embedder="hash", state=tmp_path / "state 1") as one,
        spellbook.open(tmp_path / "two", embedder="hash", state=tmp_path / "state 2") as two,
    ):
        yield one, two


def test_a_verb_writes_what_its_tool_writes(books: tuple[Spellbook, Spellbook]) -> None:
    """Answer, path and note of a decision, an article and a memory are equal; each is found by its own verbs."""
    python, tools = books
    decisions, articles = python.memories.decisions, python.memories.articles
    first = decisions.save("db", "Use SQLite.", "It is small.", confidence=0.6)
    asked = through(tools, "mama_save", type="decision", topic="db", decision="Use SQLite.", reasoning="It is small.", confidence=0.6)  # fmt: skip
    assert told(first, python) == told(asked, tools)
    second = decisions.save("db", "Use PostgreSQL.", supersedes=[first["id"]])
    again = through(tools, "mama_save", type="decision", topic="db", decision="Use PostgreSQL.", supersedes=[asked["id"]])  # fmt: skip
    assert [each.pop("id") for each in (*second["superseded"], *again["superseded"])] == [first["id"], asked["id"]]
    assert told(second, python) == told(again, tools)
    decisions.update(second["id"], "success", "It held.")
    [item] = decisions.find(outcome="success").items
    assert (item.as_dict()["outcome_reason"], item.chunk.note) == ("It held.", second["id"])
    address = "https://example.com/herons"
    kept = articles.save(address, ["birds", "sea"], LABELS, TEXT)
    saved = through(tools, "save", source=address, categories=["birds", "sea"], metadata=LABELS, text=TEXT)
    assert told(kept, python) == told(saved, tools)
    chunk, article = articles.read(kept["id"])
    assert (chunk.note, article.summary) == (kept["id"], "What herons do.")
    assert articles.ask("where does a heron wait").hits
    kept = python.memories.remember("The staging port is 8443.", tags=["deploy"], importance="high")
    asked = through(tools, "remember", content="The staging port is 8443.", tags=["deploy"], importance="high")
    assert told(kept, python) == told(asked, tools)
    assert [hit.chunk.note for hit in python.memories.recall("staging port").hits] == [kept["memory_id"]]
