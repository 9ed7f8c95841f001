"""A rewritten file keeps its owner, group, permissions and attributes."""

from __future__ import annotations

import os
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
