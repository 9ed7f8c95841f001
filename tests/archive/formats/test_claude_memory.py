"""The memory of Claude Code, as an import takes it."""

import os
from pathlib import Path

import pytest

from spellbook.library.book import Spellbook
from spellbook.system.errors import InvalidInput, UnreadableNote
from tests.helpers import note_writer
from tests.trees import state_of


def test_what_is_left_out_is_named(book: Spellbook, tmp_path: Path) -> None:
    """
    Of Claude Code's own memory, large files are not imported, nor what a link leads to outside; each is named. A folder
    that holds the vault is refused; with a file that is no text, which is named, nothing is imported.
    """
    memory = tmp_path / "claude/projects/-home-me-app/memory"
    for file, text in (("plain.md", "Kept."), ("large.md", "x" * 2_097_153), ("../outside.md", "Not of Claude Code.")):
        note_writer(memory)(file, text)
    if os.name != "nt":
        (memory / "linked.md").symlink_to(memory.parent / "outside.md")
        os.mkfifo(memory / "pipe.md")
    before = state_of(memory)
    done = book.import_(memory, kind="claude-memory")
    assert done.added == ["memory/claude-memory/plain.md"]
    assert {fault.path for fault in done.faults} == {"large.md", *(("linked.md", "pipe.md") if os.name != "nt" else ())}
    assert state_of(memory) == before
    book.undo()
    (memory / "x.md").write_bytes(b"\x89PNG\xff\x00\xff")
    with pytest.raises(UnreadableNote, match=r"x\.md"):
        book.import_(memory, kind="claude-memory")
    assert list(book.config.vault.rglob("*.md")) == []
    with pytest.raises(InvalidInput, match="lie in one another"):
        book.import_(memory.parents[3], kind="claude-memory")
