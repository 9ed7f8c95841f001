"""
Any number of processes on one vault, always right.

Two MCP servers, a loop of `reindex` and an editor work at once for
SPELLBOOK_STRESS_SECONDS (5 by default, 60 for the long form).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from tests.helpers import PATIENCE
from tests.mcp.agent import Agent, stdio
from tests.scratch import assert_equal_to_scratch

pytestmark = pytest.mark.slow

SECONDS = float(os.environ.get("SPELLBOOK_STRESS_SECONDS", "5"))
LOOP = """
import json, subprocess, sys, time
end, runs = time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < end:
    done = subprocess.run([sys.executable, "-m", "spellbook", "--vault", sys.argv[1], "reindex", "--json"], capture_output=True, text=True)
    if done.returncode or json.loads(done.stdout)["failed"] or done.stderr:
        sys.exit(f"reindex: {done.returncode} {done.stdout} {done.stderr}")
    runs += 1
print(runs)
"""


class Writer(Agent):
    """A client that records what it wrote."""

    def __init__(self, name: str, client: Client) -> None:
        super().__init__(client)
        self.name = name
        self.known: dict[str, tuple[str, str]] = {}  # path to chunk id and text
        self.calls = 0

    async def ask(self, tool: str, **arguments: object) -> Any:
        self.calls += 1
        return await super().ask(tool, **arguments)

    async def work(self, seconds: float) -> None:
        session = (await self.json("rest"))["session_id"]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            word = f"{self.name}word{self.calls}"
            text = f"{word} " + " ".join(
                random.choices(["orchard", "harbor", "lantern", "granite", "meadow", "copper"], k=40)
            )
            if self.known and random.random() < 0.3:
                path = random.choice(list(self.known))
                await self.call("revise", chunk_id=self.known[path][0], content=text)
                self.known[path] = (self.known[path][0], text)
            else:
                chunk = {
                    "text": text,
                    "metadata": {"topic": f"stress {self.name}", "keywords": ["stress", "test", word]},
                }
                done = await self.json("scribe", chunk=chunk, session_id=session, force=True)
                assert done["status"] == "success"
                path = done["path"]
                self.known[path] = (done["chunk_id"], text)
            # Whoever wrote it finds it at once.
            await finds(self, word, text, path)


async def finds(agent: Writer, word: str, text: str, path: str) -> None:
    """Assert that the agent's server finds a text by words and by meaning."""
    by_words = await agent.json("find", keywords=[word], format="json")
    assert [hit["path"] for hit in by_words["hits"]] == [path], f"{agent.name} does not find {word}: {by_words}"
    by_meaning = await agent.json("memorize", query=text, limit=3, format="json")
    assert path in [hit["path"] for hit in by_meaning["hits"]], (agent.name, word, by_meaning["index"])


async def together(vault: Path, children: list[subprocess.Popen[str]]) -> tuple[list[Writer], dict[str, str]]:
    server = stdio(vault)
    async with Client(server) as one, Client(server, mode="legacy") as two:
        agents = [Writer("anna", one), Writer("bert", two)]
        async with anyio.create_task_group() as group:
            for agent in agents:
                group.start_soon(agent.work, SECONDS)
        outputs = []
        for child in children:
            out, err = await anyio.to_thread.run_sync(child.communicate)
            assert child.returncode == 0, err
            assert not err, err
            outputs.append(out)
        assert int(outputs[0]) > 0
        saved = json.loads(outputs[1])
        await settled(agents[0])
        for asked in agents:
            for agent in agents:
                for path, (_, text) in agent.known.items():
                    await finds(asked, text.split()[0], text, path)
            for path, text in saved.items():
                word = next(word for word in text.split() if word.startswith("editword"))
                await finds(asked, word, text.partition("## Zweite")[2], path)
        return agents, saved


async def settled(agent: Writer) -> None:
    """Wait until the watcher has nothing left to do."""
    quiet, before, end = 0, -1, time.monotonic() + PATIENCE
    while quiet < 4:
        assert time.monotonic() < end, "the index does not come to rest"
        state = await agent.json("stats")
        quiet = quiet + 1 if state["generation"] == before and not state["pending"] else 0
        before = state["generation"]
        await anyio.sleep(0.5)


@pytest.mark.parametrize("exact_most", [20_000, 1], ids=["exact", "chroma"])
def test_four_processes_on_one_vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exact_most: int) -> None:
    """Every acknowledged write is found by every process, the index equals one from scratch, and no file holds what nobody wrote."""
    monkeypatch.setenv("SPELLBOOK_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
    vault = tmp_path / "vault"
    (vault / ".spellbook").mkdir(parents=True)
    (vault / ".spellbook" / "config.toml").write_text(f"exact_most = {exact_most}\n")
    start = (
        [sys.executable, "-c", LOOP, str(vault), str(SECONDS)],
        [sys.executable, "-m", "tests.editor", str(vault), str(SECONDS), "7"],
    )
    children = [subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for args in start]
    try:
        agents, saved = anyio.run(together, vault, children)
    finally:
        for child in children:
            child.kill()
            child.communicate()
    on_disk = {file.relative_to(vault).as_posix(): file.read_text() for file in vault.rglob("*.md")}
    written = {path: text for agent in agents for path, (_, text) in agent.known.items()}
    assert on_disk.keys() == saved.keys() | written.keys()
    assert all(on_disk[path] == text for path, text in saved.items())
    assert all(on_disk[path].endswith(f"---\n\n{text}\n") for path, text in written.items())
    assert not [file for file in vault.rglob("*") if file.name.endswith(".tmp")]
    assert_equal_to_scratch(vault, tmp_path / "scratch")
    print(f"{sum(agent.calls for agent in agents)} calls, {len(written)} memories, {len(saved)} edited notes")
