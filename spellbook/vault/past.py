"""
The notes of a vault as they were written by an earlier time, as if they were a vault of their own. They are only read.

They come from git or from a snapshot, and never lie on the disk as files: `root` is a folder that does not exist.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from spellbook.notes.note import Fault, Stamp
from spellbook.system.errors import MemoryNotFound
from spellbook.vault.listing import Listing
from spellbook.vault.vault import NotesOnly

_AHEAD = 16_000_000
"""Bytes of notes that are read at once where all of them are read in turn."""


@dataclass(frozen=True, slots=True)
class PastNotes:
    """
    The notes of an earlier time: their stamps by path, and what of the vault then cannot be read.

    `texts` yields the bytes of the notes at these paths, in their order. Two notes with one stamp have the same bytes.
    """

    notes: Mapping[str, Stamp]
    faults: tuple[Fault, ...]
    texts: Callable[[Sequence[str]], Iterator[bytes]]


class Past(NotesOnly):
    """The notes that `load` returns, which is called at the first use. `state` holds an empty journal."""

    def __init__(self, state: Path, load: Callable[[], PastNotes]) -> None:
        super().__init__(state)
        self._load = load
        self._guard = threading.Lock()
        self._held: dict[str, bytes] = {}
        self._next = 0

    @cached_property
    def _written(self) -> PastNotes:
        return self._load()

    @cached_property
    def notes(self) -> Mapping[str, Stamp]:
        """The notes by path, in the order of their paths."""
        return dict(sorted(self._written.notes.items()))

    @property
    def is_on_disk(self) -> bool:
        """No: nobody else can read them."""
        return False

    def walk(self) -> Listing:
        """Return all notes."""
        return Listing(dict(self.notes), self._written.faults, ())

    def stamp(self, path: str) -> Stamp | None:
        """Return the stamp of a note, None if there was none."""
        return self.notes.get(path)

    def spelled(self, path: str) -> Stamp | None:
        """Return the stamp of a note, None if there was none."""
        return self.stamp(path)

    def locate(self, path: str, *, known: bool = False) -> Path:
        """Raise MemoryNotFound: no note of an earlier time is a file."""
        raise self._gone(path)

    def read(self, path: str) -> tuple[bytes, Stamp]:
        """Return a note's bytes and stamp. Raises MemoryNotFound, and StorageError if they cannot be read."""
        stamp = self.stamp(path)
        if stamp is None:
            raise self._gone(path)
        with self._guard:
            if path not in self._held:
                self._fetch(path)
            return self._held.pop(path), stamp

    def _fetch(self, path: str) -> None:
        """Read a note, and those after it while all are read in turn: one look into the archive for many notes."""
        paths, size = [path], 0
        order = [*self.notes]
        if self._next < len(order) and path == order[self._next]:
            paths = []
            for ahead in order[self._next :]:
                paths.append(ahead)
                size += self.notes[ahead].size
                if size > _AHEAD:
                    break
            self._next += len(paths)
        self._held.update(zip(paths, self._written.texts(paths), strict=True))

    def _gone(self, path: str) -> MemoryNotFound:
        return MemoryNotFound(f"{path[:200]}: there was no such note then.", "Search for it, or list topics.")
