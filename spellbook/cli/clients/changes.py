"""Changes of other programs' files: whole or not at all, and only if the file has not changed since it was read."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from spellbook.system import disk, platform
from spellbook.system.errors import Conflict, StorageError
from spellbook.text.diff import unified

_BACKUP = ".spellbook-{}.bak"
_MOST_BYTES = 10_000_000  # Claude Code keeps conversations in its settings, which makes megabytes


@dataclass(frozen=True, slots=True)
class FileChange:
    """
    A change of the file at `path`: its bytes before and after, None for no file.

    A new file can be run if it `is_program`. `matters` says that the bytes before would be lost without a backup.
    """

    path: Path
    before: bytes | None
    after: bytes | None
    is_program: bool = False
    matters: bool = True

    def difference(self) -> str:
        """Return the change as a unified diff."""
        before, after = ((data or b"").decode("utf-8", "backslashreplace") for data in (self.before, self.after))
        old, new = ("/dev/null" if data is None else str(self.path) for data in (self.before, self.after))
        return unified(before, after, old, new) + "\n"

    def make(self) -> None:
        """Make the change. Raises Conflict if the file changed meanwhile, StorageError; nothing has happened then."""
        place = Path(os.path.realpath(self.path))  # a link stays one: what it leads to is changed
        with disk.explain_errors(str(self.path)):
            if self.after is None:
                self._expect()
                platform.remove(place)
                return
            if self.before is None:
                place.parent.mkdir(parents=True, exist_ok=True)
            with disk.written(place.parent, self.after, _mode(place)) as temporary:
                if self.is_program:  # for those who may read it
                    readable = temporary.stat().st_mode & 0o444
                    temporary.chmod(temporary.stat().st_mode | readable >> 2)
                if self.before is not None:
                    disk.copy_status(place, temporary)
                self._expect()
                platform.replace(temporary, place)

    def keep(self, folder: Path | None = None) -> Path | None:
        """Keep the bytes before, if they matter, in a file beside it or in `folder`, named by the time; return it."""
        if self.before is None or not self.matters:
            return None
        now = f"{dt.datetime.now().astimezone():%Y%m%d-%H%M%S-%f}"
        copy = (folder or self.path.parent) / (self.path.name + _BACKUP.format(now))
        with disk.explain_errors(str(self.path)):
            copy.parent.mkdir(parents=True, exist_ok=True)
            disk.put(copy, self.before, _mode(self.path))
        return copy

    def _expect(self) -> None:
        if read(self.path) != self.before:
            raise Conflict(
                f"{self.path}: another program changed the file meanwhile.", "Repeat the command; nothing was written."
            )


def read(path: Path) -> bytes | None:
    """Return the bytes of a small regular file, None if there is none. Raises StorageError if it cannot be read."""
    try:
        return disk.read_small(path, _MOST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be read ({error.strerror or error}).", "Nothing was changed; correct that and try again."
        ) from error


def backups(path: Path) -> Iterator[bytes]:
    """Yield what `FileChange.keep` kept of a file, the newest first."""
    prefix, suffix = _BACKUP.split("{}")
    with contextlib.suppress(OSError):
        beside = [file for file in path.parent.iterdir() if file.name.startswith(path.name + prefix)]
        copies = [file for file in beside if file.name.endswith(suffix)]
        for copy in sorted(copies, key=lambda copy: copy.stat().st_mtime_ns, reverse=True):
            yield disk.read_small(copy, _MOST_BYTES)


def _mode(path: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError):
        return stat.S_IMODE(path.stat().st_mode)
    return None
