"""All files of a vault, notes or not, and its empty folders: the content of a backup."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from spellbook.notes.files import Fault, Stamp
from spellbook.system import platform
from spellbook.system.errors import PathOutsideVault
from spellbook.text.unicode import is_markdown, is_whole
from spellbook.vault.folder import Folder
from spellbook.vault.listing import listed, shown, stamp_of
from spellbook.vault.names import belongs, meant


class BackupFile(NamedTuple):
    """A file by its path in the vault; `mode` are its permissions, `sha256` is its hash if it is in a snapshot."""

    path: str
    stamp: Stamp
    mode: int
    sha256: str = ""


class Tree(NamedTuple):
    """The files and empty folders of a vault, sorted by path, and the faults of unreadable ones."""

    files: tuple[BackupFile, ...]
    folders: tuple[str, ...]
    faults: tuple[Fault, ...]


def tree(vault: Folder) -> Tree:
    """
    List the whole vault. Raises VaultNotFound if it is not there, or cannot be listed.

    Dot-folders (`.git`, `.obsidian`, `.trash`), files that `.spellbookignore` lists and files beyond links stay out;
    the vault's own settings belong to it.
    """
    vault.check_there()
    files: list[BackupFile] = []
    empty: list[str] = []
    faults: list[Fault] = []
    folders = [""]
    for folder, entries in listed(vault.root, folders, [], faults):
        if folder and not entries and not folder.startswith("."):
            empty.append(folder)
        for entry in entries:
            path = f"{folder}/{meant(entry.name)}" if folder else meant(entry.name)
            try:
                if entry.is_dir(follow_symlinks=False) and not platform.is_link(entry):
                    if belongs(path + "/") and not vault.ignores(path + "/"):
                        folders.append(path)
                elif belongs(path) and (path.startswith(".") or not vault.ignores(path)):
                    files += _item(vault, entry, path, faults)
            except OSError as error:
                faults.append(Fault(shown(path), 0, f"cannot be looked at ({error.strerror})"))
    return Tree(tuple(sorted(files, key=lambda item: item.path)), tuple(sorted(empty)), tuple(faults))


def _item(vault: Folder, entry: os.DirEntry[str], path: str, faults: list[Fault]) -> Iterator[BackupFile]:
    if not is_whole(path):
        faults.append(Fault(shown(path), 0, "the file's name is not UTF-8; rename it"))
        return
    try:
        vault.locate(path)
        status = platform.status(entry)
    except (PathOutsideVault, FileNotFoundError):
        with contextlib.suppress(FileNotFoundError):  # a file that is gone is no fault, a link that leads nowhere is
            os.lstat(entry.path)
            faults.append(Fault(shown(path), 0, "a link that leads out of the vault, or nowhere"))
    else:
        if stat.S_ISREG(status.st_mode):
            yield BackupFile(path, stamp_of(status), stat.S_IMODE(status.st_mode))
        elif not stat.S_ISDIR(status.st_mode):  # the content of a folder behind a link is listed where it lies
            faults.append(Fault(shown(path), 0, "a pipe, a socket or a device"))


def is_setting(path: str) -> bool:
    """Say whether a file that belongs to a vault holds its settings."""
    return path.startswith(".")


def is_note(path: str) -> bool:
    """Say whether a file that belongs to a vault is a note by its name."""
    return is_markdown(path) and not is_setting(path)
