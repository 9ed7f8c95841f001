"""What an import reads: files with their paths, in any order, a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from spellbook.notes.note import Fault
from spellbook.system.errors import InvalidInput

UNTOUCHED = "Nothing was imported."


@dataclass(slots=True)
class Incoming:
    """
    A file as a source has it; its `pieces` are to be taken before the next file.

    `id` names a note that may have been moved or renamed since it was imported before.
    """

    path: str
    pieces: Iterator[bytes]
    mode: int | None = None
    mtime_ns: int | None = None
    id: str = ""


@dataclass(slots=True)
class Source:
    """What can be imported: files, and empty folders and what was left out, which are known when all files are read."""

    files: Iterator[Incoming]
    folders: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def unreadable(name: str, why: str) -> InvalidInput:
    """Return the error for a source that is damaged, or not what its name says; `why` is a reason without a stop."""
    return InvalidInput(f"{name}: cannot be imported: {why}.", "Is the file whole? Nothing was imported.")
