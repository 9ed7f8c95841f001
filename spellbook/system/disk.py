"""Write files atomically, never in part or over another by accident; rename atomically; and explain disk errors."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from spellbook.system import platform
from spellbook.system.errors import SpellbookError, StorageError
from spellbook.system.lazy import regex, shutil
from spellbook.system.lock import held
from spellbook.system.platform import exchange

if TYPE_CHECKING:
    from _typeshed import SupportsRead

_REMOTE = regex(
    "9p|afs|beegfs|ceph|cifs|coda|davfs|drvfs|fakeowner|fuse(?:[.].*)?|gfs2|gpfs|lustre|nfs4?|ocfs2|orangefs|prl_fs|smb3"
    "|smbfs|vboxsf|virtiofs|vmhgfs"
)
"""Linux's names of file systems that other machines change without an event here."""

TEMPORARY = regex(r"\.spellbook-[0-9a-f]{16}\.tmp")
"""Names of temporary files; one that stays was left by a process that was killed."""

SMALL = 1_000_000
"""Most bytes of a file of settings."""


def temporary_name(folder: Path, owner: str = "") -> Path:
    """Return an unused name for a temporary file in `folder`; `owner` has up to eight hexadecimal digits."""
    return folder / f".spellbook-{owner}{os.urandom(8).hex()[len(owner) :]}.tmp"


def permissions_in(folder: Path) -> int:
    """Return the permissions that a file in `folder` may have: those of the folder, and always all of the owner's."""
    try:
        return stat.S_IMODE(os.stat(folder).st_mode) & 0o777 | 0o700
    except OSError:
        return 0o700


def open_restricted(name: str | Path, flags: int) -> int:
    """Open a file, as the `opener` of `open`; a new file gets no permission that its folder does not have."""
    return os.open(name, flags, 0o666 & permissions_in(Path(name).parent))


def restrict(folder: Path, like: Path) -> None:
    """Make `folder`, and remove every permission in it that `like` lacks. Windows' folders pass theirs on."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.name == "nt":
        return
    allowed = permissions_in(like)
    for place, folders, files in os.walk(folder):
        for name in ("", *folders, *files):
            path = os.path.join(place, name)
            with contextlib.suppress(OSError):  # gone, or of another user
                mode = os.lstat(path).st_mode
                if not stat.S_ISLNK(mode) and stat.S_IMODE(mode) & ~allowed & 0o777:
                    os.chmod(path, stat.S_IMODE(mode) & (allowed | 0o7000))


@contextmanager
def written(folder: Path, data: bytes | Iterable[bytes], mode: int | None = None, owner: str = "") -> Iterator[Path]:
    """Write `data` to a temporary file with this mode or a new file's; deleted unless moved. Raises StorageError."""
    name = temporary_name(folder, owner)
    own = 0o666 if mode is None else 0o600
    try:
        with explain_errors(os.path.realpath(folder)):  # it may be named by its number
            with open(name, "xb", opener=lambda file, flags: os.open(file, flags, own)) as file:
                file.writelines((data,) if isinstance(data, bytes) else data)
                file.flush()
                platform.flush(file.fileno())
            if mode is not None:
                os.chmod(name, mode)
        yield name
    finally:
        with contextlib.suppress(OSError):
            platform.remove(name)


@contextmanager
def replacing(place: Path, like: Path | None = None) -> Iterator[BinaryIO]:
    """Open a file, as closed as its folder and `like`, that replaces `place` when complete. Raises OSError."""
    name = temporary_name(place.parent)
    try:
        with open(name, "xb", opener=open_restricted) as file:
            if like and os.name != "nt":
                os.chmod(name, stat.S_IMODE(os.stat(name).st_mode) & permissions_in(like))
            yield file
            file.flush()
            platform.flush(file.fileno())
        platform.replace(name, place)
    except BaseException:
        with contextlib.suppress(OSError):
            platform.remove(name)
        raise
    sync_folder(place.parent)


def put(place: Path, data: bytes, mode: int | None = None) -> None:
    """Replace the file `place` by `data`, with this mode or as `replacing` has it. Raises OSError."""
    with replacing(place) as file:
        if mode is not None:
            os.chmod(file.name, mode)
        file.write(data)


