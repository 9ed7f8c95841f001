"""
Any number of processes on one vault, always right: agents at servers, the command line, an editor and git, all at once.

SPELLBOOK_STRESS_SECONDS says for how long (3 by default, 60 to 120 for the long form).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import spellbook
from tests.commands import git, git_alone  # noqa: F401
from tests.editor import MANNERS
from tests.fuzz.servers import Gone, Server
from tests.helpers import PATIENCE, until
from tests.scratch import assert_equal_to_scratch
from tests.trees import everything, grow

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("SPELLBOOK_STRESS_SECONDS", "3"))
BETWEEN_KILLS = 1


class Stage:
    """What all threads share: the vault, what was acknowledged, and the processes that may be killed."""

    def __init__(self, vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
        random.seed(5)
        self.vault, self.numbers = vault, itertools.count()
        self.said: list[str] = []
        self.failed: list[str] = []
        self.alive: dict[object, Any] = {}
        self.done: Counter[str] = Counter()

    def run(self, seconds: float, *works: Callable[[], None]) -> None:
        """Repeat each piece of work in a thread until the time is up, or one fails for a reason that no kill explains."""
        end = time.monotonic() + seconds

        def repeat(work: Callable[[], None]) -> None:
            while time.monotonic() < end and not self.failed:
                try:
                    work()
                except Exception as error:
                    self.failed.append(f"{work}: {error!r:.2000}")

        threads = [threading.Thread(target=repeat, args=[work]) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds + PATIENCE)
        assert not self.failed

    def sentence(self) -> str:
        """A sentence that was never written before, of words that hardly another one has."""
        return f"sentence{next(self.numbers)}x {' '.join(f'word{random.randrange(10_000)}x' for _ in range(30))}."

    def path(self, below: str = "", ends: str = ".md") -> str:
        """The path of some note in a folder; a folder that disappears is skipped."""
        walked = os.walk(self.vault / below)
        found = [Path(place, name).relative_to(self.vault).as_posix() for place, _, names in walked for name in names]
        mine = [path for path in found if path.endswith(ends) and (below or not path.startswith((".", "git/")))]
        return random.choice(mine or ["none.md"])

    def command(self, *args: str, stdin: str = "") -> bool:
        """Run a command, which may be killed; return whether it did its work."""
        program = [sys.executable, "-m", "spellbook", "--vault", str(self.vault), *args]
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        child = subprocess.Popen(program, text=True, **pipes)
        self.alive["command"] = child
        _, errors = child.communicate(stdin, timeout=PATIENCE)
        self.alive.pop("command")
        assert child.returncode in {0, 1, 2, -9}, (args, errors[-1500:])
        assert "Traceback" not in errors, (args, errors[-1500:])
        self.done[args[0]] += child.returncode == 0
        return bool(child.returncode == 0)

    # -- what the threads repeat

    def types(self) -> None:
        """A person at a terminal."""
        text, source = self.sentence(), self.vault.parent / "source"
        grow(source, {path: f"# Imported\n\n{text}\n".encode() for path in ("b/imported.md", self.path())})
        commands = (
            ["scribe", "-", "--topic", "cli", "-k", "a", "-k", "b", "-k", "c", "--force"],
            ["import", str(source), "--on-conflict", random.choice(["overwrite", "rename"])],
            *(["find", "sentence1x", "--json"], ["reindex", "--quiet"], ["undo"]),
            *(["snapshot"], ["snapshot", "restore", "latest"]),
        )
        args = random.choice(commands)
        if self.command(*args, stdin=text) and args[0] in {"scribe", "import"}:
            self.said.append(text)

    def edits(self) -> None:
        """A person who appends to notes in an editor."""
        text, file = self.sentence(), self.vault / self.path()
        with contextlib.suppress(FileNotFoundError):  # moved or erased meanwhile
            random.choice(MANNERS)(file, file.read_bytes() + f"\n{text}\n".encode())
            self.said.append(text)
            self.done["edit"] += 1
        time.sleep(random.random() * 0.1)

    def checks_out(self) -> None:
        """Git, which adds and removes forty notes at once."""
        for branch in ("few", "many"):
            git(self.vault, "checkout", "-q", "-f", branch)
            self.done["checkout"] += 1
            time.sleep(0.5)

    def kills(self) -> None:
        """SIGKILL for a command, or for a server that has done something, once a second."""
        time.sleep(BETWEEN_KILLS)
        if victims := list(self.alive.values()):
            random.choice(victims).kill()
            self.done["kill"] += 1


class Caller:
    """An agent at a server of its own; it starts another one when that is killed. `known` is what it wrote, by path."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.server: Server | None = None
        self.session = ""
        self.known: dict[str, tuple[str, str]] = {}
        self.call("rest")

    def call(self, tool: str, **given: Any) -> tuple[bool, str]:
        """Call a tool; return whether it did its work, and its answer."""
        if self.server is None:
            self.server = Server(self.stage.vault)
            self.session = json.loads(self.server.call("rest", {})[1])["session_id"]
        if tool == "scribe":
            given = {"chunk": given, "session_id": self.session, "force": True}
        is_done, answer = self.server.call(tool, given)
        assert "INTERNAL_ERROR" not in answer, answer
        assert not self.server.said, self.server.said
        self.stage.done[tool] += is_done
        self.stage.alive[self] = self.server.process
        return is_done, answer

    def end(self) -> None:
        self.stage.alive.pop(self, None)
        if self.server:
            self.server.kill()
        self.server = None

    def does_anything(self) -> None:
        """Do what agents do to any note."""
        stage, text = self.stage, self.stage.sentence()
        label = {"topic": "t", "keywords": ["a", "b", "c"]}
        calls: list[tuple[str, dict[str, Any]]] = [
            ("scribe", {"text": f"## One\n\n{text}\n\n## Two\n\nlast", "metadata": label}),
            ("revise", {"chunk_id": stage.path(), "append": text}),
            ("revise", {"chunk_id": f"{stage.path()}#one", "content": f"## One\n\n{text}"}),
            ("erase", {"chunk_id": stage.path() + random.choice(["", "#one"])}),
            ("restore", {"name": stage.path(".trash")}),
            ("undo", {}),
            ("move", {"old": stage.path(), "new": f"m/{text.split()[0]}.md", "dry_run": False}),
            ("move", {"old": random.choice("abm"), "new": f"{random.choice('ef')}/g", "dry_run": False}),
            ("merge", {"a": stage.path(), "b": stage.path(), "keep": "both", "dry_run": False}),
            ("search", {"query": text}),
        ]
        tool, given = random.choice(calls)
        try:
            if self.call(tool, **given)[0] and tool in {"scribe", "revise"}:
                stage.said.append(text)
        except Gone:
            self.end()

    def writes_and_finds(self) -> None:
        """Write a memory or change one, and find it at once."""
        text = self.stage.sentence()
        if self.known and random.random() < 0.3:
            path, (chunk_id, _) = random.choice(list(self.known.items()))
            is_done, answer = self.call("revise", chunk_id=chunk_id, content=text)
        else:
            label = {"topic": f"stress {id(self)}", "keywords": ["stress", "test", text.split()[0]]}
            is_done, answer = self.call("scribe", text=text, metadata=label)
            path, chunk_id = (json.loads(answer)[name] for name in ("path", "chunk_id"))
        assert is_done, answer
        self.known[path] = (chunk_id, text)
        self.finds(text, path)

    def finds(self, text: str, path: str) -> None:
        """Assert that the server finds a text by words and by meaning."""
        for tool, given in (("find", {"keywords": text.split()[0]}), ("memorize", {"query": text, "limit": 3})):
            hits = [hit["path"] for hit in json.loads(self.call(tool, **given, format="json")[1])["hits"]]
            assert path in hits, (tool, text, path, hits)

    def is_quiet(self) -> bool:
        """Whether the index stays as it is for a second."""
        first = json.loads(self.call("stats")[1])
        time.sleep(1)
        state = json.loads(self.call("stats")[1])
        return not state["pending"] and first["generation"] == state["generation"]


