"""Reverse changes: notes by the journal's texts, other replaced or removed files from the trash."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spellbook.system import disk
from spellbook.system.errors import MemoryNotFound, PathOutsideVault, SpellbookError, UnreadableNote
from spellbook.vault import rules
from spellbook.vault.folder import Folder
from spellbook.vault.journal import INODE, inode_of
from spellbook.vault.rules import TRASH
from spellbook.vault.trash import Trash
from spellbook.vault.writer import Writer

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Step:
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


def revert(vault: Writer, steps: Sequence[Step], *, hard: bool = False) -> None:
    """
    Make the steps. A file that only moved goes back with its times. Raises Conflict, StorageError.

    Added files other than notes go to the trash. With `hard` they are deleted, and errors are logged: the change
    failed.
    """
    trash = Trash(vault)
    going = [step for step in steps if step.earlier is None]
    coming = [step for step in steps if step.earlier is not None]
    wanted = {step.earlier for step in coming}
    aside: set[str] = set()
    sources = [(step.now, step.path) for step in going if step.now in wanted]
    homes = {step.path for step in coming}
    folders = {folder for path in homes for folder in rules.folders_of(path)}
    added = [step for step in going if step.now not in wanted]
    in_the_way = [step for step in added if step.path in folders or homes.intersection(rules.folders_of(step.path))]
    for step in in_the_way:
        with _logged(hard):
            _remove(trash, step, hard=hard)
    moves = {state for state, _ in sources}
    # Files that move first: they may stand where others come back.
    for step in sorted(coming, key=lambda step: (step.now is not None, step.earlier not in moves)):
        with _logged(hard):
            other = next((other for other in coming if other.now == step.earlier), None)
            if other is None or step.now is not None:
                is_gone = step.path in aside
                _bring_back(trash, replace(step, now=None) if is_gone else step, sources, hard=hard)
            elif other.now and other.now.startswith(INODE):
                vault.move(other.path, step.path, other.now)
                aside.add(other.path)
            # Else the other file is copied to the trash when it is replaced.
    # Deletions come last: a process that is killed leaves a text twice, never nowhere.
    left = {path for _, path in sources}
    for step in going:
        if step.path in left or (step in added and step not in in_the_way):
            with _logged(hard):
                _remove(trash, step, hard=hard)


@contextlib.contextmanager
def _logged(is_failure: bool) -> Iterator[None]:
    """Log errors of reverting a failed change, whose own error is raised; else raise them."""
    try:
        yield
    except (SpellbookError, OSError) as error:
        if not is_failure:
            raise
        _log.warning("A change that failed half-way could not be taken back: %s", error)


def _remove(trash: Trash, step: Step, *, hard: bool) -> None:
    if step.now is None:
        return
    is_kept = trash.vault.journal.text(step.now) is not None or step.path.startswith(f"{TRASH}/")
    trash.remove(step.path, step.now, hard=hard or is_kept)
    with contextlib.suppress(OSError):
        for folder in rules.folders_of(step.path):
            (trash.vault.root / folder).rmdir()  # until one is not empty


def _remove_empty(place: Path) -> None:
    """Remove a folder in the way that holds no file, but for temporary ones of a killed process."""
    if place.is_dir() and not place.is_symlink():
        for folder, _, files in os.walk(place, topdown=False):
            with contextlib.suppress(OSError):
                for name in filter(disk.TEMPORARY.fullmatch, files):
                    os.unlink(os.path.join(folder, name))
                os.rmdir(folder)


def _bring_back(trash: Trash, step: Step, sources: list[tuple[str | None, str]], *, hard: bool) -> None:
    vault, earlier = trash.vault, step.earlier or ""
    source = next((path for state, path in sources if state == earlier), None) if step.text is None else None
    if source is not None and (step.now is None or earlier.startswith(INODE)):
        _remove(trash, step, hard=hard)
        _remove_empty(vault.root.joinpath(*step.path.split("/")))
        vault.move(source, step.path, earlier)
        sources.remove((earlier, source))
    elif (text := step.text or vault.journal.text(earlier)) is not None:
        vault.put(step.path, text, step.now, step.mode)
        if step.now is not None:
            with contextlib.suppress(OSError):
                os.chmod(vault.locate(step.path), step.mode)
    elif source is not None:
        if step.now is not None and not hard:
            trash.copy(step.path, step.now)
        vault.check_target(step.path)
        old, pieces = vault.locate(source).stat(), vault.pieces(source)
        vault.place(step.path, pieces, mode=old.st_mode, mtime_ns=old.st_mtime_ns, expected=step.now, own=True)
