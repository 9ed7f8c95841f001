"""List the files of the whole vault with their stamps, without opening any; and read patterns that leave files out."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from spellbook.notes.files import Fault, Stamp
from spellbook.system import disk, platform
from spellbook.system.errors import InvalidInput, VaultNotFound
from spellbook.system.lazy import regex
from spellbook.text.unicode import is_markdown, is_whole
from spellbook.vault import names

_MOST = 0x7FFF_FFFF_FFFF_FFFF
"""The largest number that SQLite holds."""


class Listing(NamedTuple):
    """
    One walk over the vault.

    `files` by path; `faults` of files that could not be examined; `hidden` are folders that could not be listed, so
    their files do not count as deleted; `litter` are temporary files of killed processes; `left_out` names linked
    folders, and the first of the conflict copies and of the pages of MDX.
    """

    files: dict[str, Stamp]
    faults: list[Fault]
    hidden: list[str]
    litter: list[str]
    left_out: list[Fault]


IsLeftOut = Callable[[str], bool | None]
"""Says whether a path is left out. The path of a folder ends in `/`."""


def walk(root: Path, ignored: IsLeftOut | None) -> Listing:
    """
    List every note file of the vault at `root` by its path there.

    Dot-folders, links to folders, bins, `ignored` paths and conflict copies are left out. A note that iCloud holds back
    has the stamp of its placeholder. Raises VaultNotFound if the root itself cannot be listed.
    """
    return _Walk(root, ignored).run()


class _Walk:
    """A walk under way, which collects the parts of a `Listing`."""

    def __init__(self, root: Path, ignored: IsLeftOut | None) -> None:
        self.root = root
        self.ignored = ignored
        self.found = Listing({}, [], [], [], [])
        self.copies: list[str] = []
        self.pages: list[str] = []
        self.folders = [""]

    def run(self) -> Listing:
        """Take every entry of every folder. Raises VaultNotFound."""
        found = self.found
        for folder, entries in listed(self.root, self.folders, found.hidden, found.faults):
            for entry in entries:
                name = names.meant(entry.name)
                path = f"{folder}/{name}" if folder else name
                try:
                    if name[0] == ".":
                        found.litter.extend([path] * bool(disk.TEMPORARY.fullmatch(name)))
                    elif entry.is_dir():
                        self._take_folder(entry, path)
                    else:
                        self._take_file(entry, name, path)
                except OSError as error:
                    if error.errno != errno.ENOENT:
                        found.hidden.append(path)  # it exists, so it does not count as deleted
                        found.faults.append(Fault(shown(path), 0, f"cannot be looked at ({error.strerror})"))
        found.left_out.extend(self._left_out())
        return found

    def _take_folder(self, entry: os.DirEntry[str], path: str) -> None:
        if self.ignored and self.ignored(path + "/"):
            return
        if entry.is_symlink() or (platform.HAS_JUNCTIONS and platform.is_link(entry)):
            self.found.left_out.append(Fault(shown(path), 0, "a link to a folder, which is not followed; not read"))
        elif not names.BIN.search(path):
            self.folders.append(path)

    def _take_file(self, entry: os.DirEntry[str], name: str, path: str) -> None:
        if is_markdown(name) and not (self.ignored and self.ignored(path)):
            if names.is_copy(name) or is_beside(self.root, path):
                self.copies += [path] * (name[:2] != "~$")
            elif (name == entry.name or path not in self.found.files) and (
                stamp := _stamp_at(self.root, entry, path, self.found.faults)
            ):
                self.found.files[path] = stamp
        elif name[-4:].lower() == ".mdx" and not (self.ignored and self.ignored(path)):
            self.pages.append(path)

    def _left_out(self) -> Iterator[Fault]:
        """Yield a fault for the conflict copies, and one for the pages of MDX, if there are any."""
        if copies := self.copies:
            more = f"the first of {len(copies):,} conflict copies" if len(copies) > 1 else "a conflict copy"
            yield Fault(shown(min(copies)), 0, f"{more} that another program made; not read")
        if pages := self.pages:
            more = f"the first of {len(pages):,} pages of MDX" if len(pages) > 1 else "a page of MDX"
            yield Fault(shown(min(pages)), 0, f"{more}, which is a program, too; not read")


def listed(
    root: Path, folders: list[str], hidden: list[str], faults: list[Fault]
) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """Yield `folders`, growing, each with its entries; others go to `hidden` and `faults`. Raises VaultNotFound."""
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(root / folder if folder else root) as found:
                entries = list(found)
        except OSError as error:
            if not folder:
                raise VaultNotFound(
                    f"{root}: the vault cannot be listed ({error.strerror}).",
                    "Is its drive mounted? Nothing was forgotten.",
                ) from error
            if error.errno != errno.ENOENT:
                hidden.append(folder + "/")
                faults.append(Fault(shown(folder), 0, f"the folder cannot be listed ({error.strerror})"))
        else:
            yield folder, entries


def is_beside(root: Path, path: str) -> bool:
    """Say whether `path` is Synology's conflict copy `a_Conflict.md` beside `a.md`."""
    return path.endswith("_Conflict.md") and os.path.lexists(root / f"{path[:-12]}.md")


