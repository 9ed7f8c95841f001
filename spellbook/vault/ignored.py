"""The patterns of `.spellbookignore`, which leave files out of the vault."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from spellbook.notes.note import Stamp
from spellbook.system import disk
from spellbook.system.errors import InvalidInput
from spellbook.vault.listing import IsLeftOut, stamp_of

IGNORE_FILE = ".spellbookignore"

_MOST = 1_000
"""The most lines of a file of patterns, each of which is compared with every path, and letters of a line."""

# pathspec's regexes of `*` in a name, and of `**/` before all others or further on.
_STAR = re.compile(r"\[\^/\]\*(.*?)(?=\[\^/\]\*)")
_FOLDERS = re.compile(r"(\(\?:\.\+/\)\?|\(\?:/\.\+\)\?)")
_EARLY_FOLDERS = re.compile(_FOLDERS.pattern + r"(.*?)(?=\(\?:/\.\+\)\?)")

Patterns = tuple[tuple[re.Pattern[str], bool], ...]
"""Lines of a .gitignore in order: a regex of whole paths, and whether it excludes or includes them."""


class Ignored:
    """The patterns of the vault at `root`, read again when their file changes."""

    def __init__(self, root: Path) -> None:
        self._file = root / IGNORE_FILE
        self._known: dict[Path, tuple[Stamp, Patterns]] = {}

    def leaves_out(self, path: str, others: IsLeftOut | None = None) -> bool:
        """Say whether `path`, or a folder that it lies in, is left out; a folder's own path ends in `/`."""
        ignored = self.patterns(others)
        return ignored is not None and leaves_out(ignored, path)

    def patterns(self, others: IsLeftOut | None = None) -> IsLeftOut | None:
        """Return the patterns, None if there are none; `others` count before the file's own. Raises InvalidInput."""
        own = self.own()
        if others:
            return partial(_first_others, others, own)
        return partial(verdict, own) if own else None

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
    if len(lines) > _MOST:
        raise InvalidInput(f"{file}: it has {len(lines):,} lines, and {_MOST:,} are the most.", "Shorten the file.")
    patterns = []
    for number, line in enumerate(lines, 1):
        try:
            if len(line) > _MOST:
                raise ValueError(f"it is over {_MOST:,} letters long")
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


def _first_others(others: IsLeftOut, patterns: Patterns | None, path: str) -> bool | None:
    """Return `verdict` for `others` and then the patterns."""
    own = verdict(patterns, path) if patterns else None
    if own is not None or not others(path):
        return own
    return not (patterns and any(verdict(patterns, folder) is False for folder in _folders(path)))


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
