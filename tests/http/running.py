"""A server: the app itself, a client that checks its answers, and `spellbook serve` as a process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any, AnyStr
from urllib.parse import urlsplit

from httpx2 import Response
from starlette.testclient import TestClient

from spellbook.http.app import make
from spellbook.http.guard import AccessRules
from spellbook.http.served import Served
from spellbook.http.tokens import Caller, May
from tests.helpers import PATIENCE

PROGRAM = ("127.0.0.1", 50_000)
"""Where a program on this machine asks from."""

HERE = "http://localhost:17950"
"""Where it asks."""


def asked(served: Served, rules: AccessRules | None = None, **options: Any) -> TestClient:
    """A program on this machine that asks the app itself."""
    return TestClient(make(served, rules, live=False), HERE, client=PROGRAM, **options)


def bearer(token: str) -> dict[str, str]:
    """The header of a token."""
    return {"authorization": f"Bearer {token}"}


def status(client: TestClient, **headers: str) -> int:
    """The status that a client gets for a route that needs a token."""
    return client.get("/api/jobs", headers=headers).status_code


def code(answer: Response) -> tuple[int, str]:
    """The status and the code of an error."""
    return answer.status_code, answer.json()["error"]["code"]


def may_of(caller: Caller | None) -> May | None:
    """What a caller may do; None if nobody is let in."""
    return caller.may if caller else None


def shows(page: AnyStr, *parts: AnyStr) -> None:
    """Fail unless a page has each of these texts."""
    assert [part for part in parts if part not in page] == []


def lacks(page: AnyStr, *parts: AnyStr) -> None:
    """Fail if a page has one of these texts."""
    assert [part for part in parts if part in page] == []


def form(page: str, action: str, holding: str = "") -> dict[str, str]:
    """The fields of a page's first form with this action, and with `holding` in it."""
    for found in re.findall(rf'<form[^>]*action="{re.escape(action)}"[^>]*>.*?</form>', page, re.S):
        if holding in found:
            inputs = re.findall(r'<input[^>]*name="([^"]*)"[^>]*value="([^"]*)"', found)
            areas = re.findall(r'<textarea[^>]*name="([^"]*)"[^>]*>\n?(.*?)</textarea>', found, re.S)
            return {unescape(name): unescape(value) for name, value in [*inputs, *areas]}
    raise AssertionError(f"no form {action} with {holding!r}")


class Described(TestClient):
    """Raises AssertionError for an answer that the OpenAPI document of its app does not describe."""

    _document: dict[str, Any] | None = None

    def request(self, method: str, url: Any, **options: Any) -> Response:
        answer = super().request(method, url, **options)
        if self._document is None:
            self._document = super().request("GET", "/api/openapi.json").json()
        check(self._document, method, urlsplit(str(url)).path, answer)
        return answer


def check(document: dict[str, Any], method: str, path: str, answer: Response) -> None:
    """Compare an answer with its description: its status is named, and its body is an object where there is one."""
    for known, operations in document["paths"].items():
        if method.lower() in operations and re.fullmatch(known.replace("{id}", ".+"), path):
            break
    else:
        return  # an address that is not there
    response = operations[method.lower()]["responses"][str(answer.status_code)]
    if "content" in response or "$ref" in response:
        assert isinstance(answer.json(), dict)
    else:
        assert not answer.content


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


Serving = Callable[..., Server]
"""Starts a server of the vault with these options, and the environment by names."""
