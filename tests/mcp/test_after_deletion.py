"""Notes are the only truth: after the state folder was deleted, every tool that reads answers as before."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from spellbook.library import book as books
from tests.helpers import note_writer
from tests.mcp.agent import Agent, talk

_OF_THE_PROCESS = {
    "ms", "query_time", "generation", "duration_ms", "cached_at", "expires_at", "last_accessed", "looked_at",
    "last_indexed", "index_size_mb", "bytes", "processes", "timings", "day", "opened", "use", "uses", "embedded",
    "reused", "vectors", "vectors_in_use", "chroma", "state", "snapshots", "pid", "cache", "caches",
}  # fmt: skip
"""Keys of what a process counts or when it looked: no answer to a question about notes."""


def plain(value: Any) -> Any:
    """Return an answer without what is about the process."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key not in _OF_THE_PROCESS}
    return [plain(item) for item in value] if isinstance(value, list) else value


async def write(agent: Agent) -> None:
    """Write notes of all kinds by the tools."""
    session = (await agent.json("rest"))["session_id"]
    for word in ("harbor", "lantern", "meadow"):
        chunk = {
            "text": f"The {word} opens on Mondays.",
            "metadata": {"topic": word, "category": "places", "keywords": [word, "opens", "Mondays"]},
        }
        await agent.call("scribe", chunk=chunk, session_id=session, force=True)

    kept = await agent.json("remember", content="The harbor opens on Mondays.", type="semantic", tags=["harbor"])
    await agent.json("remember", content="The lantern is broken.", type="working")
    await agent.call("pin", memory_id=kept["memory_id"] if "memory_id" in kept else kept["id"])

    first = await agent.json("mama_save", type="decision", topic="harbor", decision="The harbor opens on Mondays.")
    second = await agent.json(
        "mama_save", type="decision", topic="harbor", decision="The harbor opens daily.", supersedes=[first["id"]]
    )
    await agent.call("mama_update", id=second["id"], outcome="failed", reason="too few ships")
    await agent.call("mama_save", type="checkpoint", summary="Planning the harbor.", next_steps=["ask", "build"])
    for word in ("harbor", "lantern"):
        text = f"## Opening\n\nThe {word} opens on Mondays. " * 8
        source = f"https://example.com/{word}"
        await agent.call("save", source=source, categories=["places"], text=text, metadata={"title": f"The {word}"})


ASKED: list[tuple[str, dict[str, Any]]] = [
    ("search", {"query": "when does the harbor open"}),
    ("memorize", {"query": "harbor on Mondays"}),
    ("find", {"keywords": ["lantern"]}),
    ("get_index", {}),
    ("get_topic", {"topic_id": "harbor"}),
    ("recent", {}),
    ("stats", {}),
    ("recall", {"query": "harbor"}),
    ("recall", {"query": "lantern", "filters": {"type": "working"}}),
    ("mama_search", {"query": "harbor"}),
    ("mama_search", {}),
    ("mama_checkpoint", {}),
    ("wiki_search", {"query": "harbor"}),
    ("wiki_search", {"query": "zzqx"}),
    ("wiki_status", {}),
    ("articles_search", {"query": "harbor on Mondays"}),
    ("list", {}),
    ("ask", {"question": "when does the harbor open"}),
    ("get", {"article_id": "article/places/The harbor", "include_content": True}),
    ("save", {"source": "https://example.com/harbor", "categories": ["places"]}),  # it is known
]
SETS = ("core", "memento", "decisions", "wiki", "articles")


def test_answers_are_the_same(vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vault is written through the tools, asked, and asked again over an index that was made from its files alone."""
    project = tmp_path / "app"
    note_writer(project)("zywiki/harbor.md", "# Harbor\n\n## Hours\n\nThe harbor opens on Mondays.\n")
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(project))

    async def answers(agent: Agent) -> list[Any]:
        got = []
        forms = {each.name for each in await agent.answered() if "format" in each.input_schema["properties"]}
        for tool, arguments in ASKED:
            text = await agent.call(tool, **arguments, **({"format": "json"} if tool in forms else {}))
            try:
                got.append(plain(json.loads(text)))
            except ValueError:
                got.append(re.sub(r"index: .*|[\d.]+ ms", "", text))
        return got

    with books.open(vault, embedder="hash") as book:
        talk(book, write, toolsets=SETS)
        before = talk(book, answers, toolsets=SETS)
        state = book.config.state
    shutil.rmtree(state)
    with books.open(vault, embedder="hash") as book:
        book.reindex()
        assert talk(book, answers, toolsets=SETS) == before
