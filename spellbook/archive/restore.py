"""
The contents of snapshots, and restoring the files of one, all of them or none.

Each content is stored once under its sha256 and read back after writing; `zcat` reads those that are packed. Everything
that can be checked is checked before a restore. Over the vault, a restore is one entry of the journal: files in the way
go to the trash, an error takes everything back, and so does `spellbook undo`, also after a kill.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import stat
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from spellbook.archive.erased_notes import is_erased
from spellbook.index.opened import Progress
from spellbook.notes.files import Fault
from spellbook.system import disk, platform
from spellbook.system.errors import InvalidInput, MemoryNotFound, PathOutsideVault, StorageError
from spellbook.text.quoting import counted
from spellbook.vault import names
from spellbook.vault.backup_files import BackupFile, tree
from spellbook.vault.folder import Folder
from spellbook.vault.listing import Patterns, leaves_out, patterns_of, shown, verdict
from spellbook.vault.names import IGNORE_FILE
from spellbook.vault.vault import Vault
from spellbook.vault.writer import is_logged

_SAMPLE = 1 << 16
"""Bytes of a content that are compressed to see whether that saves space."""

_WORTH = 0.9
"""A content is compressed if its sample gets smaller than this share of its size."""

DAMAGED = (OSError, EOFError, zlib.error)
"""Errors of gzip for a damaged file."""


class Blobs:
    """The contents in `folder`/blobs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self, name: str = "") -> Path:
        """Make the folder for contents whose hash begins with `name`. Raises StorageError."""
        place = self.folder / "blobs" / name
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for made in (self.folder / "blobs", place):
                made.mkdir(disk.permissions_in(self.folder), exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"{place}: the folder for snapshots cannot be made ({error.strerror}).",
                "Set SPELLBOOK_DATA to another one.",
            ) from error
        return place

    def has(self, sha256: str) -> bool:
        """Say whether a content is stored."""
        return self._find(sha256) is not None

    def keep(self, pieces: Iterator[bytes]) -> tuple[str, int]:
        """Store a content, or check the one stored; return its hash and the bytes it added. Raises StorageError."""
        first = next(pieces, b"")
        is_packed = len(zlib.compress(first[:_SAMPLE], 1)) < _WORTH * len(first[:_SAMPLE])
        hashed = disk.Hashed(chain((first,), pieces))
        self.make()
        temporary = disk.temporary_name(self.folder)
        try:
            with open(temporary, "xb", opener=disk.open_restricted) as file:
                if is_packed:
                    with gzip.GzipFile("", "wb", 6, file, mtime=0) as target:
                        target.writelines(hashed)
                else:
                    file.writelines(hashed)
                if not hasattr(os, "sync"):  # else all are written down at once, in the end
                    file.flush()
                    platform.flush(file.fileno())
            name = hashed.sha256
            there = self._find(name)
            if there and _hash(there) == name:
                return name, 0
            place = self.make(name[:2]) / (name + ".gz" * is_packed)
            size = temporary.stat().st_size
            platform.replace(temporary, place)
            if there and there != place:  # the damaged one has the other form, and would be found first
                platform.discard(there)
            if _hash(place) != name:
                platform.remove(place)
                raise StorageError(
                    f"{place}: what was written does not read back as it was.", "The disk fails; nothing was kept."
                )
            return name, size
        except OSError as error:
            raise disk.storage_error(str(self.folder), error) from error
        finally:
            with contextlib.suppress(OSError):
                platform.remove(temporary)

    def pieces(self, sha256: str, name: str) -> Iterator[bytes]:
        """Yield a content, in messages `name`. Raises StorageError, at its end at the latest, for a damaged one."""
        blob = self._find(sha256)
        if blob is None:
            raise StorageError(f"{name}: its content is missing in {self.folder}.", "Restore another snapshot.")
        read = disk.Hashed(_read(blob))
        try:
            yield from read
        except DAMAGED as error:
            raise StorageError(f"{blob}: cannot be read ({error}).", "Restore another snapshot.") from error
        if read.sha256 != sha256:
            raise StorageError(f"{name}: what {self.folder} has of it is damaged.", "Restore another snapshot.")

    def fault(self, sha256: str) -> str:
        """Return "missing", "damaged", or "" for a sound content."""
        blob = self._find(sha256)
        if blob is None:
            return "missing"
        return "" if _hash(blob) == sha256 else "damaged"

    def forget(self, sha256: str) -> None:
        """Delete a content, to be stored again."""
        if blob := self._find(sha256):
            platform.discard(blob)

    def sweep(self, needed: Collection[str]) -> None:
        """Delete all contents that are not `needed`, and temporary files of killed processes."""
        for blob in self.folder.glob("blobs/??/*"):
            if blob.name.removesuffix(".gz") not in needed:
                platform.discard(blob)
        for stray in self.folder.iterdir():
            if disk.TEMPORARY.fullmatch(stray.name):
                platform.discard(stray)

    def _find(self, sha256: str) -> Path | None:
        place = self.folder / "blobs" / sha256[:2] / sha256
        return next((blob for blob in (place.with_name(f"{sha256}.gz"), place) if blob.exists()), None)


def _read(blob: Path) -> Iterator[bytes]:
    with gzip.open(blob, "rb") if blob.suffix == ".gz" else blob.open("rb") as file:
        yield from disk.pieces_of(file)


def _hash(blob: Path) -> str | None:
    try:
        return disk.hash_pieces(_read(blob))
    except DAMAGED:
        return None


_MOST_NAMED = 5
"""Damaged files that a message names."""


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """The list of a snapshot: its head, and its files by path."""

    name: str
    head: Mapping[str, Any]
    files: Mapping[str, BackupFile]


