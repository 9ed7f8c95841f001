"""Killed between any two disk operations of a verb, nothing is lost, and what was cut short can be undone."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from spellbook.library import book as books
from spellbook.system.lock import held
from tests.kills import killed
from tests.scratch import assert_equal_to_scratch
from tests.trees import everything, kept

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
        "book.erase('a#one'); book.restore('.trash/a one.md')",
        "book.merge('a', 'b', keep='both', apply=True); book.undo()",
    ],
)
def test_a_kill_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """
    After SIGKILL anywhere every sentence is in the vault or trash (one that was replaced: in the journal), no note is
    empty, and the index follows.
    """
    for vault in killed(tmp_path, monkeypatch, verb, TEXTS):
        with books.open(vault) as book:
            book.reindex()
            book.log()  # the journal is there now, if it was not
            held = b"\n".join(everything(vault, book.config.state, tmp_path / "none"))
        assert not [sentence for sentence in SENTENCES if sentence not in held], vault
        if "revise" not in verb:
            seen = b"\n".join([*kept(vault).values(), *kept(vault / ".trash").values()])
            assert not [sentence for sentence in SENTENCES if sentence not in seen], vault
        assert all([*kept(vault).values(), *kept(vault / ".trash").values()]), vault
    assert_equal_to_scratch(vault, tmp_path / "scratch")


MANY = """
with book.index.vault.change("test", "many"):
    for path in ("d/a.md", "a.md", "c.md"):
        book.index.vault.write(path, b"changed", book.index.vault.hash(path))
    book.index.vault.create("new", "one", b"made")
"""


@pytest.mark.parametrize("verb", ["book.move('d', 'e/f')", f"book.revise('b', append='x'){MANY}"])
def test_what_was_killed_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """
    After SIGKILL anywhere `undo` gives every file back byte for byte: notes, canvases and excluded notes. Each change
    before the last is whole in the log.
    """
    beside = {
        "d/a.md": b"[[c]] [r](../c.md)",
        "d/x.canvas": b'{"nodes": [{"file": "d/a.md"}, {"text": "[[c]]"}]}',
        "y.canvas": b'{"nodes": [{"text": "[[d/a]]"}]}',
        "old/n.md": b"[[d/a]]",
        ".spellbookignore": b"old/",
    }
    for vault in killed(tmp_path, monkeypatch, verb, {**TEXTS, **beside}):
        with books.open(vault) as book:
            log = book.log()
            assert all(entry.is_whole for entry in log[1:])
            for _ in log:
                book.undo()
        assert kept(vault) == {**TEXTS, **beside}, vault


WRITES = "book.index.vault.create('new', 'one', b'made'); book.revise('a#one', content='## One\\n\\nnewest'); book.erase('b', hard=True)"


def test_what_a_killed_write_left_goes_at_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A temporary file of a process that was killed, however young, goes when the next one looks at the vault, and is never
    in an export. One that another machine writes stays, and each one as long as somebody holds the write lock.
    """
    seen = 0
    for vault in killed(tmp_path, monkeypatch, WRITES, TEXTS, step=2):
        theirs = vault / ".spellbook-0123456789abcdef.tmp"
        theirs.write_text("of another machine")
        left = [*vault.rglob(".spellbook-*.tmp")]
        seen += len(left) - 1
        with books.open(vault) as book:
            with held(book.config.state / "write.lock") as is_ours:
                assert is_ours
                book.refresh(whole=True)
                assert [*vault.rglob(".spellbook-*.tmp")] == left
            book.export(tmp_path / "export.zip")
            assert not [name for name in ZipFile(tmp_path / "export.zip").namelist() if ".spellbook-" in name]
            book.refresh(whole=True)  # also where a machine is so busy that the last look would do
            assert [*vault.rglob(".spellbook-*.tmp")] == [theirs]
    assert seen > 1
