"""Where one part is recorded: a folder with a vault and its own state, children with a clock that stands still, and what they said."""

from __future__ import annotations

import datetime as dt
import json
import mmap
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from .rules import rules

BEGIN = int(dt.datetime(2026, 11, 1, 9, tzinfo=dt.UTC).timestamp())
"""
The clock of a recording starts before any real time of a file that it writes.

A later clock would find those files old, and what is unused for a month is deleted.
"""

SERVED = {"api", "pages", "mcp-auto", "mcp-legacy"}
"""The parts in which a server runs."""

PATIENCE = 300.0
"""Seconds after which a child hangs."""


class Place:
    """
    A folder of its own for one part, the tree that is recorded, and the folder that takes the recording.

    Each `tick` is a step: a minute later, with random bytes of its own.
    """

    def __init__(self, part: str, out: Path, python: Path, library: Path, embedder: str = "hash") -> None:
        self.out, self.python, self.embedder = out / part, python, embedder
        self.tree = python.parent.parent.parent
        # A vault in memory: many children write through to the disk, which others use.
        self.root = Path(tempfile.mkdtemp(prefix="rec-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        self.vault = self.root / "vault"
        for name in ("home", "work"):
            (self.root / name).mkdir()
        self.clock = self.root / "clock"
        self.clock.write_bytes(bytes(16))
        with self.clock.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), 16)
        self.step = 0
        self.tick()
        # A recording may go on past midnight.
        days = tuple(f"{dt.datetime.fromtimestamp(time.time() + more, dt.UTC):%Y-%m-%d}" for more in (0, 3_600))
        places = {str(self.root): "<root>", str(python): "<python>", str(self.tree): "<tree>"}
        cache = os.environ.get("SPELLBOOK_CACHE", "")
        places |= {quote(str(self.root), safe=""): "<root>"} | ({cache: "<cache>"} if cache else {})
        places |= {str(python.parent / name): "<python>" for name in ("python3", "spellbook")}
        self.steady = rules(places, days, is_served=part in SERVED)
        self.library = library

    def tick(self, step: int | None = None) -> None:
        """Begin the next step, or the one with this number."""
        self.step = self.step + 1 if step is None else step
        self._shared[:] = struct.pack("qq", BEGIN + 60 * self.step, self.step)

    def env(self, **more: str) -> dict[str, str]:
        """Return the environment of a child: nothing of the recorder's own but where programs are."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root / "home"),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "COLUMNS": "100",
            "PYTHONHASHSEED": "0",
            "LD_PRELOAD": str(self.library),
            "RECORDING_CLOCK": str(self.clock),
            "SPELLBOOK_VAULT": str(self.vault),
            "SPELLBOOK_STATE": str(self.root / "state"),
            "SPELLBOOK_DATA": str(self.root / "data"),
            "SPELLBOOK_MODELS": str(self.root / "models"),
            "SPELLBOOK_CACHE": os.environ.get("SPELLBOOK_CACHE") or str(self.root / "cache"),
            "SPELLBOOK_EMBEDDER": self.embedder,
            "SPELLBOOK_LANG": "en",
            **more,
        }

    def run(
        self, *arguments: str, stdin: bytes = b"", program: Sequence[str] = (), **more: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run `spellbook` with these arguments as the next step, or another `program`."""
        self.tick()
        command = [*(program or (str(self.python), "-m", "spellbook")), *arguments]
        return subprocess.run(
            command, input=stdin, capture_output=True, cwd=self.root / "work", env=self.env(**more), timeout=PATIENCE
        )

    def do(self, *arguments: str, program: Sequence[str] = (), stdin: bytes = b"", **more: str) -> str:
        """Run what must succeed; return its output."""
        done = self.run(*arguments, stdin=stdin, program=program, **more)
        if done.returncode:
            raise RuntimeError(
                f"{[*program, *arguments]} ended with {done.returncode}: {done.stderr.decode()[-2_000:]}"
            )
        return done.stdout.decode("utf-8", "backslashreplace")

    def write(self, name: str, text: str) -> None:
        """Write a file of the recording, made steady."""
        file = self.out / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.steady(text), "utf-8")

    def close(self) -> None:
        """Remove the folder."""
        self._shared.close()
        shutil.rmtree(self.root, ignore_errors=True)


def pretty(value: Any) -> str:
    """Return JSON as lines that read well in a difference; the order of keys stays, since programs print it."""
    return json.dumps(value, ensure_ascii=False, indent=1)


def lines(text: str) -> str:
    """Return a text as it is, or as JSON in lines if it is that."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return pretty(value) if isinstance(value, dict | list) else text


def slug(words: Sequence[str]) -> str:
    """Return a short file name of words."""
    text = "-".join("".join(letter if letter.isalnum() else " " for letter in " ".join(words)).split())
    return text.encode()[:60].decode("utf-8", "ignore")


def shown(given: Mapping[str, Any]) -> str:
    """Return arguments in one line, long ones shortened."""
    text = json.dumps(given, ensure_ascii=False)
    return text if len(text) < 400 else f"{text[:300]}… ({len(text)} letters)"
