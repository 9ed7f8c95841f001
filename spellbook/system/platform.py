"""
The calls of the operating system that Linux, macOS and Windows answer differently: names of files, links, programs.

Every file is replaced, renamed and removed here, and every program is started here. On Windows a file that another
program has open is tried again for a second, as virus scanners and sync tools hold one for less.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import time
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

AnyPath = str | os.PathLike[str]

SF_DATALESS = 0x4000_0000
"""macOS' flag of a file whose bytes are in iCloud alone: reading it would download them."""

_HELD = frozenset({5, 32, 33})
"""Windows' errors for a file that another program has open: access denied, sharing violation, lock violation."""

_WAITS = (0.01, 0.02, 0.04, 0.08, 0.15, 0.3, 0.4)
"""Seconds between attempts, a second in all. By hand."""

_MOMENTS = (0.001, 0.005, 0.02, 0.05, 0.1)
"""Seconds between attempts to open a file, which another program holds for less: nobody may read some. By hand."""

_EXCHANGE = 2
"""The flag of `renameat2` of Linux and of `renameatx_np` of macOS for two names that change places."""

_FREE = 4 if sys.platform == "darwin" else 1
"""The flag of the same two for a name that must be free."""

_HERE = -2 if sys.platform == "darwin" else -100
"""For the same two: paths count from the working folder."""


def is_held(error: OSError) -> bool:
    """Say whether another program has the file open; only Windows refuses for that."""
    number = getattr(error, "winerror", 0)
    # Where the C library opened it, the error has no number of Windows.
    return number in _HELD or (number is None and error.errno == errno.EACCES)


def patient(call: Callable[..., Any], waits: Sequence[float] = _WAITS) -> Callable[..., Any]:
    """Return `call`, tried again after each of `waits` (seconds) while another program has the file open."""

    def tried(*given: Any) -> Any:
        for wait in waits:
            try:
                return call(*given)
            except OSError as error:
                if not is_held(error):
                    raise
            time.sleep(wait)
        return call(*given)

    return tried