@dataclass(frozen=True, slots=True)
class Restored:
    """
    Result of a restore: files `written`, `unchanged` and, as they did not exist then or stood in the way, `removed`.

    `erased` notes were erased since, and stay away. `faults` name files that could not be restored; nothing was changed
    at their paths.
    """

    name: str
    into: str
    written: int
    removed: tuple[str, ...]
    unchanged: int
    faults: tuple[Fault, ...] = ()
    erased: tuple[str, ...] = ()


def restorable(
    blobs: Blobs, manifest: SnapshotManifest, *, skip_damaged: bool
) -> tuple[dict[str, BackupFile], tuple[Fault, ...]]:
    """Return files to restore, by path, and faults of others. Raises StorageError for damage, unless `skip_damaged`."""
    lost = {sha256 for sha256 in {kept.sha256 for kept in manifest.files.values()} if blobs.fault(sha256)}
    faults: list[Fault] = []
    files: dict[str, BackupFile] = {}
    for path, kept in manifest.files.items():
        if kept.sha256 in lost:
            faults.append(Fault(shown(path), 0, "its content is damaged or missing"))
        elif reason := names.refusal(path):
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
    blobs: Blobs, manifest: SnapshotManifest, files: Mapping[str, BackupFile], into: Path, progress: Progress | None
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
                os.chmod(place, names.permissions(kept.mode))
                disk.set_time(place, kept.stamp.mtime_ns)
                if progress:
                    progress("restoring", number, len(files))
            for folder in manifest.head["folders"]:
                target.admitted(folder)
                target.make(folder)
            disk.sync_all()
        except BaseException:
            for place in into.iterdir():
                remove = shutil.rmtree if place.is_dir() else platform.remove
                remove(place)
            raise
    return Restored(manifest.name, str(into), len(files), (), 0)


# -- over the vault


def over(
    vault: Vault, blobs: Blobs, manifest: SnapshotManifest, files: Mapping[str, BackupFile], progress: Progress | None
) -> Restored:
    """Restore `files` over the vault, in one entry of the journal. Raises StorageError, Conflict: nothing changed."""
    written = unchanged = 0
    folders = manifest.head["folders"]
    erased = list[str]()
    with vault.change("restore", f"snapshot {manifest.name}"), disk.explain_errors(str(vault.root)):
        removed = _remove_others(vault, blobs, manifest, files)
        for path, is_folder in [*((path, False) for path in files), *((path, True) for path in folders)]:
            if in_way := _in_way(vault, path, is_folder=is_folder):
                vault.trash.set_aside(in_way)
                removed.append(in_way)
        # A link that was a file then may lead to one that is yet to be put back.
        for number, path in enumerate(sorted(files, key=lambda path: (vault.root / path).is_symlink()), 1):
            kept, now = files[path], None
            with contextlib.suppress(MemoryNotFound, PathOutsideVault):
                now = vault.hash(path)
            content = partial(blobs.pieces, kept.sha256, path)
            if now == kept.sha256:
                unchanged += 1
            elif is_erased(vault, path, kept.stamp.size, content(), is_there=now is not None):
                erased.append(path)
            else:
                if (vault.root / path).is_symlink():
                    vault.trash.set_aside(path)
                    removed.append(path)
                    now = None
                if now is not None and not is_logged(path, vault.locate(path, known=True)):
                    vault.trash.copy(path, now)
                vault.place(path, content(), mode=kept.mode, mtime_ns=kept.stamp.mtime_ns, expected=now)
                written += 1
            if progress:
                progress("restoring", number, len(files))
        for folder in folders:
            if not names.refusal(folder) and not vault.admitted(folder).exists():
                vault.make(folder)
    return Restored(manifest.name, str(vault.root), written, tuple(removed), unchanged, erased=tuple(erased))


def _remove_others(
    vault: Vault, blobs: Blobs, manifest: SnapshotManifest, files: Mapping[str, BackupFile]
) -> list[str]:
    """Move files that did not exist then to the trash, and remove folders that are empty only now; return the files."""
    patterns: Patterns = ()  # which files were ignored then, and are therefore not in the snapshot
    if rules := files.get(IGNORE_FILE):
        patterns = patterns_of(IGNORE_FILE, b"".join(blobs.pieces(rules.sha256, IGNORE_FILE)))
    known = {*manifest.files, *manifest.head["left_out"]}
    before = tree(vault)
    removed = []
    for item in before.files:
        if item.path not in known and not leaves_out(partial(verdict, patterns), item.path):
            vault.trash.remove(item.path, vault.hash(item.path))
            removed.append(item.path)
    wanted = {*manifest.head["folders"], *before.folders}
    for folder in sorted(tree(vault).folders, reverse=True):
        while folder and folder not in wanted:
            try:
                (vault.root / folder).rmdir()
            except OSError:
                break
            folder = folder.rpartition("/")[0]
    return removed


def _in_way(vault: Vault, path: str, *, is_folder: bool) -> str:
    """Return the path of a file where a folder is needed, or of anything but a file where a file is; "" for none."""
    for prefix in (*reversed(names.folders_of(path)), path):
        try:
            mode = os.lstat(vault.root / prefix).st_mode
        except FileNotFoundError:
            return ""
        if prefix != path or is_folder:
            is_in_way = not stat.S_ISDIR(mode)
        else:
            is_in_way = not stat.S_ISREG(mode)
            with contextlib.suppress(PathOutsideVault):
                is_in_way = is_in_way and not vault.admitted(path).is_file()  # a link may lead to a file
        if is_in_way:
            return prefix
    return ""
