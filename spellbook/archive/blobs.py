"""File contents, each stored once under its sha256 and read back after writing; `zcat` reads those that are packed."""

from __future__ import annotations

import contextlib
import gzip
import os
import zlib
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path

from spellbook.system import disk
from spellbook.system.errors import StorageError

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
                    os.fsync(file.fileno())
            name = hashed.sha256
            there = self._find(name)
            if there and _hash(there) == name:
                return name, 0
            place = self.make(name[:2]) / (name + ".gz" * is_packed)
            size = temporary.stat().st_size
            os.replace(temporary, place)
            if there and there != place:  # the damaged one has the other form, and would be found first
                there.unlink(missing_ok=True)
            if _hash(place) != name:
                place.unlink()
                raise StorageError(
                    f"{place}: what was written does not read back as it was.", "The disk fails; nothing was kept."
                )
            return name, size
        except OSError as error:
            raise disk.storage_error(str(self.folder), error) from error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()

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
        return "missing" if blob is None else "" if _hash(blob) == sha256 else "damaged"

    def forget(self, sha256: str) -> None:
        """Delete a content, to be stored again."""
        if blob := self._find(sha256):
            blob.unlink(missing_ok=True)

    def sweep(self, needed: Collection[str]) -> None:
        """Delete all contents that are not `needed`, and temporary files of killed processes."""
        for blob in self.folder.glob("blobs/??/*"):
            if blob.name.removesuffix(".gz") not in needed:
                blob.unlink(missing_ok=True)
        for stray in self.folder.iterdir():
            if disk.TEMPORARY.fullmatch(stray.name):
                stray.unlink(missing_ok=True)

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