def real_inside(root: Path, path: str) -> str:
    """Return the real place inside `root` that `path` leads to, through whatever links; "" if it leads elsewhere."""
    try:
        real = os.path.realpath(os.path.join(root, path))
    except (OSError, ValueError):
        return ""
    return real if real.startswith(os.path.join(root, "")) else ""


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp in a file's status."""
    size, mtime_ns, inode, ctime_ns = status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns
    if os.name == "nt":
        ctime_ns = 0  # there it is when the file was made
    if not (-_MOST < mtime_ns < _MOST and -_MOST < ctime_ns < _MOST and inode < _MOST and size < _MOST):
        # Some disks number files up to 2^64 and beyond, and know dates after 2262; SQLite counts to 2^63.
        mtime_ns, ctime_ns = (max(-_MOST, min(time, _MOST)) for time in (mtime_ns, ctime_ns))
        size, inode = min(size, _MOST), inode & _MOST
    return Stamp(size, mtime_ns, inode, ctime_ns)


def _stamp_at(root: Path, entry: os.DirEntry[str], path: str, faults: list[Fault]) -> Stamp | None:
    """Return a note's stamp, or None if it is not a readable file; adds a fault where a person should know."""
    if entry.is_symlink() and not (real_inside(root, path) and os.path.exists(entry.path)):
        faults.append(Fault(shown(path), 0, "a link that leads out of the vault, or nowhere; not read"))
        return None
    status = platform.status(entry)
    if not stat.S_ISREG(status.st_mode):
        if not stat.S_ISDIR(status.st_mode):
            faults.append(Fault(shown(path), 0, "not a regular file (a FIFO, a socket or a device); not read"))
        return None
    if not is_whole(path):
        faults.append(Fault(shown(path), 0, "the file's name is not UTF-8; rename it"))
        return None
    return stamp_of(status)


def shown(path: str) -> str:
    """Return a path in printable form: bytes that are not UTF-8 are escaped, and half a letter of JSON."""
    try:
        return os.fsencode(path).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        return path.encode("utf-8", "backslashreplace").decode()


_LINES = 1_000
"""The most lines of a file of patterns, each of which is compared with every path, and letters of a line."""

# -- the patterns of `.spellbookignore`, which leave files out

# pathspec's regexes of `*` in a name, and of `**/` before all others or further on.
_STAR = regex(r"\[\^/\]\*(.*?)(?=\[\^/\]\*)")
_FOLDER = r"(\(\?:\.\+/\)\?|\(\?:/\.\+\)\?)"
_FOLDERS = regex(_FOLDER)
_EARLY_FOLDERS = regex(_FOLDER + r"(.*?)(?=\(\?:/\.\+\)\?)")

Patterns = tuple[tuple[re.Pattern[str], bool], ...]
"""Lines of a .gitignore in order: a regex of whole paths, and whether it excludes or includes them."""


