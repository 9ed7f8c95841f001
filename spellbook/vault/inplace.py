"""
Write files with several names (hard links) in place, so that all names keep pointing to one file.

Such a write is not atomic. The old bytes are copied to the state folder first. After a kill, the next process restores
them. A file that another program saved in the meantime is never overwritten.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import FileIO
from itertools import zip_longest
from pathlib import Path

from spellbook.system import disk
from spellbook.vault import names
from spellbook.vault.folder import Folder
from spellbook.vault.rules import TRASH

_FOLDER = "in-place"
_PIECE = 1 << 12
"""Bytes that are written at once."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Record:
    """A write in progress: three files in the state folder. `entry` is created last and deleted first."""

    entry: Path

    @property
    def old(self) -> Path:
        return self.entry.with_suffix(".old")

    @property
    def new(self) -> Path:
        return self.entry.with_suffix(".new")

    def begin(self, path: str, place: Path, source: Path) -> None:
        self.entry.parent.mkdir(0o700, exist_ok=True)
        for original, copied in ((place, self.old), (source, self.new)):
            shutil.copyfile(original, copied)
            disk.fsync(copied)
        with disk.replacing(self.entry) as file:
            file.write(json.dumps({"path": path, "inode": os.stat(place).st_ino}).encode())

    def end(self) -> None:
        for file in (self.entry, self.old, self.new):
            file.unlink(missing_ok=True)


def replace(state: Path, path: str, source: Path, place: Path, is_expected: Callable[[Path], bool]) -> bool:
    """Copy `source` to `place` if that is as expected; say whether it was done. Raises OSError, nothing changed."""
    with open(place, "r+b", buffering=0) as file:
        record = Record(state / _FOLDER / f"{os.urandom(8).hex()}.json")
        is_whole, done = True, False
        try:
            record.begin(path, place, source)
            if is_expected(record.old) and is_expected(place) and _is_at(file, place):
                is_whole = False
                try:
                    _overwrite(file, record.new)
                    done = _is_at(file, place)  # else an editor replaced the file: the other names keep the old bytes
                finally:
                    if not done:
                        _overwrite(file, record.old)
                    is_whole = True
        finally:
            if is_whole:  # else the next writer restores the old bytes
                record.end()
    if not done:
        return False
    status = os.stat(source)
    with contextlib.suppress(OSError):  # the bytes are there, whoever owns the file
        os.chmod(place, status.st_mode & 0o7777)
        os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns))
    return True


def _is_at(file: FileIO, place: Path) -> bool:
    return os.path.samestat(os.fstat(file.fileno()), os.stat(place))


def _overwrite(file: FileIO, source: Path) -> None:
    """Copy `source` into an open file, what extends it first: a full disk refuses only that part."""
    size, longer = os.fstat(file.fileno()).st_size, source.stat().st_size
    with open(source, "rb") as pieces:
        for start, end in ((size, longer), (0, min(size, longer))):
            pieces.seek(start)
            file.seek(start)
            for at in range(start, end, _PIECE):
                sys.audit("spellbook.overwrite", file.name, at)  # a kill may come between any two
                piece = memoryview(pieces.read(min(_PIECE, end - at)))
                while piece:
                    piece = piece[file.write(piece) :]
    file.truncate(longer)
    os.fsync(file.fileno())


# -- after a kill


def unfinished(state: Path) -> list[Path]:
    """Return the records of writes that were cut short, or are in progress under the write lock."""
    try:
        return sorted((state / _FOLDER).glob("*.*"))
    except OSError:
        return []


def recover(state: Path, vault: Folder) -> None:
    """Restore files of `vault` after writes that were cut short. The caller holds the lock. Raises OSError."""
    for entry in (file for file in unfinished(state) if file.suffix == ".json"):
        record = Record(entry)
        try:
            written = json.loads(entry.read_bytes())
            path, inode = str(written["path"]), int(written["inode"])
        except (ValueError, KeyError, TypeError):
            _log.warning(
                "%s is damaged; what a file held before a write that was cut short is in %s.", entry, record.old
            )
            entry.rename(entry.with_suffix(".damaged"))
            continue
        place = next(_places_of(vault.root, path, inode), None)
        if place is not None and disk.hash_of(place) in {disk.hash_of(record.old), disk.hash_of(record.new)}:
            pass  # the write had not begun, or was complete
        elif place is not None and _is_torn(record, place):
            with open(place, "r+b", buffering=0) as file:
                _overwrite(file, record.old)
            _log.warning("%s: a write that was cut short was taken back.", path)
        else:
            kept = _keep(vault, path, record.old)
            _log.warning(
                "%s: a write was cut short, and somebody saved the file since; what it held before is in %s.",
                path,
                kept,
            )
        record.end()
    for left in unfinished(state):
        if left.suffix in {".old", ".new", ".tmp"} and not left.with_suffix(".damaged").exists():
            left.unlink(missing_ok=True)


def _places_of(root: Path, path: str, inode: int) -> Iterator[Path]:
    """Yield the paths of this inode, `path` first. A restart may change the device number, so that is ignored."""
    places = (Path(folder, name) for folder, _, files in os.walk(root) for name in files)
    for place in (Path(os.path.realpath(root / path)), *places):
        with contextlib.suppress(OSError):
            if os.lstat(place).st_ino == inode:
                yield place


def _is_torn(record: Record, place: Path) -> bool:
    """Say whether a file is a mix of its old and its new bytes, with nothing written by another program."""
    old, new, now = (file.read_bytes() for file in (record.old, record.new, place))
    if not min(len(old), len(new)) <= len(now) <= max(len(old), len(new)):
        return False
    triples = zip_longest(now, old[: len(now)], new[: len(now)], fillvalue=0)
    return all(letter in {before, after, 0} for letter, before, after in triples)


def _keep(vault: Folder, path: str, old: Path) -> Path:
    """Copy the old bytes of a file to a free name in the trash, and return its path."""
    folder = vault.root / TRASH
    vault.make(TRASH)
    with disk.written(folder, old.read_bytes(), 0o600) as temporary:
        for name in names.numbered(path.rpartition("/")[2]):
            with contextlib.suppress(FileExistsError):
                disk.claim(temporary, folder / name)
                return folder / name
    return old
