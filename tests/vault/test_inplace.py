"""A rewritten file keeps its owner, group, permissions, attributes and hard links."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from spellbook.cli import main
from spellbook.cli.clients import changes
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.system.errors import Conflict
from spellbook.vault import inplace
from spellbook.vault.folder import digest
from tests.helpers import finished, python

Write = Callable[..., Path]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="hard links, owners and attributes of POSIX")

LONG = "".join(f"line {number} of the old text\n" for number in range(1_000))
ACL = bytes.fromhex("02000000 01000600ffffffff 02000400d2040000 04000400ffffffff 10000600ffffffff 20000000ffffffff")
"""As Linux keeps `user::rw-, user:1234:r--, group::r--, mask::rw-, other::---`."""


@pytest.fixture
def linked(vault: Path, tmp_path: Path, write_note: Write) -> tuple[Path, Path, Path]:
    """A note with two more hard links, one in the vault and one outside."""
    note = write_note("a.md", f"## One\n\nfirst\n\n## Two\n\n{LONG}")
    others = vault / "deep" / "b.txt", tmp_path / "outside.md"
    for other in others:
        other.parent.mkdir(exist_ok=True)
        other.hardlink_to(note)
    return note, *others


@pytest.mark.parametrize("text", ["short", LONG.replace("old", "new"), LONG * 2], ids=["shorter", "as long", "longer"])
def test_all_names_of_a_file_stay_its_names(book: Spellbook, linked: tuple[Path, ...], text: str) -> None:
    """A change of a note with hard links, and its undo, apply to all names; nothing is left in the state folder."""
    before, number = linked[0].read_bytes(), linked[0].stat().st_ino
    assert book.revise("a#two", text).warnings == ()
    for name in linked:
        assert text.strip() in name.read_text()
        assert name.stat().st_ino == number
    assert [hit.id for hit in book.find("first").hits] == ["a#one"]
    book.undo()
    assert {name.read_bytes() for name in linked} == {before}
    assert {name.stat().st_ino for name in linked} == {number}
    assert inplace.unfinished(book.config.state) == []


def test_moves_and_imports_keep_the_names_of_a_file(
    book: Spellbook, vault: Path, linked: tuple[Path, ...], write_note: Write
) -> None:
    """Updated links and imported files keep hard links too."""
    write_note("x.md", "x")
    linked[0].write_text("[[x]]\n")
    book.move("x", "y")
    assert {name.read_text() for name in linked} == {"[[y]]\n"}
    book.index.vault.place("deep/b.txt", [b"placed"], mode=0o600, mtime_ns=10**18, expected=digest(b"[[y]]\n"))
    assert {name.read_text() for name in linked} == {"placed"}
    assert {(stat.S_IMODE(name.stat().st_mode), name.stat().st_mtime_ns) for name in linked} == {(0o600, 10**18)}


def test_who_saved_meanwhile_is_not_written_over(book: Spellbook, linked: tuple[Path, ...]) -> None:
    """A file with unexpected contents is left alone under all its names."""
    linked[1].write_text("saved")
    with pytest.raises(Conflict):
        book.index.vault.write("a.md", b"new", digest(b"old"))
    assert {name.read_text() for name in linked} == {"saved"}
    assert inplace.unfinished(book.config.state) == []


FULL = """
import errno, os, sys
import spellbook
from spellbook.system.errors import StorageError
from spellbook.vault import inplace
from spellbook.vault.folder import digest
vault, at = sys.argv[1], int(sys.argv[2])
def hook(event, arguments):
    global at
    if event == "spellbook.overwrite":
        at -= 1
        if at == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
with spellbook.open(vault, embedder="hash") as book:
    old = open(vault + "/a.md", "rb").read()
    sys.addaudithook(hook)
    try:
        with book.index.vault.change("revise", "a"):
            book.index.vault.write("a.md", b"new " * 9_000, digest(old))
    except StorageError as error:
        print(error.message, open(vault + "/a.md", "rb").read() == old, inplace.unfinished(book.config.state), len(book.log()))