def patient_reader(call: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """Return `call`, which reads a file, tried again while `exchange_with_backup` has its old one aside."""

    def tried(place: Path) -> Any:
        misses = 0
        for wait in (*_MOMENTS, *_WAITS):
            try:
                return call(place)
            except FileNotFoundError:
                misses = 0 if os.path.lexists(_aside(place)) else misses + 1
                if misses == 3:  # else it may have come back meanwhile
                    raise
            time.sleep(wait)
        return call(place)

    return tried


# The system's own calls elsewhere: no file pays for Windows.
replace = patient(os.replace) if sys.platform == "win32" else os.replace
rename = patient(os.rename) if sys.platform == "win32" else os.rename
rename_at_once = os.rename
remove = patient(os.unlink) if sys.platform == "win32" else os.unlink
open_file = patient(os.open, _MOMENTS) if sys.platform == "win32" else os.open


def discard(path: AnyPath) -> None:
    """Remove a file if it is there. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        remove(path)


def exchange(one: Path, other: Path) -> bool:
    """
    Let two files, which are both there, change places, and say whether this disk can. Raises OSError if one is gone,
    or if another program has it open.
    """
    if sys.platform == "win32":
        return exchange_with_backup(_replace_file, one, other)
    # Watchers are told of `one` that it went and came; in the other order some would take it for gone.
    return _rename(one, other, _EXCHANGE)


def rename_free(source: Path, target: Path) -> bool:
    """Rename to a name that must be free, and say whether this disk can. Raises FileExistsError, FileNotFoundError."""
    if sys.platform == "win32":
        rename(source, target)  # never replaces a file there
        return True
    return _rename(source, target, _FREE)


def _rename(source: Path, target: Path, flag: int) -> bool:
    import ctypes

    call = system_call()
    sys.audit("os.rename", source, target, -1, -1)  # as Python's own
    if call is None or call(os.fsencode(source), os.fsencode(target), flag) != 0:
        code = ctypes.get_errno() if call else errno.ENOSYS
        if code in {errno.EEXIST, errno.ENOENT}:
            raise OSError(code, os.strerror(code), str(source), None, str(target))
        return False
    return True


@cache
def system_call() -> Callable[[bytes, bytes, int], int] | None:
    """Return the call that renames with a flag, None where there is none."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None, use_errno=True)
        call = library.renameatx_np if sys.platform == "darwin" else library.renameat2
        return lambda source, target, flags: int(call(_HERE, source, _HERE, target, ctypes.c_uint(flags)))
    return None


def exchange_with_backup(replace_file: Callable[[Path, Path, Path], None], one: Path, other: Path) -> bool:
    """As `exchange`, by a call that puts `other` at `one`, whose file gets a third name: Windows' `ReplaceFileW`."""
    aside = _aside(one)  # one that a killed process left is replaced: `one` is there, so it is an older file

    def whole_or_not() -> None:
        try:
            replace_file(one, other, aside)
        except OSError:
            if os.path.lexists(aside) and not os.path.lexists(one):
                rename(aside, one)  # it got half-way
            raise

    try:
        patient(whole_or_not)()
    except OSError as error:
        if isinstance(error, FileNotFoundError) or is_held(error):
            raise
        return False
    rename(aside, other)
    return True


def _aside(one: Path) -> Path:
    """Return the name that the old file has in between: a temporary one, swept like others, which a reader knows."""
    return one.with_name(f".spellbook-{zlib.crc32(one.name.encode('utf-8', 'surrogatepass')):016x}.tmp")


def _replace_file(replaced: Path, replacement: Path, backup: Path) -> None:
    """Call `ReplaceFileW`; streams and rights that cannot be merged are no reason to fail. Raises OSError."""
    if sys.platform == "win32":
        import ctypes

        sys.audit("os.rename", replacement, replaced, -1, -1)
        library = ctypes.WinDLL("kernel32", use_last_error=True)
        if not library.ReplaceFileW(str(replaced), str(replacement), str(backup), 2 | 4, None, None):
            raise ctypes.WinError(ctypes.get_last_error())


# -- what a file is


HAS_JUNCTIONS = sys.platform == "win32"
"""Whether folders of this system may be links without being symbolic ones."""


def reparse_tag(place: Path | os.DirEntry[str]) -> int:
    """Return the tag of a file or folder that stands for another one on Windows, 0 for others and elsewhere."""
    if sys.platform == "win32":
        with contextlib.suppress(OSError):
            return place.stat(follow_symlinks=False).st_reparse_tag
    return 0


def is_link(place: Path | os.DirEntry[str]) -> bool:
    """Say whether a file or folder is a link: a symbolic one, or a junction of Windows, which anybody can make."""
    # Bit 29 marks a name for another place; OneDrive's files, which have tags as well, lack it.
    return place.is_symlink() or bool(reparse_tag(place) & 0x2000_0000)


def asked_status(entry: os.DirEntry[str]) -> os.stat_result:
    """
    Return the status of a file that a folder lists, or of the one that it leads to. Raises OSError.

    Windows' list has no inode, and the old size of a file that is being written: there the file itself is asked.
    """
    return os.stat(entry.path)


status = asked_status if sys.platform == "win32" else os.DirEntry.stat


def walk_links_left_out(top: AnyPath) -> Iterator[tuple[str, list[str], list[str]]]:
    """As `os.walk` from the top, and through no junction either, which Python 3.11 takes for a folder."""
    for place, folders, files in os.walk(top):
        yield place, folders, files
        with os.scandir(place) as entries:
            links = {entry.name for entry in entries if is_link(entry)}
        folders[:] = [name for name in folders if name not in links]


walk = walk_links_left_out if sys.platform == "win32" else os.walk


def kernel_path(path: str) -> str:
    """Return the path that the kernel of macOS has for a file or folder, with the case of its names; else `path`."""
    if sys.platform == "darwin":
        import fcntl

        with contextlib.suppress(OSError):
            number = os.open(path, os.O_RDONLY)
            try:
                return os.fsdecode(fcntl.fcntl(number, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
            finally:
                os.close(number)
    return path


def real_path(path: AnyPath) -> str:
    """Return a path without links and in its true case, as Linux and Windows give it: one folder, one path."""
    real = os.path.realpath(path)
    kept = kernel_path(real)
    return kept if kept == real or _alike(kept) == _alike(real) else real


def _alike(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


def full_flush(number: int) -> None:
    """Flush an open file to the disk itself, which `fsync` of macOS leaves to the drive. Raises OSError."""
    import fcntl

    try:
        fcntl.fcntl(number, getattr(fcntl, "F_FULLFSYNC", 51))
    except OSError:  # network drives
        os.fsync(number)


flush = full_flush if sys.platform == "darwin" else os.fsync


# -- programs


def program(name: str, environment: Mapping[str, str] = os.environ) -> str:
    """
    Return the file of a program as a shell of Windows finds it, by PATH and PATHEXT, but not in the working folder.

    That may be anybody's. A name with a folder stays, and so does one that is not found.
    """
    endings = ["", *environment.get("PATHEXT", ".COM;.EXE;.BAT;.CMD").split(";")]
    if os.path.dirname(name):
        folders = [""]
    else:
        folders = [folder.strip('"') for folder in environment.get("PATH", "").split(os.pathsep) if folder]
    places = (os.path.join(folder, name + ending) for folder in folders for ending in endings)
    return next((place for place in places if os.path.splitext(place)[1] and os.path.isfile(place)), name)


def batch_line(command: Sequence[str]) -> str:
    """
    Return the line with which `cmd` runs a .bat or .cmd with these arguments, none of which it reads as its own.

    Each is quoted; `%` becomes one that no variable follows, as in Rust's standard library. Raises OSError for a line
    break, which `cmd` would end the line at.
    """
    if any(mark in part for part in command for mark in "\r\n\0"):
        raise OSError(errno.EINVAL, "a line break in an argument", command[0])
    quoted = (part.replace("%", "%%cd:~,%").replace('"', '""') for part in command)
    ends = ((part, "\\" * (len(part) - len(part.rstrip("\\")))) for part in quoted)
    return 'cmd.exe /e:ON /v:OFF /d /c "{}"'.format(" ".join(f'"{part}{more}"' for part, more in ends))


def _started(command: Sequence[str], how: dict[str, Any]) -> Any:
    """Return the arguments of `subprocess` for a command; no shell is asked, but for a batch file by `batch_line`."""
    if sys.platform != "win32":
        return command
    found = [program(command[0]), *command[1:]]
    if not found[0].lower().endswith((".bat", ".cmd")):
        return found
    how["executable"] = os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "cmd.exe")
    return batch_line(found)


def start(command: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
    """Start a program without a shell; `how` is as for `subprocess.Popen`. Raises OSError."""
    import subprocess

    return subprocess.Popen(_started(command, how), **how)


def run(command: Sequence[str], **how: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a program without a shell to its end; `how` is as for `subprocess.run`. Raises OSError."""
    import subprocess

    return subprocess.run(_started(command, how), check=False, **how)


# -- libraries with parts in C++

RUNTIME = ("msvcp140.dll", "msvcp140_1.dll", "vcruntime140_1.dll")
"""The files of Microsoft's C++ runtime that onnxruntime and chromadb need, and that neither Windows nor Python has."""


class MissingRuntime(ImportError):
    """A library of Windows that does not load, with a `hint` for a person."""

    hint = (
        "Run `pip install msvc-runtime`, or install Microsoft's Visual C++ Redistributable: "
        "https://aka.ms/vs/17/release/vc_redist.x64.exe"
    )


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Import a library with parts in C++ inside. Raises MissingRuntime if a file of Windows' runtime is not there."""
    load = runtime()
    try:
        yield
    except ImportError as error:
        for name in RUNTIME:
            try:
                load(name)
            except OSError:
                raise MissingRuntime(f"{name} of Microsoft's C++ runtime is missing") from error
        raise


@cache
def runtime() -> Callable[[str], object]:
    """Let Windows find the runtime of msvc-runtime, and return a call that raises OSError for a missing file."""
    if sys.platform != "win32":
        return str
    import ctypes
    from importlib import metadata

    with contextlib.suppress(metadata.PackageNotFoundError, OSError):
        files = metadata.files("msvc-runtime") or ()
        places = (str(file.locate()) for file in files if file.name.lower() == RUNTIME[0])
        if place := next(filter(os.path.isfile, places), ""):
            os.add_dll_directory(os.path.dirname(os.path.abspath(place)))
    return ctypes.WinDLL
