"""A tour in a temporary folder: index, write through a real MCP session, find, edit, and see the watcher notice."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import click
from mcp import Client, StdioServerParameters

import spellbook
from spellbook.cli.output import say
from spellbook.mcp.app import first
from spellbook.settings import paths
from spellbook.settings.translate import translated
from spellbook.system.errors import SpellbookError
from spellbook.text.quoting import counted

_CHUNK = {
    "text": (
        "On 2026-11-21 the Lantern team decided to keep session tokens in PostgreSQL instead of Redis. "
        "Reason: a logout must hold even after a failover, and the failover of 2026-11-02 brought 312 ended sessions "
        "back. Looking up a token takes 3 ms on average, against 1 ms before, which nobody notices. Rejected: Redis "
        "with append-only files, because a restore from it takes twenty minutes. To be looked at again above 2,000 "
        "logins a minute."
    ),
    "metadata": {
        "topic": "Lantern architecture",
        "category": "decision",
        "keywords": ["PostgreSQL", "Redis", "session tokens", "failover"],
        "questions": ["Why does Lantern keep sessions in PostgreSQL?", "랜턴은 왜 세션을 PostgreSQL에 두나요?"],
        "entities": [{"name": "Lantern", "type": "project"}, {"name": "PostgreSQL", "type": "technology"}],
        "importance": "high",
    },
}
_QUESTION = "Where are login tokens kept, and what happens to them when a server fails?"
_SAME_WORDS = "Keep session tokens in PostgreSQL: a logout must hold after a failover"
_EDIT = "\nUpdate: the load test of 2026-11-30 held 2,600 logins a minute with pgbouncer in front.\n"


def run() -> None:
    """Run the tour and print it. Raises SpellbookError if something is not as it should be."""
    with tempfile.TemporaryDirectory(prefix="spellbook-demo-", ignore_cleanup_errors=True) as folder:
        os.environ["SPELLBOOK_STATE"] = os.path.join(folder, "state")
        vault = Path(folder, "vault")
        say("1. A vault is a folder of Markdown files. This one starts with Spellbook's guides, in English and Korean.")
        shutil.copytree(paths.starter(), vault)
        with spellbook.open(vault) as book:
            report = book.reindex()
            embedder = book.index.embedder.name
            book.warm_up()
            notes = counted(report.scanned, "note")
            chunks = counted(report.chunks, "section")
            _did(f"{notes} read, {chunks}, to be found by words and by {embedder}")
            _did(f"in {report.seconds:.1f} s; doing it again took {book.reindex().seconds * 1000:.0f} ms")
        try:
            anyio.run(_session, vault, embedder)
        except BaseExceptionGroup as group:
            raise first(group) from group
    say("Done. The temporary folder was deleted. Make your own vault with: spellbook init")


async def _session(vault: Path, embedder: str) -> None:
    say("\n2. An agent starts `spellbook mcp` and talks to it over stdin and stdout.")
    arguments = ["-m", "spellbook", "--vault", str(vault), "mcp"]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    async with Client(server) as client:
        _did(f"its tools: {', '.join(tool.name for tool in (await client.list_tools()).tools)}")
        call = partial(_call, client)
        session = json.loads(await call("rest", language="en"))
        rules = len(session["chunking_guide"]["principles"])
        _did(f"rest() opened {session['session_id']} and handed out {rules} rules")
        written = json.loads(await call("scribe", chunk=_CHUNK, session_id=session["session_id"]))
        _did(f"scribe() wrote {written['path']}")
        again = json.loads(await call("scribe", chunk=_CHUNK, session_id=session["session_id"]))
        _did(f"scribe() of the same again: {again['message']}")
        ended = json.loads(await call("rest_end", session_id=session["session_id"]))
        _did(f"rest_end(): {ended['scribed_count']} memory kept")

        is_by_letters = embedder.startswith("hash")
        say(
            "\n3. It is found at once: by words and, since no model is installed here, by shared letters "
            "instead of meaning."
            if is_by_letters
            else "\n3. It is found at once: by meaning, although the question uses other words, and by words."
        )
        query = _SAME_WORDS if is_by_letters else _QUESTION
        await _finds(call, "memorize", written["path"], query=query, limit=3)
        await _finds(call, "find", written["path"], keywords=["failover", "PostgreSQL"], match="all", limit=3)

        say("\n4. You edit the file in your editor; the watcher notices.")
        file = vault / written["path"]
        file.write_text(file.read_text("utf-8") + _EDIT, "utf-8")
        started = time.monotonic()
        while "pgbouncer" not in await call("find", keywords=["pgbouncer"]):
            if time.monotonic() - started > 20:
                raise SpellbookError("The watcher did not notice the edit within 20 seconds.", "Please report this.")
            await anyio.sleep(0.05)
        _did(f"`pgbouncer`, added with an editor, was found {time.monotonic() - started:.1f} s after the save")
        say("\n5. The memory is a file like any other:\n")
        click.echo("\n".join("   | " + line for line in file.read_text("utf-8").splitlines()))
        click.echo()


async def _call(client: Any, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    text = str(result.content[0].text)
    if result.is_error:
        raise SpellbookError(f"{tool}: {text}")
    return text


async def _finds(call: Callable[..., Any], tool: str, path: str, **arguments: Any) -> None:
    answer = json.loads(await call(tool, format="json", **arguments))
    place = next((i for i, hit in enumerate(answer["hits"], 1) if hit["path"] == path), None)
    if place is None:
        raise SpellbookError(f"{tool} did not find what was just written.", "Please report this.")
    question = arguments.get("query") or " + ".join(arguments["keywords"])
    _did(f"{tool}({question!r}) finds it at rank {place}, score {answer['hits'][place - 1]['score']:.2f}")


def _did(text: str) -> None:
    click.echo(f"   - {translated(text)}")
