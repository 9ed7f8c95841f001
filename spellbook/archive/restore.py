"""
Restore the files of a snapshot, all of them or none.

Everything that can be checked is checked first. Files in the way go to the trash. If a disk fails half-way, all
changes are reverted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from spellbook.archive.blobs import Blobs
from spellbook.archive.tree import BackupFile, tree
from spellbook.index.embed import Progress
from spellbook.notes.note import Fault
from spellbook.settings.paths import MARKER
from spellbook.system import disk
from spellbook.system.errors import (
    Conflict,
    InvalidInput,
    MemoryNotFound,
    PathOutsideVault,
    SpellbookError,
    StorageError,
)
from spellbook.text.quoting import counted
from spellbook.vault import rules
from spellbook.vault.folder import Folder
from spellbook.vault.ignored import IGNORE_FILE
from spellbook.vault.listing import shown
from spellbook.vault.rules import TRASH
from spellbook.vault.vault import Vault

_TRIES = 20
"""Attempts while editors save the same file."""

_MOST_NAMED = 5
"""Damaged files that a message names."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """A file in a snapshot."""

    item: BackupFile
    sha256: str


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """What a snapshot lists: its head, and its files by path."""

    name: str
    head: Mapping[str, Any]
    files: Mapping[str, Kept]


@dataclass(frozen=True, slots=True)
class Restored:
    """
    The result of a restore: files written and unchanged; `before` is the snapshot taken first, if any.

    `removed` were moved to the trash: files that did not exist then, and whatever was in the way. `faults` name files
    that could not be restored; nothing was changed at their paths.
    """

    name: str
    into: str
    written: int
    removed: tuple[str, ...]
    unchanged: int
    before: str | None
    faults: tuple[Fault, ...] = ()


def restorable(
    vault: Vault, blobs: Blobs, manifest: SnapshotManifest, *, skip_damaged: bool
) -> tuple[dict[str, Kept], tuple[Fault, ...]]:
    """
    Return the files that can be restored, by path, and the faults of the others.

    Every content is read. A damaged or missing one is searched by its hash in the vault, its trash, its journal, and
    the snapshots of other vaults, and stored again. Raises StorageError if some are not found, unless `skip_damaged`.
    """
    sizes = {kept.sha256: kept.item.stamp.size for kept in manifest.files.values()}
    lost = {sha256: size for sha256, size in sizes.items() if not blobs.is_whole(sha256)}
    for sha256, pieces in _elsewhere(vault, blobs, lost) if lost else ():
        with contextlib.suppress(SpellbookError):
            if sha256 in lost and blobs.keep(pieces, ())[0] == sha256:
                del lost[sha256]
    faults: list[Fault] = []
    files: dict[str, Kept] = {}
    for path, kept in manifest.files.items():
        if kept.sha256 in lost:
            faults.append(Fault(shown(path), 0, "its content is damaged or missing, and found nowhere else"))
        elif reason := rules.refusal(path):
            faults.append(Fault(shown(path), 0, reason))
        else:
            files[path] = kept
    if lost and not skip_damaged:
        paths = [path for path, kept in manifest.files.items() if kept.sha256 in lost]
        raise StorageError(
            f"{manifest.name}: {counted(len(paths), 'file', of=len(manifest.files))} damaged, and found nowhere else: "
            f"{', '.join(paths[:_MOST_NAMED])}{' …' if len(paths) > _MOST_NAMED else ''}. Nothing was changed.",
            "--skip-damaged restores the others; or restore another snapshot.",
        )
    return files, tuple(faults)


def _elsewhere(vault: Vault, blobs: Blobs, lost: Mapping[str, int]) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield hashes of `lost` contents with their bytes from other places. `lost` may shrink during iteration."""
    sizes = set(lost.values())
    for other in map(Blobs, sorted(place.parent for place in blobs.folder.parent.glob("*/blobs"))):
        yield from ((sha256, other.pieces(sha256, sha256)) for sha256 in [*lost] if other.is_whole(sha256))
    yield from ((sha256, iter([text])) for sha256 in [*lost] if (text := vault.journal.text(sha256)) is not None)
    for place, folders, files in os.walk(vault.root):
        folders[:] = [name for name in folders if not name.startswith(".") or name in {TRASH, MARKER}]
        for file in files:
            path = (Path(place) / file).relative_to(vault.root).as_posix()
            with contextlib.suppress(SpellbookError, OSError):
                is_likely = lost and os.stat(vault.locate(path, known=True)).st_size in sizes
                if is_likely and (sha256 := vault.hash(path)) in lost:
                    yield sha256, vault.pieces(path)


