"""
A strict client for a server on stdio: it checks every line that the server prints, and notices when the server dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.helpers import PATIENCE
from tests.mcp.agent import command


class Gone(Exception):
    """The server ended before it answered."""


class Server:
    """
    `spellbook mcp` as a child process, in a process group of its own, or another `program`.

    `said` holds lines on its stdout that are no protocol messages: there must be none.
    """

    def __init__(
        self, vault: Path, *toolsets: str, program: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        self.said: list[str] = []
        self._count = 0
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.process = subprocess.Popen(
            program or [*command(vault), "--toolsets", ",".join(toolsets or ("core", "desk", "backup"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment or {**os.environ, "SPELLBOOK_EMBEDDER": "hash"},
            start_new_session=True,
        )
        self.errors: list[str] = []
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._drain)]
        for thread in self._threads:
            thread.start()
        client = {"name": "fuzz", "version": "1"}
        try:
            self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
            self.send({"method": "notifications/initialized"})
        except Gone:
            self.kill()
            raise

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.put(line.decode("utf-8", "replace"))
        self._lines.put(None)

    def _drain(self) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.errors.append(line.decode("utf-8", "replace"))

    def send(self, message: dict[str, Any]) -> None:
        """Send a message, and wait for nothing."""
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Gone from error

    def ask(self, method: str, params: dict[str, Any], id: str | None = None) -> dict[str, Any]:
        """Return the result, or `{"error": …}`. Raises Gone, or AssertionError if the server hangs."""
        self._count += 1
        asked = id or self._count
        self.send({"id": asked, "method": method, "params": params})
        while True:
            try:
                line = self._lines.get(timeout=PATIENCE)
            except queue.Empty:
                raise AssertionError(f"no answer to {method} {params!r:.500} within {PATIENCE:.0f} s") from None
            if line is None:
                raise Gone
            try:
                message = json.loads(line)
                assert message["jsonrpc"] == "2.0"
            except (ValueError, KeyError, TypeError, AssertionError):
                self.said.append(line)
                continue
            if message.get("id") == asked:
                return message["result"] if "result" in message else {"error": message["error"]}

    def call(self, tool: str, given: dict[str, Any]) -> tuple[bool, str]:
        """Call a tool; return whether it did what it was asked, and its text."""
        result = self.ask("tools/call", {"name": tool, "arguments": given})
        if "error" in result:
            return False, f"{result['error'].get('code')}: {result['error'].get('message')}"
        return not result.get("isError"), "\n".join(each.get("text", "") for each in result["content"])

    def tools(self) -> dict[str, Any]:
        """Return the input schemas of all tools by name."""
        return {tool["name"]: tool["inputSchema"] for tool in self.ask("tools/list", {})["tools"]}

    def kill(self) -> None:
        """Send SIGKILL."""
        self.process.kill()
        self.ended()

    def close(self) -> int:
        """Close stdin as a client does, and return the exit code."""
        assert self.process.stdin
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
        return self.ended()

    def ended(self) -> int:
        """Wait for the end, and return the exit code."""
        code = self.process.wait(PATIENCE)
        for thread in self._threads:
            thread.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                if pipe:
                    pipe.close()
        return code
