"""One harness for kills: a verb is killed at each of its disk operations in turn, and a test checks what is left."""

import atexit
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import PATIENCE
from tests.trees import grow

STEP = 3
"""Only each third disk operation: those beside each other leave the same behind."""

KILLED = 9 if sys.platform == "win32" else -9
"""Exit code of a process that was killed."""

PIPES: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}

_KILLED = """
import json, os, sys
import spellbook
import filelock, markdown_it, numpy, yaml, spellbook.capture.jobs, spellbook.library.book, spellbook.memories.project_documentation

def run(vault, place, verb, left):
    with spellbook.open(vault, embedder="hash") as book:
        book.refresh()
        def kill(event, args):
            nonlocal left
            if event in {"os.rename", "os.link", "os.remove", "os.mkdir", "os.utime", "os.rmdir", "os.symlink", "spellbook.overwrite"} or (event == "open" and ".spellbook" in str(args[0])):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), 9)
        sys.addaudithook(kill)
        exec(verb, {"book": book, "place": place})

for line in sys.stdin:
    environment, given = json.loads(line)
    if not hasattr(os, "fork"):
        run(*given)
        break
    if (child := os.fork()) == 0:
        os.environ.clear()
        os.environ.update(environment)
        run(*given)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
_forking: list[subprocess.Popen[str]] = []


def is_killed(vault: Path, place: Path, verb: str, at: int) -> bool:
    """
    Run `verb` with a `book` and a `place`, kill it at once at its `at`-th disk operation, and return whether it
    got that far.

    Where processes fork, those of a run are forked from one that has imported Spellbook already.
    """
    given = json.dumps([dict(os.environ), [str(vault), str(place), verb, at]]) + "\n"
    child = _forking[0] if _forking else subprocess.Popen([sys.executable, "-c", _KILLED], text=True, **PIPES)
    if hasattr(os, "fork"):
        if not _forking:
            _forking.append(child)
            atexit.register(child.communicate)
        assert child.stdin
        assert child.stdout
        child.stdin.write(given)
        child.stdin.flush()
        code = int(child.stdout.readline())
    else:
        child.communicate(given, timeout=PATIENCE)
        code = child.returncode
    assert code in {0, KILLED}, "it failed as stderr says"
    return code == KILLED


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