class Ignored:
    """The patterns of the vault at `root`, read again when their file changes."""

    def __init__(self, root: Path) -> None:
        self._file = root / names.IGNORE_FILE
        self._known: dict[Path, tuple[Stamp, Patterns]] = {}

    def leaves_out(self, path: str, others: IsLeftOut | None = None) -> bool:
        """Say whether `path`, or a folder that it lies in, is left out; a folder's own path ends in `/`."""
        ignored = self.patterns(others)
        return ignored is not None and leaves_out(ignored, path)

    def patterns(self, others: IsLeftOut | None = None) -> IsLeftOut | None:
        """Return the patterns, None if there are none; `others` count before the file's own. Raises InvalidInput."""
        own = self.own()
        if not others:
            return partial(verdict, own) if own else None

        def first_others(path: str) -> bool | None:
            answer = verdict(own, path) if own else None
            if answer is not None or not others(path):
                return answer
            return not (own and any(verdict(own, folder) is False for folder in _folders(path)))

        return first_others

    def own(self) -> Patterns | None:
        """Return the patterns, None without such a file. Raises InvalidInput if the file cannot be read or parsed."""
        return self.read_patterns(self._file, "Mend the line; patterns are as in .gitignore.")

    def read_patterns(self, file: Path, hint: str = "") -> Patterns | None:
        """Return the patterns of a file, None without one; see `patterns_of`. Raises InvalidInput."""
        try:
            version = stamp_of(file.stat())
            known = self._known.get(file)
            if known and known[0] == version:
                return known[1]
            data = disk.read_small(file)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            # Without it, files that should be ignored would be indexed.
            raise InvalidInput(f"{file}: cannot be read ({error.strerror}).", "Mend or delete the file.") from error
        patterns = patterns_of(file, data, hint)
        self._known[file] = (version, patterns)
        return patterns


def patterns_of(file: Path | str, data: bytes, hint: str = "") -> Patterns:
    """Return the patterns of a file. A line that is none is skipped as git does; with a `hint`, it is InvalidInput."""
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    lines = data.decode("utf-8-sig", "replace").splitlines()
    if len(lines) > _LINES:
        raise InvalidInput(f"{file}: it has {len(lines):,} lines, and {_LINES:,} are the most.", "Shorten the file.")
    patterns = []
    for number, line in enumerate(lines, 1):
        try:
            if len(line) > _LINES:
                raise ValueError(f"it is over {_LINES:,} letters long")
            regex, is_left_out = GitIgnoreSpecPattern.pattern_to_regex(_of_whole_paths(line))
            if regex:
                patterns.append((re.compile(_without_backtracking(regex)), bool(is_left_out)))
        except (ValueError, re.error) as error:
            if hint:
                raise InvalidInput(f"{file}, line {number}: {error}.", hint) from error
    return tuple(patterns)


def leaves_out(ignored: IsLeftOut, path: str) -> bool:
    """Say whether `path`, or a folder that it lies in, is `ignored`. As in git, no later line takes it in again."""
    return any(ignored(place) for place in (*_folders(path), path))


def verdict(patterns: Patterns, path: str) -> bool | None:
    """
    Say whether the last pattern that names `path` itself leaves it out; None if none does. A folder's path ends in `/`.

    The caller asks for the folders above first, as git does. pathspec's GitIgnoreSpec answers for a whole path at once,
    and gives patterns of folders less weight: with `*` and `!*/` it leaves out every folder, git none.
    """
    return next((is_left_out for regex, is_left_out in reversed(patterns) if regex.fullmatch(path)), None)


def _folders(path: str) -> Iterator[str]:
    return (path[: i + 1] for i, letter in enumerate(path) if letter == "/" and i + 1 < len(path))


def _of_whole_paths(line: str) -> str:
    """Return a pattern of the same meaning that pathspec makes a regex of whole paths of: of `a/**` it makes `^a/`."""
    line = re.sub(r"(^!?|/)\*\*(/?\s*)$", r"\1**/*\2", line)
    return re.sub(r"(^!?|/)\*(/?\s*)$", r"\1?*\2", line)


def _without_backtracking(regex: str) -> str:
    """Return a regex of the same paths without backtracking over `*` and `**`, which takes exponential time."""
    regex = "".join(_STAR.sub(r"(?>[^/]*?\1)", part) for part in _FOLDERS.split(regex))
    return _EARLY_FOLDERS.sub(lambda match: f"(?>{match[1].replace('+', '+?')}?{match[2]}(?=/))", regex)
