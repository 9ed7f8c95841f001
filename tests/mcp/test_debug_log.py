"""The debug log: what was called, how long it took, how large the answer was; nothing of anybody's words."""

from __future__ import annotations

import json

import anyio
import pytest
from mcp import Client

from spellbook.mcp import debug_log
from spellbook.mcp.app import build


@pytest.mark.parametrize(("value", "is_wanted"), [("", False), ("0", False), ("1", True), (None, False)])
def test_when_it_is_written(monkeypatch, value, is_wanted):
    """By the option or by the variable."""
    if value is not None:
        monkeypatch.setenv("SPELLBOOK_DEBUG_LOG", value)
    assert debug_log.wanted() is is_wanted
    assert debug_log.wanted(True)


def test_its_lines(book, write_note):
    """One line a call, failed ones with their code, unknown tools without their name; and no words of either side."""
    write_note("a.md", "A secret harbor.")
    log = debug_log.opened(book.config.state, "stdio")

    async def talk() -> None:
        async with Client(build(book, live=False, log=log)) as client:
            await client.call_tool("find", {"keywords": ["secret"]})
            await client.call_tool("show", {"id": "secret.md"})
            await client.call_tool("find", {"keywords": "secret", "limit": "secret"})
            await client.call_tool("secret", {})

    anyio.run(talk)
    text = (book.config.state / debug_log.FILE).read_text("utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["tool"] for row in rows] == ["find", "show", "find", ""]
    assert [row.get("error") for row in rows][:3] == [None, "MEMORY_NOT_FOUND", "INVALID_INPUT"]
    assert set(rows[0]) == {"time", "door", "tool", "letters", "tokens", "ms"}
    assert rows[0]["letters"] > rows[0]["tokens"] > 10
    assert rows[0]["door"] == "stdio"
    assert "secret" not in text
    assert "harbor" not in text


def test_it_does_not_grow(book):
    """Beyond a megabyte it becomes the one log before."""
    log = debug_log.opened(book.config.state, "http")
    for _ in range(12_000):
        log("find", 1.0, "x" * 500, "")
    sizes = sorted(file.stat().st_size for file in book.config.state.glob(f"{debug_log.FILE}*"))
    assert len(sizes) == 2
    assert sizes[-1] <= 1_001_000
