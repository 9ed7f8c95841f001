"""Files that are saved at the very moment Spellbook writes are never lost."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spellbook.library.book import Spellbook
from spellbook.system import disk, platform
from spellbook.system.errors import Conflict, MemoryNotFound, StorageError
from spellbook.vault.folder import digest
from spellbook.vault.trash import Trash
from spellbook.vault.vault import Vault
from tests.editor import MANNERS
from tests.helpers import Write
from tests.trees import contents, grow

Before = Callable[..., None]


@pytest.fixture
def notes(vault: Path, tmp_path: Path) -> Vault:
    """The vault as the code sees it."""
    return Vault(vault, tmp_path / "locks")


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> Before:
    """Run a function before the first `times` calls of another one, with what that is given."""

    def have(owner: object, name: str, happen: Callable[..., object], times: int = sys.maxsize) -> None:
        call, left = getattr(owner, name), iter(range(times))

        def late(*given: Any, **named: Any) -> Any:
            for _ in itertools.islice(left, 1):
                happen(*given)
            return call(*given, **named)

        monkeypatch.setattr(owner, name, late)

    return have


@pytest.fixture
def just_before(before: Before) -> Callable[..., None]:
    """Run a function after the last check of a file, right before it is replaced."""
    if platform.system_call() is None:
        pytest.skip("names cannot be exchanged here")
    return lambda happen, times=1: before(disk, "exchange", lambda *_: happen(), times)


def replaced(file: Path, vault: Path, others: dict[str, bytes]) -> None:
    file.unlink()
    grow(vault, others)


@pytest.mark.parametrize("manner", MANNERS)
def test_what_is_saved_in_the_last_moment_stays(
    notes: Vault, write_note: Write, just_before: Callable[..., None], manner: Callable[..., None]
) -> None:
    """
    Text saved between the last check and the rename stays, and the write is a conflict. If an editor saves again while
    its first text is restored, the last text stays.
    """
    file = write_note("a.md", "old")
    texts = iter((b"saved just now",) if manner is MANNERS[0] else (b"first", b"second", b"saved just now"))
    just_before(lambda: manner(file, next(texts)), 1 if manner is MANNERS[0] else 3)
    with pytest.raises(Conflict):
        notes.write("a.md", b"new", digest(b"old"))
    assert contents(notes.root) == {"a.md": b"saved just now"}
    assert not any(entry.traces for entry in notes.journal.entries())
    notes.place("a.md", [b"new"], expected=digest(b"saved just now"))
    assert file.read_bytes() == b"new"


@pytest.mark.parametrize("manner", MANNERS)
def test_what_is_saved_right_before_an_erasing_for_good_stays(
    notes: Vault, write_note: Write, before: Before, manner: Callable[..., None]
) -> None:
    """Text saved between the last look at a note and its deletion stays in its place, and nothing is erased."""
    file = write_note("a.md", "old")
    before(platform, "replace", lambda *_: manner(file, b"saved just now"), 1)
    with pytest.raises(Conflict):
        notes.trash.remove("a.md", digest(b"old"), hard=True)
    assert contents(notes.root) == {"a.md": b"saved just now"}
    assert not any(entry.traces for entry in notes.journal.entries())


def test_a_folder_in_the_place_of_a_note_stays(
    notes: Vault, vault: Path, write_note: Write, just_before: Callable[..., None]
) -> None:
    """A folder that replaced a note stays with its contents; a deleted note stays deleted."""
    file, other = write_note("a.md", "old"), write_note("c.md", "old")
    just_before(lambda: replaced(file, vault, {"a.md/b.md": b"inside"}))
    with pytest.raises(StorageError):
        notes.write("a.md", b"new", digest(b"old"))
    just_before(other.unlink)
    with pytest.raises(MemoryNotFound):
        notes.write("c.md", b"new", digest(b"old"))
    assert contents(vault) == {"a.md/b.md": b"inside"}


def test_disks_that_cannot_exchange_names(
    notes: Vault, vault: Path, write_note: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system cannot exchange two names, writing, moving, erasing and restoring still work."""
    monkeypatch.setattr(platform, "system_call", lambda: None)
    write_note("a.md", "old")
    notes.write("a.md", b"new", digest(b"old"))
    with pytest.raises(Conflict):
        notes.write("a.md", b"newer", digest(b"old"))
    notes.move("a.md", "b.md", digest(b"new"))
    trash = notes.trash.remove("b.md", digest(b"new"))
    write_note("b.md", "other")
    assert notes.trash.restore(str(trash)) == "b-2.md"
    assert contents(vault) == {"b.md": b"other", "b-2.md": b"new"}


