"""Permissions: a rewritten file keeps its own, and what is kept outside the vault is as closed as the vault."""

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spellbook.cli.clients import changes
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.mcp.toolsets.desk import exports
from tests.mcp.agent import talk

Write = Callable[..., Path]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="hard links, owners and attributes of POSIX")

ACL = bytes.fromhex("02000000 01000600ffffffff 02000400d2040000 04000400ffffffff 10000600ffffffff 20000000ffffffff")
"""As Linux keeps `user::rw-, user:1234:r--, group::r--, mask::rw-, other::---`."""


def test_a_note_with_two_names_becomes_two_files(book: Spellbook, vault: Path, write_note: Write) -> None:
    """A change of one name of a hard-linked note leaves the other name with the text before."""
    note = write_note("a.md", "## One\n\nfirst\n")
    (vault / "b.txt").hardlink_to(note)
    book.revise("a#one", "second")
    assert ("second" in note.read_text(), (vault / "b.txt").read_text()) == (True, "## One\n\nfirst\n")


@pytest.mark.skipif(sys.platform != "linux", reason="extended attributes as Linux has them")
@pytest.mark.parametrize("name", ["user.tag", "system.posix_acl_access"])
def test_attributes_and_access_lists_stay(book: Spellbook, tmp_path: Path, write_note: Write, name: str) -> None:
    """
    Extended attributes, access lists and permissions survive a change of the text, and so do owner and group. Settings
    of clients and git hooks keep their attributes too.
    """

    def state(file: Path) -> object:
        status = file.stat()
        held = {each: os.getxattr(file, each) for each in os.listxattr(file)}
        return held, status.st_mode, status.st_uid, status.st_gid

    note, settings = write_note("a.md", "## One\n\nfirst\n"), tmp_path / "settings.json"
    settings.write_text("{}")
    if os.geteuid() == 0:  # others may not give files away
        os.chown(note, 1234, 2345)
        note.chmod(0o2664)  # which a change of owner would clear
    try:
        for file in (note, settings):
            os.setxattr(file, name, ACL if "acl" in name else b"\x00value")
    except OSError:
        pytest.skip("this disk has none")
    before, of_settings = state(note), state(settings)
    assert book.revise("a#one", "second").warnings == ()
    assert ("second" in note.read_text(), state(note)) == (True, before)
    book.undo()
    assert state(note) == before
    changes.FileChange(settings, b"{}", b"{ }").make()
    assert (settings.read_text(), state(settings)) == ("{ }", of_settings)


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
        talk(book, lambda agent: agent.call("export"), toolsets=("backup",))
        assert any(exports(book).iterdir())
        databases = {path: mode for path, mode in modes(book.config.state).items() if ".db" in path}
        assert any(path.endswith("-wal") for path in databases)
        assert not [path for path, mode in databases.items() if mode & 0o777 & ~vault.stat().st_mode]
        return book.config.state, book.config.snapshot_folder


@pytest.mark.parametrize("steps", [(0o700,), (0o755, 0o750, 0o700)])
def test_as_closed_as_the_vault(vault: Path, write_note: Write, steps: tuple[int, ...]) -> None:
    """
    State, journal, snapshots and exports allow nobody what the vault does not, and a vault open to all may be read.
    What is open already is closed at the next use, and what a person closed further stays so. A catalog is closed with
    its log, from the first moment on.
    """
    before = os.umask(0o022)
    try:
        vault.parent.chmod(0o755)
        for mode in steps:
            vault.chmod(mode)
            write_note("a.md", "Alone.")
            state, snapshots = fill(vault)
            made = modes(state, snapshots, vault.parent / "out.json")
            assert {path: oct(found) for path, found in made.items() if found & 0o777 & ~mode} == {}
            assert made[str(state)] == made[str(snapshots)] == mode
            assert made[str(vault.parent / "out.json")] == made[str(state / "journal.db")] == mode & 0o644
        vault.chmod(0o755)
        books.open(vault, embedder="hash").close()
        assert {path for path, found in modes(state, snapshots).items() if found & 0o077} == set()
    finally:
        os.umask(before)
