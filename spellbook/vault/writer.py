"""
Changing files: one writer at a time, each change told to the journal before it is made.

Every write leaves either the old file or the new one, whole, and one that somebody changed meanwhile is never written over.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from spellbook.errors import Conflict, MemoryNotFound, PathOutsideVault, SpellbookError, StorageError
from spellbook.notes.links import Span
from spellbook.notes.note import MOST_BYTES
from spellbook.system import attributes, disk
from spellbook.vault import inplace, names, rules
from spellbook.vault.folder import Folder, digest
from spellbook.vault.journal import Change, Journal

_AT_ONCE = 16
"""Files that are written side by side: 25 times as fast as one after the other, where each waits for the disk."""

_log = logging.getLogger(__name__)


class Writer(Folder):
    """A folder whose files can be changed; in `state` lies the lock between processes."""

    def __init__(self, root: Path, state: Path, journal: Journal | None = None) -> None:
        super().__init__(root)
        self.journal = journal or Journal(state)
        self._state = state

    @contextlib.contextmanager
    def alone(self, patience: float = 30) -> Iterator[None]:
        """One writer at a time among Spellbook's own, what a killed one left in order; editors know nothing of it."""
        busy = StorageError("Another Spellbook has been writing for 30 seconds.", "Try again; nothing was written.")
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(disk.alone(self._state / "write.lock", patience, busy))
            except OSError as error:
                raise StorageError(
                    f"{self._state}: the state folder cannot be written ({error.strerror}).", "Mend it, or set SPELLBOOK_STATE."
                ) from error
            if inplace.unfinished(self._state):
                try:
                    inplace.recover(self._state, self.root)
                except OSError as error:
                    raise disk.storage_error(str(self.root), error) from error
            yield

    def recover(self) -> None:
        """Put in order what a writer that was killed left, unless somebody is writing, who did so or will. Never fails."""
        if inplace.unfinished(self._state):
            with contextlib.suppress(StorageError), self.alone(0):
                pass

    @contextlib.contextmanager
    def noted(self, *changes: Change) -> Iterator[None]:
        """Tell the journal of changes before they are made, and that they were not if they fail."""
        numbers = self.journal.note(changes) if changes else []
        try:
            yield
        except Exception:  # one that is interrupted may have been made: as after a kill, the file says
            with contextlib.suppress(StorageError):
                self.journal.retract(numbers)
            raise

    def expect(self, path: str, expected: str) -> bytes:
        """Return the bytes of a note if they hash to `expected`. Raises Conflict."""
        data = self.read(path)[0]
        if digest(data) != expected:
            raise changed(path)
        return data

    def held(self, path: str, expected: str) -> bytes | None:
        """Return what a note holds if it hashes to `expected`, None for what is nothing for the journal. Raises Conflict."""
        if _is_logged(path, self.locate(path)):
            return self.expect(path, expected)
        if self.hash(path) != expected:
            raise changed(path)
        return None

    def write(self, path: str, data: bytes, expected: str) -> None:
        """
        Replace the file's bytes by `data` if they still hash to `expected` (`digest`).

        Raises Conflict, with nothing written, if they do not.
        """
        for error in self.write_all({path: (data, expected)}).values():
            raise error

    def write_all(
        self, texts: Mapping[str, tuple[bytes, str]], links: Mapping[str, tuple[Span, ...]] = MappingProxyType({})
    ) -> dict[str, SpellbookError]:
        """
        Replace the bytes of many files, each with the hash that is expected of it, as `write` does.

        The journal is told what that does to `links`.
        Returns why some were not written; the others were. A disk makes many
        files safe in the time of one.
        """
        from concurrent.futures import ThreadPoolExecutor

        failed: dict[str, SpellbookError] = {}
        changes: list[Change] = []
        with self.alone():
            for path, (data, expected) in texts.items():
                try:
                    changes.append(Change(path, self.expect(path, expected), data, mode_of(self.locate(path)), links.get(path)))
                except SpellbookError as error:
                    failed[path] = error
            numbers = self.journal.note(changes) if changes else []
            with ThreadPoolExecutor(min(_AT_ONCE, len(changes) or 1)) as pool:
                reasons = pool.map(lambda change: self._replace(change, texts[change.path][1]), changes)
                for change, number, (reason, lost) in zip(changes, numbers, reasons, strict=True):
                    self._tell(change.path, lost)
                    if reason is not None:
                        failed[change.path] = reason
                        with contextlib.suppress(StorageError):
                            self.journal.retract([number])
                [*pool.map(disk.sync_folder, {self._real(each.path).parent for each in changes})]
        return failed

    def _real(self, path: str) -> Path:
        return Path(os.path.realpath(self.locate(path)))

    def _replace(self, change: Change, expected: str) -> tuple[SpellbookError | None, list[str]]:
        """Replace a file's bytes; return why not, and what of the file could not be kept."""
        place = self._real(change.path)
        try:
            with disk.written(place.parent, change.after or b"", 0o600) as temporary:
                os.chmod(temporary, change.mode)
                return None, self._swap(change.path, temporary, place, expected)
        except SpellbookError as error:
            return error, []
        except OSError as error:
            return disk.storage_error(change.path, error), []

    def _swap(self, path: str, temporary: Path, place: Path, expected: str) -> list[str]:
        """
        Let a finished file take the place of one that hashes to `expected`, and be it in all but bytes, permissions and times.

        Returns what of the file could not be kept. Raises Conflict, MemoryNotFound, OSError.
        """

        def is_expected(there: Path) -> bool:
            return disk.hash_of(there) == expected

        lost: list[str] = []
        try:
            if os.stat(place).st_nlink > 1:
                with contextlib.suppress(PermissionError):
                    if not inplace.replace(self._state, path, temporary, place, is_expected):
                        raise changed(path)
                    return []
                lost.append("its other names, hard links, which lead to the text before")
            lost += attributes.copy(place, temporary)
            if not disk.swap(temporary, place, is_expected):
                raise changed(path)
        except FileNotFoundError as error:
            raise MemoryNotFound(f"{path}: it is gone.", "It was moved or deleted in this moment; nothing was written.") from error
        return lost

    def _tell(self, path: str, lost: Sequence[str]) -> None:
        """Tell a person and whoever made the change what of a file that was replaced could not be kept."""
        if lost:
            warning = f"{path} is written, and could not keep {', '.join(lost)}."
            _log.warning(warning)
            self.journal.warn(warning)

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
        Write a file of any kind and size at just this path, which is free, or holds what hashes to `expected`.

        Raises PathOutsideVault for a path that is not `admitted`, and leaves out permissions as `rules` say, unless the
        file is the vault's `own`: on its way into the trash, or back where it just was. Whatever `pieces` raises ends it
        with nothing written. Raises Conflict if something else is there. The journal is told of notes, not of
        attachments, which would fill it.
        Without `sync`, who places many in a folder sees to it that their names survive a power cut.
        """
        place = Path(os.path.realpath(self.locate(path, known=True))) if own else self.admitted(path)
        with self.alone():
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                mode = mode_of(place) if mode is None and expected is not None else mode
                if mode is not None:
                    mode = mode & 0o777 | 0o600 if own else rules.permissions(mode)
                with disk.written(place.parent, pieces, mode) as temporary:
                    if mtime_ns is not None:
                        disk.set_time(temporary, mtime_ns)
                    before = None if expected is None else self.held(path, expected)
                    after = temporary.read_bytes() if _is_logged(path, temporary) else None
                    is_kept = after is not None and (before is not None or expected is None)
                    with self.noted(*[Change(path, before, after, mode_of(place))] if is_kept else []):
                        if expected is None:
                            disk.claim(temporary, place)
                        else:
                            self._tell(path, self._swap(path, temporary, place, expected))
                if sync:
                    disk.sync_folder(place.parent)
            except FileExistsError as error:
                raise taken(path) from error
            except OSError as error:
                raise disk.storage_error(path, error) from error

    def check_target(self, path: str) -> None:
        """Raise PathOutsideVault if no file may be made or changed at `path`: see `admitted`; the trash may hold anything."""
        if not path.startswith(f"{rules.TRASH}/"):
            self.admitted(path)
        elif not self.holds(path):
            raise PathOutsideVault(f"{path[:200]!r} leads out of the vault.", "It is a link; put a folder in its place.")

    def claimed(self, folder: Path, data: bytes, mode: int | None, paths: Iterator[str]) -> str | None:
        """Write a new file in `folder` at the first of `paths` that is free, and return it; None if none is."""
        with self.alone():
            try:
                folder.mkdir(parents=True, exist_ok=True)
                with disk.written(folder, data, None if mode is None else rules.permissions(mode)) as temporary:
                    for path in paths:
                        place = self.root.joinpath(*path.split("/"))
                        if os.path.lexists(place):
                            continue
                        with contextlib.suppress(FileExistsError), self.noted(Change(path, None, data)):
                            disk.claim(temporary, place)
                            disk.sync_folder(folder)
                            return path
                    return None
            except OSError as error:
                raise disk.storage_error(str(folder.relative_to(self.root)), error) from error

    def created(self, parts: list[str], name: str, data: bytes, mode: int | None = None) -> str:
        """Write a new note `<name>.md` in the folder of these `parts`, numbered if the name is taken, and return its path."""
        folder = "/".join(parts)
        self.check_target(f"{folder}/x.md".lstrip("/"))
        tails = ("" if number == 1 else f"-{number}" for number in range(1, names.MOST_NUMBER))
        files = (f"{names.safe_name(name, names.MOST - len(tail) - 3)}{tail}.md" for tail in tails)
        path = self.claimed(self.root.joinpath(*parts), data, mode, (str(PurePosixPath(*parts, file)) for file in files))
        if path is None:
            raise StorageError(f"{folder}: 10,000 notes are called {name!r}.", "Choose another title.")
        return path

    def moved(self, source: Path, data: bytes | None, paths: Iterator[str]) -> str | None:
        """Move a file that holds `data` to the first of `paths` that is free, and return it; None if none is."""
        path = source.relative_to(self.root).as_posix()
        for to in paths:
            target = self.root.joinpath(*to.split("/"))
            if os.path.lexists(target):
                continue
            changes = [Change(path, data, None, mode_of(source)), Change(to, None, data)] if data is not None else []
            with contextlib.suppress(FileExistsError), self.noted(*changes):
                disk.take(source, target)
                return to
        return None

    def moved_numbered(self, source: Path, data: bytes | None, to: str) -> str:
        """Move a file that holds `data` to `to`, or to a numbered path beside it if that is taken."""
        folder, slash, name = to.rpartition("/")
        self.root.joinpath(*folder.split("/")).mkdir(parents=True, exist_ok=True)
        moved = self.moved(source, data, (f"{folder}{slash}{each}" for each in names.numbered(name)))
        if moved is None:
            raise StorageError(f"{folder}: 10,000 files are called {name}.", "Empty the trash.")
        return moved

    def unlink(self, path: str, expected: str) -> None:
        """Delete a file under another name, where no editor can have saved anything since it was looked at."""
        place = self.locate(path)
        aside = disk.aside(place.parent)
        os.replace(place, aside)
        try:
            if disk.hash_of(aside) != expected:
                raise Conflict(f"{path}: the file was changed by somebody else meanwhile.", "Read it again and repeat; nothing was erased.")
            aside.unlink()
        except BaseException:
            for name in names.numbered(place.name):
                with contextlib.suppress(FileExistsError, FileNotFoundError):
                    disk.take(aside, place.with_name(name))
                    break
            raise
        disk.sync_folder(place.parent)


def changed(path: str) -> Conflict:
    """Return what is raised for a file that is not what was expected."""
    return Conflict(f"{path}: the file was changed by somebody else meanwhile.", "Read it again and repeat; nothing was written.")


def taken(path: str) -> Conflict:
    """Return what is raised for a path that is not free."""
    return Conflict(f"{path}: something else is there.", "Move it away and repeat; nothing was written.")


def mode_of(place: Path) -> int:
    """Return the permissions of a file, those of a new one if it is gone."""
    try:
        return stat.S_IMODE(os.stat(place).st_mode)
    except OSError:
        return 0o644


def _is_logged(path: str, place: Path) -> bool:
    """Say whether the journal is told of the file at `place`, which goes by `path`: of a note that can be read, also in the trash."""
    return path[-3:].lower() == ".md" and _size(place) <= MOST_BYTES


def _size(place: Path) -> int:
    """The bytes of a file, 0 if it is gone."""
    try:
        return place.stat().st_size
    except OSError:
        return 0
