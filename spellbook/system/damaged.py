"""
Damaged databases: set aside for a person to look at, and begun anew.

Windows renames no file that a program has open. Then a new one beside it is used, which takes its place once nobody has
either open.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from spellbook.system import platform
from spellbook.system.processes import processes

_log = logging.getLogger(__name__)


def present_file(file: Path) -> Path:
    """Return where the database `file` is now: beside it, while a damaged one cannot be moved from its place."""
    place = DatabasePlace(file, "", "")
    return place.beside if place.mark.exists() and place.beside.exists() else file


class DatabasePlace:
    """
    Where a database is: at `file`, or `beside` it. `used` is the present one, `mark` a file that names a damaged one.

    `what` and `loss` are for messages. Every process that has the database open holds the lock when it moves files.
    """

    def __init__(self, file: Path, what: str, loss: str) -> None:
        self.used = self._file = file
        self.mark = file.with_suffix(".broken")
        self.beside = file.with_name(f"{file.name}.beside")
        self.what = what
        self.loss = loss

    @property
    def is_beside(self) -> bool:
        """Whether a damaged file still lies in the place of the one that is used."""
        return self.used != self._file and self._file.exists()

    def is_to_be_left(self) -> bool:
        """Say whether another process found damage in the file that this one uses, and may not be able to move it."""
        return self.used == self._file and self.mark.exists()

    def set_aside(self) -> list[Path]:
        """Return the damaged file that was set aside last, with what belongs to it; nothing if there is none."""
        return sorted(self._file.parent.glob(f"{self._file.name}.damaged-*"))

    def move_damaged(self, close: Callable[[], None]) -> None:
        """
        Move a damaged file out of the way, unless another process did; keep the last such file. Raises OSError.

        `close` ends the connections of this process, which may be all that holds it.
        """
        is_free = self._make_way()
        if not is_free:
            close()
            is_free = self._make_way()
        if is_free:
            self.used = self._file
            platform.discard(self.mark)
            return
        if self.used == self._file and self._file.exists():
            others = (process for process in processes(self._file.parent) if process.pid != os.getpid())
            _log.warning(
                "%s: the %s is damaged, and another program has it open (%s). A new one beside it is used, and takes "
                "its place once that program has ended: %s.",
                *(self._file, self.what),
                ", ".join(f"spellbook {process.kind}, process {process.pid}" for process in others) or "unknown",
                self.loss,
            )
        self.used = self.beside

    def _make_way(self) -> bool:
        """Set the marked file aside, give the new one beside it its name, and say whether nobody has them open."""
        try:
            damaged = int(self.mark.read_text() or 0)
        except (OSError, ValueError):
            damaged = 0
        try:
            for file in (self._file, self.beside):
                if damaged and file.exists() and damaged == file.stat().st_ino:
                    for old in self.set_aside():
                        platform.discard(old)
                    aside = self._file.with_name(f"{self._file.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
                    _rename(file, aside)
                    _log.warning("The %s was damaged, and lies in %s now: %s.", self.what, aside, self.loss)
            if self.beside.exists():
                _rename(self.beside, self._file)
        except OSError as error:
            if platform.is_held(error):
                return False
            raise
        return True


def _rename(file: Path, to: Path) -> None:
    """Rename a database with what belongs to it, or nothing of it. Raises OSError."""
    done: list[tuple[Path, Path]] = []
    try:
        # Its log first: a new file must never meet an old log.
        for side in ("-wal", "-shm", ""):
            names = file.with_name(file.name + side), to.with_name(to.name + side)
            with contextlib.suppress(FileNotFoundError):
                platform.rename_at_once(*names)
                done.append(names)
    except OSError:
        for old, new in done:
            platform.rename_at_once(new, old)
        raise
