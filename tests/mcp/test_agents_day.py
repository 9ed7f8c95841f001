"""A day in an agent's life: hooks as children of a client, tools over a real server on stdio."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import anyio
from mcp import Client

from spellbook.cli.clients import session_hooks
from spellbook.text.terms import estimate_tokens
from tests.helpers import PATIENCE
from tests.mcp.agent import Agent, stdio


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