def test_nothing_acknowledged_is_lost(vault: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Agents and a person write, erase, move, merge, undo, import and go back, an editor and git save, and servers and
    commands are killed: every acknowledged sentence is in the vault, its trash, the journal or a
    snapshot, no file is half written, nothing runs git's hooks, and the index equals one from scratch. Then two servers and a
    loop of `reindex` work at once: every acknowledged write is found at once by its process, and later by every other one, by
    words and by meaning in Chroma.
    """
    stage = Stage(vault, monkeypatch)
    grow(vault, {".spellbook/config.toml": b"exact_most = 10\n"})
    git(vault, "init", "-q", "-b", "few")
    git(vault, "commit", "-q", "--allow-empty", "-m", "none")
    git(vault, "checkout", "-q", "-b", "many")
    grow(vault, {f"git/{n}.md": f"# Git {n}\n\n[[git/{n + 1}]]\n\n## One\n\ncommitted\n".encode() for n in range(40)})
    git(vault, "add", "git")
    git(vault, "commit", "-q", "-m", "many")
    grow(vault, {f"{'abc'[n % 3]}/n{n}.md": f"# {n}\n\n[[n{n + 1}]]\n\n## One\n\nfirst\n".encode() for n in range(12)})
    agents = [Caller(stage) for _ in range(2)]
    doings = [agent.does_anything for agent in agents]
    stage.run(SECONDS, *doings, stage.types, stage.edits, stage.checks_out, stage.kills)
    for agent in agents:
        agent.end()
    with spellbook.open(vault) as book:
        book.reindex()
        for twin in book.index.catalog.notes.twins():  # which of them has the id depends on which was there first
            (vault / twin.path).unlink()
        book.reindex()
        kept = b"\n".join(everything(vault, book.config.state, book.snapshots.folder)).decode()
    assert not [sentence for sentence in stage.said if sentence not in kept]
    assert (bool(stage.said), bool(stage.done["kill"])) == (True, True)
    assert not [hook for hook in (vault / ".git/hooks").glob("*") if hook.suffix != ".sample"]

    def reindexes() -> None:
        assert stage.command("reindex", "--json")

    stage.run(SECONDS / 2, *(agent.writes_and_finds for agent in agents), reindexes)
    until(agents[0].is_quiet)
    written = {path: text for agent in agents for path, (_, text) in agent.known.items()}
    for agent in agents:
        for path, text in written.items():
            agent.finds(text, path)
        agent.end()
    assert all((vault / path).read_text().endswith(f"---\n\n{text}\n") for path, text in written.items())
    assert_equal_to_scratch(vault, tmp_path / "scratch")
