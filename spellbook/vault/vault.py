"""The vault: a folder of notes that is changed by whole entries of its journal, and has a trash."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from spellbook.system import disk, platform
from spellbook.system.errors import (
    InvalidInput,
    MemoryNotFound,
    UnreadableNote,
)
from spellbook.vault import names
from spellbook.vault.entries import Change
from spellbook.vault.journal import inode_of, net
from spellbook.vault.names import IGNORE_FILE
from spellbook.vault.obsidian import SETTINGS
from spellbook.vault.revert import Step, revert
from spellbook.vault.trash import Trash
from spellbook.vault.writer import Writer, gone, mode_of, taken

_TRIES = 5
"""Attempts to rename while another program deletes empty folders."""


class Vault(Writer):
    """The folder `root` of notes that can be changed; `state` holds the write lock and the journal of all changes."""

    @cached_property
    def trash(self) -> Trash:
        """Where erased and replaced files go."""
        return Trash(self)

    @contextlib.contextmanager
    def change(
        self,
        verb: str,
        what: str = "",
        *,
        undoes: int | None = None,
        for_good: bool = False,
        session: str = "",
        again: bool = False,
    ) -> Iterator[None]:
        """
        Record what this thread writes as one entry (see `Journal.entry`), reverted if it ends in an error.

        With `again` it may write what was erased, and takes its tombstones away; see `check_erased`.
        """
        with self.journal.entry(verb, what, undoes=undoes, for_good=for_good, session=session) as draft:
            draft.again |= again
            before = set(draft.made)
            try:
                yield
                if draft.lifted:
                    self.tombstones.lift(draft.lifted)
            except BaseException:
                made = net([trace for number, trace in draft.made.items() if number not in before])
                with self.journal.reverting():
                    steps = [Step(trace.path, trace.after, trace.before, trace.mode) for trace in reversed(made)]
                    revert(self.trash, steps, hard=True)
                raise

    def relocate(self, path: str, to: str) -> None:
        """Move a file or a folder, recorded with its notes. Raises Conflict, nothing done, if `to` is taken."""
        source = self.locate(path)
        self.check_here(path)
        self.locate(to)
        self.check_target(to)
        with self.exclusive(), disk.explain_errors(to):
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
                with self.record(*changes):
                    self._rename(source, to)
            except FileExistsError as error:
                raise taken(to) from error
            except FileNotFoundError as error:
                raise gone(path) from error

    def _rename(self, source: Path, to: str) -> None:
        """
        Rename a file or a folder, again if its new folder is deleted meanwhile.

        Raises FileExistsError if the name is taken, except by itself in another case.
        """
        for left in reversed(range(_TRIES)):
            try:
                self.make(to.rpartition("/")[0])
                target = self.root.joinpath(*to.split("/"))
                is_there = os.path.lexists(target)
                if is_there and not disk.is_same_name(source, target):
                    raise FileExistsError(target)
                with self.anchored(source) as here, self.anchored(target) as there:
                    if is_there or source.is_dir():
                        platform.rename(here, there)
                        disk.sync_folder(here.parent)
                        disk.sync_folder(there.parent)
                    else:
                        disk.take(here, there)
                return
            except FileNotFoundError:  # another program may have deleted the new folder
                if not left or not os.path.lexists(source):
                    raise

    def create(self, folder: str, name: str, data: bytes) -> str:
        """
        Write a new note `<folder>/<name>.md` and return its path in the vault.

        Characters that file systems refuse are replaced, and a number is added to a used name. Raises as `check_new`
        does, and StorageError.
        """
        self.check_new(folder, name)
        return self.write_numbered(names.safe_parts(folder), name, data)

    def check_new(self, folder: str, name: str) -> None:
        """Raise PathOutsideVault or InvalidInput if a note of this name cannot be written, or would be ignored."""
        path = "/".join([*names.safe_parts(folder), f"{names.note_name(name, names.MOST_NEW - 3)}.md"])
        self.check_target(path)
        if not self.is_note(path):
            raise InvalidInput(
                f"{IGNORE_FILE if self.ignores(path) else SETTINGS} leaves out {path[:200]!r}.",
                "What is written there is never found: choose another topic or title.",
            )
