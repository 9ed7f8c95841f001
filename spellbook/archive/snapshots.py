"""
Snapshots: earlier states of the vault, stored outside of it.

`<name>.json.gz` lists the files of one moment, one a line, and `blobs` contain their bytes, so a snapshot costs
only what changed. A snapshot exists once its list is written, even if a process is killed before.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import json
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from spellbook.archive import restore
from spellbook.archive.restore import DAMAGED, Blobs, Restored, SnapshotManifest
from spellbook.index.opened import Progress
from spellbook.index.sync import is_settled
from spellbook.notes.files import Fault, Stamp
from spellbook.system import disk, platform
from spellbook.system.errors import InvalidInput, MemoryNotFound, StorageError, UnreadableNote
from spellbook.system.lazy import regex
from spellbook.vault.backup_files import BackupFile, tree
from spellbook.vault.vault import Vault

DAYS = 7
"""Days whose last snapshot is kept; all of the last 24 hours are."""

WEEKS = 4
"""Weeks whose last snapshot is kept."""

MONTHS = 12
"""Months whose last snapshot is kept."""

LATEST = "latest"

_ENDING = ".json.gz"
_NAME = "%Y-%m-%dT%H-%M-%SZ"
_NAMES = regex(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ")
RESERVE = 200_000_000  # bytes that stay free on the disk
_DAMAGED = (*DAMAGED, ValueError, KeyError, TypeError)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot: its name (its time in UTC), its files and bytes, and the bytes that it added on the disk."""

    name: str
    files: int
    bytes: int
    stored: int
    faults: tuple[Fault, ...] = ()

    @property
    def taken(self) -> dt.datetime:
        """When it was taken, in local time."""
        return _moment(self.name)

    def as_dict(self) -> dict[str, Any]:
        """Return it as programs see it, with its time in ISO 8601."""
        return {**asdict(self), "taken": self.taken.isoformat()}


@dataclass(frozen=True, slots=True)
class Verified:
    """The number of snapshots and contents that were read, and the faults found."""

    snapshots: int
    contents: int
    faults: tuple[Fault, ...]


