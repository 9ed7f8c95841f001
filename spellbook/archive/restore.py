"""
Restore the files of a snapshot, all of them or none.

Everything that can be checked is checked first. Over the vault, a restore is one entry of the journal: files in the
way go to the trash, an error takes everything back, and so does `spellbook undo`, also after a kill.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from spellbook.archive.blobs import Blobs
from spellbook.archive.tree import BackupFile, tree
from spellbook.index.embed import Progress
from spellbook.notes.note import Fault
from spellbook.system import disk
from spellbook.system.errors import InvalidInput, MemoryNotFound, PathOutsideVault, StorageError
from spellbook.text.quoting import counted
from spellbook.vault import rules
from spellbook.vault.folder import Folder
from spellbook.vault.ignored import IGNORE_FILE, leaves_out, patterns_of, verdict
from spellbook.vault.listing import shown
from spellbook.vault.vault import Vault
from spellbook.vault.writer import is_logged

_MOST_NAMED = 5
"""Damaged files that a message names."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A file in a snapshot."""

    item: BackupFile
    sha256: str


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """The list of a snapshot: its head, and its files by path."""

    name: str
    head: Mapping[str, Any]
    files: Mapping[str, Kept]


@dataclass(frozen=True, slots=True)
class Restored:
    """
    Result of a restore: files `written`, `unchanged` and, as they did not exist then or stood in the way, `removed`.

    `faults` name files that could not be restored; nothing was changed at their paths.
    """

    name: str
    into: str
    written: int
    removed: tuple[str, ...]
    unchanged: int
    faults: tuple[Fault, ...] = ()


def restorable(
    blobs: Blobs, manifest: SnapshotManifest, *, skip_damaged: bool
) -> tuple[dict[str, Kept], tuple[Fault, ...]]:
    """Return files to restore, by path, and faults of others. Raises StorageError for damage, unless `skip_damaged`."""
    lost = {sha256 for sha256 in {kept.sha256 for kept in manifest.files.values()} if blobs.fault(sha256)}
    faults: list[Fault] = []
    files: dict[str, Kept] = {}
    for path, kept in manifest.files.items():
        if kept.sha256 in lost:
            faults.append(Fault(shown(path), 0, "its content is damaged or missing"))
        elif reason := rules.refusal(path):
            faults.append(Fault(shown(path), 0, reason))
        else:
            files[path] = kept
    if lost and not skip_damaged:
        paths = [path for path, kept in manifest.files.items() if kept.sha256 in lost]
        raise StorageError(
            f"{manifest.name}: {counted(len(paths), 'file', of=len(manifest.files))} damaged: "
            f"{', '.join(paths[:_MOST_NAMED])}{' …' if len(paths) > _MOST_NAMED else ''}. Nothing was changed.",
            "--skip-damaged restores the others; or restore another snapshot.",
        )
    return files, tuple(faults)


# -- into a folder of its own


def into_folder(
    blobs: Blobs, manifest: SnapshotManifest, files: Mapping[str, Kept], into: Path, progress: Progress | None
) -> Restored:
    """Write `files` to an empty folder. Raises InvalidInput, StorageError; then nothing stays there."""
    with disk.explain_errors(str(into)):
        into.mkdir(parents=True, exist_ok=True)
        if there := next(into.iterdir(), None):
            raise InvalidInput(
                f"{into} is not empty: it holds {there.name}.", "Name an empty folder, or one that does not exist."
            )
        target = Folder(into.resolve())
        try:
            for number, (path, kept) in enumerate(files.items(), 1):
                place = target.admitted(path)
                target.make(path.rpartition("/")[0])
                with place.open("xb") as file:
                    file.writelines(blobs.pieces(kept.sha256, path))
                os.chmod(place, rules.permissions(kept.item.mode))
                disk.set_time(place, kept.item.stamp.mtime_ns)
                if progress:
                    progress("restoring", number, len(files))
            for folder in manifest.head["folders"]:
                target.admitted(folder)
                target.make(folder)
            disk.sync_all()
        except BaseException:
            for place in into.iterdir():
                shutil.rmtree(place) if place.is_dir() else place.unlink()
            raise
    return Restored(manifest.name, str(into), len(files), (), 0)


# -- over the vault


@dataclass(slots=True)
class Over:
    """A restore of `files` over the vault, in one entry of the journal that the caller opened."""

    vault: Vault
    blobs: Blobs
    manifest: SnapshotManifest
    files: Mapping[str, Kept]
    removed: list[str] = field(default_factory=list)
    written: int = 0

    def run(self, progress: Progress | None = None) -> None:
        """Restore everything. Raises StorageError, Conflict."""
        with disk.explain_errors(str(self.vault.root)):
            self._remove_others()
            for path in self.files:
                self._clear(path, is_folder=False)
            for folder in self.manifest.head["folders"]:
                self._clear(folder, is_folder=True)
            # A link that was a file then may lead to one that is yet to be put back.
            links_last = sorted(self.files, key=lambda path: (self.vault.root / path).is_symlink())
            for number, path in enumerate(links_last, 1):
                self._put_back(self.files[path])
                if progress:
                    progress("restoring", number, len(self.files))
            for folder in self.manifest.head["folders"]:
                if not rules.refusal(folder) and not self.vault.admitted(folder).exists():
                    self.vault.make(folder)

    def _remove_others(self) -> None:
        """Move files that did not exist then to the trash, and remove folders that are empty only now."""
        ignored = self._ignored_at_the_time()
        known = {*self.manifest.files, *self.manifest.head["left_out"]}
        before = tree(self.vault)
        for item in before.files:
            if item.path not in known and not ignored(item.path):
                self.vault.remove(item.path, self.vault.hash(item.path))
                self.removed.append(item.path)
        wanted = {*self.manifest.head["folders"], *before.folders}
        for folder in sorted(tree(self.vault).folders, reverse=True):
            while folder and folder not in wanted:
                try:
                    (self.vault.root / folder).rmdir()
                except OSError:
                    break
                folder = folder.rpartition("/")[0]

    def _ignored_at_the_time(self) -> Callable[[str], bool]:
        """Return which files were ignored when the snapshot was taken, and are therefore not in it."""
        rules_file = self.files.get(IGNORE_FILE)
        if rules_file is None:
            return lambda path: False
        patterns = patterns_of(IGNORE_FILE, b"".join(self.blobs.pieces(rules_file.sha256, IGNORE_FILE)))
        return partial(leaves_out, partial(verdict, patterns))

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
                self._set_aside(prefix)
                return

    def _leads_to_file(self, path: str) -> bool:
        try:
            return self.vault.admitted(path).is_file()
        except PathOutsideVault:
            return False

    def _set_aside(self, path: str) -> None:
        self.vault.trash.set_aside(path)
        self.removed.append(path)

    def _put_back(self, kept: Kept) -> None:
        """Give a file the bytes, permissions and time that it had."""
        path, vault = kept.item.path, self.vault
        now = _hash_of(vault, path)
        if now == kept.sha256:
            return
        if (vault.root / path).is_symlink():
            self._set_aside(path)
            now = None
        if now is not None and not is_logged(path, vault.locate(path, known=True)):
            vault.trash.copy(path, now)
        pieces = self.blobs.pieces(kept.sha256, path)
        vault.place(path, pieces, mode=kept.item.mode, mtime_ns=kept.item.stamp.mtime_ns, expected=now)
        self.written += 1


def _hash_of(vault: Folder, path: str) -> str | None:
    try:
        return vault.hash(path)
    except (MemoryNotFound, PathOutsideVault):
        return None
