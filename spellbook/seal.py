"""
The seal: what vault, settings and index looked like when a `reindex` found nothing to do.

As long as all of it looks so, there is nothing to do still, and that is said
without opening the index, in about the time that `git status` takes. Any
difference, and anything that cannot be looked at, breaks the seal; it is only
ever a reason to look properly.
"""

from __future__ import annotations

import os
from marshal import dumps

from spellbook import folders

# Typing, dataclasses, pathlib, re and SQLite each take as long to import as a look at a thousand notes.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = "seal"
"""Its name in the folder of the index: what to say as a sentence, the same as JSON, and what was looked at."""

_VARIABLES = ("SPELLBOOK_EMBEDDER", "SPELLBOOK_RERANKER", "SPELLBOOK_CHROMA_URL", "SPELLBOOK_CACHE", "OLLAMA_HOST")
_SETTINGS = (f"{folders.MARKER}/config.toml", ".spellbookignore")
_CODE = frozenset({".py"})
_NOTES = frozenset({".md", ".mD", ".Md", ".MD"})
_BY_HANDLE = os.scandir in os.supports_fd
_PASSING = (".lock", ".log", ".log.1", "-shm", FILE)
"""Files in the folder of the index that say nothing of what is in it."""

_PLAIN = 2
"""The last form of `marshal` in which equal lists are always equal bytes; it is in C, there already, and faster than any text."""


def look(root: str, state: str) -> bytes:
    """
    Return the stamps of all that decides whether there is something to do for the vault `root`, with its index in `state`.

    Empty if something cannot be looked at. Notes that changed in the last
    moments need no care here: a run reads them again and notes that, which
    changes the index.
    """
    try:
        return b"".join(_pieces(root, state))
    except OSError:
        return b""


def put(root: str, state: str, seen: bytes, sentence: str, as_json: str) -> None:
    """Seal what was `seen` before a run that had nothing to do, if all of it looks so still; with what is to be said of it."""
    if not seen or look(root, state) != seen:
        return
    try:
        with open(os.path.join(state, FILE), "wb") as file:  # half a seal is none
            file.write(f"{sentence}\n{as_json}\n".encode() + seen)
    except OSError:
        return  # the next run looks properly, that is all


def said(named: str, *, as_json: bool = False) -> str | None:
    """Return what a `reindex` of the vault that `named` means would say, if the seal says that it has nothing to do; else None."""
    try:
        root = os.path.realpath(folders.vault(named))
        state = folders.state(root)
        with open(os.path.join(state, FILE), "rb") as file:
            sentence, text, seen = file.readline(), file.readline(), file.read()
        at = 0
        for piece in _pieces(root, state):  # compared as they come, so that the first that differs ends it
            if not seen.startswith(piece, at):
                return None
            at += len(piece)
    except (OSError, ValueError):
        return None
    return (text if as_json else sentence).decode().rstrip("\n") if at == len(seen) else None


def _pieces(root: str, state: str) -> Iterator[bytes]:
    """Yield piece by piece what `look` returns. Raises OSError for what cannot be looked at."""
    package = os.path.dirname(__file__)
    beside = os.path.dirname(package)  # what is installed beside it: an embedder, say
    settings = (_stamp(os.path.join(root, name)) for name in _SETTINGS)
    yield _piece([root, *(os.environ.get(name, "") for name in _VARIABLES), _stamp(beside), *settings, *_index(state)])
    yield from _files(package, _CODE)
    yield from _files(root, _NOTES)


def _piece(seen: list[str | int]) -> bytes:
    return dumps(seen, _PLAIN)


def _index(state: str) -> Iterator[str]:
    for entry in os.scandir(state):
        if entry.is_dir():
            yield entry.name
        elif not entry.name.endswith(_PASSING) and entry.stat().st_size:  # an empty log comes and goes with who reads
            yield f"{entry.name} {_stamp(entry.path)}"


def _files(root: str, endings: frozenset[str]) -> Iterator[bytes]:
    """Yield folder by folder the names and stamps of all files below `root` with one of these `endings`, dot-folders left out."""
    todo = [root]
    while todo:
        folder = todo.pop()
        seen: list[str | int] = [folder]
        # What is looked at from its folder is found sooner than by its whole path.
        handle = os.open(folder, os.O_RDONLY) if _BY_HANDLE else None
        try:
            with os.scandir(folder if handle is None else handle) as entries:
                for entry in entries:
                    name = entry.name
                    if name[0] == ".":
                        continue
                    if name[-3:] in endings and not entry.is_dir():
                        status = entry.stat()
                        seen += name, status.st_size, status.st_mtime_ns, status.st_ino
                    elif entry.is_dir(follow_symlinks=False):
                        todo.append(f"{folder}/{name}")
        finally:
            if handle is not None:
                os.close(handle)
        yield _piece(seen)


def _stamp(path: str) -> str:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return ""
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"