class Snapshots:
    """The snapshots of `vault` in `folder`, which the first one creates."""

    def __init__(self, vault: Vault, folder: Path) -> None:
        self.folder = folder
        self._vault = vault
        self._blobs = Blobs(folder)

    def names(self) -> list[str]:
        """Return the names of all snapshots, the newest first."""
        names = (file.name.removesuffix(_ENDING) for file in self.folder.glob(f"*{_ENDING}"))
        return sorted(filter(_NAMES.fullmatch, names), reverse=True)

    def all(self) -> tuple[Snapshot, ...]:
        """Return all snapshots, the newest first; one whose list is damaged has no files."""
        return tuple(self._summary(name) for name in self.names())

    def state(self) -> dict[str, Any]:
        """Return where they are, how many, and when the last was taken, in ISO 8601."""
        names = self.names()
        return {
            "folder": str(self.folder),
            "count": len(names),
            "last": _moment(names[0]).isoformat() if names else None,
        }

    def is_due(self) -> bool:
        """Say whether none has been taken on this day."""
        names = self.names()
        return not names or _moment(names[0]).date() < dt.datetime.now().astimezone().date()

    # -- taking

    def create(self, progress: Progress | None = None) -> Snapshot:
        """Keep the vault as it is now, and delete old snapshots. Raises StorageError without room, VaultNotFound."""
        with self._lock():
            started_ns = time.time_ns()
            now = tree(self._vault)
            known = self._newest()
            faults = list(now.faults)
            scanned_ns = int(known.head.get("looked_ns", 0))
            same: dict[str, str] = {}  # hashes of files that need not be read: of the same stamp, and old by then
            for item in now.files:
                was = known.files.get(item.path)
                if was and was.stamp == item.stamp and is_settled(item.stamp, scanned_ns):
                    same |= {item.path: was.sha256} if self._blobs.has(was.sha256) else {}
            needed = sum(item.stamp.size for item in now.files if item.path not in same)
            check_room(
                self.folder, needed, "a snapshot", "Make room, or set SPELLBOOK_DATA to a folder on another disk."
            )
            files: list[BackupFile] = []
            stored = 0
            for number, item in enumerate(now.files, 1):
                sha256 = same.get(item.path, "")
                size = 0
                try:
                    if not sha256:
                        sha256, size = self._blobs.keep(self._vault.pieces(item.path))
                except MemoryNotFound:
                    continue  # deleted a moment ago
                except UnreadableNote as error:
                    faults.append(Fault.of(item.path, error))
                    continue
                stored += size
                files.append(item._replace(sha256=sha256))
                if progress:
                    progress("keeping", number, len(now.files))
            taken = self._write(files, now.folders, faults, stored, started_ns)
            self._prune()
            return taken

    def _write(
        self, files: list[BackupFile], folders: Iterable[str], faults: list[Fault], stored: int, started_ns: int
    ) -> Snapshot:
        """Write the list of a snapshot; only now the snapshot exists."""
        disk.sync_all()  # the contents before the list
        seconds = time.time()
        while (place := self._place(name := name_of(seconds))).exists():
            seconds += 1
        size = sum(kept.stamp.size for kept in files)
        head = {
            "format": "spellbook-snapshot",
            "version": 1,
            "vault": str(self._vault.root),
            "looked_ns": started_ns,
            "files": len(files),
            "bytes": size,
            "stored": stored,
            "folders": list(folders),
            "left_out": [fault.path for fault in faults],
        }
        try:
            with disk.replacing(place) as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                packed.write(json.dumps(head).encode() + b"\n")
                for kept in files:
                    about = {"path": kept.path, "sha256": kept.sha256, "mode": kept.mode, **kept.stamp._asdict()}
                    packed.write(json.dumps(about, ensure_ascii=False).encode() + b"\n")
        except OSError as error:
            raise disk.storage_error(str(place), error) from error
        return Snapshot(name, len(files), size, stored, tuple(faults))

    # -- reading lists

    def _place(self, name: str) -> Path:
        return self.folder / f"{name}{_ENDING}"

    def _summary(self, name: str) -> Snapshot:
        try:
            with gzip.open(self._place(name), "rb") as file:
                head = json.loads(file.readline())
            return Snapshot(name, head["files"], head["bytes"], head["stored"])
        except _DAMAGED:
            return Snapshot(name, 0, 0, 0, (Fault(str(self._place(name)), 0, "the list is damaged"),))

    def _manifest(self, name: str) -> SnapshotManifest:
        """Read a snapshot's list. Raises StorageError if it is damaged."""
        try:
            with gzip.open(self._place(name), "rb") as file:
                head = json.loads(file.readline())
                files: dict[str, BackupFile] = {}
                for row in map(json.loads, file):
                    stamp = Stamp(row["size"], row["mtime_ns"], row["inode"], row.get("ctime_ns", 0))
                    files[row["path"]] = BackupFile(row["path"], stamp, row["mode"], row["sha256"])
            if len(files) != head["files"]:
                raise ValueError(f"it lists {len(files)} of {head['files']} files")
            return SnapshotManifest(name, head, files)
        except _DAMAGED as error:
            raise StorageError(
                f"{self._place(name)}: the list is damaged ({error}).", "Restore another snapshot."
            ) from error

    def _newest(self) -> SnapshotManifest:
        """Read the newest list that is not damaged; an empty one if there is none."""
        for name in self.names():
            with contextlib.suppress(StorageError):
                return self._manifest(name)
        return SnapshotManifest("", {}, {})

    def find(self, name: str) -> str:
        """Return the newest snapshot of this name or prefix, or the `latest`. Raises InvalidInput without one."""
        for known in self.names():
            if name == LATEST or known.startswith(name):
                return known
        raise InvalidInput(f"There is no snapshot {name[:80]!r}.", "`spellbook snapshot list` shows them.")

    # -- checking and letting go

    def verify(self, progress: Progress | None = None) -> Verified:
        """Compare all that is kept with its hash, and delete what is damaged: the next snapshot keeps it anew."""
        with self._lock():
            faults: list[Fault] = []
            held: dict[str, tuple[str, str]] = {}
            names = self.names()
            for name in names:
                try:
                    for path, kept in self._manifest(name).files.items():
                        held.setdefault(kept.sha256, (name, path))
                except StorageError as error:
                    faults.append(Fault(name, 0, error.message))
            for number, (sha256, (name, path)) in enumerate(held.items(), 1):
                if reason := self._blobs.fault(sha256):
                    self._blobs.forget(sha256)
                    faults.append(Fault(f"{name}: {path}", 0, f"its content is {reason}"))
                if progress:
                    progress("verifying", number, len(held))
            return Verified(len(names), len(held), tuple(faults))

    def prune(self) -> tuple[str, ...]:
        """Delete old snapshots (see `to_keep`) and contents that no other snapshot has; return the snapshots' names."""
        with self._lock():
            return self._prune(sweep=True)

    def _prune(self, *, sweep: bool = False) -> tuple[str, ...]:
        names = self.names()
        kept = to_keep(names, dt.datetime.now().astimezone())
        gone = tuple(name for name in names if name not in kept)
        for name in gone:
            platform.discard(self._place(name))
        if gone or sweep:
            with contextlib.suppress(StorageError):  # a snapshot that cannot be read may need anything
                needed = {file.sha256 for name in self.names() for file in self._manifest(name).files.values()}
                self._blobs.sweep(needed)
        return gone

    # -- going back

    def restore(
        self, name: str, into: Path | None = None, progress: Progress | None = None, *, skip_damaged: bool = False
    ) -> Restored:
        """
        Bring back the vault as it was, into an empty folder, or over the vault, which `undo` takes back.

        Over the vault, files that did not exist then or stand in the way go into the trash. With `skip_damaged` damaged
        files are left out, see `restorable`. Raises InvalidInput for a folder with anything else in it, StorageError or
        Conflict, with nothing changed.
        """
        name = self.find(name)
        with self._lock():
            manifest = self._manifest(name)
            files, faults = restore.restorable(self._blobs, manifest, skip_damaged=skip_damaged)
            if into is None:
                vault = self._vault
                vault.trash.check()
                held = {item.path: item.stamp.size for item in tree(vault).files}
                sizes = {path: kept.stamp.size for path, kept in files.items()}
                needed = sum(size for path, size in sizes.items() if held.get(path) != size)
                check_room(vault.root, needed, "the restore", "Make room, or restore with --into elsewhere.")
                return replace(restore.over(vault, self._blobs, manifest, files, progress), faults=faults)
            above = next(folder for folder in (into.absolute(), *into.absolute().parents) if folder.exists())
            needed = sum(kept.stamp.size for kept in files.values())
            check_room(above, needed, "the restore", "Name another folder.")
            return replace(restore.into_folder(self._blobs, manifest, files, into, progress), faults=faults)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        if disk.permissions_in(self.folder) & ~disk.permissions_in(self._vault.root) or not self.folder.exists():
            disk.restrict(self.folder, self._vault.root)
        self._blobs.make()
        busy = StorageError("Another Spellbook is at the snapshots.", "Try again in a moment.")
        with disk.alone(self.folder / "snapshots.lock", 10, busy):
            yield


