"""
Files with several names (hard links), whose bytes are replaced in place, so that all names go on to mean one file.

Such a write is no single step. What the file held lies in the state folder
before it begins, so that whoever comes after a kill puts it back. What
somebody else saved since is never written over.
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

_FOLDER = "in-place"
_TRASH = ".trash"
_PIECE = 1 << 12

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Record:
    """A write that has begun: three files in the state folder, of which `said` is made last and deleted first."""

    said: Path

    @property
    def old(self) -> Path:
        return self.said.with_suffix(".old")

    @property
    def new(self) -> Path:
        return self.said.with_suffix(".new")

    def begin(self, path: str, place: Path, source: Path) -> None:
        self.said.parent.mkdir(0o700, exist_ok=True)
        for original, copied in ((place, self.old), (source, self.new)):
            shutil.copyfile(original, copied)
            disk.settle(copied)
        with disk.replacing(self.said) as file:
            file.write(json.dumps({"path": path, "inode": os.stat(place).st_ino}).encode())

    def end(self) -> None:
        for file in (self.said, self.old, self.new):
            file.unlink(missing_ok=True)


def replace(state: Path, path: str, source: Path, place: Path, is_expected: Callable[[Path], bool]) -> bool:
    """
    Let `place` hold what the finished file `source` holds, with its permissions and times, if it is as expected; say whether it did.

    `path` is how the vault calls it. Raises OSError, with nothing changed, PermissionError if it may not be written in place.
    """
    with open(place, "r+b", buffering=0) as file:
        record = _Record(state / _FOLDER / f"{os.urandom(8).hex()}.json")
        is_whole, done = True, False
        try:
            record.begin(path, place, source)
            if is_expected(record.old) and is_expected(place) and _is_at(file, place):
                is_whole = False
                try:
                    _fill(file, record.new)
                    done = _is_at(file, place)  # else an editor put another file there: the other names keep what they had
                finally:
                    if not done:
                        _fill(file, record.old)
                    is_whole = True
        finally:
            if is_whole:  # else the next one who writes puts back what it held
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


def _fill(file: FileIO, source: Path) -> None:
    """Let an open file hold what `source` does: what makes it longer first, since that is what a full disk refuses."""
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
    """Return what there is to recover, or is being done in this moment by whoever holds the lock of writers."""
    try:
        return sorted((state / _FOLDER).glob("*.*"))
    except OSError:
        return []


def recover(state: Path, root: Path) -> None:
    """Put back what files of the vault at `root` held before writes that were cut short; who asks is the only writer. Raises OSError."""
    for said in (file for file in unfinished(state) if file.suffix == ".json"):
        record = _Record(said)
        try:
            written = json.loads(said.read_bytes())
            path, inode = str(written["path"]), int(written["inode"])
        except (ValueError, KeyError, TypeError):
            _log.warning("%s is damaged; what a file held before a write that was cut short is in %s.", said, record.old)
            said.rename(said.with_suffix(".damaged"))
            continue
        place = next(_called(root, path, inode), None)
        if place is not None and disk.hash_of(place) in {disk.hash_of(record.old), disk.hash_of(record.new)}:
            pass  # it had not begun, or was done
        elif place is not None and _is_torn(record, place):
            with open(place, "r+b", buffering=0) as file:
                _fill(file, record.old)
            _log.warning("%s: a write that was cut short was taken back.", path)
        else:
            kept = _keep(root, path, record.old)
            _log.warning("%s: a write was cut short, and somebody saved the file since; what it held before is in %s.", path, kept)
        record.end()
    for left in unfinished(state):
        if left.suffix in {".old", ".new", ".tmp"} and not left.with_suffix(".damaged").exists():
            left.unlink(missing_ok=True)


def _called(root: Path, path: str, inode: int) -> Iterator[Path]:
    """Yield the names in the vault, `path` first, of the file with this number; that of its disk may be another after a restart."""
    places = (Path(folder, name) for folder, _, files in os.walk(root) for name in files)
    for place in (Path(os.path.realpath(root / path)), *places):
        with contextlib.suppress(OSError):
            if os.lstat(place).st_ino == inode:
                yield place


def _is_torn(record: _Record, place: Path) -> bool:
    """Say whether a file is made of what it held and what it was to hold, and of nothing that anybody else wrote."""
    old, new, now = (file.read_bytes() for file in (record.old, record.new, place))
    if not min(len(old), len(new)) <= len(now) <= max(len(old), len(new)):
        return False
    each = zip_longest(now, old[: len(now)], new[: len(now)], fillvalue=0)
    return all(letter in {before, after, 0} for letter, before, after in each)


def _keep(root: Path, path: str, old: Path) -> Path:
    """Put what a file held into the trash, under a name that is free, and return where."""
    folder = root / _TRASH
    folder.mkdir(exist_ok=True)
    with disk.written(folder, old.read_bytes(), 0o600) as temporary:
        for name in names.numbered(path.rpartition("/")[2]):
            with contextlib.suppress(FileExistsError):
                disk.claim(temporary, folder / name)
                return folder / name
    return old
