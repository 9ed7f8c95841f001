"""
The seal: what vault, settings and index looked like when a `reindex` found nothing to do.

As long as all of it looks so, there is nothing to do still, and that is said without opening the index, in about the
time that `git status` takes. Any difference, and anything that cannot be looked at, breaks the seal; it is only ever a
reason to look properly.
"""

from __future__ import annotations

import os

from spellbook import environment, paths

# Typing, dataclasses, pathlib, re and SQLite each take as long to import as a look at a thousand notes.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = "seal"
"""Its name in the folder of the index: what to say as a sentence, the same as JSON, and what was looked at."""

_VARIABLES = environment.variables("index")
_SETTINGS = (f"{paths.MARKER}/config.toml", ".spellbookignore")
LOOKED = "looked"
"""The file in the folder of the index whose time is that of the last look at the whole vault."""

_PASSING = (".lock", ".log", ".log.1", "-shm", FILE, LOOKED)
"""Files in the folder of the index that say nothing of what is in it."""


def look(root: str, state: str) -> bytes:
    """
    Return the stamps of all that decides whether the vault `root`, with its index in `state`, needs a `reindex`.

    That is: their places, the variables, the settings, the index, what is installed beside, code and notes.
    Empty if something cannot be looked at. Notes that changed in the last moments need no care here: a run reads them
    again and notes that, which changes the index.
    """
    package = os.path.dirname(__file__)
    variables = [os.environ.get(name, "") for name in _VARIABLES]
    try:
        stamps = [
            _stamp(file) for file in (os.path.dirname(package), *(os.path.join(root, name) for name in _SETTINGS))
        ]
        trees = [*_tree(package, ".py"), *_tree(root, ".md")]
        return ascii([root, package, variables, stamps, [*_index(state)], trees]).encode()
    except OSError:
        return b""


def put(root: str, state: str, seen: bytes, sentence: str, as_json: str) -> None:
    """Seal what was `seen` before a run with nothing to do, if it still looks so, with what to print of the run."""
    if not seen or look(root, state) != seen:
        return
    try:
        with open(os.path.join(state, FILE), "wb") as file:  # half a seal is none
            file.write(f"{sentence}\n{as_json}\n".encode() + seen)
    except OSError:
        return  # the next run looks properly, that is all


def said(named: str, *, as_json: bool = False) -> str | None:
    """Return what a `reindex` of the vault that `named` means would say; None if there is no valid seal."""
    try:
        root = os.path.realpath(paths.vault(named))
        state = paths.state(root)
        with open(os.path.join(state, FILE), "rb") as file:
            sentence, text, seen = file.readline(), file.readline(), file.read()
    except (OSError, ValueError):
        return None
    if not seen or seen != look(root, state):
        return None
    mark_look(state)
    return (text if as_json else sentence).decode().rstrip("\n")


def mark_look(state: str) -> None:
    """Record that the whole vault was looked at. Not in the index: that would wait for writers, and break a seal."""
    file = os.path.join(state, LOOKED)
    try:
        os.utime(file)
    except OSError:
        try:
            open(file, "xb").close()
        except OSError:
            return  # a folder that cannot be written is told of where it matters


def looked_at(state: str) -> float | None:
    """Return when the whole vault was last looked at, in seconds since 1970; None if it never was."""
    try:
        return os.stat(os.path.join(state, LOOKED)).st_mtime
    except OSError:
        return None


def _index(state: str) -> Iterator[str]:
    for entry in os.scandir(state):
        if entry.is_dir():
            yield entry.name
        elif not entry.name.endswith(_PASSING) and entry.stat().st_size:  # an empty log comes and goes with who reads
            yield f"{entry.name} {_stamp(entry.path)}"


def _tree(root: str, ending: str) -> Iterator[tuple[str, list[str | int]]]:
    """Yield each folder from `root` down, dot-folders left out, with its files of this ending and their stamps."""
    todo = [root]
    while todo:
        folder = todo.pop()
        seen: list[str | int] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name[0] == ".":
                    continue
                if name[-3:].lower() == ending and not entry.is_dir():
                    status = entry.stat()
                    seen += name, status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns
                elif entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
        yield folder, seen


def _stamp(path: str) -> str:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return ""
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ino} {status.st_ctime_ns}"
