"""
Rules for paths: which belong to a vault, and which an import, a restore or an undo may write. Pure.

These are the files that a walk reads, and the vault's own settings. Dot-folders contain programs (`.git/hooks`,
Obsidian's plugins, tasks of VS Code), so nothing is written into one, under any name that a disk accepts for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath

from spellbook.settings.paths import MARKER
from spellbook.text.unicode import folded, is_whole
from spellbook.vault.ignored import IGNORE_FILE
from spellbook.vault.names import BIN

TRASH = ".trash"
"""The folder of a vault for erased and replaced files."""

SETTINGS = frozenset({IGNORE_FILE, f"{MARKER}/config.toml", f"{MARKER}/queries.yaml", f"{MARKER}/synonyms.yaml"})
"""
Everything else that belongs to a vault; nothing else in `.spellbook/` does. `queries.yaml`, which 0.2.0 has, is not
read.
"""

_UNSEEN = re.compile("[\u00ad\u034f\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
"""Letters that some disks leave out when they compare names (HFS+), so that `.git` with one in front is `.git`."""
_SHORT = re.compile(r"(?i)(?:git|spellb|obsidi|vscode)~\d+")
"""Names that Windows gives to `.git` and other dot-folders beside their own, also on a network drive."""


def belongs(path: str) -> bool:
    """Say whether a path names a part of a vault; a folder's ends in `/`."""
    if path.endswith("/"):
        return path == f"{MARKER}/" or not _is_hidden(path[:-1])
    return path in SETTINGS or not _is_hidden(path)


def refusal(path: str) -> str:
    """Return why an import, a restore or an undo may not write `path`, "" if it may."""
    if not is_whole(path):
        return "its name is not UTF-8"
    parts = [_UNSEEN.sub("", part) for part in path.split("/")]
    if path not in SETTINGS and (_is_hidden("/".join(parts)) or any(map(_SHORT.fullmatch, parts))):
        return "hidden files, dot-folders and what systems leave are no part of a vault"
    return ""


def permissions(mode: int) -> int:
    """Return `mode` without the right to execute, and without write access for everybody."""
    return mode & 0o664 | 0o600


def _is_hidden(path: str) -> bool:
    return path.startswith(".") or "/." in path or bool(BIN.search(path))


class Paths:
    """The paths of an import. If the disk ignores case (`folds`), `A` and `a` are one path."""

    def __init__(self, folds: bool) -> None:
        self._key: Callable[[str], str] = folded if folds else str
        self._files: dict[str, str] = {}
        self._below: dict[str, str] = {}

    def add(self, path: str) -> None:
        """Add a file, and the folders that it needs."""
        self._files[self._key(path)] = path
        for folder in folders_of(path):
            self._below.setdefault(self._key(folder), path)

    def __contains__(self, path: object) -> bool:
        return self._key(str(path)) in self._files

    def clash(self, path: str) -> str:
        """Return why `path` conflicts with the other paths, "" if it does not."""
        if same := self._files.get(self._key(path)):
            return f"{same} and {path} are one name on this disk"
        file, below = next(
            ((folder, path) for folder in folders_of(path) if folder in self),
            (path, self._below.get(self._key(path), "")),
        )
        return f"{file} is a file in it, and {below} needs a folder of that name" if below else ""


def folders_of(path: str) -> list[str]:
    """The folders that a file lies in, the innermost first."""
    return [str(folder) for folder in PurePosixPath(path).parents][:-1]