# -- into a folder of its own


def into_folder(
    blobs: Blobs, manifest: SnapshotManifest, files: Mapping[str, Kept], into: Path, progress: Progress | None
) -> Restored:
    """Write `files` to an empty folder, or continue an interrupted restore there. Raises InvalidInput, StorageError."""
    made: list[Path] = []
    try:
        into.mkdir(parents=True, exist_ok=True)
        target = Folder(into.resolve())
        placed = (path for path in into.rglob("*") if not path.is_dir() or path.is_symlink())
        there = {path.relative_to(into).as_posix() for path in placed}
        for path in sorted(there):
            is_ours = path in files and _hash_of(target, path) == files[path].sha256
            if not is_ours and not disk.TEMPORARY.fullmatch(path.rpartition("/")[2]):
                raise InvalidInput(
                    f"{into} is not empty: it holds {path}.", "Name an empty folder, or one that does not exist."
                )
        for number, (path, kept) in enumerate(files.items(), 1):
            if path not in there:
                place = target.admitted(path)
                target.make(path.rpartition("/")[0])
                temporary = disk.temporary_name(place.parent)
                made.append(temporary)
                with temporary.open("xb") as file:
                    file.writelines(blobs.pieces(kept.sha256, path))
                os.chmod(temporary, rules.permissions(kept.item.mode))
                disk.set_time(temporary, kept.item.stamp.mtime_ns)
                disk.claim(temporary, place)
                temporary.unlink(missing_ok=True)
                made[-1] = place
            if progress:
                progress("restoring", number, len(files))
        for path in there - files.keys():
            (into / path).unlink()  # ours, of a restore that was killed
        for folder in manifest.head["folders"]:
            target.admitted(folder)
            target.make(folder)
        disk.sync_all()
    except BaseException as error:
        for place in reversed(made):
            with contextlib.suppress(OSError):
                place.unlink(missing_ok=True)
                for folder in rules.folders_of(place.relative_to(into.resolve()).as_posix()):
                    (into.resolve() / folder).rmdir()  # until one is not empty
        if isinstance(error, OSError):
            raise disk.storage_error(str(into), error) from error
        raise
    return Restored(manifest.name, str(into), len(files.keys() - there), (), len(files.keys() & there), None)


# -- over the vault


