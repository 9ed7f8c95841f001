"""How long a text may be: a note's 10 MB for programs, 200,000 letters for a tool."""

from __future__ import annotations

import pytest

from spellbook.editing import memory
from spellbook.notes.note import MOST_BYTES
from tests.mcp.agent import talk

LONG = "The tide comes in at six and goes out again at noon. " * 4_000
META = {"topic": "tides", "keywords": ["tide"]}


def test_a_program_may_write_what_a_tool_may_not(book, vault):
    """A text of over 200,000 letters is written whole and found; the rest of its vectors are left to the next run."""
    text = "\n\n".join(
        f"## Day {day}\n\nOn day {day} the tide came in at {day % 24}:00. {'x' * 600}" for day in range(320)
    )
    assert len(text) > 200_000
    [written] = book.scribe({"text": text, "metadata": META}).written
    assert (vault / written.path).read_text("utf-8").endswith(f"{text}\n")
    assert written.pending
    assert book.find("day 319").hits[0].path == written.path
    assert book.reindex().embedded > 0
    assert book.state().pending == 0


@pytest.mark.parametrize(("size", "fits"), [(MOST_BYTES - 900, True), (MOST_BYTES - 10, False)])
def test_the_bound_is_that_of_the_whole_note(size, fits):
    """With its frontmatter a note has at most as many bytes as are read; letters count by their bytes."""
    text = "가" * (size // 3)
    found = memory.check({"text": text, "metadata": {"topic": "t", "keywords": ["a"]}})
    assert bool(found.memory) == fits
    assert any("10,000,000 are the most: divide it" in error for error in found.errors) != fits


@pytest.mark.parametrize("tool", ["scribe", "scribe_chunk", "revise"])
def test_tools_take_200_000_letters(book, vault, write_note, tool):
    """Each tool that writes refuses a longer text and writes nothing."""
    file = write_note("a.md", "# A\n\ntext\n")
    before = file.read_bytes()

    async def conversation(agent):
        if tool == "revise":
            return await agent.refused("revise", chunk_id="a", content=LONG)
        session = (await agent.json("rest"))["session_id"]
        chunk = {"text": LONG, "metadata": META}
        checked = await agent.json("scribe_validate", chunk=chunk)
        assert (checked["valid"], len(checked["errors"])) == (False, 1)
        given = [{**chunk, "text": "It is short."}, chunk] if tool == "scribe_chunk" else chunk
        return await agent.refused(tool, chunk=given, session_id=session)

    said = talk(book, conversation)
    assert "INVALID_INPUT" in said
    assert "200,000" in said.replace("200000", "200,000")
    assert file.read_bytes() == before
    assert [*vault.rglob("*.md")] == [file]
