"""The trash: erased and replaced files, until a person restores or deletes them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spellbook.system import disk
from spellbook.system.errors import Conflict, InvalidInput, MemoryNotFound, PathOutsideVault
from spellbook.vault import names
from spellbook.vault.journal import inode_of
from spellbook.vault.rules import TRASH
from spellbook.vault.writer import Writer, changed, gone, mode_of

if TYPE_CHECKING:
    from spellbook.vault.vault import Vault


class Trash:
    """The folder `.trash` in a vault."""

    def __init__(self, vault: Vault, writer: Writer) -> None:
        self._vault = vault
        self._writer = writer

    def take(self, path: str, data: bytes | str) -> str:
        """Move what is at `path` to the trash, under the write lock; return where. Raises PathOutsideVault, OSError."""
        target = f"{TRASH}/{path}"
        self.check()
        place = self._vault.root.joinpath(*path.split("/"))
        try:
            return self._writer.move_numbered(place, data, target)
        except (FileExistsError, NotADirectoryError):  # a file lies here where its folder would be
            return self._writer.move_numbered(place, data, f"{TRASH}/{place.name}")

    def set_aside(self, path: str) -> str:
        """Move the file, folder or link at `path` to the trash, and return its path there."""
        with self._writer.exclusive():
            return self.take(path, inode_of(self._vault.root / path))

    def check(self) -> None:
        """Raise PathOutsideVault if the trash is unusable: a file, or a link out of the vault."""
        place = self._vault.root / TRASH
        if not self._vault.holds(f"{TRASH}/x") or (os.path.lexists(place) and not place.is_dir()):
            raise PathOutsideVault(f"{TRASH} is a file, or leads out of the vault.", "Put a folder in its place.")

    def copy(self, path: str, expected: str) -> str:
        """Copy a file of hash `expected` to the trash, once; return its path there. Raises Conflict, MemoryNotFound."""
        try:
            status = self._vault.locate(path).stat()
        except FileNotFoundError as error:
            raise gone(path) from error
        for name in names.numbered(f"{TRASH}/{path}"):
            if not self._vault.holds(name):
                break
            try:
                self._vault.place(
                    name, self._vault.pieces(path), mode=status.st_mode, mtime_ns=status.st_mtime_ns, own=True
                )
            except Conflict:
                if self._vault.hash(name) != expected:
                    continue
            if self._vault.hash(name) != expected:
                raise changed(path)
            return name
        raise PathOutsideVault(f"{TRASH} leads out of the vault, or is full.", "Put an empty folder in its place.")

    def keep(self, path: str, name: str, data: bytes) -> str:
        """Write `data` to the trash, in the folder and with the mode of the note `path`, and return its path there."""
        folder = path.rpartition("/")[0]
        return self._writer.create(
            [TRASH, *filter(None, folder.split("/"))], name, data, mode_of(self._vault.locate(path))
        )

    def restore(self, path: str) -> str:
        """Move a note from the trash, where `Vault.remove` put it, back; return its path, numbered if it is taken."""
        if not path.startswith(TRASH + "/"):
            raise InvalidInput(f"{path:.200}: not in the trash.", f"Give a path that begins with {TRASH}/.")
        home = path.removeprefix(TRASH + "/")
        if not names.is_note(home):
            raise InvalidInput(f"{path:.200}: not a note.", "Move it back by hand.")
        source = self._vault.locate(path, known=True)
        self._vault.admitted(home)
        with self._writer.exclusive(), disk.explain_errors(path):
            try:
                return self._writer.move_numbered(source, self._vault.read(path)[0], home)
            except (FileNotFoundError, MemoryNotFound) as error:
                raise MemoryNotFound(f"{path}: not in the trash.", f"Look into {self._vault.root / TRASH}.") from error
