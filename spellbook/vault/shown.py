"""
The part of a vault that a limited token sees, as a vault of its own. It is only read.

The vault's index lists the files; the content of each is checked again when it is read. Other notes, attachments, the
trash and the journal are not there. Code that lists or opens files by itself finds nothing: `root` does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from spellbook.notes.note import Stamp
from spellbook.system.errors import MemoryNotFound
from spellbook.vault.folder import Folder
from spellbook.vault.listing import Listing
from spellbook.vault.vault import Vault


class Shown(Vault):
    """
    The notes of the folder `lies_in` that `listed` returns, with their stamps, as of the last `walk`.

    `is_shown` gets the path and the bytes of each note that is read. `state` holds an empty journal.
    """

    is_only_read = True

    def __init__(
        self,
        lies_in: Path,
        state: Path,
        listed: Callable[[], Mapping[str, Stamp]],
        is_shown: Callable[[str, bytes], bool],
        *,
        obsidian: bool = False,
    ) -> None:
        super().__init__(state / "no-folder", state)
        self._folder = Folder(lies_in, obsidian=obsidian)
        self._listed = listed
        self._is_shown = is_shown
        self._there: Mapping[str, Stamp] = {}

    def check_there(self) -> None:
        """Do nothing: there is no folder that could be gone."""

    def files(self, folder: str = "") -> list[str]:
        """Return the paths of the notes."""
        return [path for path in self._there if not folder or path.startswith(f"{folder.rstrip('/')}/")]

    def walk(self) -> Listing:
        """Return the notes that are shown now."""
        self._there = self._listed()
        return Listing(dict(self._there), (), ())

    @property
    def lies_in(self) -> Path:
        """The folder of the notes' files."""
        return self._folder.root

    @property
    def attachments(self) -> Folder | None:
        """The folder of the notes' files: a note that is shown shows its pictures; see `pictures`, and nothing else."""
        return self._folder

    def stamp(self, path: str) -> Stamp | None:
        """Return the stamp of a note; None if it is not shown."""
        return self._folder.stamp(path) if path in self._there else None

    def spelled(self, path: str) -> Stamp | None:
        """Return the stamp of a note that has exactly this path; None if it is not shown."""
        return self._folder.spelled(path) if path in self._there else None

    def locate(self, path: str, *, known: bool = False) -> Path:
        """Return the file of a note. Raises MemoryNotFound if it is not shown."""
        if path not in self._there:
            raise self._gone(path)
        return self._folder.locate(path, known=known)

    def read(self, path: str) -> tuple[bytes, Stamp]:
        """Return a note's bytes and stamp. Raises MemoryNotFound if it is not shown, whatever the index says."""
        if path in self._there:
            data, stamp = self._folder.read(path)
            if self._is_shown(path, data):
                return data, stamp
        raise self._gone(path)

    def pieces(self, path: str, size: int = 0) -> Iterator[bytes]:
        """Yield a note's bytes at once; raises as `read` does."""
        yield self.read(path)[0]

    def _gone(self, path: str) -> MemoryNotFound:
        return MemoryNotFound(f"{path[:200]}: no such note in {self.lies_in}.", "Search for it, or list topics.")
