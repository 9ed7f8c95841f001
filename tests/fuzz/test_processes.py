"""
Three servers, the command line, an editor and git on one vault, and kill -9 twice a second: nothing acknowledged is lost.

SPELLBOOK_STRESS_SECONDS says for how long (5 by default, 120 for the long form).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import spellbook
from tests.editor import MANNERS
from tests.fuzz.servers import Gone, Server
from tests.helpers import PATIENCE
from tests.scratch import assert_equal_to_scratch
from tests.trees import everything

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("SPELLBOOK_STRESS_SECONDS", "5"))
KILLS_PER_SECOND = 2


class Stage:
    """What all threads share: the vault, what was acknowledged, and the processes that may be killed."""

    def __init__(self, vault: Path) -> None:
        self.vault = vault
        self.end = time.monotonic() + SECONDS
        self.said: list[str] = []
        self.done: Counter[str] = Counter()
        self.failed: list[str] = []
        self.alive: dict[str, Any] = {}
        self.count = 0
        self._guard = threading.Lock()

    def sentence(self) -> str:
        """Return a sentence that was never written before."""
        with self._guard:
            self.count += 1
            return (
                f"sentence {self.count}x "
                + " ".join(random.choices(["orchard", "harbor", "granite", "copper"], k=5))
                + "."
            )

    def paths(self, root: str = "") -> list[str]:
        """The paths of the notes in a folder; a folder that disappears is skipped."""
        walked = os.walk(self.vault / root)
        found = [Path(place, name).relative_to(self.vault).as_posix() for place, _, names in walked for name in names]
        return [path for path in found if path.endswith(".md")]

    def note(self) -> str:
        """The path of some note."""
        return random.choice([path for path in self.paths() if not path.startswith((".", "git/"))] or ["none.md"])

    def trash(self) -> str:
        """The path of something in the trash."""
        return random.choice(self.paths(".trash") or [".trash/none.md"])

    def until_the_end(self, name: str, work: Callable[[], None]) -> None:
        """Repeat a piece of work, and record failures that no kill explains."""
        while time.monotonic() < self.end and not self.failed:
            try:
                work()
            except Exception as error:
                self.failed.append(f"{name}: {error!r:.2000}")


def serve(stage: Stage, name: str) -> None:
    """An agent at a server; it starts another one when that is killed."""
    server: Server | None = None
    session = ""

    def work() -> None:
        nonlocal server, session
        try:
            if server is None:
                server = Server(stage.vault)
                stage.alive[name] = server
                session = json.loads(server.call("rest", {})[1])["session_id"]
            text = stage.sentence()
            chunk = {
                "text": f"## One\n\n{text}\n\n## Two\n\nlast",
                "metadata": {"topic": "t", "keywords": ["a", "b", "c"]},
            }
            tool, given, keeps = random.choice(
                [
                    ("scribe", {"chunk": chunk, "session_id": session, "force": True}, True),
                    ("revise", {"chunk_id": stage.note(), "append": text}, True),
                    ("erase", {"chunk_id": stage.note()}, False),
                    ("restore", {"name": stage.trash()}, False),
                    ("undo", {}, False),
                    ("move", {"old": stage.note(), "new": f"m/{stage.count}.md", "preview": False}, False),
                    ("merge", {"a": stage.note(), "b": stage.note(), "keep": "both", "apply": True}, False),
                    ("search", {"query": text}, False),
                ]
            )
            is_done, answer = server.call(tool, given)
            assert "INTERNAL_ERROR" not in answer, answer
            assert not server.said, server.said
            if is_done and keeps:
                stage.said.append(text)
            stage.done[tool] += is_done
        except Gone:
            if server:
                server.kill()
            server = None

    stage.until_the_end(name, work)
    stage.alive.pop(name, None)
    if server:
        server.kill()


def command(stage: Stage) -> None:
    """A person at a terminal."""

    def work() -> None:
        text = stage.sentence()
        args, keeps = random.choice(
            [
                (["scribe", "-", "--topic", "cli", "-k", "a", "-k", "b", "-k", "c", "--force"], True),
                (["find", "orchard", "--json"], False),
                (["reindex", "--quiet"], False),
                (["undo"], False),
                (["snapshot"], False),
            ]
        )
        child = subprocess.Popen(
            [sys.executable, "-m", "spellbook", "--vault", str(stage.vault), *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "SPELLBOOK_EMBEDDER": "hash"},
        )
        stage.alive["command"] = child
        _, errors = child.communicate(text.encode() if keeps else None, timeout=PATIENCE)
        stage.alive.pop("command", None)
        assert child.returncode in {0, 1, -9}, (args, errors.decode()[-1500:])
        assert b"Traceback" not in errors, (args, errors.decode()[-1500:])
        stage.done[args[0]] += child.returncode == 0
        if child.returncode == 0 and keeps:
            stage.said.append(text)

    stage.until_the_end("command", work)


def edit(stage: Stage) -> None:
    """An editor that saves notes in the ways editors do."""

    def work() -> None:
        text, file = stage.sentence(), stage.vault / stage.note()
        try:
            random.choice(MANNERS)(file, file.read_bytes() + f"\n{text}\n".encode())
            stage.said.append(text)
            stage.done["edit"] += 1
        except FileNotFoundError:
            pass  # moved or erased meanwhile
        time.sleep(random.random() * 0.1)

    stage.until_the_end("editor", work)


def git(stage: Stage) -> None:
    """Git, which adds and removes forty notes at once."""

    def run(*args: str) -> None:
        subprocess.run(
            ["git", "-C", str(stage.vault), "-c", "user.name=a", "-c", "user.email=a@b", *args],
            check=True,
            capture_output=True,
        )

    run("init", "-q", "-b", "few")
    run("commit", "-q", "--allow-empty", "-m", "none")
    run("checkout", "-q", "-b", "many")
    for number in range(40):
        file = stage.vault / "git" / f"{number}.md"
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"# Git {number}\n\n[[git/{number + 1}]]\n\n## One\n\ncommitted {number}\n")
    run("add", "git")
    run("commit", "-q", "-m", "many")

    def work() -> None:
        for branch in ("few", "many"):
            run("checkout", "-q", branch)
            time.sleep(0.5)
        stage.done["checkout"] += 2

    stage.until_the_end("git", work)


def kill(stage: Stage) -> None:
    """SIGKILL a server or a command, twice a second."""
    while time.monotonic() < stage.end and not stage.failed:
        time.sleep(1 / KILLS_PER_SECOND)
        victims = list(stage.alive.values())
        if victims:
            victim = random.choice(victims)
            (victim.process if isinstance(victim, Server) else victim).kill()
            stage.done["kill"] += 1


def hooks(vault: Path) -> Iterator[Path]:
    """Run what git's hooks would run."""
    return (path for path in (vault / ".git" / "hooks").glob("*") if path.suffix != ".sample")


