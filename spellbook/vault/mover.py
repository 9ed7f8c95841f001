"""Moves of files and folders: each by one rename, over nothing that is there, and recorded before it is made."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from spellbook.system import disk, platform
from spellbook.system.errors import MemoryNotFound, StorageError, UnreadableNote
from spellbook.vault import names
from spellbook.vault.entries import INODE, Change, moved
from spellbook.vault.journal import inode_of
from spellbook.vault.writer import Writer, gone, mode_of, taken

_TRIES = 5
"""Attempts to rename while another program deletes empty folders."""


class Mover(Writer):
    """A folder whose files and folders can be moved."""

    def move(self, path: str, to: str, expected: str = "") -> None:
        """
        Move a file or a folder, recorded with its notes, or alone if it has to have the state `expected`.

        Raises Conflict, nothing done, if it has another state, or if `to` is taken.
        """
        # A link may lead out of the vault, and is moved itself.
        source = self.root.joinpath(*path.split("/")) if expected.startswith(INODE) else self.locate(path)
        self.check_here(path)
        self.locate(to)
        self.check_target(to)
        with self.exclusive(), disk.explain_errors(to):
            changes = self._changes_of(source, path, to, expected)
            moves = self.journal.draft.moves if self.journal.draft and not expected else []
            moves.append((path, to))  # first: an interrupt may come right after the rename
            try:
                with self.record(*changes):
                    self._rename(source, to)
            except Exception as error:
                moves.pop()
                if isinstance(error, FileExistsError):
                    raise taken(to) from error
                if isinstance(error, FileNotFoundError):
                    raise gone(path) from error
                raise

    def _changes_of(self, source: Path, path: str, to: str, expected: str) -> list[Change]:
        """
        Return the changes of a move: of the file that has the state `expected`; else of a note or a canvas, or of
        another file or a folder first, and then of each note and canvas in it. Raises Conflict.
        """
        if expected:
            return [*moved(path, to, self.read_for_log(path, expected), mode_of(source))]
        changes: list[Change] = []
        is_folder = source.is_dir()
        for file in self.files(path) if is_folder else [path]:
            with contextlib.suppress(UnreadableNote, MemoryNotFound):  # a symbolic link may lead nowhere
                if names.is_note(file) or file.endswith(names.CANVAS):
                    data = self.read(file)[0]
                    changes += moved(file, to + file[len(path) :], data, mode_of(self.locate(file)))
        if (is_folder or not changes) and os.path.lexists(source):
            changes = [*moved(path, to, inode_of(source)), *changes]
        return changes

    def _rename(self, source: Path, to: str) -> None:
        """
        Rename a file or a folder, again if its new folder is deleted meanwhile.

        Raises FileExistsError if the name is taken, except by itself in another case.
        """
        for left in reversed(range(_TRIES)):
            try:
                self.make(to.rpartition("/")[0])
                target = self.root.joinpath(*to.split("/"))
                is_same = os.path.lexists(target) and disk.is_same_name(source, target)
                with self.anchored(source) as here, self.anchored(target) as there:
                    if is_same:
                        platform.rename(here, there)
                        disk.sync_folder(here.parent)
                        disk.sync_folder(there.parent)
                    else:
                        disk.take(here, there)
                return
            except FileNotFoundError:  # another program may have deleted the new folder
                if not left or not os.path.lexists(source):
                    raise

    def move_numbered(self, source: Path, data: bytes | str, to: str) -> str:
        """Move a file with the bytes or the state `data` to `to`, or to a numbered path beside it if that is taken."""
        folder, _, name = to.rpartition("/")
        self.make(folder)
        path = source.relative_to(self.root).as_posix()
        for free in names.numbered(to):
            self.check_here(free)
            if os.path.lexists(self.root.joinpath(*free.split("/"))):
                continue
            with contextlib.suppress(FileExistsError), self.record(*moved(path, free, data, mode_of(source))):
                self._rename(source, free)
                return free
        raise StorageError(f"{folder}: 10,000 files are called {name}.", "Empty the trash.")
