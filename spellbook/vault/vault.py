"""
The vault: the only package that changes note files.

Every write leaves either the old file or the new one, complete, even after a
crash. A file that another program changed in the meantime is never overwritten.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from spellbook.system import disk
from spellbook.system.errors import InvalidInput, MemoryNotFound, SpellbookError, StorageError, UnreadableNote
from spellbook.vault import names, reversal, rules
from spellbook.vault.folder import Folder, digest
from spellbook.vault.ignored import IGNORE_FILE
from spellbook.vault.journal import INODE, Change, EntryOptions, Journal, Trace, inode_of, net
from spellbook.vault.listing import Listing
from spellbook.vault.obsidian import SETTINGS
from spellbook.vault.reversal import Step
from spellbook.vault.rules import TRASH
from spellbook.vault.trash import Trash
from spellbook.vault.writer import AT_ONCE, NoWriter, Writer, gone, is_logged, mode_of, taken

__all__ = ["IGNORE_FILE", "TRASH", "Listing", "Vault", "digest"]

_TRIES = 5
"""Attempts to rename while another program deletes empty folders."""


class Vault(Folder):
    """The folder `root` of notes that can be changed; `state` holds the write lock and the journal of all changes."""

    def __init__(
        self,
        root: Path,
        state: Path,
        journal: Journal | None = None,
        known: Callable[[], int] = lambda: 0,
        writer: type[Writer] = Writer,
        *,
        obsidian: bool = False,
    ) -> None:
        super().__init__(root, known, obsidian=obsidian)
        self.journal = journal or Journal(state)
        self._writer = writer(self, state, self.journal)
        self.trash = Trash(self, self._writer)

    @property
    def is_only_read(self) -> bool:
        """Whether it has no writer; such notes may come and go as others make them, and nothing is lost."""
        return isinstance(self._writer, NoWriter)

    @contextlib.contextmanager
    def change(self, verb: str, what: str = "", **options: Unpack[EntryOptions]) -> Iterator[None]:
        """Record what this thread writes as one entry, reverted if it ends in an error."""
        with self.journal.entry(verb, what, **options) as draft:
            before = set(draft.made)
            try:
                yield
            except BaseException:
                with self.journal.reverting():
                    self._take_back([trace for number, trace in draft.made.items() if number not in before])
                raise

    def _take_back(self, traces: Sequence[Trace]) -> None:
        steps = [Step(trace.path, trace.after, trace.before, trace.mode) for trace in reversed(net(traces))]
        reversal.revert(self, steps, hard=True)

    def write(self, path: str, data: bytes, expected: str) -> None:
        """Replace the file's bytes by `data`. Raises Conflict, nothing written, if their `digest` is not `expected`."""
        for error in self.write_all({path: (data, expected)}).values():
            raise error

    def write_all(self, texts: Mapping[str, tuple[bytes, str]]) -> dict[str, SpellbookError]:
        """
        Replace the bytes of many notes, in parallel; return the error of each path that could not be written.

        `texts` has for each path the new bytes and the `digest` of the present ones; where that differs, the error is
        a Conflict and the file stays as it is.
        """
        from concurrent.futures import ThreadPoolExecutor

        failed: dict[str, SpellbookError] = {}
        changes: list[Change] = []
        with self._writer.exclusive():
            for path, (data, expected) in texts.items():
                try:
                    before, mode = self._writer.expect(path, expected), mode_of(self.locate(path))
                    changes.append(Change(path, before, data, mode))
                except SpellbookError as error:
                    failed[path] = error
            numbers = self.journal.note(changes) if changes else []
            with ThreadPoolExecutor(min(AT_ONCE, len(changes) or 1)) as pool:
                reasons = pool.map(
                    lambda change: self._writer.replace(
                        change.path, texts[change.path][0], change.mode, texts[change.path][1]
                    ),
                    changes,
                )
                for change, number, reason in zip(changes, numbers, reasons, strict=True):
                    if reason is not None:
                        failed[change.path] = reason
                        with contextlib.suppress(StorageError):
                            self.journal.retract([number])
                [*pool.map(disk.sync_folder, {self._writer.real(change.path).parent for change in changes})]
        return failed

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
        are restricted by `rules`. Neither applies to the vault's `own` files, on their way to or from the trash.
        If `pieces` raises, nothing is written. The journal keeps the texts of notes, and of other files only hashes.
        Without `sync`, the caller syncs the folder after placing many files.
        """
        place = Path(os.path.realpath(self.locate(path, known=True))) if own else self.admitted(path)
        with self._writer.exclusive(), disk.explain_errors(path):
            try:
                self.make(place.parent.relative_to(self.root).as_posix())
                mode = mode_of(place) if mode is None and expected is not None else mode
                if mode is not None:
                    mode = mode & 0o777 | 0o600 if own else rules.permissions(mode)
                hashed = disk.Hashed(pieces)
                with disk.written(place.parent, hashed, mode) as temporary:
                    if mtime_ns is not None:
                        disk.set_time(temporary, mtime_ns)
                    before = None if expected is None else self._writer.read_for_log(path, expected)
                    after = temporary.read_bytes() if is_logged(path, temporary) else hashed.sha256
                    with self._writer.record(Change(path, before, after, mode_of(place))):
                        if expected is None:
                            disk.claim(temporary, place)
                        else:
                            self._writer.swap(path, temporary, place, expected)
                if sync:
                    disk.sync_folder(place.parent)
            except FileExistsError as error:
                raise taken(path) from error

    def put(self, path: str, data: bytes, expected: str | None, mode: int = 0o644) -> None:
        """Write `data`, with `mode` if new. Raises Conflict if the hash is not `expected`; None is no file."""
        self.check_target(path)
        if expected is not None:
            self.write(path, data, expected)
        elif not self._writer.write_new(self.locate(path).parent, data, mode, iter([path])):
            raise taken(path)

    def move(self, path: str, to: str, expected: str) -> None:
        """
        Move a file with its mode and times, or whatever else the state `expected` of a `Trace` means.

        Raises Conflict, nothing done, if it changed or `to` is taken.
        """
        source = self.root.joinpath(*path.split("/")) if expected.startswith(INODE) else self.locate(path)
        self.locate(to)
        self.check_target(to)
        with self._writer.exclusive(), disk.explain_errors(to):
            data = self._writer.read_for_log(path, expected)
            self.make(to.rpartition("/")[0])
            if self._writer.move(source, data, iter([to])) is None:
                raise taken(to)

    def relocate(self, path: str, to: str) -> None:
        """Move a file or a folder, recorded with its notes. Raises Conflict, nothing done, if `to` is taken."""
        source = self.locate(path)
        self.check_here(path)
        self.locate(to)
        self.check_target(to)
        with self._writer.exclusive(), disk.explain_errors(to):
            changes: list[Change] = []
            for note in self.files(path) if source.is_dir() else [path]:
                with contextlib.suppress(UnreadableNote, MemoryNotFound):  # a symbolic link may lead nowhere
                    if names.is_note(note) or note.endswith(names.CANVAS):
                        data = self.read(note)[0]
                        new = Change(to + note[len(path) :], None, data)
                        changes += [Change(note, data, None, mode_of(self.locate(note))), new]
            if (source.is_dir() or not changes) and os.path.lexists(source):
                inode = inode_of(source)
                changes = [Change(path, inode, None), Change(to, None, inode), *changes]
            try:
                with self._writer.record(*changes):
                    self._rename(source, to)
            except FileExistsError as error:
                raise taken(to) from error
            except FileNotFoundError as error:
                raise gone(path) from error

    def _rename(self, source: Path, to: str) -> None:
        """Rename a file or a folder, again if its new folder is deleted meanwhile. Raises as `_rename_free` does."""
        for left in reversed(range(_TRIES)):
            try:
                self.make(to.rpartition("/")[0])
                _rename_free(source, self.root.joinpath(*to.split("/")))
                return
            except FileNotFoundError:  # another program may have deleted the new folder
                if not left or not os.path.lexists(source):
                    raise

    def create(self, folder: str, name: str, data: bytes) -> str:
        """
        Write a new note `<folder>/<name>.md` and return its path in the vault.

        Characters that file systems refuse are replaced, and a number is added to a name that is taken. Raises as
        `check_new` does, and StorageError if the disk fails.
        """
        self.check_new(folder, name)
        return self._writer.create(names.safe_parts(folder), name, data)

    def check_new(self, folder: str, name: str) -> None:
        """Raise PathOutsideVault or InvalidInput if a note of this name cannot be written, or would be ignored."""
        path = "/".join([*names.safe_parts(folder), f"{names.safe_name(name, names.MOST_NEW - 3)}.md"])
        self.check_target(path)
        if not self.is_note(path):
            raise InvalidInput(
                f"{IGNORE_FILE if self.ignores(path) else SETTINGS} leaves out {path[:200]!r}.",
                "What is written there is never found: choose another topic or title.",
            )

    def remove(self, path: str, expected: str, *, hard: bool = False) -> str | None:
        """Move a file to the trash and return its path there, or delete it (`hard`). Raises Conflict."""
        with self._writer.exclusive(), disk.explain_errors(path):
            data = self._writer.read_for_log(path, expected)
            try:
                if not hard:
                    return self.trash.take(path, data)
                with self._writer.record(Change(path, data, None, mode_of(self.locate(path)))):
                    self._writer.unlink(path, expected)
                return None
            except FileNotFoundError as error:
                raise MemoryNotFound(f"{path}: no such note in {self.root}.", "It may be gone already.") from error


def _rename_free(source: Path, target: Path) -> None:
    """Rename a file or a folder. Raises FileExistsError if the name is taken, except by itself in another case."""
    is_there = os.path.lexists(target)
    if is_there and not disk.is_same_name(source, target):
        raise FileExistsError(target)
    if is_there or source.is_dir():
        os.rename(source, target)
        disk.sync_folder(source.parent)
        disk.sync_folder(target.parent)
    else:
        disk.take(source, target)
