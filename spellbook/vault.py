"""
The vault: the only module that touches note files.

Every write leaves either the old file or the new one, whole, whatever happens
in between, and a file that somebody changed meanwhile is never written over.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
import time
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from spellbook.errors import Conflict, InvalidInput, MemoryNotFound, PathOutsideVault, StorageError, UnreadableNote, VaultNotFound
from spellbook.notes import MOST_BYTES, Fault, Stamp

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

TRASH = ".trash"
IGNORE_FILE = ".spellbookignore"

_MOST_NAME = 120
_DEVICES = re.compile(r"(?i)^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])(?= *(\.|$))")
_FORBIDDEN = re.compile(r'[<>:"/\\|?*#^\[\]\x00-\x1f\x7f]+')
_EDGES = " .-~"
_JOINER = "\u200d"
_TEMPORARY = re.compile(r"\.spellbook-[0-9a-f]{16}\.tmp")
_COPY = re.compile(r"(?i)\.sync-conflict-\d|\([^)]*conflicted copy[^)]*\)|\(case conflict[^)]*\)|^~\$|^#.*#$|~$")


@dataclass(frozen=True, slots=True)
class Listing:
    """
    One walk over the vault.

    `files` by path; `faults` of what could not be looked at; `hidden` are
    folders that could not be listed, whose files are therefore not gone;
    `litter` are temporary files that a killed Spellbook left.
    """

    files: dict[str, Stamp]
    faults: tuple[Fault, ...]
    hidden: tuple[str, ...]
    litter: tuple[str, ...] = ()


class Vault:
    """The folder of notes at `root`, an existing real path. `locks` is a folder for the lock between writers."""

    def __init__(self, root: Path, locks: Path) -> None:
        self.root = root
        self._locks = locks
        self._ignoring: tuple[tuple[int, int, int] | None, GitIgnoreSpec | None] = (None, None)

    def walk(self) -> Listing:
        """
        List every note file by its path relative to the vault.

        Dot-folders, links to folders, what `.spellbookignore` lists, conflict
        copies and editors' temporary files are left out. Raises VaultNotFound
        if the root itself cannot be listed.
        """
        ignored = self._ignored()
        files: dict[str, Stamp] = {}
        faults: list[Fault] = []
        hidden: list[str] = []
        litter: list[str] = []
        folders = [""]
        while folders:
            folder = folders.pop()
            try:
                entries = list(os.scandir(self.root / folder if folder else self.root))
            except OSError as error:
                if not folder:
                    raise VaultNotFound(
                        f"{self.root}: the vault cannot be listed ({error.strerror}).",
                        "Is its drive mounted? Nothing was forgotten.",
                    ) from error
                if error.errno != errno.ENOENT:
                    hidden.append(folder + "/")
                    faults.append(Fault(_shown(folder), 0, f"the folder cannot be listed ({error.strerror})"))
                continue
            litter += [f"{folder}/{entry.name}" if folder else entry.name for entry in entries if _TEMPORARY.fullmatch(entry.name)]
            for entry in entries:
                self._enter(entry, folder, ignored, files, folders, faults, hidden)
        return Listing(files, tuple(faults), tuple(hidden), tuple(litter))

    def sweep(self, litter: Sequence[str], age: float = 3600.0) -> None:
        """Delete Spellbook's own temporary files that nobody has touched for `age` seconds; whoever wrote them was killed."""
        for path in litter:
            with contextlib.suppress(OSError):
                if time.time() - os.lstat(self.root / path).st_mtime > age:
                    os.unlink(self.root / path)

    def _enter(
        self,
        entry: os.DirEntry[str],
        folder: str,
        ignored: GitIgnoreSpec | None,
        files: dict[str, Stamp],
        folders: list[str],
        faults: list[Fault],
        hidden: list[str],
    ) -> None:
        name = entry.name
        path = f"{folder}/{name}" if folder else name
        is_note = name[-3:].lower() == ".md"
        try:
            if entry.is_dir(follow_symlinks=False):
                if not name.startswith(".") and not (ignored and ignored.match_file(path + "/")):
                    folders.append(path)
                return
            if not is_note or not _is_note(path) or (ignored and ignored.match_file(path)):
                return
            if entry.is_symlink() and not (self._inside(path) and os.path.exists(entry.path)):
                faults.append(Fault(_shown(path), 0, "a link that leads out of the vault, or nowhere; not read"))
                return
            status = entry.stat()
        except OSError as error:
            if error.errno != errno.ENOENT:
                hidden.append(path)  # it is there, so it is not gone
                faults.append(Fault(_shown(path), 0, f"cannot be looked at ({error.strerror})"))
            return
        if not stat.S_ISREG(status.st_mode):
            return
        try:
            path.encode("utf-8")
        except UnicodeEncodeError:
            faults.append(Fault(_shown(path), 0, "the file's name is not UTF-8; rename it"))
            return
        files[path] = _stamp(status)

    def is_note(self, path: str) -> bool:
        """Say whether a file at `path` would be read as a note, by its name and `.spellbookignore` alone."""
        if not _is_note(path):
            return False
        ignored = self._ignored()
        if ignored is None:
            return True
        # As git and `walk` have it: what lies in an ignored folder cannot be had back by a later line.
        folders = (path[: i + 1] for i, letter in enumerate(path) if letter == "/")
        return not any(ignored.match_file(place) for place in (*folders, path))

    def _ignored(self) -> GitIgnoreSpec | None:
        file = self.root / IGNORE_FILE
        try:
            status = file.stat()
            version = (status.st_mtime_ns, status.st_size, status.st_ino)
            if self._ignoring[0] == version:
                return self._ignoring[1]
            text = file.read_text("utf-8-sig", "replace")
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            # Going on without it would put into the index what was to be kept out.
            raise InvalidInput(f"{file}: cannot be read ({error.strerror}).", "Mend its permissions, or delete it.") from error
        from pathspec import GitIgnoreSpec

        try:
            spec = GitIgnoreSpec.from_lines(text.splitlines())
        except ValueError as error:
            raise InvalidInput(f"{file}: {error}.", "Mend the line; patterns are as in .gitignore.") from error
        self._ignoring = (version, spec)
        return spec

    def stamp(self, path: str) -> Stamp | None:
        """Return the stamp of a file that `walk` would list, None if there is no such note."""
        if not self.is_note(path):
            return None
        try:
            place = self.locate(path)
            status = os.stat(place)
            folder = path.rpartition("/")[0]
            # `walk` goes through no link to a folder.
            if not stat.S_ISREG(status.st_mode) or os.path.realpath(place.parent) != str(self.root.joinpath(*folder.split("/"))):
                return None
        except (OSError, PathOutsideVault):
            return None
        return _stamp(status)

    def spelled(self, path: str) -> Stamp | None:
        """Return what `stamp` does if the path is spelled just so, which macOS and Windows do not insist on."""
        stamp = self.stamp(path)
        if stamp and os.path.lexists(self.root / path.swapcase()):  # else case matters here
            place = self.root
            for part in path.split("/"):
                with contextlib.suppress(OSError):
                    if part not in os.listdir(place):
                        return None
                place = place / part
        return stamp

    def read(self, path: str) -> tuple[bytes, Stamp]:
        """
        Return a file's bytes and the stamp that they had.

        Raises MemoryNotFound if it is gone, UnreadableNote if it is too large
        or cannot be opened.
        """
        place = self.locate(path)
        try:
            with open(place, "rb") as file:
                status = os.fstat(file.fileno())
                if status.st_size > MOST_BYTES:
                    raise UnreadableNote(
                        f"{path}: {status.st_size / 1e6:.1f} MB, and notes are read up to {MOST_BYTES / 1e6:.0f} MB.",
                        f"Split the note, or list it in {IGNORE_FILE}.",
                    )
                data = file.read(MOST_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise MemoryNotFound(f"{path}: no such note in {self.root}.", "Search for it, or list topics.") from error
        except OSError as error:
            raise UnreadableNote(f"{path}: cannot be read ({error.strerror}).", "Mend its permissions; it was not changed.") from error
        return data, _stamp(status)

    def locate(self, path: str) -> Path:
        """
        Return where `path` lies. Raises PathOutsideVault for what would leave the vault.

        Refused: absolute paths, drive letters, `..`, NUL, device names, and
        links that lead out. A file that has such a name nevertheless, where
        the system gives it no meaning, is a note like any other.
        """
        parts = path.replace("\\", "/").split("/") if os.name == "nt" else path.split("/")
        leaves = not path or "\0" in path or any(part in {"", ".", ".."} for part in parts)
        elsewhere = path.startswith(("\\", "~")) or re.match(r"[A-Za-z]:", path) or any(map(_DEVICES.match, parts))
        if leaves or not self._inside(path) or (elsewhere and (os.name == "nt" or not os.path.lexists(self.root / path))):
            raise PathOutsideVault(f"{path[:200]!r} is not a path inside the vault.", "Use a path relative to the vault, with `/`.")
        return self.root.joinpath(*parts)

    def _inside(self, path: str) -> bool:
        try:
            real = os.path.realpath(self.root / path)
        except (OSError, ValueError):
            return False
        return real.startswith(os.path.join(self.root, ""))

    def write(self, path: str, data: bytes, expected: str) -> None:
        """
        Replace the file's bytes by `data` if they still hash to `expected` (`digest`).

        Raises Conflict, with nothing written, if they do not.
        """
        place = Path(os.path.realpath(self.locate(path)))
        with self._writing():
            self._expect(path, expected)
            temporary = self._temporary(place.parent, data, 0o600)
            try:
                self._expect(path, expected)  # last look: what an editor saved since must not be lost
                os.chmod(temporary, stat.S_IMODE(os.stat(place).st_mode))
                os.replace(temporary, place)
            except BaseException as error:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                if isinstance(error, OSError):
                    raise _storage(path, error) from error
                raise
            _sync_folder(place.parent)

    def _expect(self, path: str, expected: str) -> None:
        if digest(self.read(path)[0]) != expected:
            raise Conflict(f"{path}: the file was changed by somebody else meanwhile.", "Read it again and repeat; nothing was written.")

    def create(self, folder: str, name: str, data: bytes) -> str:
        """
        Write a new note `<folder>/<name>.md`, numbered if the name is taken, and return its path.

        `folder` and `name` may hold anything; what a system or Obsidian
        forbids in names is replaced.
        """
        self.check_folder(folder)
        return self._create(_safe_parts(folder), name, data)

    def check_folder(self, folder: str) -> None:
        """Raise PathOutsideVault or InvalidInput if notes that `create` would write to `folder` could not be kept, or not found."""
        path = "/".join([*_safe_parts(folder), "x.md"])
        if not self._inside(path):
            raise PathOutsideVault(f"{folder[:200]!r} leads out of the vault.", "It is a link; choose another topic or category.")
        if not self.is_note(path):
            raise InvalidInput(f"{IGNORE_FILE} leaves out {folder[:200]!r}.", "What is written there is never found: choose another topic.")

    def keep(self, path: str, name: str, data: bytes) -> str:
        """Write `data` into the trash, beside where the note `path` would go and with its mode, and return its path there."""
        folder = path.rpartition("/")[0]
        mode = stat.S_IMODE(os.stat(self.locate(path)).st_mode)
        return self._create([TRASH, *filter(None, folder.split("/"))], name, data, mode)

    def forget(self, path: str) -> None:
        """Take back what `keep` wrote."""
        with contextlib.suppress(OSError):
            self._in_trash(path).unlink()

    def _create(self, parts: list[str], name: str, data: bytes, mode: int = 0o666) -> str:
        with self._writing():
            try:
                place = self.root.joinpath(*parts)
                if not self._inside("/".join([*parts, "x.md"])):
                    raise PathOutsideVault(
                        f"{'/'.join(parts)!r} leads out of the vault.", "It is a link; choose another topic or category."
                    )
                place.mkdir(parents=True, exist_ok=True)
                temporary = self._temporary(place, data, mode)
                try:
                    for number in range(1, 10_000):
                        tail = "" if number == 1 else f"-{number}"
                        file = f"{safe_name(name, _MOST_NAME - len(tail) - 3)}{tail}.md"
                        if _claim(temporary, place / file):
                            _sync_folder(place)
                            return str(PurePosixPath(*parts, file))
                finally:
                    with contextlib.suppress(OSError):
                        os.unlink(temporary)
            except OSError as error:
                raise _storage("/".join(parts), error) from error
        raise StorageError(f"{'/'.join(parts)}: 10,000 notes are called {name!r}.", "Choose another title.")

    def remove(self, path: str, expected: str, *, hard: bool = False) -> str | None:
        """
        Move a note to the trash and return its path there, or delete it for good with `hard`.

        Raises Conflict, with nothing done, if its bytes do not hash to `expected`.
        """
        place = self.locate(path)
        with self._writing():
            self._expect(path, expected)
            try:
                if hard:
                    self._unlink(path, place, expected)
                    return None
                target = self.root / TRASH / path
                if not self._inside(f"{TRASH}/{path}"):
                    raise PathOutsideVault(f"{TRASH} leads out of the vault.", "It is a link; put a folder in its place.")
                target.parent.mkdir(parents=True, exist_ok=True)
                return _move(place, target, self.root)
            except FileNotFoundError as error:
                raise MemoryNotFound(f"{path}: no such note in {self.root}.", "It may be gone already.") from error
            except OSError as error:
                raise _storage(path, error) from error

    def _unlink(self, path: str, place: Path, expected: str) -> None:
        """Delete a file under another name, where no editor can have saved anything since it was looked at."""
        aside = place.with_name(f".spellbook-{secrets.token_hex(8)}.tmp")
        os.replace(place, aside)
        if digest(aside.read_bytes()) != expected:
            _move(aside, place, self.root)
            raise Conflict(f"{path}: the file was changed by somebody else meanwhile.", "Read it again and repeat; nothing was erased.")
        aside.unlink()
        _sync_folder(place.parent)

    def restore(self, path: str) -> str:
        """Move a note from the trash to where it was; `path` as `remove` gave it. Returns its path, numbered if taken."""
        if not path.startswith(TRASH + "/"):
            raise InvalidInput(f"{path:.200}: not in the trash.", f"Give a path that begins with {TRASH}/.")
        home = path.removeprefix(TRASH + "/")
        if not _is_note(home):
            raise InvalidInput(f"{path:.200}: not a note.", "Move it back by hand.")
        with self._writing():
            source, target = self._in_trash(path), self.root.joinpath(*home.split("/"))
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                return _move(source, target, self.root)
            except FileNotFoundError as error:
                raise MemoryNotFound(f"{path}: not in the trash.", f"Look into {self.root / TRASH}.") from error
            except OSError as error:
                raise _storage(path, error) from error

    def _in_trash(self, path: str) -> Path:
        source = self.root.joinpath(*path.split("/"))
        if ".." in path.split("/") or "\0" in path or not self._inside(path) or not self._inside(path.removeprefix(TRASH + "/")):
            raise PathOutsideVault(f"{path[:200]!r} is not a path inside the vault.", "Use a path relative to the vault, with `/`.")
        return source

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """One writer at a time among Spellbook's own; editors know nothing of it."""
        from filelock import FileLock, Timeout

        lock = FileLock(self._locks / "write.lock", timeout=30)
        try:
            lock.acquire()
        except Timeout as error:
            raise StorageError("Another Spellbook has been writing for 30 seconds.", "Try again; nothing was written.") from error
        except OSError as error:
            raise StorageError(
                f"{self._locks}: the state folder cannot be written ({error.strerror}).", "Mend it, or set SPELLBOOK_STATE."
            ) from error
        try:
            yield
        finally:
            lock.release()

    def _temporary(self, folder: Path, data: bytes, mode: int) -> Path:
        name = folder / f".spellbook-{secrets.token_hex(8)}.tmp"
        try:
            with open(name, "xb", opener=lambda file, flags: os.open(file, flags, mode)) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise _storage(str(folder), error) from error
        return name


def digest(data: bytes) -> str:
    """Return the sha256 of a file's bytes, in hexadecimal: the `expected_hash` of every write."""
    return hashlib.sha256(data).hexdigest()


def safe_name(text: str, most: int = _MOST_NAME - 3) -> str:
    """Return `text` as a file name that Windows, macOS, Linux and Obsidian accept, at most `most` bytes of UTF-8."""
    name = _FORBIDDEN.sub("-", unicodedata.normalize("NFC", text))
    name = re.sub(r"\s+", " ", name.encode("utf-8", "ignore").decode()).strip(_EDGES)
    name = _DEVICES.sub(r"\1-", name)
    kept = name.encode()[:most].decode("utf-8", "ignore")
    # A cut must not leave half of a letter that several code points make.
    while kept and len(kept) < len(name) and (_joins(name[len(kept)]) or kept[-1] == _JOINER):
        kept = kept[:-1]
    return kept.strip(_EDGES if len(kept) < len(name) else " .") or "note"


def _safe_parts(folder: str) -> list[str]:
    return [safe_name(part) for part in folder.split("/") if part.strip(" .")]


def _joins(letter: str) -> bool:
    return unicodedata.category(letter)[0] == "M" or letter == _JOINER or "\U0001f3fb" <= letter <= "\U0001f3ff"


def _is_note(path: str) -> bool:
    parts = path.split("/")
    if any(part.startswith(".") for part in parts) or parts[-1][-3:].lower() != ".md":
        return False
    return not _COPY.search(parts[-1][:-3])


def _stamp(status: os.stat_result) -> Stamp:
    # Some disks number files up to 2^64 and beyond; SQLite counts to 2^63.
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ino & 0x7FFF_FFFF_FFFF_FFFF)


