"""Exports of other memories: what comes of them, that nothing comes twice, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spellbook.library.book import Spellbook
from spellbook.system.errors import InvalidInput
from tests.archive.formats.incoming import SERVICE, notes

MEM0 = {
    "count": 2,
    "results": [
        {
            "id": "f1a0-77",
            "memory": "Prefers morning meetings.",
            "hash": "x",
            "metadata": {"type": "preference"},
            "categories": ["work"],
            "created_at": "2026-01-02T10:00:00-08:00",
            "updated_at": None,
            "user_id": "dev",
        },
        {"id": "../../x", "memory": "Leads the API redesign.", "created_at": 1767434400000},
    ],
}


@pytest.mark.parametrize("given", [SERVICE, SERVICE["memories"]])
def test_memories_of_mcp_memory_service(book: Spellbook, tmp_path: Path, given: Any) -> None:
    """Text, tags, dates and plain metadata; nothing comes twice, and what was edited since stays."""
    file = tmp_path / "export.json"
    file.write_text(json.dumps(given), "utf-8")
    assert book.import_(file, dry_run=True).added
    assert notes(book) == {}
    done = book.import_(file)
    assert len(done.added) == 2
    chunk = notes(book)["mcp-memory-service-a1b2c3d4"]
    assert chunk.title == "The deploy key is rotated every ninety days"
    assert (chunk.tags, chunk.category, chunk.created[:10]) == (("ops", "keys"), "memory", "2026-01-01")
    assert (chunk.meta["project"], chunk.meta["memory_type"], "nested" in chunk.meta) == ("river", "note", False)
    assert notes(book)["mcp-memory-service-e5f6"].tags == ("사람", "회의")
    again = book.import_(file)
    assert (again.added, again.unchanged) == ([], 2)
    book.revise("mcp-memory-service-e5f6", append="고쳤다.")
    assert len(book.import_(file).skipped) == 1
    assert "고쳤다" in (book.config.vault / done.added[1]).read_text("utf-8")


@pytest.mark.parametrize("given", [MEM0, MEM0["results"]])
def test_memories_of_mem0(book: Spellbook, tmp_path: Path, given: Any) -> None:
    """As get_all answers, whole or its list; an id cannot lead anywhere."""
    file = tmp_path / "mem0.json"
    file.write_text(json.dumps(given), "utf-8")
    assert len(book.import_(file).added) == 2
    found = notes(book)
    chunk = found["mem0-f1a0-77"]
    assert (chunk.title, chunk.tags, chunk.meta["user_id"]) == ("Prefers morning meetings", ("work",), "dev")
    assert chunk.meta["type"] == "preference"
    assert found["mem0-------x"].created == "2026-01-03T10:00:00+00:00"
    assert book.import_(file).added == []
    assert all(path.is_relative_to(book.config.vault) for path in book.config.vault.rglob("*.md"))


@pytest.mark.parametrize("cut", [20, 300, -10])
def test_a_cut_file_of_memories(book: Spellbook, tmp_path: Path, cut: int) -> None:
    """All or nothing."""
    file = tmp_path / "export.json"
    file.write_bytes(json.dumps(SERVICE).encode()[:cut])
    with pytest.raises(InvalidInput):
        book.import_(file)
    assert list(book.config.vault.rglob("*.md")) == []
