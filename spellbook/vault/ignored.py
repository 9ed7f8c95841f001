"""
What `.spellbookignore` leaves out of the vault.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spellbook.errors import InvalidInput

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORE_FILE = ".spellbookignore"


class Ignored:
    """The patterns of the vault at `root`, read again when their file changes."""

    def __init__(self, root: Path) -> None:
        self._file = root / IGNORE_FILE
        self._read: tuple[tuple[int, int, int] | None, GitIgnoreSpec | None] = (None, None)

    def leaves_out(self, path: str) -> bool:
        """Say whether `path`, or a folder that it lies in, is left out; a folder's own path ends in `/`."""
        ignored = self.patterns()
        if ignored is None:
            return False
        # As git and `walk` have it: what lies in an ignored folder cannot be had back by a later line.
        folders = (path[: i + 1] for i, letter in enumerate(path) if letter == "/")
        return any(ignored.match_file(place) for place in (*folders, path))

    def patterns(self) -> GitIgnoreSpec | None:
        """Return the patterns, None if there is no such file. Raises InvalidInput for one that cannot be read or makes no sense."""
        file = self._file
        try:
            status = file.stat()
            version = (status.st_mtime_ns, status.st_size, status.st_ino)
            if self._read[0] == version:
                return self._read[1]
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
        self._read = (version, spec)
        return spec