def copy_status(source: Path, target: Path) -> None:
    """Give `target` the owner, flags and attributes of `source`, not its permissions and times. Raises OSError."""
    wanted, own = os.stat(source), os.stat(target)
    with contextlib.suppress(OSError):
        shutil.copystat(source, target)
    if sys.platform != "win32" and (wanted.st_uid, wanted.st_gid) != (own.st_uid, own.st_gid):
        for ids in ((-1, wanted.st_gid), (wanted.st_uid, -1)):  # who gives a file away may not change its group
            with contextlib.suppress(OSError):
                os.chown(target, *ids)
    os.chmod(target, stat.S_IMODE(own.st_mode))  # a new owner takes away some
    os.utime(target, ns=(own.st_atime_ns, own.st_mtime_ns))


def claim(source: Path, target: Path) -> None:
    """Give the finished file `source` the additional name `target`. Raises FileExistsError if it is taken."""
    try:
        os.link(source, target, follow_symlinks=False)
    except (FileExistsError, FileNotFoundError):
        raise
    except (OSError, NotImplementedError):  # no hard links here (exFAT, some network drives)
        take(source, target)


def take(source: Path, target: Path) -> None:
    """Move `source`, whatever it is at that moment, to `target`. Raises FileExistsError if that name is taken."""
    if not platform.rename_free(source, target):
        is_folder = source.is_dir() and not platform.is_link(source)
        if is_folder and os.path.lexists(target):
            raise FileExistsError(target)
        if not is_folder:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL))
        try:
            platform.replace(source, target)
        except OSError:
            if not is_folder:
                platform.remove(target)
            raise
    sync_folder(source.parent)
    sync_folder(target.parent)


def is_same_name(one: Path, other: Path) -> bool:
    """Say whether two names are one file on a disk that ignores case. Two links to one file are two names."""
    is_alike = [unicodedata.normalize("NFC", str(path)).casefold() for path in (one, other)]
    return is_alike[0] == is_alike[1] and os.path.samestat(os.lstat(one), os.lstat(other))


def swap(source: Path, target: Path, is_expected: Callable[[Path], bool]) -> bool:
    """
    Replace `target` by the file `source` if `is_expected` holds for it; return whether it was replaced. Raises OSError.

    Where the system can exchange two files, `source` is the old file afterwards, and is checked once more: a file that
    an editor saved meanwhile is put back at `target`.
    """
    ours, done = os.lstat(source).st_ino, is_expected(target)
    if done and exchange(target, source):
        done = False
        try:
            done = is_expected(source)
        finally:
            if not done:
                _swap_back(source, target, ours)
    elif done:
        platform.replace(source, target)
    return done


def _swap_back(source: Path, target: Path, ours: int) -> None:
    """Give `target` the newest of the saved files; `ours` is the inode of our own."""
    while True:
        newest = os.lstat(source).st_ino
        try:
            if not exchange(target, source):
                platform.replace(source, target)
                return
        except FileNotFoundError:  # deleted meanwhile, or about to be made anew
            with contextlib.suppress(FileExistsError):
                take(source, target)
            return
        if os.lstat(source).st_ino == ours:
            return
        ours = newest  # somebody saved once more


@contextmanager
def regular(place: Path) -> Iterator[BufferedReader]:
    """Open a regular file for reading. Raises OSError for others: a device or FIFO would block, or do something."""

    def check(status: os.stat_result) -> None:
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is a folder", str(place))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(place))

    check(os.stat(place))
    # Without blocking, in case somebody has put a FIFO there since.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    with open(place, "rb", opener=lambda name, own: os.open(name, own | flags)) as file:
        check(os.fstat(file.fileno()))
        yield file


def read_small(place: Path, most: int = SMALL) -> bytes:
    """Return the bytes of a regular file of at most `most` bytes. Raises OSError; its `strerror` tells the problem."""
    with regular(place) as file:
        data = file.read(most + 1) or b""  # None where a file of the system has nothing to say
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is over {most / 1e6:g} MB", str(place))
    return data


def set_time(place: Path, mtime_ns: int) -> None:
    """Set the modification time in nanoseconds since 1970, as near as the index and this disk can represent it."""
    nearest = max(-(1 << 63), min(mtime_ns, (1 << 63) - 1))
    with contextlib.suppress(OSError, OverflowError):  # a time is no reason to lose a file
        os.utime(place, ns=(nearest, nearest))


