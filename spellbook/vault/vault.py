"""The vault: a folder of notes that is changed by whole entries of its journal, and has a trash."""

from __future__ import annotations

import contextlib
import logging
import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from spellbook.notes.labels import INBOX, MEMORY
from spellbook.system import disk, platform
from spellbook.system.errors import (
    Conflict,
    InvalidInput,
    MemoryNotFound,
    PathOutsideVault,
    SpellbookError,
    UnreadableNote,
)
from spellbook.system.lazy import regex
from spellbook.text.unicode import composed, folded
from spellbook.vault import names
from spellbook.vault.folder import Folder, digest
from spellbook.vault.journal import INODE, Change, inode_of, net
from spellbook.vault.listing import Listing
from spellbook.vault.names import IGNORE_FILE, TRASH
from spellbook.vault.obsidian import SETTINGS, new_notes
from spellbook.vault.writer import Writer, changed, gone, mode_of, taken

_log = logging.getLogger(__name__)


class Step(NamedTuple):
    """A file, its present and its earlier state, as in a `Trace`; `text` if the journal does not know that."""

    path: str
    now: str | None
    earlier: str | None
    mode: int
    text: bytes | None = None


def states(vault: Folder, path: str) -> set[str]:
    """Return the states that a trace may name for the file at `path`, none if there is nothing."""
    place = vault.root.joinpath(*path.split("/"))
    found: set[str] = set()
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        found.add(inode_of(place))
        if place.is_file():
            with contextlib.suppress(MemoryNotFound, PathOutsideVault, UnreadableNote):
                found.add(vault.hash(path))
    return found


def revert(vault: Vault, steps: Sequence[Step], *, hard: bool = False) -> None:
    """
    Make the steps. A file that only moved goes back with its times. Raises Conflict, StorageError.

    Added files other than notes go to the trash. With `hard` they are deleted, and errors are logged: the change
    failed.
    """
    going = [step for step in steps if step.earlier is None]
    coming = [step for step in steps if step.earlier is not None]
    wanted = {step.earlier for step in coming}
    aside: set[str] = set()
    sources = [(step.now, step.path) for step in going if step.now in wanted]
    homes = {step.path for step in coming}
    folders = {folder for path in homes for folder in names.folders_of(path)}
    added = [step for step in going if step.now not in wanted]
    in_the_way = [step for step in added if step.path in folders or homes.intersection(names.folders_of(step.path))]
    for step in in_the_way:
        with _logged(hard):
            _remove(vault, step, hard=hard)
    moves = {state for state, _ in sources}
    # Files that move first: they may stand where others come back.
    for step in sorted(coming, key=lambda step: (step.now is not None, step.earlier not in moves)):
        with _logged(hard):
            other = next((other for other in coming if other.now == step.earlier), None)
            if other is None or step.now is not None:
                is_gone = step.path in aside
                _bring_back(vault, step._replace(now=None) if is_gone else step, sources, hard=hard)
            elif other.now and other.now.startswith(INODE):
                vault.move(other.path, step.path, other.now)
                aside.add(other.path)
            # Else the other file is copied to the trash when it is replaced.
    # Deletions come last: a process that is killed leaves a text twice, never nowhere.
    left = {path for _, path in sources}
    for step in going:
        if step.path in left or (step in added and step not in in_the_way):
            with _logged(hard):
                _remove(vault, step, hard=hard)


@contextlib.contextmanager
def _logged(is_failure: bool) -> Iterator[None]:
    """Log errors of reverting a failed change, whose own error is raised; else raise them."""
    try:
        yield
    except (SpellbookError, OSError) as error:
        if not is_failure:
            raise
        _log.warning("A change that failed half-way could not be taken back: %s", error)


def _remove(vault: Vault, step: Step, *, hard: bool) -> None:
    if step.now is None:
        return
    is_kept = vault.journal.text(step.now) is not None or step.path.startswith(f"{TRASH}/")
    vault.remove(step.path, step.now, hard=hard or is_kept)
    with contextlib.suppress(OSError):
        for folder in names.folders_of(step.path):
            (vault.root / folder).rmdir()  # until one is not empty


