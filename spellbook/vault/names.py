"""
Names and paths of files: notes by name, names that every system accepts, and paths that belong to a vault. Pure.

To a vault belong the files that a walk reads, and its own settings. Dot-folders contain programs (`.git/hooks`,
Obsidian's plugins, tasks of VS Code), so an import, a restore or an undo writes nothing into one, under any name that a
disk accepts for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath

from spellbook.settings.paths import MARKER
from spellbook.system.lazy import regex, regex_in
from spellbook.text.unicode import composed, folded, is_markdown, is_whole, joined_at, without_ending

MOST = 120
"""Bytes that the name of an imported file has at most, its ending included."""

MOST_NEW = 100
"""Bytes that the name of a new note has at most, its number and ending included: also an encrypted disk stores it."""

MOST_WORDS = 4
"""Words of a title that name a memory's file. By hand: a path is read as a fact, and stays when it is corrected."""

MOST_NUMBER = 10_000
"""How many files of one name there may be, numbered."""

DEVICES = regex(r"(?i)^(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])(?= *(\.|$))")
_MOST_STORED = 255
"""The most bytes of a file's name on Linux and macOS."""

_MOST_PATH = 4_000
"""The most bytes of a path below the vault: PATH_MAX is 4,096 in all."""

CANVAS = ".canvas"  # how the name of a canvas of Obsidian ends
_FORBIDDEN = regex(r'[<>:"/\\|?*#^\[\]\x00-\x1f\x7f]+')
# What shows nothing, or turns the text after it round: soft hyphen, controls, zero-width and bidirectional marks. The
# joiners of emoji and of Persian stay.
_UNSEEN = regex("[\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
_EDGES = " .-~"
COPY = regex_in(__file__, "copies.regex")
"""Finds in a file's name, without its ending, that it is a conflict copy's, or a lock's."""
_MARK = regex(r"[.(（~_\[]")  # a quick check first: every copy's name has one of these, most names have none
BIN = regex_in(__file__, "bins.regex")
"""Finds a folder, or a file, that other programs deleted, backed up, or keep for themselves."""


def safe_name(text: str, most: int = MOST - 3) -> str:
    """Return `text` as a file name for every system and Obsidian, at most `most` bytes, no conflict copy's."""
    name = _FORBIDDEN.sub("-", composed(_UNSEEN.sub("", text)))
    name = re.sub(r"\s+", " ", name.encode("utf-8", "ignore").decode())
    name = COPY.sub(lambda copy: re.sub(r"[.()（）_\[\]]", "-", copy[0]), name).strip(_EDGES)
    name = DEVICES.sub(r"\1-", name)
    kept = name.encode()[:most].decode("utf-8", "ignore")
    # Do not cut within a letter that consists of several code points.
    while kept and joined_at(name, len(kept)):
        kept = kept[:-1]
    return kept.strip(_EDGES if len(kept) < len(name) else " .") or "note"


def note_name(title: str, most: int = MOST - 3) -> str:
    """Return a `safe_name` for a note, before its `.md`: without one of its own, which a link would take for that."""
    name = safe_name(title, most)
    while is_markdown(name):
        name = safe_name(without_ending(name), most)
    return name


def forbidden(name: str) -> str:
    """Return the first letters of a name that some system, Obsidian or its links cannot hold, "" if there are none."""
    match = _FORBIDDEN.search(name)
    return match[0] if match else ""


def is_too_long(path: str) -> bool:
    """Say whether a path, or the name of a file or folder in it, has more bytes than systems store."""
    if len(path) * 4 <= _MOST_STORED:  # of the longest letters
        return False
    sizes = [len(part.encode("utf-8", "surrogatepass")) for part in path.split("/")]
    return max(sizes) > _MOST_STORED or sum(sizes) + len(sizes) > _MOST_PATH


def safe_parts(folder: str) -> list[str]:
    """Return the folders of a path, each as a `safe_name`."""
    return [safe_name(part) for part in folder.split("/") if part.strip(" .")]


def numbered(path: str) -> Iterator[str]:
    """Yield a file's name or path, then the same with `-2` and so on before its ending."""
    folder, slash, name = path.rpartition("/")
    stem, dot, suffix = name.rpartition(".") if "." in name else (name, "", "")
    yield path
    yield from (f"{folder}{slash}{stem}-{number}{dot}{suffix}" for number in range(2, MOST_NUMBER))


def after_move(path: str, old: str, new: str) -> str:
    """Return `path` once `old`, a file or a folder, is at `new`."""
    return new + path[len(old) :] if f"{path}/".startswith(f"{old}/") else path


def is_note(path: str) -> bool:
    """Say whether `path` names a note: Markdown, in no dot-folder or `BIN`, no conflict copy, no lock of Office."""
    if not is_markdown(path) or path[0] == "." or "/." in path or ("/" in path and BIN.search(path)):
        return False
    return not is_copy(path[path.rfind("/") + 1 :])


def is_copy(name: str) -> bool:
    """Say whether a Markdown file's name is that of a conflict copy, or of a lock of Office."""
    stem = name[: name.rfind(".")]
    return bool(_MARK.search(stem) and COPY.search(composed(stem)))


def meant(name: str) -> str:
    """Return the name of the file that an iCloud placeholder (`.a.md.icloud`) stands for, any other name as it is."""
    return name[1:-7] if name[0] == "." and name.endswith(".icloud") and len(name) > 8 else name


# -- paths that belong to a vault

IGNORE_FILE = ".spellbookignore"
TRASH = ".trash"
"""The folder of a vault for erased and replaced files."""

SETTINGS = frozenset({IGNORE_FILE, f"{MARKER}/config.toml", f"{MARKER}/queries.yaml", f"{MARKER}/synonyms.yaml"})
"""
Everything else that belongs to a vault; nothing else in `.spellbook/` does. `queries.yaml`, which 0.2.0 has, is not
read.
"""

_LEFT_OUT_BY_DISKS = regex("[\u00ad\u034f\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]")
"""Letters that some disks leave out when they compare names (HFS+), so that `.git` with one in front is `.git`."""
_SHORT = regex(r"(?i)(?:git|spellb|obsidi|vscode)~\d+")
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
    parts = [_LEFT_OUT_BY_DISKS.sub("", part) for part in path.split("/")]
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
