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

from spellbook import environment, paths

# Typing, dataclasses, pathlib, re and SQLite each take as long to import as a look at a thousand notes.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = "seal"
"""Its name in the folder of the index: what to say as a sentence, the same as JSON, and what was looked at."""

_VARIABLES = environment.variables("index")
_SETTINGS = (f"{paths.MARKER}/config.toml", ".spellbookignore")
_ENDINGS = {"code": frozenset({".py"}), "notes": frozenset({".md", ".mD", ".Md", ".MD"})}
BY_HANDLE = os.scandir in os.supports_fd
_PASSING = (".lock", ".log", ".log.1", "-shm", FILE)
"""Files in the folder of the index that say nothing of what is in it."""

PLAIN = 2
"""
The last form of `marshal` in which equal lists are always equal bytes.

It is written in C, already loaded, and faster than any text form.
"""


def look(root: str, state: str) -> bytes:
    """
    Return the stamps of all that decides whether the vault `root`, with its index in `state`, needs a `reindex`.

    Empty if something cannot be looked at. Notes that changed in the last moments need no care here: a run reads them
    again and notes that, which changes the index.
    """
    try:
        pieces = [
            ("around", "", _around(root, state)),
            *_tree("code", os.path.dirname(__file__)),
            *_tree("notes", root),
        ]
    except OSError:
        return b""
    seen = b"".join(
        [
            b"%b %d %d\n%b%b" % (kind.encode(), len(path := os.fsencode(folder)), len(held), path, held)
            for kind, folder, held in pieces
        ]
    )
    return b"%d\n%b" % (len(seen), seen)


def put(root: str, state: str, seen: bytes, sentence: str, as_json: str) -> None:
    """
    Seal what was `seen` before a run that had nothing to do, if all of it still looks so.

    The seal keeps the sentence and the JSON to print.
    """
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
            sentence, text, size, seen = file.readline(), file.readline(), file.readline(), file.read()
        if len(seen) != int(size):
            return None
        (_, _, around), *pieces = _taken_apart(seen)
        is_whole = around == _around(root, state) and _is_whole(pieces)
    except (OSError, ValueError):
        return None
    return (text if as_json else sentence).decode().rstrip("\n") if is_whole else None


def _taken_apart(seen: bytes) -> list[tuple[str, str, bytes]]:
    """Return the kinds, folders and contents that `look` put together. Raises ValueError for anything else."""
    pieces, at = [], 0
    while at < len(seen):
        line = seen.index(b"\n", at) + 1
        kind, path, held = seen[at:line].decode().split(" ")
        end = line + int(path)
        at = end + int(held)
        if not line <= end <= at:
            raise ValueError(kind)
        pieces.append((kind, os.fsdecode(seen[line:end]), seen[end:at]))
    return pieces


def _is_whole(pieces: list[tuple[str, str, bytes]]) -> bool:
    """Say whether all these folders are as they were; where each has the same folders in it, there are no others."""
    try:
        return all(_folder(kind, folder)[0] == held for kind, folder, held in pieces)
    except (OSError, KeyError):  # gone, closed to us, or of no kind that there is
        return False


def _around(root: str, state: str) -> bytes:
    """
    Return the state outside the folders of code and notes.

    That is: their places, the variables, the settings, the index, and what is installed beside.
    """
    package = os.path.dirname(__file__)
    variables = [os.environ.get(name, "") for name in _VARIABLES]
    stamps = [_stamp(place) for place in (os.path.dirname(package), *(os.path.join(root, name) for name in _SETTINGS))]
    return dumps([root, package, *variables, *stamps, *_index(state)], PLAIN)


def _index(state: str) -> Iterator[str]:
    for entry in os.scandir(state):
        if entry.is_dir():
            yield entry.name
        elif not entry.name.endswith(_PASSING) and entry.stat().st_size:  # an empty log comes and goes with who reads
            yield f"{entry.name} {_stamp(entry.path)}"


def _tree(kind: str, root: str) -> Iterator[tuple[str, str, bytes]]:
    """Yield what is in the folder `root` and in all below it, dot-folders left out."""
    todo = [root]
    while todo:
        folder = todo.pop()
        held, inside = _folder(kind, folder)
        yield kind, folder, held
        todo += [f"{folder}/{name}" for name in inside]


def _folder(kind: str, folder: str) -> tuple[bytes, list[str]]:
    """Return the names and stamps of the files of this kind in a folder, with the names of its folders, and these."""
    endings = _ENDINGS[kind]
    seen: list[str | int] = []
    inside: list[str] = []
    # What is looked at from its folder is found sooner than by its whole path.
    handle = os.open(folder, os.O_RDONLY) if BY_HANDLE else None
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
                    inside.append(name)
    finally:
        if handle is not None:
            os.close(handle)
    return dumps([seen, inside], PLAIN), inside


def _stamp(path: str) -> str:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return ""
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ino}"
