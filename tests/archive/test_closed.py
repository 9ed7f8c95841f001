"""What Spellbook keeps of the notes outside the vault is as closed as the vault."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spellbook.library import book as books
from spellbook.mcp.toolsets.backup import exports
from tests.mcp.agent import talk

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(*folders: Path) -> dict[str, int]:
    """The permissions of folders and of everything in them."""
    places = [place for folder in folders for place in (folder, *folder.rglob("*"))]
    return {str(place): stat.S_IMODE(place.lstat().st_mode) for place in places}


def fill(vault: Path) -> tuple[Path, Path]:
    """Use a vault in every way that keeps something; return its state folder and the folder of its snapshots."""
    with books.open(vault, embedder="hash") as book:
        book.scribe({"text": "A harbor.", "metadata": {"topic": "ports", "keywords": ["harbor"]}})
        book.reindex()
        book.search("harbor")
        book.erase("a.md")
        book.snapshots.create()
        book.export(vault.parent / "out.json")

        async def export(agent: object) -> str:
            return await agent.call("export")  # type: ignore[attr-defined]

        talk(book, export, toolsets=("backup",))
        assert any(exports(book).iterdir())
        return book.config.state, book.config.snapshot_folder


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755])
def test_as_closed_as_the_vault(vault, write_note, mode):
    """State, journal, snapshots and exports allow nobody what the vault does not, and a vault open to all may be read."""
    vault.chmod(mode)
    vault.parent.chmod(0o755)
    write_note("a.md", "Alone.")
    state, snapshots = fill(vault)
    made = modes(state, snapshots, vault.parent / "out.json")
    assert {path: oct(found) for path, found in made.items() if found & 0o777 & ~mode} == {}
    assert made[str(state)] == made[str(snapshots)] == mode
    assert made[str(vault.parent / "out.json")] == mode & 0o644
    assert made[str(state / "journal.db")] == mode & 0o644


def test_what_is_open_already_is_closed(vault, write_note):
    """
    As an earlier version left it: at the next use, all of it; what a person closed further stays so. A catalog is
    closed with its log, from the first moment on.
    """
    vault.chmod(0o700)
    write_note("a.md", "Alone.")
    state, snapshots = fill(vault)
    for path in modes(state, snapshots):
        os.chmod(path, 0o755 if Path(path).is_dir() else 0o644)
    write_note("a.md", "Again.")
    fill(vault)
    assert {path for path, found in modes(state, snapshots).items() if found & 0o077} == set()
    with books.open(vault, embedder="hash") as book:
        book.reindex()
        assert any(path.endswith("-wal") for path in modes(book.config.state))
        assert {path for path, found in modes(book.config.state).items() if ".db" in path and found & 0o077} == set()
    vault.chmod(0o755)
    books.open(vault, embedder="hash").close()
    assert {path for path, found in modes(state, snapshots).items() if found & 0o077} == set()
