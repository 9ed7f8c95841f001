"""Disks that are full or read-only: nothing is lost, each error says what happened, and the next run heals."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.system.errors import SpellbookError, StorageError
from tests.trees import contents, grow

LONG = " keeper stands watch" * 200
FILES = {f"n{number}.md": f"# N{number}\n\nlighthouse {number}{LONG}\n".encode() for number in range(4)}
VERBS: dict[str, Callable[[Spellbook], object]] = {
    "add": lambda book: book.scribe(
        {"text": f"Tides turn.{LONG}", "metadata": {"topic": "t", "keywords": ["k"]}}, force=True
    ),
    "revise": lambda book: book.revise("n1", append=LONG),
    "mv": lambda book: book.move("n1", "deep/n1"),
    "erase": lambda book: book.erase("n2"),
    "erase for good": lambda book: book.erase("n2", hard=True),
    "undo": lambda book: book.undo(),
    "import": lambda book: book.import_(book.config.vault.parent / "source"),
}
CHANGED = re.compile(
    "files? (?:are changed|imported), but the index could not be updated|may still hold text that was erased"
)


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """A state folder of 12 MB on its own disk."""
    folder = tmp_path / "state"
    folder.mkdir()
    with contextlib.suppress(FileNotFoundError):
        mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)]
        if subprocess.run(mount, capture_output=True, check=False).returncode == 0:
            try:
                yield folder
            finally:
                subprocess.run(["umount", "-l", str(folder)], check=True)
            return
    pytest.skip("cannot mount here")


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
def test_a_full_disk_of_the_state_folder(vault: Path, tmp_path: Path, state: Path, verb: str) -> None:
    """
    Wherever the disk fills up, a change is made or not at all, and the error tells which. With room again the index is
    right, nothing is pending, and the verb works.
    """
    grow(vault, FILES)
    grow(tmp_path / "source", {"i.md": f"# I\n\nharbour{LONG}\n".encode(), "j.md": b"# J\n\nquay\n"})
    with books.open(vault, embedder="hash", state=state) as book:
        book.reindex()
        book.revise("n3", append="once")
    told = []
    for left in (2, 16, 24, 40):
        before, error = contents(vault), ""
        with books.open(vault, embedder="hash", state=state) as book:
            free = os.statvfs(state).f_bavail - left
            (state / "fill.bin").write_bytes(b"x" * max(0, free) * os.statvfs(state).f_frsize)
            try:
                VERBS[verb](book)
            except StorageError as raised:
                error = str(raised)
        (state / "fill.bin").unlink()
        told.append(error)
        assert not error or CHANGED.search(error) or contents(vault) == before, error
        with books.open(vault, embedder="hash", state=state) as book:
            report = book.reindex()
            assert (report.failed, report.pending) == ((), 0)
            assert {hit.path for hit in book.find("lighthouse", limit=9).hits} >= {"n0.md", "n3.md"}
            with contextlib.suppress(SpellbookError):  # it may have been done
                VERBS[verb](book)
            if verb != "erase for good":
                book.undo_all("1d")
                assert contents(vault) == FILES, error
                book.revise("n3", append="once")
    assert any(told)


@pytest.mark.parametrize("verb", [*VERBS, "search", "reindex"])
def test_a_read_only_state_folder(vault: Path, state: Path, verb: str) -> None:
    """Nothing is changed, in the vault neither, and each command says which folder cannot be written."""
    grow(vault, FILES)
    with books.open(vault, embedder="hash", state=state) as book:
        book.reindex()
    subprocess.run(["mount", "-o", "remount,ro", str(state)], check=True)
    more: dict[str, Callable[[Spellbook], object]] = {
        "search": lambda book: book.search("lighthouse"),
        "reindex": lambda book: book.reindex(),
    }

    def use() -> None:
        with books.open(vault, embedder="hash", state=state) as book:
            (VERBS | more)[verb](book)

    with pytest.raises(StorageError, match=r"the state folder cannot be written .*\n?.*SPELLBOOK_STATE"):
        use()
    assert contents(vault) == FILES
