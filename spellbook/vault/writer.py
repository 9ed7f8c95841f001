"""The steps of a write: one writer at a time, and each change recorded in the journal before it is made."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NoReturn

from spellbook.notes.note import MOST_BYTES
from spellbook.system import disk
from spellbook.system.errors import (
    Conflict,
    MemoryNotFound,
    PermissionDenied,
    SpellbookError,
    StorageError,
)
from spellbook.text.unicode import folded
from spellbook.vault import names, rules
from spellbook.vault.folder import Folder, digest
from spellbook.vault.journal import INODE, Change, Journal, inode_of

AT_ONCE = 16
"""Files written in parallel: 25 times as fast as one by one, measured with an fsync for each."""

SAVE_SECONDS = 0.3
"""How old an empty file is at least that is replaced."""


class Writer:
    """The steps of changes to `folder`. The lock file between processes is in `state`."""

    def __init__(self, folder: Folder, state: Path, journal: Journal) -> None:
        self.folder = folder
        self.journal = journal
        self._state = state

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """
        Hold the write lock of the vault. Editors do not take this lock.

        Every write goes through here: raises VaultNotFound if the vault is not there.
        """
        self.folder.check_there()
        busy = StorageError("Another Spellbook has been writing for 30 seconds.", "Try again; nothing was written.")
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(disk.alone(self._state / "write.lock", 30, busy))
            except OSError as error:
                raise StorageError(
                    f"{self._state}: the state folder cannot be written ({error.strerror}).",
                    "Mend it, or set SPELLBOOK_STATE.",
                ) from error
            self.folder.check_there()  # it may have gone while this waited
            yield

    @contextlib.contextmanager
    def record(self, *changes: Change) -> Iterator[None]:
        """Record changes in the journal before they are made; delete the record if they fail."""
        numbers = self.journal.note(changes)
        try:
            yield
        except Exception:  # after an interrupt the change may have been made; as after a kill, the file shows it
            with contextlib.suppress(StorageError):
                self.journal.retract(numbers)
            raise

    def expect(self, path: str, expected: str) -> bytes:
        """Return the bytes of a note if they hash to `expected`. Raises Conflict."""
        data = self.folder.read(path)[0]
        if digest(data) != expected:
            raise changed(path)
        return data

    def read_for_log(self, path: str, expected: str) -> bytes | str:
        """Return a note's bytes, or `expected` for what the journal does not keep. Raises Conflict."""
        if expected.startswith(INODE):
            if inode_of(self.folder.root.joinpath(*path.split("/"))) != expected:
                raise changed(path)
            return expected
        if is_logged(path, self.folder.locate(path)):
            return self.expect(path, expected)
        if self.folder.hash(path) != expected:
            raise changed(path)
        return expected

    def real(self, path: str) -> Path:
        return Path(os.path.realpath(self.folder.locate(path)))

    def replace(self, path: str, data: bytes, mode: int, expected: str) -> SpellbookError | None:
        """Replace a file's bytes; return the error, if any."""
        place = self.real(path)
        try:
            with disk.written(place.parent, data, 0o600) as temporary:
                os.chmod(temporary, mode)
                self.swap(path, temporary, place, expected)
        except SpellbookError as error:
            return error
        except OSError as error:
            return disk.storage_error(path, error)
        return None

    def swap(self, path: str, temporary: Path, place: Path, expected: str) -> None:
        """Replace a file. Raises Conflict, MemoryNotFound, OSError."""
        try:
            if expected == digest(b""):
                _wait_for_save(place)
            disk.copy_status(place, temporary)
            if not disk.swap(temporary, place, lambda there: disk.hash_of(there) == expected):
                raise changed(path)
        except FileNotFoundError as error:
            raise gone(path) from error

    def write_new(self, folder: Path, data: bytes, mode: int | None, paths: Iterator[str]) -> str | None:
        """Write a new file in `folder` at the first free path, and return that path; None if all are taken."""
        inside = folder.relative_to(self.folder.root)
        with self.exclusive(), disk.explain_errors(str(inside)):
            self.folder.make(inside.as_posix())
            with disk.written(folder, data, None if mode is None else rules.permissions(mode)) as temporary:
                for path in paths:
                    place = self.folder.root.joinpath(*path.split("/"))
                    if os.path.lexists(place):
                        continue
                    with contextlib.suppress(FileExistsError), self.record(Change(path, None, data)):
                        disk.claim(temporary, place)
                        disk.sync_folder(folder)
                        return path
                return None

    def create(self, parts: list[str], name: str, data: bytes, mode: int | None = None) -> str:
        """Write a new note `<name>.md`, `<name> 2.md` if that is taken, in the folder of `parts`; return its path."""
        folder = "/".join(parts)
        self.folder.check_target(f"{folder}/x.md".lstrip("/"))
        place = self.folder.root.joinpath(*parts)
        path = self.write_new(place, data, mode, (str(PurePosixPath(*parts, file)) for file in _free(place, name)))
        if path is None:
            raise StorageError(f"{folder}: 10,000 notes are called {name!r}.", "Choose another title.")
        return path

    def move(self, source: Path, data: bytes | str, paths: Iterator[str]) -> str | None:
        """Move a file with the bytes or state `data` to the first free path; return that, None if all are taken."""
        path = source.relative_to(self.folder.root).as_posix()
        for to in paths:
            target = self.folder.root.joinpath(*to.split("/"))
            self.folder.check_here(to)
            if os.path.lexists(target):
                continue
            changes = Change(path, data, None, mode_of(source)), Change(to, None, data)
            with contextlib.suppress(FileExistsError), self.record(*changes):
                disk.take(source, target)
                return to
        return None

    def move_numbered(self, source: Path, data: bytes | str, to: str) -> str:
        """Move a file with the bytes or the state `data` to `to`, or to a numbered path beside it if that is taken."""
        folder, _, name = to.rpartition("/")
        self.folder.make(folder)
        moved = self.move(source, data, names.numbered(to))
        if moved is None:
            raise StorageError(f"{folder}: 10,000 files are called {name}.", "Empty the trash.")
        return moved

    def unlink(self, path: str, expected: str) -> None:
        """Rename a file, check its hash, then delete it, so that a change saved at the last moment is not lost."""
        place = self.folder.locate(path)
        aside = disk.temporary_name(place.parent)
        os.replace(place, aside)
        try:
            if disk.hash_of(aside) != expected:
                raise Conflict(
                    f"{path}: the file was changed by somebody else meanwhile.",
                    "Read it again and repeat; nothing was erased.",
                )
            aside.unlink()
        except BaseException:
            for name in names.numbered(place.name):
                with contextlib.suppress(FileExistsError, FileNotFoundError):
                    disk.take(aside, place.with_name(name))
                    break
            raise
        disk.sync_folder(place.parent)