def test_a_name_that_is_taken_in_the_last_moment_stays(
    notes: Vault, vault: Path, write_note: Write, before: Before
) -> None:
    """
    A file created at a note's new path is not overwritten, and a kill there leaves no empty file. A target folder that is
    deleted before a move is created again; a folder to move is reported as missing. Temporary files of an import or restore,
    which have old times, are not swept.
    """
    write_note("a.md", "a")
    before(platform, "rename_free", lambda _, target: target.write_bytes(b"theirs"), 1)
    with pytest.raises(Conflict):
        notes.move("a.md", "b.md", digest(b"a"))
    assert contents(vault) == {"a.md": b"a", "b.md": b"theirs"}
    before(platform, "rename_free", lambda _, target: Path(os.path.realpath(target.parent)).rmdir(), 1)
    notes.move("a.md", "c/a.md")
    with pytest.raises(MemoryNotFound, match="it is gone"):
        notes.move("folder", "other/folder")
    before(disk, "claim", lambda *_: notes.sweep(notes.walk().litter))
    notes.place("old.md", [b"old"], mtime_ns=1_500_000_000_000_000_000)
    assert contents(vault) == {"c/a.md": b"a", "b.md": b"theirs", "old.md": b"old"}
    assert time.time() - (vault / "old.md").stat().st_mtime > 3600


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_a_move_between_two_names_of_one_file(book: Spellbook, vault: Path, write_note: Write, link: Any) -> None:
    """A note is not moved onto another link of itself."""
    write_note("b.md", "the only text")
    link(vault / "b.md", vault / "a.md")
    book.reindex()
    for move in (book.move, book.index.vault.move):
        for names in (("a.md", "b.md"), ("b.md", "a.md")):
            with pytest.raises(Conflict):
                move(*names)
            assert (vault / "b.md").read_text() == (vault / "a.md").read_text() == "the only text"


@pytest.mark.parametrize("error", [PermissionError(13, "in use"), KeyboardInterrupt()], ids=["in use", "interrupted"])
def test_what_is_not_deleted_is_back(
    notes: Vault, vault: Path, write_note: Write, before: Before, error: BaseException
) -> None:
    """A note that cannot be deleted stays where it was; after Ctrl-C the whole change is undone, and the file is back."""
    write_note("a.md", "text")

    def happen(file: Path, *_: Any) -> None:
        if isinstance(error, KeyboardInterrupt) or disk.TEMPORARY.fullmatch(file.name):
            raise error

    if isinstance(error, OSError):
        before(platform, "remove", happen)
    else:
        before(disk, "sync_folder", happen, 1)
    with pytest.raises((StorageError, KeyboardInterrupt)), notes.change("merge"):
        notes.trash.remove("a.md", digest(b"text"), hard=True)
    assert contents(vault) == {"a.md": b"text"}


