"""One harness for kills: a verb is killed at each of its disk operations in turn, and a test checks what is left."""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.helpers import PATIENCE, python
from tests.trees import grow

STEP = 3
"""Only each third disk operation: those beside each other leave the same behind."""

KILLED = 9 if sys.platform == "win32" else -9
"""Exit code of a process that was killed."""

_KILLED = """
import os, sys
import spellbook
vault, place, verb, left = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
with spellbook.open(vault, embedder="hash") as book:
    book.refresh()
    def kill(event, args):
        global left
        if event in {"os.rename", "os.link", "os.remove", "os.mkdir", "os.utime", "os.rmdir", "os.symlink", "spellbook.overwrite"} or (event == "open" and ".spellbook" in str(args[0])):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), 9)
    sys.addaudithook(kill)
    exec(verb)
"""


def is_killed(vault: Path, place: Path, verb: str, at: int) -> bool:
    """
    Run `verb` with a `book` and a `place`, kill it at once at its `at`-th disk operation, and return whether it
    got that far.
    """
    child = python(_KILLED, vault, place, verb, at)
    _, errors = child.communicate(timeout=PATIENCE)
    assert child.returncode in {0, KILLED}, errors
    return child.returncode == KILLED


def killed(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    files: Mapping[str, bytes],
    step: int = STEP,
    prepare: Callable[[Path], None] = lambda vault: None,
) -> Iterator[Path]:
    """
    Yield a vault of `files` after `verb` was killed in it, at each `step`-th disk operation, and last one that was not.

    `prepare` may change each vault before. Each vault has a state of its own, which stays the default while the test looks at it.
    """
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    at, was_killed = 1, True
    while was_killed:
        monkeypatch.setenv("SPELLBOOK_STATE", str(folder / f"state{at}"))
        vault = grow(folder / f"v{at}", dict(files))
        prepare(vault)
        was_killed = is_killed(vault, vault, verb, at)
        yield vault
        at += step
    assert at > 1 + step, "it was never killed"