def _bring_back(vault: Vault, step: Step, sources: list[tuple[str | None, str]], *, hard: bool) -> None:
    earlier = step.earlier or ""
    source = next((path for state, path in sources if state == earlier), None) if step.text is None else None
    if source is not None and (step.now is None or earlier.startswith(INODE)):
        _remove(vault, step, hard=hard)
        place = vault.root.joinpath(*step.path.split("/"))
        if place.is_dir() and not platform.is_link(place):  # in the way, without files but for a killed process's
            for folder, _, files in reversed(list(platform.walk(place))):
                with contextlib.suppress(OSError):
                    for name in filter(disk.TEMPORARY.fullmatch, files):
                        platform.remove(os.path.join(folder, name))
                    os.rmdir(folder)
        vault.move(source, step.path, earlier)
        sources.remove((earlier, source))
    elif (text := step.text or vault.journal.text(earlier)) is not None:
        vault.put(step.path, text, step.now, step.mode)
        if step.now is not None:
            with contextlib.suppress(OSError):
                os.chmod(vault.locate(step.path), step.mode)
    elif source is not None:
        if step.now is not None and not hard:
            vault.trash.copy(step.path, step.now)
        vault.check_target(step.path)
        old, pieces = vault.locate(source).stat(), vault.pieces(source)
        vault.place(step.path, pieces, mode=old.st_mode, mtime_ns=old.st_mtime_ns, expected=step.now, own=True)


class Trash:
    """The folder `.trash` in a vault."""

    def __init__(self, vault: Writer) -> None:
        self.vault = vault

    def set_aside(self, path: str) -> str:
        """Move the file, folder or link at `path` to the trash, and return its path there."""
        with self.vault.exclusive():
            return self.take(path, inode_of(self.vault.root / path))

    def take(self, path: str, data: bytes | str) -> str:
        """Move a file, a folder or a link with the bytes or the state `data` to the trash; return its path there."""
        target = f"{TRASH}/{path}"
        self.check()
        place = self.vault.root.joinpath(*path.split("/"))
        try:
            return self.vault.move_numbered(place, data, target)
        except (FileExistsError, NotADirectoryError):  # a file lies here where its folder would be
            return self.vault.move_numbered(place, data, f"{TRASH}/{place.name}")

    def check(self) -> None:
        """Raise PathOutsideVault if the trash is unusable: a file, or a link out of the vault."""
        place = self.vault.root / TRASH
        if not self.vault.holds(f"{TRASH}/x") or (os.path.lexists(place) and not place.is_dir()):
            raise PathOutsideVault(f"{TRASH} is a file, or leads out of the vault.", "Put a folder in its place.")

    def copy(self, path: str, expected: str) -> str:
        """Copy a file of hash `expected` to the trash, once; return its path there. Raises Conflict, MemoryNotFound."""
        vault = self.vault
        try:
            status = vault.locate(path).stat()
        except FileNotFoundError as error:
            raise gone(path) from error
        for name in names.numbered(f"{TRASH}/{path}"):
            if not vault.holds(name):
                break
            try:
                vault.place(name, vault.pieces(path), mode=status.st_mode, mtime_ns=status.st_mtime_ns, own=True)
            except Conflict:
                if vault.hash(name) != expected:
                    continue
            if vault.hash(name) != expected:
                raise changed(path)
            return name
        raise PathOutsideVault(f"{TRASH} leads out of the vault, or is full.", "Put an empty folder in its place.")

    def keep(self, path: str, name: str, data: bytes) -> str:
        """Write `data` to the trash, in the folder and with the mode of the note `path`, and return its path there."""
        parts = [TRASH, *path.split("/")[:-1]]
        return self.vault.write_numbered(parts, name, data, mode_of(self.vault.locate(path)))

    def restore(self, path: str) -> str:
        """Move a note from the trash, where `remove` put it, back; return its path, numbered if it is taken."""
        if not path.startswith(TRASH + "/"):
            raise InvalidInput(f"{path:.200}: not in the trash.", f"Give a path that begins with {TRASH}/.")
        home = path.removeprefix(TRASH + "/")
        if not names.is_note(home):
            raise InvalidInput(f"{path:.200}: not a note.", "Move it back by hand.")
        source = self.vault.locate(path, known=True)
        self.vault.admitted(home)
        with self.vault.exclusive(), disk.explain_errors(path):
            try:
                return self.vault.move_numbered(source, self.vault.read(path)[0], home)
            except (FileNotFoundError, MemoryNotFound) as error:
                raise MemoryNotFound(f"{path}: not in the trash.", f"Look into {self.vault.root / TRASH}.") from error


