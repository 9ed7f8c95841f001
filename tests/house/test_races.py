"""Files that are saved at the very moment Spellbook writes are never lost."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spellbook.library.book import Spellbook
from spellbook.system import disk
from spellbook.system.errors import Conflict, MemoryNotFound, StorageError
from spellbook.system.sqlite import Database
from spellbook.vault.folder import digest
from spellbook.vault.journal import Change, Journal
from spellbook.vault.vault import Trash, Vault
from tests.editor import MANNERS
from tests.helpers import Write
from tests.trees import contents, grow

Before = Callable[[object, str, Callable[..., object]], None]
CAN_EXCHANGE = disk.system_call() is not None


@pytest.fixture
def notes(vault: Path, tmp_path: Path) -> Vault:
    """The vault as the code sees it."""
    return Vault(vault, tmp_path / "locks")


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> Before:
    """Run a function before each call of another one, with what that is given."""

    def have(owner: object, name: str, happen: Callable[..., object]) -> None:
        call = getattr(owner, name)

        def late(*given: Any, **named: Any) -> Any:
            happen(*given)
            return call(*given, **named)

        monkeypatch.setattr(owner, name, late)

    return have


@pytest.fixture
def just_before(before: Before) -> Callable[[Callable[[], object]], None]:
    """Run a function after the last check of a file, right before it is replaced."""
    if not CAN_EXCHANGE:
        pytest.skip("names cannot be exchanged here")

    def have(happen: Callable[[], object], times: int = 1) -> None:
        left = iter(range(times))
        before(disk, "exchange", lambda *_: [happen() for _ in itertools.islice(left, 1)])

    return have


@pytest.mark.parametrize("manner", MANNERS)
def test_what_is_saved_in_the_last_moment_stays(
    notes: Vault, write_note: Write, just_before: Any, manner: Callable[..., None]
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


def test_a_folder_in_the_place_of_a_note_stays(notes: Vault, vault: Path, write_note: Write, just_before: Any) -> None:
    """A folder that replaced a note stays with its contents; a deleted note stays deleted."""
    file, other = write_note("a.md", "old"), write_note("c.md", "old")
    just_before(lambda: file.unlink() or grow(vault, {"a.md/b.md": b"inside"}))
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
    monkeypatch.setattr(disk, "system_call", lambda: None)
    write_note("a.md", "old")
    notes.write("a.md", b"new", digest(b"old"))
    with pytest.raises(Conflict):
        notes.write("a.md", b"newer", digest(b"old"))
    notes.move("a.md", "b.md", digest(b"new"))
    trash = notes.remove("b.md", digest(b"new"))
    write_note("b.md", "other")
    assert notes.trash.restore(str(trash)) == "b-2.md"
    assert contents(vault) == {"b.md": b"other", "b-2.md": b"new"}


def test_a_name_that_is_taken_in_the_last_moment_stays(
    notes: Vault, vault: Path, write_note: Write, before: Before
) -> None:
    """A file created at a note's new path is not overwritten, and a kill there leaves no empty file."""
    write_note("a.md", "a")
    before(disk, "rename", lambda _, target: target.name == "b.md" and target.write_bytes(b"theirs"))
    with pytest.raises(Conflict):
        notes.move("a.md", "b.md", digest(b"a"))
    assert contents(vault) == {"a.md": b"a", "b.md": b"theirs"}


# -- links


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_a_move_between_two_names_of_one_file(book: Spellbook, vault: Path, write_note: Write, link: Any) -> None:
    """A note is not moved onto another link of itself."""
    write_note("b.md", "the only text")
    link(vault / "b.md", vault / "a.md")
    book.reindex()
    for move in (book.move, book.index.vault.relocate):
        for names in (("a.md", "b.md"), ("b.md", "a.md")):
            with pytest.raises(Conflict):
                move(*names)
            assert (vault / "b.md").read_text() == (vault / "a.md").read_text() == "the only text"


# -- files on their way


def test_a_file_on_its_way_is_not_swept(notes: Vault, vault: Path, before: Before) -> None:
    """Temporary files of an import or restore, which have old times, are not swept."""
    before(disk, "claim", lambda *_: notes.sweep(notes.walk().litter))
    notes.place("a.md", [b"old"], mtime_ns=1_500_000_000_000_000_000)
    assert contents(vault) == {"a.md": b"old"}
    assert time.time() - (vault / "a.md").stat().st_mtime > 3600


@pytest.mark.parametrize("error", [PermissionError(13, "in use"), KeyboardInterrupt()], ids=["in use", "interrupted"])
def test_what_is_not_deleted_is_back(
    notes: Vault, vault: Path, write_note: Write, before: Before, error: BaseException
) -> None:
    """A note that cannot be deleted stays where it was; after Ctrl-C the whole change is undone, and the file is back."""
    write_note("a.md", "text")
    is_busy = isinstance(error, OSError)
    errors = itertools.repeat(error) if is_busy else iter([error])

    def happen(file: Path, *_: Any) -> None:
        if not is_busy or disk.TEMPORARY.fullmatch(file.name):
            for each in itertools.islice(errors, 1):
                raise each

    before(*((Path, "unlink") if is_busy else (disk, "sync_folder")), happen)
    with pytest.raises((StorageError, KeyboardInterrupt)), notes.change("merge"):
        notes.remove("a.md", digest(b"text"), hard=True)
    assert contents(vault) == {"a.md": b"text"}


