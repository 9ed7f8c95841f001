"""
Whole processes, as people, git hooks and MCP clients start them.

The vault is a git repository of generated notes. Its stored vectors are random, so that only the measured ones are really
computed, by the bundled model. Compared commands take turns; figures are medians.
"""

import contextlib
import itertools
import json
import os
import random
import select
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import spellbook
from spellbook.capture.ledger import Ledger
from spellbook.library.book import Spellbook
from spellbook.watch.schedule import FULL_SCAN, QUIET, SETTLE_AFTER
from tests.benchmarks.generated import Writer, write
from tests.benchmarks.table import Figure, Ratio, Sizes
from tests.benchmarks.timing import medians, processor, seconds
from tests.fuzz.servers import Server

_ROUNDS = 15
_SAVES = 7
_SPAWNS = 6
_PYTHON = [sys.executable, "-c"]
_BARE = [*_PYTHON, "from mcp.server.mcpserver import MCPServer; MCPServer('bare').run('stdio')"]


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Build a vault in `folder` and measure it."""
    bench = Bench(folder)
    bench.build(sizes.notes)
    for part in (commands, servers, watching):
        yield from part(bench)


class Timed(Server):
    """A running MCP server, which answered `initialize` after `seconds`."""

    def __init__(self, program: Sequence[str], environment: Mapping[str, str]) -> None:
        started = time.perf_counter()
        super().__init__(Path(), program=program, environment=environment)
        self.seconds = time.perf_counter() - started

    def __exit__(self, *_: object) -> None:
        self.close()

    def done(self, tool: str, **given: Any) -> None:
        """Call a tool and wait for its result. Raises RuntimeError if the result is an error."""
        is_done, text = self.call(tool, given)
        if not is_done:
            raise RuntimeError(f"{tool} answered {text}")


class Bench:
    """An indexed vault under git in `folder`, and the processes that use it."""

    def __init__(self, folder: Path) -> None:
        self.vault, self._state = folder / "vault", folder / "state"
        script = Path(sys.executable).with_name("spellbook")
        self.spellbook = [str(script)] if script.exists() else [sys.executable, "-m", "spellbook"]
        self.variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self.variables |= {"SPELLBOOK_STATE": str(self._state), "SPELLBOOK_VAULT": str(self.vault)}
        self.variables["SPELLBOOK_DATA"] = os.environ["SPELLBOOK_DATA"] = str(folder / "data")
        self._numbers = itertools.count()

    def build(self, notes: int) -> None:
        """Write the notes, commit them and index them."""
        write(self.vault, range(notes), Writer())
        git = ["git", "-C", str(self.vault), "-c", "user.name=bench", "-c", "user.email=bench@example.org"]
        for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "notes"]):
            subprocess.run([*git, *arguments], check=True)
        self.run("reindex", "--words-only", "--quiet")
        with self.book() as book:
            make_vectors_up(book)
        self.run("reindex", "--quiet")
        time.sleep(SETTLE_AFTER + 0.5)
        for _ in range(2):
            self.run("reindex", "--quiet")

    def book(self) -> Spellbook:
        """Open the vault in this process."""
        return spellbook.open(self.vault, state=self._state)

    def run(self, *arguments: str, program: Sequence[str] | None = None, stdin: str = "") -> None:
        """Run `spellbook`, or another program, with these arguments and wait for it."""
        command = [*(self.spellbook if program is None else program), *arguments]
        given, place = stdin.encode(), self.vault
        subprocess.run(command, check=True, input=given, cwd=place, env=self.variables, stdout=subprocess.DEVNULL)

    def edit(self) -> str:
        """Save a note with a new word in one section, and return the word."""
        word = f"novelty{next(self._numbers)}x{random.randrange(10**9)}"
        sections = "\n\n".join(f"## Part {i}\n\nThis part stays as it is." for i in range(3))
        text = f"# Edited\n\n{sections}\n\n## News\n\nThe {word} was delivered on time.\n"
        (self.vault / "edited.md").write_text(text, "utf-8")
        return word


def make_vectors_up(book: Spellbook) -> None:
    drawn = np.random.default_rng(1)
    width = len(book.index.embedder.embed_query("how wide"))
    while keys := book.index.catalog.waiting.in_order()[:2_000]:
        block = drawn.standard_normal((len(keys), width)).astype("<f4")
        block /= np.linalg.norm(block, axis=1, keepdims=True)
        book.index.catalog.vectors.add([(key, row.tobytes()) for key, row in zip(keys, block, strict=True)])


def commands(bench: Bench) -> Iterator[Figure]:
    """Measure short commands. The hook of a client leaves a job, for which there is no transcript, and starts a process."""
    Ledger(str(bench.vault.resolve())).turn(True, bench.vault)
    hook = {"hook_event_name": "SessionStart", "session_id": "s", "transcript_path": None, "cwd": "/"}
    took = medians(
        {
            "click": lambda _: bench.run("import click", program=_PYTHON),
            "help": lambda _: bench.run("--help"),
            "git": lambda _: bench.run("status", program=["git"]),
            "no-op": lambda _: bench.run("reindex", "--quiet"),
            "start": lambda _: bench.run("context", "--session-start"),
            "prompt": lambda _: bench.run("context", "--prompt", "why does the invoice service rotate its keys?"),
            "hook": lambda _: bench.run("capture", "hook", stdin=json.dumps(hook)),
        },
        _ROUNDS,
    )
    ratio = Ratio(took["help"] / took["click"], '`python -c "import click"`', most=2)
    yield Figure("`spellbook --help`", took["help"], ratio=ratio)
    ratio = Ratio(took["no-op"] / took["git"], "`git status`", most=2.5)
    yield Figure("no-op `reindex`, whole process", took["no-op"], most=0.4, ratio=ratio)
    yield Figure("`context --session-start`, whole process", took["start"], most=0.3)
    yield Figure("`context --prompt`, whole process", took["prompt"], most=0.4)
    yield Figure("`capture hook`, whole process", took["hook"], most=0.3)
    edited = medians({"edit": lambda _: bench.run("reindex", "--quiet")}, 5, bench.edit)["edit"]
    yield Figure("`reindex` after one edit, whole process", edited, most=1)


def servers(bench: Bench) -> Iterator[Figure]:
    """Measure `spellbook mcp` from start to its first answers, against a minimal server of the MCP SDK."""
    ours = [*bench.spellbook, "mcp"]
    question = "when was the invoice delivered?"
    calls: dict[str, dict[str, Any]] = {"find": {"keywords": ["invoice"]}, "memorize": {"query": question}}
    taken: dict[str, list[float]] = {"bare": [], "ours": [], "find": [], "memorize": []}
    for _ in range(_SPAWNS + 1):
        with Timed(_BARE, bench.variables) as bare:
            taken["bare"].append(bare.seconds)
        for tool, given in calls.items():
            with Timed(ours, bench.variables) as server:
                taken["ours"].append(server.seconds)
                taken[tool].append(seconds(partial(server.done, tool, **given)))
    # The first round warms the disk cache.
    took = {name: statistics.median(times[len(times) // (_SPAWNS + 1) :]) for name, times in taken.items()}
    ratio = Ratio(took["ours"] / took["bare"], "a minimal SDK server", most=1.25)
    yield Figure("`spellbook mcp`, start to `initialize` answered", took["ours"], ratio=ratio)
    yield Figure("first `find` call", took["find"], most=0.2)
    yield Figure("first `memorize` call", took["memorize"], most=1.5)


# -- watching


def watching(bench: Bench) -> Iterator[Figure]:
    """Measure a watcher: how soon it finds a saved file, and its CPU time while idle."""
    child = subprocess.Popen([*bench.spellbook, "watch"], env=bench.variables, stderr=subprocess.PIPE)
    try:
        with bench.book() as book:
            until(book.is_watched)
            _save(bench, book.index.catalog.file)  # loads the model
            saved = [_save(bench, book.index.catalog.file) for _ in range(_SAVES)]
        words, vectors = (statistics.median(times) - QUIET for times in zip(*saved, strict=True))
        yield Figure("watcher: saved note findable by words, after the 0.3 s delay", words, most=0.05)
        yield Figure("watcher: saved note findable by meaning, after the 0.3 s delay", vectors, most=0.3)
        time.sleep(6)  # Chroma and the cache catch up
        used, started = processor(child.pid), time.perf_counter()
        time.sleep(2 * FULL_SCAN)
        idle = (processor(child.pid) - used) / (time.perf_counter() - started)
        yield Figure("watcher: idle CPU", idle * 100, "%", most=0.5)
    finally:
        child.terminate()
        child.communicate(timeout=15)


def _save(bench: Bench, catalog: Path) -> tuple[float, float]:
    """Save a note and return the seconds until its new chunk is in the full-text index and has its vector."""
    connection = sqlite3.connect(f"file:{catalog}?mode=ro", uri=True, isolation_level=None)
    time.sleep(1.0)
    with contextlib.closing(connection):
        word = bench.edit()
        start = time.perf_counter()
        # Poll the tables that search reads, without the cost of a search.
        chunk = until(lambda: connection.execute("SELECT rowid FROM words WHERE words MATCH ?", (word,)).fetchone())
        by_words = time.perf_counter() - start
        vector = "SELECT 1 FROM chunks JOIN vectors USING (key) WHERE chunk = ?"
        until(lambda: connection.execute(vector, chunk).fetchone())
        return by_words, time.perf_counter() - start


def until(happens: Callable[[], Any], within: float = 60.0) -> Any:
    deadline = time.monotonic() + within
    while not (found := happens()):
        if time.monotonic() > deadline:
            raise TimeoutError
        select.select([], [], [], 0.002)
    return found
