"""Take files back to an earlier state, each whole: the steps of an undo, or of a change that failed."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from spellbook.system import disk, platform
from spellbook.system.errors import MemoryNotFound, PathOutsideVault, SpellbookError, UnreadableNote
from spellbook.vault import names
from spellbook.vault.entries import INODE
from spellbook.vault.folder import Folder
from spellbook.vault.journal import inode_of
from spellbook.vault.trash import Trash

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


def revert(trash: Trash, steps: Sequence[Step], *, hard: bool = False) -> None:
    """
    Make the steps. A file that only moved goes back with its times. Raises Conflict, StorageError.

    Added files other than notes go to the trash. With `hard` they are deleted, and errors are logged: the change
    failed.
    """
    _Return(trash, steps, hard).run()


class _Return:
    """
    The steps of one return: files that are `going` away, and files that are `coming` back.

    `sources` are the state and the path of the files that only move: going here, and coming back elsewhere.
    """

    def __init__(self, trash: Trash, steps: Sequence[Step], hard: bool) -> None:
        self.trash = trash
        self.vault = trash.vault
        self.hard = hard
        self.going = [step for step in steps if step.earlier is None]
        self.coming = [step for step in steps if step.earlier is not None]
        wanted = {step.earlier for step in self.coming}
        self.sources = [(step.now, step.path) for step in self.going if step.now in wanted]
        self.added = [step for step in self.going if step.now not in wanted]
        self.aside: set[str] = set()
        """Paths of files that went to their earlier place before another file came to theirs."""

    def run(self) -> None:
        """Clear the way, bring files back, then delete: a process that is killed leaves a text twice, never nowhere."""
        in_the_way = self._in_the_way()
        for step in in_the_way:
            with self._logged():
                self._remove(step)
        moves = {state for state, _ in self.sources}
        # Files that move first: they may stand where others come back.
        for step in sorted(self.coming, key=lambda step: (step.now is not None, step.earlier not in moves)):
            with self._logged():
                self._come(step)
        left = {path for _, path in self.sources}
        # While a file is not back, one that goes may hold its only copy. A copy in the trash may come back by itself.
        files = [each for each in self.coming if each.now is None and not each.path.startswith(f"{names.TRASH}/")]
        is_back = all(each.earlier in states(self.vault, each.path) for each in files)
        for step in self.going if is_back else []:
            if step.path in left or (step in self.added and step not in in_the_way):
                with self._logged():
                    self._remove(step)

    def _in_the_way(self) -> list[Step]:
        """Return the added files that stand where a folder comes back, or in a folder where a file does."""
        homes = {step.path for step in self.coming}
        folders = {folder for path in homes for folder in names.folders_of(path)}
        return [step for step in self.added if step.path in folders or homes.intersection(names.folders_of(step.path))]

    @contextlib.contextmanager
    def _logged(self) -> Iterator[None]:
        """Log errors of reverting a failed change, whose own error is raised; else raise them."""
        try:
            yield
        except (SpellbookError, OSError) as error:
            if not self.hard:
                raise
            _log.warning("A change that failed half-way could not be taken back: %s", error)

    def _remove(self, step: Step) -> None:
        """Remove a file, for good if the journal or the trash has it, and the folders that are empty then."""
        if step.now is None:
            return
        is_kept = self.vault.journal.text(step.now) is not None or step.path.startswith(f"{names.TRASH}/")
        self.trash.remove(step.path, step.now, hard=self.hard or is_kept)
        with contextlib.suppress(OSError):
            for folder in names.folders_of(step.path):
                (self.vault.root / folder).rmdir()  # until one is not empty

    def _come(self, step: Step) -> None:
        """Bring a file back, or move it there from the place of another one that comes back, too."""
        other = next((other for other in self.coming if other.now == step.earlier), None)
        if other is None or step.now is not None:
            self._bring_back(step._replace(now=None) if step.path in self.aside else step)
        elif other.now and other.now.startswith(INODE):
            self.vault.move(other.path, step.path, other.now)
            self.aside.add(other.path)
        # Else the other file is copied to the trash when it is replaced.

    def _bring_back(self, step: Step) -> None:
        earlier = step.earlier or ""
        source = next((path for state, path in self.sources if state == earlier), None) if step.text is None else None
        if source is not None and (step.now is None or earlier.startswith(INODE)):
            self._remove(step)
            self._clear_folder(step.path)
            self.vault.move(source, step.path, earlier)
            self.sources.remove((earlier, source))
        elif (text := step.text or self.vault.journal.text(earlier)) is not None:
            self.vault.put(step.path, text, step.now, step.mode)
            if step.now is not None:
                with contextlib.suppress(OSError):
                    os.chmod(self.vault.locate(step.path), step.mode)
        elif source is not None:
            self._copy(source, step)

    def _clear_folder(self, path: str) -> None:
        """Delete a folder that stands where a file comes back, without files but for those of a killed process."""
        place = self.vault.root.joinpath(*path.split("/"))
        if not place.is_dir() or platform.is_link(place):
            return
        for folder, _, files in reversed(list(platform.walk(place))):
            with contextlib.suppress(OSError):
                for name in filter(disk.TEMPORARY.fullmatch, files):
                    platform.remove(os.path.join(folder, name))
                os.rmdir(folder)

    def _copy(self, source: str, step: Step) -> None:
        """Copy a file that the journal does not keep to its earlier place; what is there goes to the trash."""
        if step.now is not None and not self.hard:
            self.trash.copy(step.path, step.now)
        old = self.vault.locate(source).stat()
        self.vault.place(
            step.path,
            self.vault.pieces(source),
            mode=old.st_mode,
            mtime_ns=old.st_mtime_ns,
            expected=step.now,
            own=True,
        )
