"""A rewritten file keeps its owner, group, permissions and attributes."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spellbook.cli.clients import changes
from spellbook.library.book import Spellbook

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


def attributes(file: Path) -> dict[str, bytes]:
    return {name: os.getxattr(file, name) for name in os.listxattr(file)} if sys.platform == "linux" else {}


@pytest.mark.skipif(sys.platform != "linux", reason="extended attributes as Linux has them")
@pytest.mark.parametrize("name", ["user.tag", "system.posix_acl_access"])
def test_attributes_and_access_lists_stay(book: Spellbook, vault: Path, write_note: Write, name: str) -> None:
    """Extended attributes, access lists and permissions survive a change of the text."""
    note = write_note("a.md", "## One\n\nfirst\n")
    note.chmod(0o640)
    try:
        os.setxattr(note, name, ACL if "acl" in name else b"\x00value")
    except OSError:
        pytest.skip("this disk has none")
    before, mode = attributes(note), note.stat().st_mode
    assert book.revise("a#one", "second").warnings == ()
    assert "second" in note.read_text()
    assert (attributes(note), note.stat().st_mode) == (before, mode)
    book.undo()
    assert (attributes(note), note.stat().st_mode) == (before, mode)


@pytest.mark.skipif(sys.platform != "linux", reason="extended attributes as Linux has them")
def test_settings_of_others_keep_their_attributes(tmp_path: Path) -> None:
    """Settings of clients and git hooks keep their attributes too."""
    file = tmp_path / "settings.json"
    file.write_text("{}")
    try:
        os.setxattr(file, "user.tag", b"value")
    except OSError:
        pytest.skip("this disk has none")
    changes.FileChange(file, b"{}", b"{ }").make()
    assert (file.read_text(), attributes(file)) == ("{ }", {"user.tag": b"value"})


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_owner_and_group_stay(book: Spellbook, write_note: Write) -> None:
    """Another user's note keeps its owner, and permissions that a change of owner would clear."""
    note = write_note("a.md", "## One\n\nfirst\n")
    os.chown(note, 1234, 2345)
    note.chmod(0o2664)
    book.revise("a#one", "second")
    status = note.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 2345, 0o2664)