def test_a_note_to_the_journal_that_failed_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed write to the journal leaves nothing in it, and the next entry is complete."""
    journal = Journal(tmp_path)
    transaction = Database.transaction

    @contextlib.contextmanager
    def full(self: Database) -> Iterator[Any]:
        with transaction(self) as connection:
            yield connection
            raise StorageError("the disk is full")

    with journal.entry("first"):
        monkeypatch.setattr(Database, "transaction", full)
        with pytest.raises(StorageError):
            journal.note([Change("a.md", None, b"lost")])
        monkeypatch.undo()
        journal.note([Change("b.md", None, b"kept")])
    with journal.entry("second"):
        journal.note([Change("c.md", None, b"other")])
    assert [(entry.verb, [each.path for each in entry.traces]) for entry in journal.entries()] == [
        ("second", ["c.md"]),
        ("first", ["b.md"]),
    ]


# -- notes that vanish meanwhile


def test_a_move_of_what_vanishes(book: Spellbook, vault: Path, write_note: Write, before: Before) -> None:
    """A note that disappears before its move is reported as gone; nothing is half done."""
    file = write_note("a.md", "a")
    book.reindex()
    before(Vault, "relocate", lambda *_: file.unlink())
    with pytest.raises(MemoryNotFound):
        book.move("a", "b")
    assert not (book.config.state / "moving.json").exists()


@pytest.mark.parametrize("there", [{}, {"a.md": b"edited"}], ids=["gone", "edited"])
def test_going_back_while_a_note_changes(book: Spellbook, vault: Path, before: Before, there: dict[str, bytes]) -> None:
    """A restore that meets a change of its moment is taken back; the same restore again does all of it."""
    grow(vault, {"a.md": b"one", "b.md": b"b"})
    name = book.snapshots.create().name
    mine = grow(vault, {"a.md": b"two", "new.md": b"new"}) / "a.md"
    happen = iter([lambda: mine.unlink() or grow(vault, there)])
    before(Vault, "place", lambda *_: [each() for each in itertools.islice(happen, 1)])
    with pytest.raises((Conflict, MemoryNotFound)):
        book.restore_snapshot(name)
    assert (contents(vault), book.log()) == ({"b.md": b"b", "new.md": b"new", **there}, [])
    book.restore_snapshot(name)
    assert contents(vault) == {"a.md": b"one", "b.md": b"b"}


@pytest.mark.parametrize("there", [{}, {"a.md": b"edited"}], ids=["gone", "edited"])
def test_an_import_over_a_note_that_changes(
    book: Spellbook, vault: Path, tmp_path: Path, before: Before, there: dict[str, bytes]
) -> None:
    """If a note is edited or disappears before it is replaced, nothing is imported; the next import does all of it."""
    mine, source = grow(vault, {"a.md": b"mine"}) / "a.md", grow(tmp_path / "source", {"0.md": b"0", "a.md": b"theirs"})
    happen = iter([lambda: mine.unlink() or grow(vault, there)])
    before(Trash, "copy", lambda *_: [each() for each in itertools.islice(happen, 1)])
    with pytest.raises((Conflict, MemoryNotFound)):
        book.import_(source, on_conflict="overwrite")
    assert (contents(vault), book.log()) == (there, [])
    book.import_(source, on_conflict="overwrite")
    assert contents(vault) == {"0.md": b"0", "a.md": b"theirs"}


# -- a state folder that suffers


def test_a_damaged_note_of_a_move_is_no_end(book: Spellbook, write_note: Write) -> None:
    """A damaged record of a running move does not stop later changes."""
    write_note("a.md", "text")
    (book.config.state / "moving.json").write_bytes(b"")
    assert [hit.path for hit in book.find("text").hits] == ["a.md"]
    book.move("a", "b")


def test_a_journal_that_is_deleted_meanwhile(book: Spellbook, vault: Path, write_note: Write) -> None:
    """If the journal is deleted during a change, the rest of it does not join the next entry."""
    write_note("a.md", "text")
    book.reindex()
    with book.index.vault.change("first"):
        book.index.vault.create("", "one", b"one")
        for file in book.config.state.glob("journal.db*"):
            file.unlink()
        book.index.vault.create("", "two", b"two")
    book.erase("a")
    assert [entry.verb for entry in book.log()] == ["erase", "first"]
    book.undo()
    assert contents(vault) == {"a.md": b"text", "one.md": b"one", "two.md": b"two"}


# -- folders that come and go


def test_a_folder_that_is_gone_in_the_last_moment(notes: Vault, vault: Path, write_note: Write, before: Before) -> None:
    """A target folder that is deleted before a move is created again; a folder to move is reported as missing."""
    write_note("a.md", "text")
    left = iter(range(2))
    before(disk, "rename", lambda _, target: [target.parent.rmdir() for _ in itertools.islice(left, 1)])
    notes.relocate("a.md", "b/a.md")
    with pytest.raises(MemoryNotFound, match="it is gone"):
        notes.relocate("folder", "other/folder")
    assert contents(vault) == {"b/a.md": b"text"}
