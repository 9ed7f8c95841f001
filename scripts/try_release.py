"""
Try what `make release` built, as a newcomer would: each wheel in an empty environment, without the sources in sight.

    python scripts/try_release.py [PYTHON …]        # python3.11, python3.12 …; the one that runs this, if none is named

In a new home it runs the demo, the first steps of the README, a day over MCP, a server with its pages, and an article
from text. It prints a line for each Python, and ends with 1 at the first thing that is not as it should be.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RELEASE = ROOT / "dist" / "release"

_MCP = """
import anyio, sys
from mcp import Client, StdioServerParameters

TOOLSETS = "core,desk,backup,memento,decisions,articles,wiki"

async def day():
    command = StdioServerParameters(command=sys.argv[1], args=["--vault", sys.argv[2], "mcp", "--toolsets", TOOLSETS])
    async with Client(command) as client:
        async def call(tool, **arguments):
            answer = await client.call_tool(tool, arguments)
            text = answer.content[0].text
            assert not answer.is_error, (tool, text)
            return text
        assert len((await client.list_tools()).tools) > 40
        await call("remember", content="The person prefers short answers in Korean.", type="semantic")
        saved = {"topic": "database", "decision": "Sessions live in PostgreSQL.", "reasoning": "Failover."}
        await call("mama_save", type="decision", **saved)
        assert "short answers" in await call("search", query="답변은 어떻게 쓰면 되나?")
        assert "PostgreSQL" in await call("mama_search", query="where do sessions live?")
        assert "database" in await call("get_index")
        await call("undo")

anyio.run(day)
"""
PAGES = ("/", "/search?q=deploy", "/contents", "/decisions", "/articles", "/activity", "/health", "/api/status")


def check(python: str) -> str:
    """Return what was tried with the interpreter `python`. Raises CalledProcessError or AssertionError."""
    started = time.monotonic()
    [wheel] = RELEASE.glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        environment = {**os.environ, "HOME": str(home), "LANG": "C.UTF-8"}
        for name in [name for name in environment if name.startswith(("SPELLBOOK_", "PYTHON", "XDG_", "VIRTUAL_ENV"))]:
            del environment[name]

        def run(*command: str | Path, text: str = "") -> str:
            arguments = [str(each) for each in command]
            done = subprocess.run(arguments, cwd=home, env=environment, input=text, capture_output=True, text=True)
            assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}{done.stderr}"
            return done.stdout

        run(python, "-m", "venv", home / "venv")
        inside, spellbook = home / "venv" / "bin" / "python", home / "venv" / "bin" / "spellbook"
        constraints = ROOT / "constraints.txt"
        run(
            inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, "--constraint", constraints
        )
        installed = run(inside, "-c", "import spellbook; print(spellbook.__file__)")
        assert installed.startswith(str(home.resolve())), installed
        version = run(spellbook, "--version").strip()
        run(spellbook, "demo")

        vault = home / "notes"
        run(spellbook, "init", vault)
        environment["SPELLBOOK_VAULT"] = str(vault)
        run(spellbook, "reindex")
        run(
            *(
                spellbook,
                "scribe",
                "-",
                "--topic",
                "deploy",
                "-k",
                "deploy",
                "-k",
                "rollback",
                "-q",
                "When do we deploy?",
            ),
            text="We deploy on Tuesdays, never on Fridays: at weekends nobody is there to roll back.\n",
        )
        for verb in ("search", "memorize"):
            hits = json.loads(run(spellbook, verb, "주말에 배포하면 안 되는 이유", "--json"))["hits"]
            assert hits[0]["topic"] == "deploy", hits
        assert "deploy" in run(spellbook, "find", "never on Fridays", "--all")
        run(spellbook, "status")
        run(spellbook, "export", home / "all.zip")
        article = home / "raft.md"
        article.write_text("# Raft\n\nRaft is a consensus algorithm that is made to be understood.\n" * 5, "utf-8")
        run(spellbook, "save", "https://example.com/raft", "--category", "papers", "--text", article)
        assert "raft" in run(spellbook, "search", "a consensus algorithm").lower()
        run(inside, "-c", _MCP, spellbook, vault)
        pages(spellbook, home, environment)
    return f"{version}, {run_version(python)}: {time.monotonic() - started:.0f} s"


def pages(spellbook: Path, home: Path, environment: dict[str, str]) -> None:
    """Serve the vault, and open each page of the dashboard."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [spellbook, "serve", "--port", str(port)], cwd=home, env=environment, stderr=subprocess.DEVNULL
    )
    try:
        for path in PAGES:
            for patience in range(200):
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                        assert answer.status == 200
                    break
                except urllib.error.HTTPError as error:
                    raise AssertionError(f"{path}: {error}") from error
                except urllib.error.URLError:  # not there yet
                    assert patience < 199, path
                    time.sleep(0.1)
    finally:
        server.terminate()
        assert server.wait(10) == 0


def run_version(python: str) -> str:
    """Return an interpreter's version."""
    return subprocess.run([python, "--version"], check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    for name in sys.argv[1:] or [sys.executable]:
        print(check(name), flush=True)
