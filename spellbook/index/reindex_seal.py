"""
The seal: the state of vault, settings and index when a `reindex` found nothing to do.

While nothing differs, `reindex` repeats its answer without opening the index: git hooks run it after every checkout.
Any difference, or an unreadable file, breaks the seal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from spellbook.settings import environment, paths
from spellbook.settings.translate import translated
from spellbook.system import platform
from spellbook.text.markdown_endings import ENDINGS

FILE = "seal"
"""The file in the folder of the index with the lines to print, as a sentence and as JSON, and the stamps."""

WORDS = f"words.{FILE}"
"""The same of a `reindex --words-only`: then texts may wait for their vectors."""

SCANNED = "looked"
"""The file there whose time is that of the last scan."""

_PASSING = (".lock", ".log", ".log.1", "-shm", FILE, SCANNED, "watched")
"""Endings of files in the folder of the index that do not tell what it holds. Empty files are left by readers."""

_SHORT: tuple[list[str], ...] = ([], ["--quiet"], ["--json"])


def nothing_to_do(arguments: list[str]) -> bool:
    """Answer a plain `reindex` if nothing has changed, and return whether that was so; click handles the rest."""
    at = arguments.index("--vault") if "--vault" in arguments[:-1] else len(arguments)
    options = arguments[:at] + arguments[at + 2 :]
    file = WORDS if "--words-only" in options[1:] else FILE
    options = options[:1] + [option for option in options[1:] if option != "--words-only"]
    if options[:1] != ["reindex"] or options[1:] not in _SHORT or "SPELLBOOK_CONTAINER" in os.environ:
        return False
    text = answer("".join(arguments[at + 1 : at + 2]), as_json="--json" in options, file=file)
    if text and "--quiet" not in options:
        print(text if "--json" in options else translated(text), flush=True)
    return bool(text)


def answer(named: str, *, as_json: bool = False, file: str = FILE) -> str | None:
    """Return the answer of a `reindex` of the vault that `named` means; None if there is no valid seal."""
    try:
        root = paths.real(paths.vault(named))
        state = paths.state(root)
        with open(os.path.join(state, file), "rb") as kept:
            sentence, text, seen = kept.readline(), kept.readline(), kept.read()
    except (OSError, ValueError):
        return None
    if not seen or seen != stamps(root, state):
        return None
    with suppress(OSError):  # it may be of a folder that cannot be written
        os.utime(os.path.join(state, SCANNED))
    return (text if as_json else sentence).decode().rstrip("\n")


def stamps(root: str, state: str) -> bytes:
    """Return the stamps of all that a `reindex` of `root`, with its index in `state`, depends on; none on an error."""
    package = os.path.dirname(os.path.dirname(__file__))
    variables = [os.environ.get(name, "") for name in environment.variables("index")]
    names = (f"{paths.MARKER}/config.toml", ".spellbookignore", *paths.OBSIDIAN)
    settings = [os.path.join(root, name) for name in names]
    try:
        files = [os.path.exists(file) and _stamp(os.stat(file)) for file in (os.path.dirname(package), *settings)]
        with os.scandir(state) as entries:
            index = [
                (entry.name, entry.is_dir() or _stamp(platform.status(entry)))
                for entry in entries
                if (entry.is_dir() or entry.stat().st_size) and not entry.name.endswith(_PASSING)
            ]
        trees = [*_tree(package, (".py",)), *_tree(root, ENDINGS)]
        return ascii([root, package, variables, files, index, *trees]).encode()
    except OSError:
        return b""


def put(root: str, state: str, seen: bytes, sentence: str, as_json: str, file: str = FILE) -> None:
    """Seal the stamps `seen` before a run with nothing to do, if they still hold, with the run's answer."""
    if seen and stamps(root, state) == seen:
        with suppress(OSError), open(os.path.join(state, file), "wb") as kept:  # half a seal is none
            kept.write(f"{sentence}\n{as_json}\n".encode() + seen)


def _tree(root: str, endings: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """Yield each folder from `root` down, dot-folders left out, with its files of these endings and their stamps."""
    todo = [root]
    while todo:
        folder, seen = todo.pop(), list[str]()
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name[0] == ".":
                    continue
                if entry.name.lower().endswith(endings) and not entry.is_dir():
                    seen += entry.name, _stamp(platform.status(entry))
                elif entry.is_dir(follow_symlinks=False) and not platform.is_link(entry):
                    todo.append(entry.path)
        yield folder, seen


def _stamp(status: os.stat_result) -> str:
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ino} {status.st_ctime_ns}"
