"""The folder of notes, for reading only: notes and other files by their paths there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterator
from io import BufferedReader
from pathlib import Path

from spellbook.notes import links
from spellbook.notes.files import MOST_BYTES, Stamp, too_large
from spellbook.notes.where_links_lead import Files
from spellbook.system import disk, platform
from spellbook.system.errors import (
    HeldBack,
    MemoryNotFound,
    PathOutsideVault,
    UnreadableNote,
    VaultNotFound,
)
from spellbook.text.unicode import composed, folded, is_whole
from spellbook.vault import listing, names, obsidian
from spellbook.vault.listing import Ignored, IsLeftOut, Listing, stamp_of

_FRESH = 3.0
"""Seconds for which a list of pictures is good: a page and its pictures are asked for within them."""

_OPENED = "/proc/self/fd"
"""Where Linux names the folders and files that a process has open."""

_LFS = b"version https://git-lfs.github.com/spec/v1\n"


class Folder:
    """
    Read access to the files below `root`, an existing real path.

    The index knows `known` notes. With `obsidian`, Obsidian's settings leave files out.
    """

    def __init__(self, root: Path, known: Callable[[], int] = lambda: 0, *, obsidian: bool = False) -> None:
        self.root = root
        self._ignored = Ignored(root)
        self.obsidian = obsidian
        self._settings: tuple[tuple[Stamp | None, ...], IsLeftOut | None] = (), None
        self._known = known
        self._pictures: tuple[float, Files] | None = None
        self._inode = root.stat().st_ino if root.is_dir() else 0

    @property
    def lies_in(self) -> Folder:
        """The folder that has the files of the notes, and the pictures that they show: this one."""
        return self

    def walk(self) -> Listing:
        """List every note file; see `listing.walk`. Raises VaultNotFound if the root itself cannot be listed."""
        return listing.walk(self.root, self._ignored.patterns(self._others()))

    def check_there(self) -> None:
        """Raise VaultNotFound if the root is missing, or is empty while the index knows more than one note."""
        reason = "it is empty, and the index knows notes"
        try:
            with os.scandir(self.root) as entries:
                is_empty = next(entries, None) is None
            known = self._known() if is_empty else 0
            if known == 0 or (known == 1 and self.root.stat().st_ino == self._inode):
                return
        except OSError as error:
            reason = error.strerror or str(error)
        raise VaultNotFound(
            f"{self.root}: the vault is not there ({reason}).",
            "Is its drive mounted? Nothing was changed. If you deleted the notes, run `spellbook reindex --full`.",
        )

    def make(self, folder: str) -> None:
        """Make a folder beneath the root, never the root. Raises VaultNotFound, PathOutsideVault, OSError."""
        self.check_there()
        if not self.holds(f"{folder}/x".lstrip("/")):
            raise _leads_out(folder)
        place = self.root
        for part in Path(folder).parts:
            place /= part
            with self.anchored(place) as anchored, contextlib.suppress(FileExistsError):
                anchored.mkdir()
                disk.sync_folder(anchored.parent)

    @contextlib.contextmanager
    def anchored(self, place: Path) -> Iterator[Path]:
        """
        Yield a path to `place` that stays in the vault, also if a folder on its way becomes a link out of it meanwhile.

        The path names the folder by its number as an open file, which Linux alone can. Elsewhere it is `place` itself.
        Raises PathOutsideVault, OSError.
        """
        if sys.platform != "linux" or not os.path.isdir(_OPENED):
            yield place
            return
        inside = os.path.relpath(os.path.realpath(place.parent), self.root)
        folder: int | None = None
        with contextlib.ExitStack() as opened:
            for part in (str(self.root), *Path(inside).parts):
                if part == "..":
                    raise _leads_out(inside)
                folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
                opened.callback(os.close, folder)
            yield Path(_OPENED, str(folder), place.name)

    def _walk_names(self, folder: str = "") -> Iterator[tuple[str, list[str], list[str]]]:
        """Yield the path of each folder, "" or `a/b/`, with the names of its folders and files, but for dot-names."""
        for place, folders, files in platform.walk(self.root / folder):
            inside = f"{Path(place).relative_to(self.root).as_posix()}/".removeprefix("./")
            folders[:] = [name for name in folders if not (name.startswith(".") or names.BIN.search(inside + name))]
            files = list(dict.fromkeys(map(names.meant, files)))
            yield inside, folders, [name for name in files if not name.startswith(".")]

    def files(self, folder: str = "") -> list[str]:
        """Return the paths of all files, also ignored ones; none of dot-files, dot-folders and linked folders."""
        return [inside + name for inside, _, files in self._walk_names(folder) for name in files]

    def folders(self, folder: str = "") -> list[str]:
        """Return the paths of the folders in a folder that Spellbook can name, but for hidden ones."""
        inside, found, _ = next(self._walk_names(folder), ("", [], []))
        return [path for name in found if (self.root / (path := composed(inside + name))).is_dir()]

    def pictures(self) -> Files:
        """Return the pictures beside the notes, as links find them; none that is hidden or ignored."""
        now = time.monotonic()
        if self._pictures is None or now - self._pictures[0] > _FRESH:
            ignored = self._ignored.patterns()
            paths: list[str] = []
            for inside, folders, files in self._walk_names():
                folders[:] = [name for name in folders if not (ignored and ignored(f"{inside}{name}/"))]
                paths += (inside + name for name in files if links.suffix(name) in links.PICTURES)
            self._pictures = now, Files(path for path in paths if is_whole(path) and not (ignored and ignored(path)))
        return self._pictures[1]

    def is_note(self, path: str) -> bool:
        """Say whether a file at `path` would be read as a note, by its name and the patterns alone."""
        is_note = names.is_note(path) and not listing.is_beside(self.root, path)
        return is_note and not self._ignored.leaves_out(path, self._others())

    def ignores(self, path: str) -> bool:
        """Say whether `.spellbookignore` excludes `path` or one of its folders. The path of a folder ends in `/`."""
        return self._ignored.leaves_out(path)

    def _others(self) -> IsLeftOut | None:
        if self.obsidian and (now := obsidian.stamps(self.root)) != self._settings[0]:
            self._settings = now, obsidian.read(self.root).leaves_out() if any(now) else None
        return self._settings[1]

    def stamp(self, path: str) -> Stamp | None:
        """Return the stamp of a file that `walk` would list, None if there is no such note."""
        if not self.is_note(path):
            return None
        try:
            place, real = self._located(path)
            status = os.stat(place if os.path.lexists(place) else _placeholder(place))
            # `walk` goes through no link to a folder.
            is_linked = real != str(place) and os.path.realpath(place.parent) != str(place.parent)
            if not stat.S_ISREG(status.st_mode) or is_linked:
                return None
        except (OSError, PathOutsideVault):
            return None
        return stamp_of(status)

    def spelled(self, path: str) -> Stamp | None:
        """Return `stamp(path)` if the path has exactly this spelling, also where the system ignores case."""
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
        """Return a file's bytes and stamp. Raises MemoryNotFound, UnreadableNote (too large, or not to be opened)."""
        with self._open(
            path, lambda: MemoryNotFound(f"{path}: no such note in {self.root}.", "Search for it, or list topics.")
        ) as file:
            status = os.fstat(file.fileno())
            if status.st_size > MOST_BYTES:
                raise too_large(path, status.st_size)
            data = file.read(status.st_size + 1)  # room for the largest note would take longer to make than the file
            if len(data) > status.st_size:
                data += file.read(MOST_BYTES + 1 - len(data))
            if data.startswith(_LFS) and len(data) < 1024:
                raise UnreadableNote(f"{path}: it is not on this machine, Git LFS has it.", "Run `git lfs pull`.")
            return data, stamp_of(status)

    def pieces(self, path: str, size: int = 1 << 20) -> Iterator[bytes]:
        """Yield a file of any kind and length in pieces of `size` bytes. Raises MemoryNotFound, UnreadableNote."""
        with self._open(
            path, lambda: MemoryNotFound(f"{path}: no such file in {self.root}.", "It may have been moved meanwhile.")
        ) as file:
            yield from disk.pieces_of(file, size)

    @contextlib.contextmanager
    def _open(self, path: str, gone: Callable[[], MemoryNotFound]) -> Iterator[BufferedReader]:
        """Open a file. Raises UnreadableNote, and `gone` if there is none."""
        place = self.locate(path)
        try:
            with disk.swapped(place) as file:
                if getattr(os.fstat(file.fileno()), "st_flags", 0) & platform.SF_DATALESS:
                    away = _away(path)
                    raise HeldBack(away.message, away.hint)
                yield file
        except (FileNotFoundError, NotADirectoryError) as error:
            self.check_here(path)
            self.check_there()
            raise gone() from error
        except OSError as error:
            raise UnreadableNote(
                f"{path}: cannot be read ({error.strerror}).", "Mend its permissions; it was not changed."
            ) from error

    def check_here(self, path: str) -> None:
        """Raise UnreadableNote if an iCloud placeholder stands for the file at `path`, which keeps its place."""
        place = self.root.joinpath(*path.split("/"))
        if not os.path.lexists(place) and os.path.lexists(_placeholder(place)):
            raise _away(path)

    def hash(self, path: str) -> str:
        """Return the `digest` of a file of any kind and size. Raises MemoryNotFound, UnreadableNote."""
        return disk.hash_pieces(self.pieces(path))

    def locate(self, path: str, *, known: bool = False) -> Path:
        """
        Return the file system path of `path`. Raises PathOutsideVault for a path that leaves the vault.

        Absolute paths, drive letters, `..`, NUL, device names and links out of the vault are refused. Names such as
        `~x`, `C:x` or `aux` are accepted where the system gives them no meaning and the file exists, or existed
        (`known`).
        """
        return self._located(path, known=known)[0]

    def _located(self, path: str, *, known: bool = False) -> tuple[Path, str]:
        """Return `locate`, and the real path of it."""
        parts = path.replace("\\", "/").split("/") if os.name == "nt" else path.split("/")
        leaves = not path or "\0" in path or any(part in {"", ".", ".."} for part in parts)
        elsewhere = path.startswith("\\") or re.match(r"[A-Za-z]:", path) or any(map(names.DEVICES.match, parts))
        refused = elsewhere and os.name == "nt"
        if (
            leaves
            or refused
            or not (real := listing.real_inside(self.root, path))
            or ((elsewhere or path[0] == "~") and not (known or os.path.lexists(self.root / path)))
        ):
            raise PathOutsideVault(
                f"{path[:200]!r} is not a path inside the vault.", "Use a path relative to the vault, with `/`."
            )
        if names.is_too_long(path) and not os.path.lexists(self.root / path):
            raise PathOutsideVault(f"{path[:60]!r}… is longer than any disk can store.", "Use a shorter name.")
        return self.root.joinpath(*parts), real

    def admitted(self, path: str) -> Path:
        """
        Return the real path to write for a `path` of an import, a restore or an undo.

        Raises PathOutsideVault for a path that leaves the vault, passes a linked folder, or is not part of a vault
        (see `names`).
        """
        place = self.locate(path, known=True)
        real, folder = Path(os.path.realpath(place)), os.path.realpath(place.parent)
        inside = Path(os.path.relpath(real, self.root)).as_posix()  # it may lead out by now
        reason = names.refusal(path) or names.refusal(inside)
        # `walk` goes through no link to a folder.
        if not reason and folded(folder) != folded(str(place.parent)):
            reason = "a folder on its way is a link"
        if reason:
            raise PathOutsideVault(f"{listing.shown(path)[:200]!r} is not written: {reason}.", "Choose another path.")
        self.check_here(path)
        return real

    def check_target(self, path: str) -> Path:
        """Return the real path to write. Raises PathOutsideVault as `admitted` does; the trash takes any name."""
        if not path.startswith(f"{names.TRASH}/"):
            return self.admitted(path)
        if not self.holds(path):
            raise _leads_out(path)
        return Path(os.path.realpath(self.locate(path, known=True)))

    def holds(self, path: str) -> bool:
        """Say whether `path`, with all links resolved, is inside the vault."""
        return listing.real_inside(self.root, path) != ""


def _away(path: str) -> UnreadableNote:
    """Return the error for a file whose bytes are in iCloud alone."""
    return UnreadableNote(f"{path}: it is not on this machine, iCloud has it.", "Download it first, in Finder.")


def _placeholder(place: Path) -> Path:
    return place.with_name(f".{place.name}.icloud")


def _leads_out(path: str) -> PathOutsideVault:
    return PathOutsideVault(f"{path[:200]!r} leads out of the vault.", "It is a link; put a folder in its place.")


def digest(data: bytes) -> str:
    """Return the sha256 of a file's bytes, in hexadecimal: the `expected_hash` of every write."""
    return hashlib.sha256(data).hexdigest()