def ignores_case(folder: Path) -> bool:
    """Say whether the disk of a folder ignores case, by the names in it and above. Raises OSError."""
    there = set(os.listdir(folder))
    other = next(((name, name.swapcase()) for name in there if name.swapcase() not in {name, *there}), None)
    if other is not None:
        return os.path.lexists(folder / other[1])
    return folder.parent != folder and ignores_case(folder.parent)


def pieces_of(file: SupportsRead[bytes], size: int = 1 << 20) -> Iterator[bytes]:
    """Yield the rest of an open file in pieces of `size` bytes."""
    while piece := file.read(size):
        yield piece


def hash_of(place: Path) -> str:
    """Return the sha256 of a file's bytes, in hexadecimal. Raises OSError."""
    with regular(place) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Hashed:
    """Pieces of bytes that are hashed during iteration; `sha256` is the hash of the pieces so far, in hexadecimal."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces
        self._hash = hashlib.sha256()

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self._hash.update(piece)
            yield piece

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()


def hash_pieces(pieces: Iterable[bytes]) -> str:
    """Return the sha256 of all pieces together, in hexadecimal."""
    hashed = hashlib.sha256()
    for piece in pieces:
        hashed.update(piece)
    return hashed.hexdigest()


def sync_folder(folder: Path) -> None:
    """Flush the names in `folder` to the disk, so that they survive a power cut."""
    with contextlib.suppress(OSError):  # some network drives will not
        fsync(folder)


def fsync(path: Path) -> None:
    """Flush the file or folder `path` to the disk. Raises OSError."""
    if sys.platform == "win32" and path.is_dir():
        return  # which has no such thing for folders
    number = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        platform.flush(number)
    finally:
        os.close(number)


def sync_all() -> None:
    """Flush everything written to the disk, where the system can do so at once."""
    if hasattr(os, "sync"):
        os.sync()


@contextmanager
def alone(lock: Path, patience: float, busy: SpellbookError) -> Iterator[None]:
    """Hold `lock`, one for all processes and threads. Raises OSError, and `busy` if it waited `patience` seconds."""
    with held(lock, patience) as is_ours:
        if not is_ours:
            raise busy
        yield


_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the disk is read-only",
    errno.EACCES: "no permission to write there",
    errno.EPERM: "no permission to write there",
    errno.ENAMETOOLONG: "the name is too long for this disk",
}


@contextmanager
def explain_errors(path: str) -> Iterator[None]:
    """Raise a `storage_error` of `path` for an OSError inside."""
    try:
        yield
    except OSError as error:
        raise storage_error(path, error) from error


def storage_error(path: str, error: OSError) -> StorageError:
    """Return a disk's error in words for a person."""
    if platform.is_held(error):
        reason = "another program has it open, or it may not be written"
        return StorageError(f"{path}: {reason}.", "Close it there and try again; nothing was written.")
    reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
    return StorageError(f"{path}: {reason}.", "Nothing was written; mend that and try again.")


def eventless(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Return the type (nfs, cifs …) of a remote file system at or below `folder`, by Linux's `mounts`; else ""."""
    place, nearest, kind = os.path.join(folder, ""), "", ""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return ""
    for line in lines:
        left, _, right = line.partition(" - ")
        point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), left.split(" ")[4])
        mounted, name = os.path.join(point, ""), right.split(" ")[0]
        if place.startswith(mounted) and len(mounted) >= len(nearest):
            nearest, kind = mounted, name
        elif mounted.startswith(place) and _REMOTE.fullmatch(name):
            return name
    return kind if _REMOTE.fullmatch(kind) else ""


def append_line(file: Path, line: str, most: int) -> None:
    """Add a line to a log; one over `most` bytes becomes `file.1`, in place of the one before. Never raises."""
    with contextlib.suppress(OSError):
        if file.exists() and file.stat().st_size > most:
            platform.replace(file, file.with_name(f"{file.name}.1"))
        with open(file, "a", encoding="utf-8", errors="backslashreplace", opener=open_restricted) as log:
            log.write(f"{line}\n")
