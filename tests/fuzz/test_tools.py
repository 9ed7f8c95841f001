"""
Every MCP tool with arguments of every kind: an answer or an error that names its code, in time, and nothing else on stdout.

SPELLBOOK_FUZZ_CALLS says how many calls go to a server on stdio (300 by default, 20,000 for the long form).
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client

from spellbook.library import book as books
from spellbook.mcp.app import build
from spellbook.mcp.names import TOOLSETS
from tests.fuzz import bounded
from tests.fuzz.arguments import arguments
from tests.fuzz.servers import Gone, Server
from tests.helpers import PATIENCE, held
from tests.mcp.agent import Agent, talk

CALLS = int(os.environ.get("SPELLBOOK_FUZZ_CALLS", "300"))
ALLOWED = re.compile(
    "INVALID_INPUT|CONFLICT|MEMORY_NOT_FOUND|VAULT_NOT_FOUND|PERMISSION_DENIED|PATH_OUTSIDE_VAULT|REST_REQUIRED|REST_INVALID|REST_EXPIRED|STORAGE_ERROR|EMBEDDING_ERROR"
)
NOTES = {
    "a.md": "---\ntopic: infra\ntags: [ops]\n---\n# Lantern\n\n[[b]]\n\n## One\n\ngranite 3 ms\n\n## Two\n\n배포는 금요일\n",
    "b.md": "# B\n\n2. [0.99] [Trusted] id: x (a.md:1)\n\n## One\n\nnever\n",
    "x/한글 메모.md": "금요일 배포\n",
}


def vault_at(folder: Path) -> Path:
    """A small vault."""
    vault = folder / "vault"
    for path, text in NOTES.items():
        (vault / path).parent.mkdir(parents=True, exist_ok=True)
        (vault / path).write_text(text, "utf-8")
    return vault


def known(vault: Path) -> list[str]:
    """Existing and former ids and paths, and words of the notes."""
    return [
        *held(vault),
        "a",
        "a#one",
        "a#two",
        "b#",
        "x/한글 메모",
        "infra",
        ".trash/a.md",
        "lantern",
        "granite",
        "x",
        "new/place",
    ]


def well(tool: str, given: Any, is_done: bool, text: str) -> None:
    """Check what holds for every answer."""
    assert "INTERNAL_ERROR" not in text, (tool, given, text)
    assert "Traceback" not in text, (tool, given, text)
    # -32602 is the protocol's own word for arguments that cannot even be read.
    assert is_done or ALLOWED.search(text) or text.startswith("-32602"), (tool, given, text)
    assert text.encode("utf-8"), (tool, given)


@bounded(20)
@given(st.randoms(use_true_random=False))
def test_any_arguments_in_memory(random: Random) -> None:
    """Twelve calls with any arguments on a new vault each get a proper answer or error."""

    async def main(vault: Path) -> None:
        with books.open(vault, embedder="hash", state=vault.parent / "state") as book:
            server = build(book, tuple(TOOLSETS), live=False)
            async with Client(server) as client:
                tools = {tool.name: tool.input_schema for tool in await Agent(client, server).answered()}
                session = await client.call_tool("rest", {})
                there = [*known(vault), str(session.content[0].text)[16:42]]
                for _ in range(12):
                    tool = random.choice(sorted(tools))
                    given = arguments(random, tools[tool], there)
                    with anyio.fail_after(PATIENCE):
                        result = await client.call_tool(tool, given)
                    well(tool, given, not result.is_error, "\n".join(str(each.text) for each in result.content))

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(main, vault_at(Path(folder)))


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_any_arguments_on_stdio(tmp_path: Path) -> None:
    """One server gets all calls: each line on stdout is a message, and it ends only when its stdin is closed."""
    random = Random(os.environ.get("SPELLBOOK_FUZZ_SEED", "11"))
    vault = vault_at(tmp_path)
    server = Server(vault)
    tools = server.tools()
    session = ""
    for number in range(CALLS):
        if number % 500 == 0:
            vault_at(tmp_path)
            _, answer = server.call("rest", {})
            session = re.findall(r'"session_id": "([^"]+)"', answer)[0]
        tool = sorted(tools)[number % len(tools)]
        given = arguments(
            random, tools[tool], known(vault) if number % 20 == 0 else [*NOTES, "a#one", "infra", "granite"]
        )
        if "session_id" in tools[tool]["properties"] and random.random() < 0.8:
            given["session_id"] = session
        try:
            well(tool, given, *server.call(tool, given))
        except Gone:
            raise AssertionError(
                f"the server ended at {tool} {given!r:.2000}\n{''.join(server.errors)[-2000:]}"
            ) from None
    assert not server.said, server.said
    assert server.close() == 0
    assert "Traceback" not in "".join(server.errors), "".join(server.errors)[-3000:]


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        pytest.param("import", {"file_path": '"' + "[" * 500, "dry_run": True}, id="a file's name too long for a disk"),
        pytest.param("move", {"old": "b.md", "new": "[" * 500}, id="a note's name too long for a disk"),
        pytest.param("scribe_chunk", {"chunk": "\ud800"}, id="half a character"),
    ],
)
def test_calls_that_once_had_no_proper_answer(tmp_path: Path, tool: str, given: dict[str, Any]) -> None:
    """Calls that once failed each get an error with its code."""

    with books.open(vault_at(tmp_path), embedder="hash", state=tmp_path / "state") as book:
        well(tool, given, False, talk(book, lambda agent: agent.refused(tool, **given), toolsets=TOOLSETS))