"""


def test_a_disk_that_is_full_changes_nothing(vault: Path, linked: tuple[Path, ...]) -> None:
    """On a full disk the error says so, and the file is unchanged under every name."""
    for at in (1, 2, 4):
        assert finished(python(FULL, vault, at, SPELLBOOK_EMBEDDER="hash")) == ["a.md: the disk is full. True [] 0"]


@pytest.mark.parametrize("how", ["in place", "another file"])
def test_what_is_saved_after_a_kill_stays(vault: Path, tmp_path: Path, linked: tuple[Path, ...], how: str) -> None:
    """
    Text saved over a half-written file stays; the earlier contents are in the trash, or back under the other names.
    """
    before = linked[0].read_bytes()
    source = tmp_path / "source"
    source.write_bytes(before.replace(b"old", b"new"))
    with books.open(vault, embedder="hash") as book:
        state = book.config.state
    record = inplace.Record(state / "in-place" / "0.json")
    record.begin("a.md", linked[0], source)
    linked[0].write_bytes(source.read_bytes()[:5_000] + before[5_000:])
    if how == "in place":
        linked[0].write_text("saved by hand")
    else:
        linked[0].unlink()
        linked[0].write_text("saved by hand")
    with books.open(vault, embedder="hash") as book:
        book.reindex()
        assert linked[0].read_text() == "saved by hand"
        if how == "in place":
            assert (vault / ".trash/a.md").read_bytes() == before
        else:
            assert {name.read_bytes() for name in linked[1:]} == {before}


def test_a_damaged_record_stops_nothing(book: Spellbook, linked: tuple[Path, ...]) -> None:
    """A damaged record of an interrupted write is set aside, and the others are handled."""
    folder = book.config.state / "in-place"
    folder.mkdir()
    (folder / "1.json").write_text("{")
    (folder / "1.old").write_text("kept")
    (folder / "2.old").write_text("of a write that never began")
    book.revise("a#one", "new")
    assert sorted(file.name for file in folder.iterdir()) == ["1.damaged", "1.old"]


# -- attributes


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


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="a file of another owner takes root to make"
)
def test_what_cannot_be_kept_is_said(vault: Path, tmp_path: Path, write_note: Write) -> None:
    """If the owner cannot be kept, stderr, --json and the tool's answer say so."""
    note = write_note("a.md", "## One\n\nfirst\n")
    other = tmp_path / "other.md"
    other.hardlink_to(write_note("b.md", "## One\n\nfirst of b\n"))
    (tmp_path / "state").mkdir()
    for place in (vault, tmp_path / "state"):
        os.chown(place, 4321, 4321)
    for place in (note, other):
        os.chown(place, 1234, 1234)
        place.chmod(0o644)
    reached = [place for place in (tmp_path, *tmp_path.parents) if not place.stat().st_mode & 0o001]
    modes = [place.stat().st_mode for place in reached]
    try:
        for place, mode in zip(reached, modes, strict=True):
            place.chmod(mode | 0o011)
        os.setegid(4321)
        os.seteuid(4321)
        done = CliRunner().invoke(
            main,
            ["--vault", str(vault), "revise", "a#one", "-", "--json"],
            input="second",
            env={"SPELLBOOK_EMBEDDER": "hash"},
        )
        with books.open(vault, embedder="hash") as book:
            said = book.revise("b#one", "second of b").warnings
    finally:
        os.seteuid(0)
        os.setegid(0)
        for place, mode in zip(reached, modes, strict=True):
            place.chmod(mode)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["warnings"] == ["a.md is written, and could not keep its group, its owner."]
    assert said == (
        "b.md is written, and could not keep its other names, hard links, which lead to the text before, its group, its owner.",
    )
    assert "second" in note.read_text()
    assert "first of b" in other.read_text()
