"""
The vault: the only room that touches note files.

Every write leaves either the old file or the new one, whole, whatever happens
in between, and a file that somebody changed meanwhile is never written over.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from spellbook.errors import InvalidInput, MemoryNotFound, SpellbookError, UnreadableNote
from spellbook.system import disk
from spellbook.vault import names
from spellbook.vault.folder import digest
from spellbook.vault.ignored import IGNORE_FILE
from spellbook.vault.journal import Change, Journal, Trace, net
from spellbook.vault.listing import Listing
from spellbook.vault.rules import TRASH
from spellbook.vault.trash import Trash
from spellbook.vault.writer import Writer, mode_of, taken

__all__ = ["IGNORE_FILE", "TRASH", "UNDER_WAY", "Listing", "Vault", "digest"]

UNDER_WAY = "moving.json"
"""In the state folder: which move has begun and is not done; see `moves`."""

_TRIES = 5

_log = logging.getLogger(__name__)


class Vault(Writer):
    """
    The folder of notes at `root`, an existing real path.

    `state` is a folder for the lock between writers and for the journal, which
    is told of every change before it is made.
    """

    def __init__(self, root: Path, state: Path, journal: Journal | None = None) -> None:
        super().__init__(root, state, journal)
        self.trash = Trash(self)

    @contextlib.contextmanager
    def change(
        self,
        verb: str,
        what: str = "",
        *,
        undoes: int | None = None,
        for_good: bool = False,
        always: bool = False,
        resumes: bool = False,
    ) -> Iterator[list[str]]:
        """
        Make all that this thread writes inside one change: logged as one, undone as one, taken back if it ends in an error.

        Of what is changed `for_good` nothing is kept, so it is neither. With `always` it is logged even if no note changes.
        One that `resumes` goes on with what a kill cut short. Yields the list that warnings of what is written come into.
        """
        with self.journal.entry(verb, what, undoes=undoes, for_good=for_good, always=always, resumes=resumes) as draft:
            before = set(draft.made)
            try:
                yield draft.warnings
            except BaseException:
                self._take_back([trace for number, trace in draft.made.items() if number not in before])
                raise

    def _take_back(self, traces: Sequence[Trace]) -> None:
        for trace in reversed(net(traces)):
            data = self.journal.text(trace.before) if trace.before else None
            try:
                if data is not None or trace.before is None:
                    self.put(trace.path, data, trace.after, trace.mode)
            except SpellbookError as error:
                _log.warning("A change that failed half-way could not be taken back: %s", error)

    def put(self, path: str, data: bytes | None, expected: str | None, mode: int = 0o644) -> None:
        """
        Make the file at `path` hold `data`, or be none, if what is there now hashes to `expected`; None is no file.

        `mode` is for a file that is made. Raises Conflict, with nothing done, if
        something else is there.
        """
        self.check_target(path)
        if expected is not None and data is not None:
            self.write(path, data, expected)
        elif expected is not None:
            self.remove(path, expected, hard=True)
        elif data is not None:
            folder, _, name = path.rpartition("/")
            if not self.claimed(self.locate(path).parent, data, mode, iter([f"{folder}/{name}".lstrip("/")])):
                raise taken(path)

    def move(self, path: str, to: str, expected: str) -> None:
        """
        Give a file another path, with its mode and times, if its bytes hash to `expected` and nothing has that path.

        Raises Conflict, with nothing done, if not.
        """
        source, target = self.locate(path), self.locate(to)
        self.check_target(to)
        with self.alone():
            data = self.expect(path, expected)
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                if self.moved(source, data, iter([to])) is None:
                    raise taken(to)
            except OSError as error:
                raise disk.storage_error(to, error) from error

    def relocate(self, path: str, to: str) -> None:
        """
        Give a file, or a folder with all that is in it, another path, if nothing has that path.

        The journal is told of notes alone; `moves` takes whole moves back.
        Raises Conflict, with nothing done, if something is there.
        """
        source, target = self.locate(path), self.locate(to)
        self.check_target(to)
        with self.alone():
            changes: list[Change] = []
            for each in self.files(path) if source.is_dir() else [path]:
                with contextlib.suppress(UnreadableNote):
                    if names.is_note(each):
                        data = self.read(each)[0]
                        new = Change(to + each[len(path) :], None, data, links=())
                        changes += [Change(each, data, None, mode_of(self.locate(each))), new]
            try:
                with self.noted(*changes):
                    _rename(source, target)
            except FileExistsError as error:
                raise taken(to) from error
            except FileNotFoundError as error:
                raise MemoryNotFound(f"{path}: it is gone.", "Somebody moved or deleted it in this moment; nothing was moved.") from error
            except OSError as error:
                raise disk.storage_error(to, error) from error

    def create(self, folder: str, name: str, data: bytes) -> str:
        """
        Write a new note `<folder>/<name>.md`, numbered if the name is taken, and return its path.

        `folder` and `name` may hold anything; what a system or Obsidian
        forbids in names is replaced.
        """
        self.check_folder(folder)
        return self.created(names.safe_parts(folder), name, data)

    def check_folder(self, folder: str) -> None:
        """Raise PathOutsideVault or InvalidInput if notes that `create` would write to `folder` could not be kept, or not found."""
        path = "/".join([*names.safe_parts(folder), "x.md"])
        self.check_target(path)
        if not self.is_note(path):
            raise InvalidInput(f"{IGNORE_FILE} leaves out {folder[:200]!r}.", "What is written there is never found: choose another topic.")

    def remove(self, path: str, expected: str, *, hard: bool = False) -> str | None:
        """
        Move a note to the trash and return its path there, or delete it for good with `hard`.

        Raises Conflict, with nothing done, if its bytes do not hash to `expected`.
        """
        with self.alone():
            data = self.held(path, expected)
            try:
                if hard:
                    with self.noted(*[Change(path, data, None, mode_of(self.locate(path)))] if data is not None else []):
                        self.unlink(path, expected)
                    return None
                return self.trash.take(path, data)
            except FileNotFoundError as error:
                raise MemoryNotFound(f"{path}: no such note in {self.root}.", "It may be gone already.") from error
            except OSError as error:
                raise disk.storage_error(path, error) from error


def _rename(source: Path, target: Path) -> None:
    """Rename a file or a folder, whatever becomes of empty folders meanwhile. Raises what `_renamed` raises."""
    for left in reversed(range(_TRIES)):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _renamed(source, target)
            return
        except FileNotFoundError:  # somebody may have cleared away the folder that was to take it in
            if not left or not os.path.lexists(source):
                raise


def _renamed(source: Path, target: Path) -> None:
    """Rename a file or a folder. Raises FileExistsError if the name is taken by anything but itself in other letters."""
    is_there = os.path.lexists(target)
    if is_there and not disk.is_same_name(source, target):
        raise FileExistsError(target)
    if is_there or source.is_dir():
        os.rename(source, target)
        disk.sync_folder(source.parent)
        disk.sync_folder(target.parent)
    else:
        disk.take(source, target)
