"""
Changes of single files: each leaves the complete old or new file, even after a crash.

There is one writer at a time, and each change is recorded in the journal before it is made. A file that another program
changed meanwhile is never overwritten.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from spellbook.notes.files import MOST_BYTES
from spellbook.settings import paths
from spellbook.system import disk, platform
from spellbook.system.errors import Conflict, MemoryNotFound, PermissionDenied, SpellbookError, StorageError
from spellbook.system.lock import held
from spellbook.text.unicode import folded, is_markdown
from spellbook.vault import names
from spellbook.vault import tombstones as stones
from spellbook.vault.entries import INODE, Change
from spellbook.vault.folder import Folder, digest
from spellbook.vault.journal import Journal, inode_of

_AT_ONCE = 16
"""Files written in parallel: 25 times as fast as one by one, measured with an fsync for each."""

_SAVE_SECONDS = 0.3
"""Least age of an empty file that is replaced."""


class Writer(Folder):
    """A folder whose files can be changed. The lock between processes is in `state`, and the journal unless given."""

    is_only_read = False
    """Whether every change is refused; notes of such a folder come and go as others make them."""

    def __init__(
        self,
        root: Path,
        state: Path,
        journal: Journal | None = None,
        known: Callable[[], int] = lambda: 0,
        *,
        obsidian: bool = False,
    ) -> None:
        super().__init__(root, known, obsidian=obsidian)
        self.journal = journal or Journal(state)
        self._state = state
        self._tombstones = paths.tombstones(str(root))

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the write lock, as every write of Spellbook does; editors do not. Raises VaultNotFound, StorageError."""
        if self.is_only_read:
            raise PermissionDenied(f"{self.root}: this folder is only read.", "Change the file in an editor.")
        self.check_there()
        with contextlib.ExitStack() as lock:
            try:
                if not lock.enter_context(held(self._state / "write.lock", 30)):
                    busy = "Another Spellbook has been writing for 30 seconds."
                    raise StorageError(busy, "Try again; nothing was written.")
            except OSError as error:
                raise StorageError(
                    f"{self._state}: the state folder cannot be written ({error.strerror}).",
                    "Mend it, or set SPELLBOOK_STATE.",
                ) from error
            self.check_there()  # it may have gone while this waited
            yield

    @cached_property
    def _owner(self) -> str:
        """Eight digits that the temporary files of this state folder have in their names; read under the write lock."""
        file = self._state / "owner"
        if not file.exists():
            disk.put(file, os.urandom(4).hex().encode())
        return file.read_text()

    def litter(self) -> list[str]:
        """Return the whole paths of temporary files in the state folder, and in the folders that `walk` leaves out."""
        folders = (self.root / names.TRASH, self.root / paths.MARKER, self._state)
        return [
            os.path.join(place, name)
            for folder in folders
            if not folder.is_symlink()
            for place, _, files in platform.walk(folder)
            for name in filter(disk.TEMPORARY.fullmatch, files)
        ]

    def sweep(self, litter: Sequence[str], age: float = 3600.0) -> None:
        """
        Delete what killed processes left of `litter`, and leave what a live one may write.

        Under the write lock, no process of this state folder writes a note: its files are deleted at once. Others, and
        all while the lock is busy, are deleted once they are older than `age` seconds.
        """
        with contextlib.ExitStack() as lock, contextlib.suppress(OSError):
            is_ours = bool(litter) and lock.enter_context(held(self._state / "write.lock"))
            for path in litter:
                with contextlib.suppress(OSError):
                    status = os.lstat(self.root / path)
                    # A temporary file may already carry the times of the file it replaces.
                    is_old = time.time() - max(status.st_mtime, status.st_ctime) > age
                    if is_old or (is_ours and os.path.basename(path).startswith(f".spellbook-{self._owner}")):
                        platform.remove(self.root / path)

    # -- what was erased

    @cached_property
    def tombstones(self) -> stones.Tombstones:
        """The sentences that were erased."""
        return stones.Tombstones(self.root, self._tombstones)

    @property
    def has_tombstones(self) -> bool:
        """Whether anything was erased that is not to come back."""
        return os.path.lexists(self._tombstones)

    def check_erased(self, changes: Sequence[Change]) -> None:
        """Raise InvalidInput or StorageError if the open change may not write this, as `Tombstones.check` says."""
        if (draft := self.journal.draft) and self.has_tombstones:
            self.tombstones.check(changes, draft)

    @contextlib.contextmanager
    def record(self, *changes: Change) -> Iterator[None]:
        """Record changes in the journal before they are made; delete the record if they fail."""
        self.check_erased(changes)
        with self.journal.entry("change"):  # or a part of the open one
            numbers = self.journal.note(changes)
            try:
                yield
            except Exception:  # after an interrupt the change may have been made; as after a kill, the file shows it
                with contextlib.suppress(StorageError):
                    self.journal.discard(numbers)
                raise

    def _expect(self, path: str, expected: str) -> bytes:
        """Return the bytes of a note if they hash to `expected`. Raises Conflict."""
        if digest(data := self.read(path)[0]) != expected:
            raise changed(path)
        return data

    def read_for_log(self, path: str, expected: str) -> bytes | str:
        """Return a note's bytes, or `expected` for a file that the journal does not keep. Raises Conflict."""
        if expected.startswith(INODE):
            now = inode_of(self.root.joinpath(*path.split("/")))
        elif is_logged(path, self.locate(path)):
            return self._expect(path, expected)
        else:
            now = self.hash(path)
        if now != expected:
            raise changed(path)
        return expected

    # -- replacing

    def write(self, path: str, data: bytes, expected: str) -> None:
        """Replace the file's bytes by `data`. Raises Conflict, nothing written, if their `digest` is not `expected`."""
        for error in self.write_all({path: (data, expected)}).values():
            raise error

    def write_all(self, texts: Mapping[str, tuple[bytes, str]]) -> dict[str, SpellbookError]:
        """
        Replace the bytes of many notes, in parallel; return the error of each path that could not be written.

        `texts` has for each path the new bytes and the `digest` of the present ones; another present digest is a
        Conflict.
        """
        from concurrent.futures import ThreadPoolExecutor

        failed: dict[str, SpellbookError] = {}
        changes: list[Change] = []
        with self.exclusive():
            for path, (data, expected) in texts.items():
                try:
                    before, mode = self._expect(path, expected), mode_of(self.locate(path))
                    self.check_erased([change := Change(path, before, data, mode)])
                    changes.append(change)
                except SpellbookError as error:
                    failed[path] = error
            with disk.explain_errors(str(self._state)):
                owner = self._owner  # several threads at once would make it several times
            numbers = self.journal.note(changes) if changes else []
            with ThreadPoolExecutor(min(_AT_ONCE, len(changes) or 1)) as pool:
                reasons = pool.map(lambda change: self._replace(change, owner, *texts[change.path]), changes)
                for change, number, reason in zip(changes, numbers, reasons, strict=True):
                    if reason is not None:
                        failed[change.path] = reason
                        with contextlib.suppress(StorageError):
                            self.journal.discard([number])
                [*pool.map(disk.sync_folder, {self._real(change.path).parent for change in changes})]
        return failed

    def _replace(self, change: Change, owner: str, data: bytes, expected: str) -> SpellbookError | None:
        """Replace a file's bytes by `data`, by a temporary file of `owner`; return the error, if any."""
        try:
            with (
                disk.explain_errors(change.path),
                self.anchored(self._real(change.path)) as place,
                disk.written(place.parent, data, 0o600, owner) as temporary,
            ):
                os.chmod(temporary, change.mode)
                self._swap(change.path, temporary, place, expected)
        except SpellbookError as error:
            return error
        return None

    def _real(self, path: str) -> Path:
        return Path(os.path.realpath(self.locate(path)))

    @staticmethod
    def _swap(path: str, temporary: Path, place: Path, expected: str) -> None:
        """Replace a file. Raises Conflict, MemoryNotFound, OSError."""
        try:
            if expected == digest(b""):
                # An editor that truncates, then writes, may be in between.
                while (status := os.stat(place)).st_size == 0 and 0 <= time.time() - status.st_mtime < _SAVE_SECONDS:
                    time.sleep(_SAVE_SECONDS / 20)
            disk.copy_status(place, temporary)
            if not disk.swap(temporary, place, lambda there: disk.hash_of(there) == expected):
                raise changed(path)
        except FileNotFoundError as error:
            raise gone(path) from error

    def place(
        self,
        path: str,
        pieces: Iterable[bytes],
        *,
        mode: int | None = None,
        mtime_ns: int | None = None,
        expected: str | None = None,
        sync: bool = True,
        own: bool = False,
    ) -> None:
        """
        Write a file of any kind and size to exactly this path, which must be free, or have the hash `expected`.

        Raises PathOutsideVault for a path that is not `admitted`, and Conflict if something else is there. Permissions
        are restricted by `names`. The vault's `own` files, on their way to or from the trash, keep theirs, and
        `check_target` admits them. If `pieces` raises, nothing is written. The journal keeps the texts of notes, and of
        other files only hashes. Without `sync`, the caller syncs the folder after many files.
        """
        place = self.check_target(path) if own else self.admitted(path)
        with self.exclusive(), disk.explain_errors(path):
            try:
                self.make(Path(os.path.relpath(place.parent, self.root)).as_posix())
                mode = mode_of(place) if mode is None and expected is not None else mode
                if mode is not None:
                    mode = mode & 0o777 | 0o600 if own else names.permissions(mode)
                hashed = disk.Hashed(pieces)
                with self.anchored(place) as place, disk.written(place.parent, hashed, mode, self._owner) as temporary:
                    if mtime_ns is not None:
                        disk.set_time(temporary, mtime_ns)
                    before = None if expected is None else self.read_for_log(path, expected)
                    after = temporary.read_bytes() if is_logged(path, temporary) else hashed.sha256
                    with self.record(Change(path, before, after, mode_of(place))):
                        if expected is None:
                            disk.claim(temporary, place)
                        else:
                            self._swap(path, temporary, place, expected)
                    if sync:
                        disk.sync_folder(place.parent)
            except FileExistsError as error:
                raise taken(path) from error

    # -- new files

    def put(self, path: str, data: bytes, expected: str | None, mode: int = 0o644) -> None:
        """Write `data`, with `mode` if new. Raises Conflict if the hash is not `expected`; None is no file."""
        if expected is not None:
            self.check_target(path)
            self.write(path, data, expected)
        else:
            self.place(path, [data], mode=mode, own=path.startswith(f"{names.TRASH}/"))

    def write_numbered(self, parts: list[str], name: str, data: bytes, mode: int | None = None) -> str:
        """Write a new note `<name>.md`, `<name> 2.md` if that is taken, in the folder of `parts`; return its path."""
        folder = "/".join(parts)
        for file in _free(self.root / folder, name):
            path = "/".join([*parts, file])
            with contextlib.suppress(Conflict):  # another one took the name in this moment
                self.place(path, [data], mode=mode, own=names.TRASH in parts[:1])
                return path
        raise StorageError(f"{folder}: 10,000 notes are called {name!r}.", "Choose another title.")

    # -- deleting

    def unlink(self, path: str, expected: str) -> None:
        """Rename a file, check its hash, then delete it, so that a change saved at the last moment is not lost."""
        change = Change(path, self.read_for_log(path, expected), None, mode_of(self.locate(path)))
        with self.record(change), self.anchored(self.locate(path)) as place:
            aside = disk.temporary_name(place.parent, self._owner)
            platform.replace(place, aside)
            try:
                if disk.hash_of(aside) != expected:
                    raise changed(path)
                platform.remove(aside)
            except BaseException:
                for name in names.numbered(place.name):
                    with contextlib.suppress(FileExistsError, FileNotFoundError):
                        disk.take(aside, place.with_name(name))
                        break
                raise
            disk.sync_folder(place.parent)


def _free(place: Path, name: str) -> Iterator[str]:
    """Yield the file names for a note that no file in the folder `place` has, also where the case of letters counts."""
    with disk.explain_errors(str(place)):
        taken = {folded(names.meant(other)) for other in os.listdir(place)} if place.is_dir() else set()
    for number in range(1, names.MOST_NUMBER):
        tail = "" if number == 1 else f" {number}"
        file = f"{names.note_name(name, names.MOST_NEW - len(tail) - 3)}{tail}.md"
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
    with contextlib.suppress(OSError):
        return is_markdown(path) and place.stat().st_size <= MOST_BYTES
    return is_markdown(path)  # it is gone