def check_room(folder: Path, needed: int, what: str, hint: str) -> None:
    """Raise StorageError if fewer than `needed` bytes and the reserve are free on the disk of a folder."""
    needed = needed + RESERVE
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StorageError(
            f"{folder}: {what} needs {needed / 1e6:,.0f} MB free, and {free / 1e6:,.0f} MB are free. "
            "Nothing was changed.",
            hint,
        )


def to_keep(names: Iterable[str], now: dt.datetime) -> set[str]:
    """Return the names to keep: all of 24 hours, the last of each of 7 days, 4 weeks and 12 months, and the newest."""
    names = sorted(names)
    kept = {name for name in names if now - _moment(name) < dt.timedelta(days=1)} | set(names[-1:])
    for form, count in (("%Y-%m-%d", DAYS), ("%G-%V", WEEKS), ("%Y-%m", MONTHS)):
        last = {_moment(name).strftime(form): name for name in names}  # a later one takes the place of an earlier
        kept |= set([*last.values()][-count:])
    return kept


def name_of(seconds: float | None = None) -> str:
    """Return the name of a snapshot taken now, or at a time in seconds since 1970."""
    return time.strftime(_NAME, time.gmtime(seconds))


def _moment(name: str) -> dt.datetime:
    return dt.datetime.strptime(name, _NAME).replace(tzinfo=dt.UTC).astimezone()