__all__ = ["IGNORE_FILE", "TRASH", "Listing", "Vault", "digest"]

_INBOX = regex(rf"[\W\d_]*(?:{INBOX}|인박스|수집함|받은 ?편지함)[\W_]*", re.I)
"""The name of an inbox: also `00 Inbox`, `_inbox` and `📥 Inbox`."""

_INBOX_LEVELS = 3
"""Levels of folders in which an inbox is looked for, as `areas/work/Inbox`. By hand: each folder there is listed."""

_MADE = {f"{MEMORY}/{INBOX}", f"knowledge/{INBOX}"}
"""Inboxes that Spellbook makes, and made in 0.3.0: none of the vault's own."""

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
        self, verb: str, what: str = "", *, undoes: int | None = None, for_good: bool = False, session: str = ""
    ) -> Iterator[None]:
        """Record what this thread writes as one entry (see `Journal.entry`), reverted if it ends in an error."""
        with self.journal.entry(verb, what, undoes=undoes, for_good=for_good, session=session) as draft:
            before = set(draft.made)
            try:
                yield
            except BaseException:
                made = net([trace for number, trace in draft.made.items() if number not in before])
                with self.journal.reverting():
                    steps = [Step(trace.path, trace.after, trace.before, trace.mode) for trace in reversed(made)]
                    revert(self, steps, hard=True)
                raise

    def remove(self, path: str, expected: str, *, hard: bool = False) -> str | None:
        """Move a file to the trash and return its path there, or delete it (`hard`). Raises Conflict."""
        with self.exclusive(), disk.explain_errors(path):
            try:
                if not hard:
                    return self.trash.take(path, self.read_for_log(path, expected))
                self.unlink(path, expected)
                return None
            except FileNotFoundError as error:
                raise MemoryNotFound(f"{path}: no such note in {self.root}.", "It may be gone already.") from error

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

    def inbox(self) -> str:
        """
        Return the vault's own folder for new notes, "" if there is none: nothing says so, or it cannot be used.

        It is the one that Obsidian's settings name, else the folder with the name of an inbox that is nearest to the
        top. Of several at equal depth none is taken.
        """
        levels = [[""]]
        for _ in range(_INBOX_LEVELS):
            levels.append([path for folder in levels[-1] for path in self._folders(folder)])
        named = new_notes(self.root) if self._obsidian else ""
        spelled = [path for level in levels for path in level if folded(path) == folded(named)]
        inboxes = ([each for each in level if _INBOX.fullmatch(each.rpartition("/")[2])] for level in levels)
        for found in ([*spelled, named][:1], *inboxes):
            if usable := [path for path in found if path and path not in _MADE and self._is_for_notes(path)]:
                return usable[0] if len(usable) == 1 else ""
        return ""

    def _folders(self, folder: str) -> list[str]:
        """Return the paths of the folders in a folder that Spellbook can name, but for hidden ones."""
        inside, found, _ = next(self._walk_names(folder), ("", [], []))
        return [path for name in found if (self.root / (path := composed(inside + name))).is_dir()]

    def _is_for_notes(self, folder: str) -> bool:
        """Say whether notes can be written to a folder, under just this path, and are then read."""
        with contextlib.suppress(PathOutsideVault, UnreadableNote, InvalidInput):
            self.check_new(folder, "x")
            above = [self.root / place for place in (folder, *names.folders_of(folder))]
            is_free = all(place.is_dir() or not os.path.lexists(place) for place in above)
            return is_free and "/".join(names.safe_parts(folder)) == folder
        return False

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