def _wait_for_save(place: Path) -> None:
    """Wait while a file is empty that was just written: an editor that truncates, then writes, may be in between."""
    while (status := os.stat(place)).st_size == 0 and 0 <= time.time() - status.st_mtime < SAVE_SECONDS:
        time.sleep(SAVE_SECONDS / 20)


def _free(place: Path, name: str) -> Iterator[str]:
    """Yield the file names for a note that no file in the folder `place` has, also where the case of letters counts."""
    taken = {folded(names.meant(other)) for other in os.listdir(place)}
    for number in range(1, names.MOST_NUMBER):
        tail = "" if number == 1 else f" {number}"
        file = f"{names.safe_name(name, names.MOST_NEW - len(tail) - 3)}{tail}.md"
        if folded(file) not in taken:
            yield file


def changed(path: str) -> Conflict:
    """Return the error for a file that is not as expected."""
    return Conflict(
        f"{path}: the file was changed by somebody else meanwhile.", "Read it again and repeat; nothing was written."
    )


def gone(path: str) -> MemoryNotFound:
    """Return the error for a file that is there no more."""
    return MemoryNotFound(f"{path}: it is gone.", "It was moved or deleted in this moment; nothing was written.")


def taken(path: str) -> Conflict:
    """Return the error for a path that is taken."""
    return Conflict(f"{path}: something else is there.", "Move it away and repeat; nothing was written.")


def mode_of(place: Path) -> int:
    """Return the permissions of a file, those of a new one if it is gone."""
    try:
        return stat.S_IMODE(os.stat(place).st_mode)
    except OSError:
        return 0o644


def is_logged(path: str, place: Path) -> bool:
    """Say whether the journal records the file at `place`: notes of readable size, also in the trash."""
    try:
        size = place.stat().st_size
    except OSError:  # it is gone
        size = 0
    return path[-3:].lower() == ".md" and size <= MOST_BYTES


class NoWriter(Writer):
    """Refuses every write."""

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[NoReturn]:
        raise PermissionDenied(f"{self.folder.root}: this folder is only read.", "Change the file in an editor.")
        yield
