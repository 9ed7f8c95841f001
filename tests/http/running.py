"""A server: the app itself, and `spellbook serve` as a process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
from starlette.testclient import TestClient

from spellbook.http.app import make
from spellbook.http.guard import AccessRules
from spellbook.http.served import Served
from tests.helpers import PATIENCE


def asked(served: Served, rules: AccessRules | None = None, **options: Any) -> TestClient:
    """A program on this machine that asks the app itself."""
    return TestClient(make(served, rules, live=False), "http://localhost:17950", **options)


def code(answer: httpx.Response) -> tuple[int, str]:
    """The status and the code of an error."""
    return answer.status_code, answer.json()["error"]["code"]


def shows(page: str | bytes, *parts: str | bytes) -> None:
    """Fail unless a page has each of these texts."""
    assert [part for part in parts if part not in page] == []


def lacks(page: str | bytes, *parts: str | bytes) -> None:
    """Fail if a page has one of these texts."""
    assert [part for part in parts if part in page] == []


class Server:
    """A running server: its address, its process, and what it wrote to stderr."""

    def __init__(self, vault: Path, *options: str, code: str = "", **environment: str) -> None:
        """Start `spellbook serve`, after some Python `code`."""
        program = ["-c", f"{code}\nfrom spellbook.__main__ import main\nmain()"] if code else ["-m", "spellbook"]
        self.arguments = [sys.executable, *program, "--vault", str(vault), "serve", "--port", "0", *options]
        env = {**os.environ, "SPELLBOOK_EMBEDDER": "hash", **environment}
        self.process = subprocess.Popen(
            self.arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8", env=env
        )
        self.said: list[str] = []
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line.strip())
            if line.startswith(("http://", "https://")):
                break
        self.url = self.said[-1] if self.said else ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.said += [line.rstrip() for line in self.process.stderr]

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code
