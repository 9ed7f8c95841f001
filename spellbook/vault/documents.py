"""A folder of documents beside the vault, which is only read: it has no journal, no trash and no settings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from spellbook.vault.ignored import Ignored, Patterns, verdict
from spellbook.vault.listing import IsLeftOut
from spellbook.vault.vault import Vault

FOLDERS = frozenset({"node_modules", "vendor", "dist", "build", "target"})
"""Folders that are left out, wherever they are: dependencies, and builds of the sources."""

_Chain = tuple[tuple[str, str, Patterns], ...]
"""
The patterns that hold in a folder, nearest first: each with its file's folder, `` or `a/b/`, and the path to the root.

The path leads from a folder above the root to it, `` or `docs/`.
"""


class Documents(Vault):
    """The folder `root`, which is only read. `vault`, if it lies in there, is left out: it has an index of its own."""

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
            spec = self._git(folder)
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
            if spec := self._git(up):
                chain.append(("", f"{self._root.relative_to(place).as_posix()}/", spec))
        return tuple(chain)

    def _git(self, folder: str) -> Patterns | None:
        """Return the patterns of the .gitignore in `folder`, None without one. Raises InvalidInput."""
        return self.read_patterns(self._root / folder / ".gitignore")
