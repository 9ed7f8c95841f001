"""What `.spellbookignore` leaves out of the vault."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spellbook.notes.note import Stamp
from spellbook.system import disk
from spellbook.system.errors import InvalidInput
from spellbook.vault.listing import IsLeftOut, stamp_of

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern


IGNORE_FILE = ".spellbookignore"

_MOST_LINES = 1_000
"""The most lines of a file of patterns: each is compared with every path."""

_MOST_LETTERS = 1_000
"""The most letters of a pattern."""

# What pathspec makes of `*` in a name, of `**/` before all others, and of `/**` further on.
_STAR, _BEFORE, _BETWEEN = "[^/]*", "(?:.+/)?", "(?:/.+)?"

# What it makes of `*` or `**`, of `*/`, and the group that stands for the end of a folder's name.
_ANYTHING, _ANY_FOLDER, _FOLDER = ".", "(?P<ps_d>/)", "ps_d"


class Ignored:
    """The patterns of the vault at `root`, read again when their file changes."""

    def __init__(self, root: Path) -> None:
        self._file = root / IGNORE_FILE
        self._known: dict[Path, tuple[Stamp, GitIgnoreSpec]] = {}

    def leaves_out(self, path: str, others: IsLeftOut | None = None) -> bool:
        """Say whether `path`, or a folder that it lies in, is left out; a folder's own path ends in `/`."""
        ignored = self.patterns(others)
        return ignored is not None and leaves_out(ignored, path)

    def patterns(self, others: IsLeftOut | None = None) -> IsLeftOut | None:
        """
        Return what is left out, None if there is nothing. Raises InvalidInput; see `own`.

        What `others` leave out counts as patterns before the first line of the file, which can take it in again.
        """
        spec = self.own()
        if others:
            return partial(_first_others, others, spec)
        return partial(verdict, spec) if spec else None

    def own(self) -> GitIgnoreSpec | None:
        """Return the patterns, None without such a file. Raises InvalidInput if the file cannot be read or parsed."""
        return self.read_patterns(self._file, "Mend the line; patterns are as in .gitignore.")

    def read_patterns(self, file: Path, hint: str, *, is_strict: bool = True) -> GitIgnoreSpec | None:
        """Return the patterns of a file as `own` does; `hint` says what to do about a line that is no pattern."""
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
        spec = patterns_of(file, data, hint, is_strict=is_strict)
        self._known[file] = (version, spec)
        return spec


def patterns_of(file: Path | str, data: bytes, hint: str = "", *, is_strict: bool = True) -> GitIgnoreSpec:
    """Return the patterns in the bytes of `file`. Raises InvalidInput with `hint` for a line that is no pattern."""
    try:
        return compiled(data.decode("utf-8-sig", "replace").splitlines(), is_strict=is_strict)
    except ValueError as error:
        raise InvalidInput(f"{file}{error}.", hint) from error


def compiled(lines: Sequence[str], *, is_strict: bool = True) -> GitIgnoreSpec:
    """
    Compile lines of a .gitignore, linear to match. Raises ValueError, whose text begins `, line N: ` or `: `.

    Unless it `is_strict`, a line that is no pattern is skipped, as git does.
    """
    from pathspec import GitIgnoreSpec

    if len(lines) > _MOST_LINES:
        raise ValueError(f": it has {len(lines):,} lines, and {_MOST_LINES:,} are the most")
    patterns: list[GitIgnoreSpecPattern] = []
    pattern: Any = _pattern()
    for number, line in enumerate(lines, 1):
        try:
            if len(line) > _MOST_LETTERS:
                raise ValueError(f"it is over {_MOST_LETTERS:,} letters long")
            patterns.append(pattern(line))
        except (ValueError, re.error) as error:
            if not is_strict:
                continue
            raise ValueError(f", line {number}: {error}") from error
    return GitIgnoreSpec(patterns, backend="simple")  # the others know no atomic groups


def leaves_out(ignored: IsLeftOut, path: str) -> bool:
    """Say whether `path`, or a folder that it lies in, is `ignored`. As in git, no later line takes it in again."""
    return any(ignored(place) for place in (*_folders(path), path))


def verdict(spec: GitIgnoreSpec, path: str) -> bool | None:
    """
    Say whether the last pattern that names `path` itself leaves it out; None if none does. A folder's path ends in `/`.

    For a caller that asks for the folders above first, as git does. pathspec answers for all of a path at once, and
    gives patterns of folders less weight: of `*` and `!*/` it leaves out every folder, git none.
    """
    for pattern in reversed(spec.patterns):
        regex: re.Pattern[str] | None = getattr(pattern, "regex", None)  # None for a comment
        line = str(getattr(pattern, "pattern", "")).rstrip()
        if regex and (match := regex.search(path)) and _is_whole(match, path, line):
            return bool(pattern.include)
    return None


def _first_others(others: IsLeftOut, spec: GitIgnoreSpec | None, path: str) -> bool | None:
    """Say as `verdict` does what `others` and then the patterns of `spec` say."""
    own = verdict(spec, path) if spec else None
    if own is not None or not others(path):
        return own
    return not (spec and any(verdict(spec, folder) is False for folder in _folders(path)))


def _folders(path: str) -> Iterator[str]:
    return (path[: i + 1] for i, letter in enumerate(path) if letter == "/" and i + 1 < len(path))


def _is_whole(match: re.Match[str], path: str, line: str) -> bool:
    """Say whether what pathspec's regex of a line found in `path` is more than a folder that it lies in."""
    if line.strip("!/") == "**" and line.endswith("/"):
        return path.endswith("/")
    if line.endswith("/**/"):  # every folder in a folder; the regex is that of the folder itself
        return path.endswith("/") and match.end() < len(path)
    if match.re.pattern == _ANYTHING:
        return True
    if match.re.pattern == _ANY_FOLDER:
        return path.endswith("/")
    if _FOLDER in match.re.groupindex:
        return match.end() == len(path)
    return match.end() < len(path)  # `a/**` means all that is in a folder


@cache
def _pattern() -> type[GitIgnoreSpecPattern]:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    class Pattern(GitIgnoreSpecPattern):
        __slots__ = ()

        @classmethod
        def pattern_to_regex(cls, pattern: str) -> tuple[str | None, bool | None]:  # type: ignore[override]
            regex, include = super().pattern_to_regex(pattern)
            return regex and without_backtracking(regex), include

    return Pattern


def without_backtracking(regex: str) -> str:
    """
    Return a regex that matches the same paths as pathspec's `regex`, without backtracking over `*` and `**`.

    For every wildcard but the last, the first match is as good as any later
    one. Trying all of them takes exponential time in the number of wildcards.
    """
    *early, last = regex.split(_BETWEEN)
    done = ""
    for number, part in enumerate(early):
        anywhere = _lazy(_BETWEEN) if number else ""
        done += f"(?>{anywhere}{_stars(part.replace(_BEFORE, _lazy(_BEFORE)))}(?=/))"
    return done + (_BETWEEN if early else "") + _stars(last)


def _stars(part: str) -> str:
    first, *between = part.split(_STAR)
    return (
        first
        + "".join(f"(?>{_STAR}?{piece})" for piece in between[:-1])
        + "".join(_STAR + piece for piece in between[-1:])
    )


def _lazy(optional: str) -> str:
    return optional.replace("+", "+?") + "?"
