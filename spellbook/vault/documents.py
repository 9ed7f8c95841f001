"""Vaults that are only read: a folder of documents beside the vault, and the part that a limited token sees."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from spellbook.notes.files import Stamp
from spellbook.system.errors import MemoryNotFound
from spellbook.vault.folder import Folder
from spellbook.vault.listing import Ignored, IsLeftOut, Listing, Patterns, verdict
from spellbook.vault.vault import Vault

FOLDERS = frozenset({"node_modules", "vendor", "dist", "build", "target"})
"""Folders that are left out, wherever they are: dependencies, and builds of the sources."""

_Chain = tuple[tuple[str, str, Patterns], ...]
"""
The patterns that hold in a folder, nearest first: each with its file's folder, `` or `a/b/`, and the path to the root.

The path leads from a folder above the root to it, `` or `docs/`.
"""


class Documents(Vault):
    """The folder `root`, without journal and trash. `vault`, if it is in there, is left out: it has its own index."""

    is_only_read = True

    def __init__(self, root: Path, state: Path, vault: Path) -> None:
        super().__init__(root, state)
        self._ignored = _LeftOut(root, vault)

    def sweep(self, litter: Sequence[str], age: float = 0) -> None:
        """Delete nothing: temporary files of others are not Spellbook's."""


class _LeftOut(Ignored):
    """Paths left out by `.spellbookignore`, each `.gitignore` (also above the root), `FOLDERS` and the vault."""

    def __init__(self, root: Path, vault: Path) -> None:
        super().__init__(root)
        self._root = root
        self._vault = f"{vault.relative_to(root).as_posix()}/" if vault != root and vault.is_relative_to(root) else ""

    def patterns(self, others: IsLeftOut | None = None) -> IsLeftOut:
        """Return the patterns as the files are now, without `others`. Raises InvalidInput for an unreadable file."""
        own = self.own()

        @cache
        def chain(folder: str) -> _Chain:
            above = folder[:-1].rpartition("/")[0]
            rest = chain(f"{above}/" if above else "") if folder else self._above()
            spec = self.read_patterns(self._root / folder / ".gitignore")
            return ((folder, "", spec), *rest) if spec else rest

        def leaves_out(file: str) -> bool:
            folder, _, name = file.rstrip("/").rpartition("/")
            if file.endswith("/") and (file == self._vault or name in FOLDERS):
                return True
            if own and verdict(own, file):
                return True
            for place, way, spec in chain(f"{folder}/" if folder else ""):
                answer = verdict(spec, way + file[len(place) :])
                if answer is not None:  # as in git, the nearest file that names it decides
                    return answer
            return False

        return leaves_out

    def _above(self) -> _Chain:
        """Return the patterns of the repository above the root. Raises InvalidInput."""
        chain: list[tuple[str, str, Patterns]] = []
        place, up = self._root, ""
        while not os.path.lexists(place / ".git"):
            if place.parent == place:
                return ()  # in no repository
            place, up = place.parent, f"../{up}"
            if spec := self.read_patterns(self._root / up / ".gitignore"):
                chain.append(("", f"{self._root.relative_to(place).as_posix()}/", spec))
        return tuple(chain)


class Shown(Vault):
    """
    The part of a vault that a limited token sees: the notes of the folder `lies_in` that `listed` returns, with stamps.

    They are listed as of the last `walk`. The content of each is checked again when it is read. Other notes,
    attachments, the trash and the journal are not there. Code that lists or opens files by itself finds nothing: `root`
    does not exist. `is_shown` gets the path and the bytes of each note that is read. `state` holds an empty journal.
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
        return Listing(dict(self._there), [], [], [], [])

    @property
    def lies_in(self) -> Folder:
        """The folder of the notes' files: a note that is shown shows its pictures (`read_picture`), nothing else."""
        return self._folder

    def stamp(self, path: str) -> Stamp | None:
        """Return the stamp of a note; None if it is not shown."""
        return self._folder.stamp(path) if path in self._there else None

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
        return MemoryNotFound(f"{path[:200]}: no such note in {self._folder.root}.", "Search for it, or list topics.")
