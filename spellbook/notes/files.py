"""The files of a vault, without their text: stamps, faults, and the largest size of a note. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from spellbook.system.errors import SpellbookError, UnreadableNote

MOST_BYTES = 10_000_000
"""Larger files are reported, not read."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something in a file that a person should fix, in the 1-based `line`, 0 if unknown. `str()` is for people."""

    path: str
    line: int
    reason: str

    @classmethod
    def of(cls, path: str, error: SpellbookError, at: str = "") -> Fault:
        """Return an error about the file at `path`; its message may begin with the path, or with `at`, and a line."""
        reason = re.sub(rf"^({re.escape(path)}|{re.escape(at or path)})(, line \d+)?: ", "", error.message)
        return cls(path, getattr(error, "line", None) or 0, reason.rstrip("."))

    def __str__(self) -> str:
        return f"{self.path}, line {self.line}: {self.reason}" if self.line else f"{self.path}: {self.reason}"


class Stamp(NamedTuple):
    """A file's status, without opening it: bytes, nanoseconds, inode; no editor sets `ctime_ns` back (0 on Windows)."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int = 0


def too_large(path: str, size: int) -> UnreadableNote:
    """Return the error of a file that has more than MOST_BYTES."""
    return UnreadableNote(
        f"{path}: {size / 1e6:.1f} MB, and notes are read up to {MOST_BYTES / 1e6:.0f} MB.",
        "Split the note, or list it in .spellbookignore.",
    )