@dataclass(slots=True)
class Over:
    """
    A restore of `files` over the vault; `before` is the snapshot of the vault as it is.

    `back` are the steps that revert what was done so far; `is_half` is set if one of them failed.
    """

    vault: Vault
    blobs: Blobs
    manifest: SnapshotManifest
    files: Mapping[str, Kept]
    before: SnapshotManifest
    removed: list[str] = field(default_factory=list)
    written: int = 0
    is_half: bool = False
    back: list[Callable[[], object]] = field(default_factory=list)

    def run(self, progress: Progress | None = None) -> None:
        """
        Restore everything. Raises StorageError, Conflict, with the vault unchanged.

        If it is killed, the same call continues it.
        """
        try:
            self._remove_others()
            for path in self.files:
                self._clear(path, is_folder=False)
            for folder in self.manifest.head["folders"]:
                self._clear(folder, is_folder=True)
            # A link that was a file then may lead to one that is yet to be put back.
            links_last = sorted(self.files, key=lambda path: (self.vault.root / path).is_symlink())
            for number, path in enumerate(links_last, 1):
                _retry(partial(self._put_back, self.files[path]))
                if progress:
                    progress("restoring", number, len(self.files))
            for folder in self.manifest.head["folders"]:
                if not rules.refusal(folder) and not (place := self.vault.admitted(folder)).exists():
                    self.vault.make(folder)
                    self.back.append(place.rmdir)
        except BaseException as error:
            self.is_half = True
            for step in reversed(self.back):
                try:
                    with self.vault.journal.reverting():
                        step()
                except (SpellbookError, OSError) as fault:
                    _log.warning("A restore that failed could not be taken back whole: %s", fault)
                    name = self.manifest.name
                    raise StorageError(
                        f"The restore of {name} stopped half-way and could not be taken back ({error}).",
                        f"`spellbook snapshot restore {name}` goes on, "
                        f"`spellbook snapshot restore {self.before.name}` goes back to how it was.",
                    ) from error
            self.is_half = False
            if isinstance(error, OSError):
                raise disk.storage_error(str(self.vault.root), error) from error
            raise

    def _remove_others(self) -> None:
        """Move files that did not exist then to the trash, and remove folders that are empty only now."""
        ignored = self._ignored_then()
        known = {*self.manifest.files, *self.manifest.head["left_out"]}
        for item in tree(self.vault).files:
            if item.path not in known and not ignored(item.path):
                _retry(partial(self._remove, item.path))
        wanted = set(self.manifest.head["folders"])
        for folder in sorted(tree(self.vault).folders, reverse=True):
            while folder and folder not in wanted:
                try:
                    (self.vault.root / folder).rmdir()
                except OSError:
                    break
                self.back.append(partial(self.vault.make, folder))
                folder = folder.rpartition("/")[0]

    def _remove(self, path: str) -> None:
        if (now := _hash_of(self.vault, path)) is not None and (trash := self.vault.remove(path, now)):
            self._note_removed(path, trash, now)

    def _ignored_then(self) -> Callable[[str], bool]:
        """Return which existing files were ignored when the snapshot was taken, and are therefore not in it."""
        then = self.files.get(IGNORE_FILE)
        if then is None:
            return lambda path: False
        with tempfile.TemporaryDirectory() as scratch:
            (Path(scratch) / IGNORE_FILE).write_bytes(b"".join(self.blobs.pieces(then.sha256, IGNORE_FILE)))
            vault = Folder(Path(scratch))
            listed = {item.path for item in tree(self.vault).files if vault.ignores(item.path)}
        return listed.__contains__

    def _clear(self, path: str, *, is_folder: bool) -> None:
        """Move to the trash a file where a folder is needed, or anything but a file where a file is needed."""
        for prefix in (*reversed(rules.folders_of(path)), path):
            try:
                mode = os.lstat(self.vault.root / prefix).st_mode
            except FileNotFoundError:
                return
            if prefix != path or is_folder:
                is_in_way = not stat.S_ISDIR(mode)
            else:
                is_in_way = not stat.S_ISREG(mode) and not self._leads_to_file(path)
            if is_in_way:
                self._note_removed(prefix, self.vault.trash.set_aside(prefix))
                return

    def _leads_to_file(self, path: str) -> bool:
        try:
            return self.vault.admitted(path).is_file()
        except PathOutsideVault:
            return False

    def _note_removed(self, path: str, trash: str, now: str | None = None) -> None:
        self.removed.append(path)
        self.back.append(partial(self.vault.trash.put_back, trash, path, now))

    def _put_back(self, kept: Kept) -> None:
        """Give a file the bytes, permissions and time that it had."""
        path, vault = kept.item.path, self.vault
        now = _hash_of(vault, path)
        if now == kept.sha256:
            return
        if (vault.root / path).is_symlink():
            self._note_removed(path, vault.trash.set_aside(path))
            now = None
        old = None if now is None else self._old(path, now)
        folders = [folder for folder in rules.folders_of(path) if not (vault.root / folder).exists()]
        pieces = self.blobs.pieces(kept.sha256, path)
        vault.place(path, pieces, mode=kept.item.mode, mtime_ns=kept.item.stamp.mtime_ns, expected=now)
        self.written += 1

        def back() -> None:
            if old is not None:
                pieces, mode, mtime_ns = old
                vault.place(path, pieces(), mode=mode, mtime_ns=mtime_ns, expected=kept.sha256, own=True)
            else:
                vault.remove(path, kept.sha256, hard=True)
                with contextlib.suppress(OSError):  # somebody else's file is in it now
                    for folder in folders:
                        (vault.root / folder).rmdir()

        self.back.append(back)

    def _old(self, path: str, now: str) -> tuple[Callable[[], Iterator[bytes]], int, int]:
        """Return where to read the current bytes of a file after it is replaced, its permissions and its time."""
        kept, status = self.before.files.get(path), self.vault.locate(path, known=True).stat()
        if kept is not None and kept.sha256 == now:
            return lambda: self.blobs.pieces(now, path), status.st_mode, status.st_mtime_ns
        trash = self.vault.trash.copy(path, now)  # ignored now, or written a moment ago
        return lambda: self.vault.pieces(trash), status.st_mode, status.st_mtime_ns


def _hash_of(vault: Folder, path: str) -> str | None:
    """Return the hash of a file of the vault, None if it is not there."""
    try:
        return vault.hash(path)
    except (MemoryNotFound, PathOutsideVault):
        return None


def _retry(change: Callable[[], object]) -> None:
    for _ in range(_TRIES):
        with contextlib.suppress(Conflict, MemoryNotFound, FileNotFoundError):  # saved or moved in this very moment
            change()
            return
    raise Conflict("A file keeps changing.", "Close the editor that writes it, and ask for the same restore again.")