@pytest.mark.parametrize(
    ("saved", "is_mended", "left"),
    [
        ("x/z/a.md", False, {"f/a.md": b"saved", "f/p.png": b"png"}),
        ("x/z/a.md", True, {"f/a.md": b"saved", "f/p.png": b"png"}),
        ("f/a.md", True, {"f/a.md": b"saved", "x/z/a.md": b"old, mended", "x/z/p.png": b"png"}),
    ],
    ids=["in its new folder", "before its links were mended", "where the folder was"],
)
def test_what_is_saved_while_a_folder_moves_stays(
    book: Spellbook, vault: Path, saved: str, is_mended: bool, left: dict[str, bytes]
) -> None:
    """A note saved between a folder's move and the move's failure, or in a move that is undone later, keeps that text."""
    grow(vault, {"f/a.md": b"old", "f/p.png": b"png"})
    notes = book.index.vault

    def move() -> None:
        notes.move("f", "x/z")
        grow(vault, {saved: b"saved"})
        if is_mended:
            text = (vault / "x/z/a.md").read_bytes()
            notes.write("x/z/a.md", text + b", mended", digest(text))

    def fail() -> None:
        with notes.change("move", "f → x/z"):
            move()
            raise StorageError("the disk is full")

    with pytest.raises(StorageError, match="full"):
        fail()
    assert contents(vault) == left
    if saved.startswith("x") and is_mended:
        with notes.change("move", "f → x/z"):
            notes.move("f", "x/z")
            grow(vault, {saved: b"saved again"})
            notes.write("x/z/a.md", b"mended", digest(b"saved again"))
        book.undo()
        assert contents(vault) == {"f/a.md": b"saved again", "f/p.png": b"png"}


def test_a_merge_on_a_disk_that_stays_full(notes: Vault, vault: Path, before: Before) -> None:
    """If neither a merge nor its way back can write, the note that was merged away stays in the trash."""
    left = grow(vault, {"a.md": b"a", "b.md": b"the only text"}) / ".trash/b.md"

    def full(*_: object) -> None:
        raise StorageError("the disk is full")

    def merge() -> None:
        with notes.change("merge"):
            notes.trash.keep("b.md", "b", b"the only text, merged")
            notes.trash.remove("b.md", digest(b"the only text"), hard=True)
            before(disk, "written", full)
            notes.write("a.md", b"linked", digest(b"a"))

    with pytest.raises(StorageError, match="full"):
        merge()
    assert (contents(vault), left.read_bytes()) == ({"a.md": b"a"}, b"the only text, merged")


def test_an_interrupt_right_after_the_rename_of_a_folder(notes: Vault, vault: Path, before: Before) -> None:
    """Ctrl-C at any moment of a move brings the whole folder back, its attachments too."""
    there = contents(grow(vault, {"f/a.md": b"a", "f/p.png": b"png", "x/b.md": b"b"}))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before(disk, "sync_folder", interrupt, 1)
    with pytest.raises(KeyboardInterrupt), notes.change("move", "f → x/z"):
        notes.move("f", "x/z")
    assert (contents(vault), notes.journal.entries()) == (there, [])


# -- notes that vanish meanwhile


@pytest.mark.parametrize("there", [{}, {"a.md": b"edited"}], ids=["gone", "edited"])
def test_a_note_that_changes_meanwhile(
    book: Spellbook, vault: Path, tmp_path: Path, before: Before, there: dict[str, bytes]
) -> None:
    """
    A restore that meets a change of its moment is taken back; the same restore again does all of it. If a note is edited or
    disappears before an import replaces it, nothing is imported; the next import does all of it. A note that disappears before
    its move is reported as gone.
    """
    grow(vault, {"a.md": b"one", "b.md": b"b"})
    name = book.snapshots.create().name
    mine = grow(vault, {"a.md": b"two", "new.md": b"new"}) / "a.md"
    before(Vault, "place", lambda *_: replaced(mine, vault, there), 1)
    with pytest.raises((Conflict, MemoryNotFound)):
        book.restore_snapshot(name)
    assert (contents(vault), book.log()) == ({"b.md": b"b", "new.md": b"new", **there}, [])
    book.restore_snapshot(name)
    assert contents(vault) == {"a.md": b"one", "b.md": b"b"}
    source = grow(tmp_path / "source", {"0.md": b"0", "a.md": b"theirs"})
    known = len(book.log())
    before(Trash, "copy", lambda *_: replaced(mine, vault, there), 1)
    with pytest.raises((Conflict, MemoryNotFound)):
        book.import_(source, on_conflict="overwrite")
    assert (contents(vault), len(book.log())) == ({"b.md": b"b", **there}, known)
    book.import_(source, on_conflict="overwrite")
    assert contents(vault) == {"0.md": b"0", "a.md": b"theirs", "b.md": b"b"}
    before(Vault, "move", lambda *_: mine.unlink())
    with pytest.raises(MemoryNotFound):
        book.move("a", "c")