def test_nothing_acknowledged_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every acknowledged sentence is in the vault, trash, journal or a snapshot, and the index equals a new one."""
    for name in ("state", "data"):
        monkeypatch.setenv(f"SPELLBOOK_{name.upper()}", str(tmp_path / name))
    random.seed(5)
    vault = tmp_path / "vault"
    for number in range(12):
        file = vault / "abc"[number % 3] / f"n{number}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# Note {number}\n\n[[n{(number + 1) % 12}]]\n\n## One\n\nfirst of {number}\n")
    stage = Stage(vault)
    work = [lambda name=f"server {number}": serve(stage, name) for number in range(3)]
    threads = [
        threading.Thread(target=each)
        for each in (*work, *(lambda each=each: each(stage) for each in (command, edit, git, kill)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + 200)
    assert not any(thread.is_alive() for thread in threads)
    assert not stage.failed, stage.failed
    with spellbook.open(vault, embedder="hash") as book:
        book.reindex()
        book.reindex()
        kept = b"\n".join(everything(vault, book.config.state, book.snapshots.folder))
    missing = [sentence for sentence in stage.said if sentence.encode() not in kept]
    assert not missing, (missing[:5], len(missing), len(stage.said))
    assert stage.said
    assert stage.done["kill"]
    assert not list(hooks(vault))
    assert_equal_to_scratch(vault, tmp_path / "scratch")
    print(f"{len(stage.said)} sentences kept; {dict(stage.done)}")
