"""Killed between any two disk operations of a verb, nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from spellbook.library import book as books
from tests.scratch import assert_equal_to_scratch
from tests.trees import everything, grow, is_killed, kept

pytestmark = pytest.mark.slow

TEXTS = {
    "a.md": b"# A\n\n[[b]]\n\n## One\n\nthe granite tide\n\n## Two\n\nthe copper lamp\n",
    "b.md": b"# B\n\n## Three\n\nthe silver orchard\n",
    "c.md": b"[[b]] and [a](a.md)\n",
}
SENTENCES = [b"the granite tide", b"the copper lamp", b"the silver orchard"]


@pytest.mark.parametrize(
    "verb",
    [
        "book.revise('a#one', content='## One\\n\\nthe newest')",
        "book.erase('a')",
        "book.erase('a#one')",
        "book.merge('a', 'b', keep='both', apply=True)",
        "book.erase('a'); book.undo()",
        "book.erase('a#one'); book.restore('.trash/a one.md')",
        "book.move('a', 'd/a'); book.undo()",
        "book.merge('a', 'b', keep='both', apply=True); book.undo()",
    ],
)
def test_a_kill_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """
    After SIGKILL anywhere every sentence is in the vault or trash (one that was replaced: in the journal), no note is empty, and the index follows.
    """
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    at, killed = 1, True
    while killed:
        monkeypatch.setenv("SPELLBOOK_STATE", str(tmp_path / f"state{at}"))
        vault = grow(tmp_path / f"v{at}", TEXTS)
        killed = is_killed(vault, vault, verb, at)
        with books.open(vault) as book:
            book.reindex()
            book.log()  # the journal is there now, if it was not
            held = b"\n".join(everything(vault, book.config.state, tmp_path / "none"))
        assert not [sentence for sentence in SENTENCES if sentence not in held], at
        if "revise" not in verb:
            seen = b"\n".join([*kept(vault).values(), *kept(vault / ".trash").values()])
            assert not [sentence for sentence in SENTENCES if sentence not in seen], at
        assert all(kept(vault).values()), at
        assert all(kept(vault / ".trash").values()), at
        at += 3
    assert at > 4
    assert_equal_to_scratch(vault, tmp_path / "scratch")


def test_a_killed_move_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After SIGKILL anywhere `undo` gives every file back byte for byte: notes, canvases and excluded notes."""
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    beside = {
        "d/x.canvas": b'{"nodes": [{"file": "d/a.md"}, {"text": "[[c]]"}]}',
        "y.canvas": b'{"nodes": [{"text": "[[d/a]]"}]}',
        "old/n.md": b"[[d/a]]",
        ".spellbookignore": b"old/",
    }
    at, killed = 1, True
    while killed:
        monkeypatch.setenv("SPELLBOOK_STATE", str(tmp_path / f"state{at}"))
        vault = grow(tmp_path / f"v{at}", {**TEXTS, "d/a.md": b"[[c]] [r](../c.md)", **beside})
        before = kept(vault)
        killed = is_killed(vault, vault, "book.move('d', 'e/f')", at)
        with books.open(vault) as book:
            if book.log():
                book.undo()
        assert kept(vault) == before, at
        at += 3
    assert at > 4
