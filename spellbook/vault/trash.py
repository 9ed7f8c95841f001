"""The folder `.trash` of a vault, which holds erased and replaced files."""

from __future__ import annotations

import os

from spellbook.system import disk
from spellbook.system.errors import (
    Conflict,
    InvalidInput,
    MemoryNotFound,
    PathOutsideVault,
)
from spellbook.vault import names
from spellbook.vault.journal import inode_of
from spellbook.vault.mover import Mover
from spellbook.vault.writer import changed, gone, mode_of


class Trash:
    """The folder `.trash` in a vault."""

    def __init__(self, vault: Mover) -> None:
        self.vault = vault

    def remove(self, path: str, expected: str, *, hard: bool = False) -> str | None:
        """Move a file to the trash and return its path there, or delete it (`hard`). Raises Conflict."""
        vault = self.vault
        with vault.exclusive(), disk.explain_errors(path):
            try:
                if not hard:
                    return self.take(path, vault.read_for_log(path, expected))
                vault.unlink(path, expected)
                return None
            except FileNotFoundError as error:
                raise MemoryNotFound(f"{path}: no such note in {vault.root}.", "It may be gone already.") from error

    def set_aside(self, path: str) -> str:
        """Move the file, folder or link at `path` to the trash, and return its path there."""
        with self.vault.exclusive():
            return self.take(path, inode_of(self.vault.root / path))

    def take(self, path: str, data: bytes | str) -> str:
        """Move a file, a folder or a link with the bytes or the state `data` to the trash; return its path there."""
        target = f"{names.TRASH}/{path}"
        self.check()
        place = self.vault.root.joinpath(*path.split("/"))
        try:
            return self.vault.move_numbered(place, data, target)
        except (FileExistsError, NotADirectoryError):  # a file lies here where its folder would be
            return self.vault.move_numbered(place, data, f"{names.TRASH}/{place.name}")

    def check(self) -> None:
        """Raise PathOutsideVault if the trash is unusable: a file, or a link out of the vault."""
        place = self.vault.root / names.TRASH
        if not self.vault.holds(f"{names.TRASH}/x") or (os.path.lexists(place) and not place.is_dir()):
            raise PathOutsideVault(f"{names.TRASH} is a file, or leads out of the vault.", "Put a folder in its place.")

    def copy(self, path: str, expected: str) -> str:
        """Copy a file of hash `expected` to the trash, once; return its path there. Raises Conflict, MemoryNotFound."""
        vault = self.vault
        try:
            status = vault.locate(path).stat()
        except FileNotFoundError as error:
            raise gone(path) from error
        for name in names.numbered(f"{names.TRASH}/{path}"):
            if not vault.holds(name):
                break
            try:
                vault.place(name, vault.pieces(path), mode=status.st_mode, mtime_ns=status.st_mtime_ns, own=True)
            except Conflict:
                if vault.hash(name) != expected:
                    continue
            if vault.hash(name) != expected:
                raise changed(path)
            return name
        raise PathOutsideVault(
            f"{names.TRASH} leads out of the vault, or is full.", "Put an empty folder in its place."
        )

    def keep(self, path: str, name: str, data: bytes) -> str:
        """Write `data` to the trash, in the folder and with the mode of the note `path`, and return its path there."""
        parts = [names.TRASH, *path.split("/")[:-1]]
        return self.vault.write_numbered(parts, name, data, mode_of(self.vault.locate(path)))

    def restore(self, path: str) -> str:
        """Move a note from the trash, where `remove` put it, back; return its path, numbered if it is taken."""
        home = path.removeprefix(names.TRASH + "/")
        if not names.is_note(home):
            raise InvalidInput(f"{path:.200}: not a note.", "Move it back by hand.")
        source = self.vault.locate(path, known=True)
        self.vault.admitted(home)
        with self.vault.exclusive(), disk.explain_errors(path):
            try:
                return self.vault.move_numbered(source, self.vault.read(path)[0], home)
            except (FileNotFoundError, MemoryNotFound) as error:
                raise MemoryNotFound(
                    f"{path}: not in the trash.", f"Look into {self.vault.root / names.TRASH}."
                ) from error
