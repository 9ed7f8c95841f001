"""
Place the files of an import in the vault.

Each file has a rule for a file that exists already. A file that was changed since the import began is never replaced.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Container
from dataclasses import dataclass
from typing import IO

from spellbook.system import disk
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound, StorageError
from spellbook.vault.names import numbered
from spellbook.vault.vault import Vault

KEEP_OUT = "keep out"
"""The rule of settings for a vault that has notes: they are not imported."""

_TRIES = 20
"""Attempts while somebody else writes at the same path."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A file that is to be imported: its wanted name, a valid path for it, the rule, and what it will be."""

    name: str
    path: str
    rule: str
    sha256: str
    mode: int | None = None
    mtime_ns: int | None = None
    over: str | None = None
    """The hash of the file that it replaces; a file that was changed since then stays."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What happens to a file (as `Imported` calls it), its `path`, and the hash of the bytes that it replaces."""

    what: str
    path: str
    over: str | None = None

    @property
    def writes(self) -> bool:
        return self.what in {"added", "renamed", "overwritten"}


def verdict(vault: Vault, planned: Planned, taken: Container[str] = ()) -> Verdict:
    """Apply the file's rule. `taken` are the paths of other files of this import."""
    for path in numbered(planned.path):
        there = "" if path in taken else _hash_at(vault, path)
        if there is None and planned.rule != KEEP_OUT:
            return Verdict("added" if planned.name in {path, ""} else "renamed", path)
        if there == planned.sha256:
            return Verdict("unchanged", path)
        if planned.rule in {"skip", KEEP_OUT}:
            return Verdict("skipped", path)
        if planned.rule == "overwrite" and there:
            return Verdict("overwritten", path, there)
        if planned.rule == "overwrite":
            if path in taken:
                return Verdict("added", path)  # which is refused, with the name of the other file
            raise InvalidInput(
                f"{path}: the vault has a folder there, a link that leads nowhere, or a pipe.",
                "Move it away; nothing was imported.",
            )
    raise StorageError(f"{planned.path}: 10,000 files are called so.", "Import into a folder of its own with --into.")


def _hash_at(vault: Vault, path: str) -> str | None:
    """Return the hash of the file at a path, "" for anything else there, None if the path is free."""
    place = vault.locate(path, known=True)
    if not os.path.lexists(place):
        vault.check_here(path)
        return None
    try:
        return vault.hash(path) if place.is_file() else ""
    except MemoryNotFound:
        return None


def place(vault: Vault, planned: Planned, file: IO[bytes]) -> tuple[Verdict, str]:
    """
    Place a file by its rule; return what was done, and where the replaced file is in the trash ("" if there is none).

    A file that was changed since the import was planned stays.
    """
    for _ in range(_TRIES):
        now = verdict(vault, planned)
        if now.what == "overwritten" and now.over != planned.over:
            now = Verdict("skipped", now.path)
        if not now.writes:
            return now, ""
        file.seek(0)
        with contextlib.suppress(Conflict, MemoryNotFound):  # somebody wrote there just now: the rule is asked again
            trash = vault.trash.copy(now.path, now.over) if now.over else ""
            mode, mtime_ns, pieces = planned.mode, planned.mtime_ns, disk.pieces_of(file)
            vault.place(now.path, pieces, mode=mode, mtime_ns=mtime_ns, expected=now.over, sync=False)
            return now, trash
    raise Conflict(
        f"{planned.path}: the file keeps changing.", "Wait until whoever writes it is done; nothing was imported."
    )
