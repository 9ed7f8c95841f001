"""
Place the files of an import in the vault, or take them back.

Each file has a rule for a file that exists already. A file that was changed since the import began is never replaced.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from spellbook.index.embed import Progress
from spellbook.system import disk
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound, SpellbookError, StorageError
from spellbook.vault import rules
from spellbook.vault.names import numbered
from spellbook.vault.vault import Vault

KEEP_OUT = "keep out"
"""The rule of settings for a vault that has notes: they are not imported."""

_PIECE = 1 << 20
"""Bytes that are read at once."""

_TRIES = 20
"""Attempts while somebody else writes at the same path."""


@dataclass(frozen=True, slots=True)
class Staged:
    """A staged file: its wanted name, a valid path for it, and the position of its bytes in the stage."""

    name: str
    path: str
    rule: str
    start: int
    size: int
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


Placed = tuple[Staged, Verdict, str]
"""A file, its verdict, and where the replaced file is in the trash ("" if there is none)."""


def verdict(vault: Vault, staged: Staged, taken: Container[str] = ()) -> Verdict:
    """Apply the file's rule. `taken` are the paths of other files of this import."""
    for path in numbered(staged.path):
        there = "" if path in taken else _hash_at(vault, path)
        if there is None and staged.rule != KEEP_OUT:
            return Verdict("added" if staged.name in {path, ""} else "renamed", path)
        if there == staged.sha256:
            return Verdict("unchanged", path)
        if staged.rule in {"skip", KEEP_OUT}:
            return Verdict("skipped", path)
        if staged.rule == "overwrite" and there:
            return Verdict("overwritten", path, there)
        if staged.rule == "overwrite":
            if path in taken:
                return Verdict("added", path)  # which is refused, with the name of the other file
            raise InvalidInput(
                f"{path}: the vault has a folder there, a link that leads nowhere, or a pipe.",
                "Move it away; nothing was imported.",
            )
    raise StorageError(f"{staged.path}: 10,000 files are called so.", "Import into a folder of its own with --into.")


def verdict_now(vault: Vault, staged: Staged) -> Verdict:
    """Apply the file's rule once more when it is placed: a file that was changed since the import began stays."""
    now = verdict(vault, staged)
    is_newer = now.what == "overwritten" and now.over != staged.over
    return Verdict("skipped", now.path) if is_newer else now


def _hash_at(vault: Vault, path: str) -> str | None:
    """Return the hash of the file at a path, "" for anything else there, None if the path is free."""
    place = vault.locate(path, known=True)
    if not os.path.lexists(place):
        return None
    try:
        return vault.hash(path) if place.is_file() else ""
    except MemoryNotFound:
        return None


def place_all(
    vault: Vault, staged: Sequence[Staged], stage: BinaryIO, done: list[Placed], progress: Progress | None
) -> None:
    """Place every file and add it to `done`."""
    for number, file in enumerate(staged, 1):
        done.append((file, *_place(vault, file, stage)))
        if progress:
            progress("importing", number, len(staged))
    for folder in {vault.locate(verdict.path, known=True).parent for _, verdict, _ in done if verdict.writes}:
        disk.sync_folder(folder)


def _place(vault: Vault, staged: Staged, stage: BinaryIO) -> tuple[Verdict, str]:
    for _ in range(_TRIES):
        verdict = verdict_now(vault, staged)
        if not verdict.writes:
            return verdict, ""
        path, over, pieces = verdict.path, verdict.over, bytes_of(stage, staged)
        with contextlib.suppress(Conflict, MemoryNotFound):  # somebody wrote there just now: the rule is asked again
            trash = vault.trash.copy(path, over) if over else ""
            vault.place(path, pieces, mode=staged.mode, mtime_ns=staged.mtime_ns, expected=over, sync=False)
            return verdict, trash
    raise Conflict(
        f"{staged.path}: the file keeps changing.", "Wait until whoever writes it is done; nothing was imported."
    )


def take_back_all(vault: Vault, done: Sequence[Placed]) -> int:
    """Take back placed files, first those that make room for others; return how many could not be."""
    left = 0
    with vault.journal.reverting():
        for staged, verdict, trash in sorted(reversed(done), key=lambda placed: bool(placed[2])):
            try:
                _take_back(vault, staged, verdict, trash)
            except (Conflict, MemoryNotFound):
                pass  # somebody has changed it since: it stays
            except (SpellbookError, OSError):
                left += 1
    return left


def _take_back(vault: Vault, staged: Staged, verdict: Verdict, trash: str) -> None:
    if trash and verdict.over:
        old, pieces, now = vault.locate(trash).stat(), vault.pieces(trash), staged.sha256
        vault.place(verdict.path, pieces, mode=old.st_mode, mtime_ns=old.st_mtime_ns, expected=now, own=True)
        vault.remove(trash, verdict.over, hard=True)
    elif verdict.writes:
        vault.remove(verdict.path, staged.sha256, hard=True)
        with contextlib.suppress(OSError):
            for folder in rules.folders_of(verdict.path):
                (vault.root / folder).rmdir()  # until one is not empty


def bytes_of(stage: BinaryIO, staged: Staged) -> Iterator[bytes]:
    """Yield the bytes of a staged file. Raises StorageError if they are not those that were staged."""
    stage.seek(staged.start)
    starts = range(0, staged.size, _PIECE)
    pieces = disk.Hashed(stage.read(min(_PIECE, staged.size - start)) for start in starts)
    yield from pieces
    if pieces.sha256 != staged.sha256:
        raise StorageError(
            f"{staged.path}: what was read of it is damaged; the state folder's disk fails.", "Import it again."
        )
