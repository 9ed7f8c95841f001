"""A day in an agent's life: hooks as children of a client, tools over a real server on stdio."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import anyio
from mcp import Client

from spellbook.cli.clients import session_hooks
from tests.helpers import PATIENCE
from tests.server.agent import Agent, stdio


def hook(vault: Path, event: str, **given: object) -> str:
    """Run the hook of an event as `install` writes it, with what Claude Code gives it; return what it prints."""
    option, _ = session_hooks.EVENTS[event]
    told = json.dumps({"session_id": "one", "cwd": str(vault), "hook_event_name": event, **given})
    command = [sys.executable, "-P", "-m", "spellbook", "--vault", str(vault), "context", option]
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