def _shown(path: str) -> str:
    """A path as it can be told; a name that is not UTF-8 cannot even be printed."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _claim(source: Path, target: Path) -> bool:
    """Give the finished file its name if the name is free."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        return False
    except FileNotFoundError:
        raise
    except (OSError, NotImplementedError):  # no hard links here (exFAT, some network drives)
        return _take(source, target)
    return True


def _take(source: Path, target: Path) -> bool:
    """Move whatever `source` is in that moment to `target`, if that name is free."""
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    try:
        os.replace(source, target)
    except OSError:
        os.unlink(target)
        raise
    return True


def _move(source: Path, target: Path, root: Path) -> str:
    stem, suffix = target.stem, target.suffix
    for number in range(2, 10_000):
        if _take(source, target):
            _sync_folder(source.parent)
            _sync_folder(target.parent)
            return target.relative_to(root).as_posix()
        target = target.with_name(f"{stem}-{number}{suffix}")
    raise StorageError(f"{target.parent}: 10,000 files are called {stem}.", "Empty the trash.")


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # Windows cannot, and some network drives will not
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _storage(path: str, error: OSError) -> StorageError:
    reasons = {
        errno.ENOSPC: "the disk is full",
        errno.EDQUOT: "the disk quota is used up",
        errno.EROFS: "the disk is read-only",
        errno.EACCES: "no permission to write there",
        errno.EPERM: "no permission to write there",
        errno.ENAMETOOLONG: "the name is too long for this disk",
    }
    reason = reasons.get(error.errno or 0, error.strerror or str(error))
    return StorageError(f"{path}: {reason}.", "Nothing was written; mend that and try again.")
