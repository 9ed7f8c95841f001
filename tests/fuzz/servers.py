"""A strict client for a server on stdio: it checks each line that is printed, and notices when the server dies."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.helpers import PATIENCE
from tests.mcp.agent import command


class Gone(Exception):
    """The server ended before it answered."""


class Server:
    """
    `spellbook mcp` as a child process, in a process group of its own, or another `program`.

    `said` holds lines on its stdout that are no protocol messages: there must be none. A server that hangs is ended by the
    time limit of the test.
    """

    def __init__(
        self, vault: Path, *toolsets: str, program: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        self.said: list[str] = []
        self._count, self._told = 0, ""
        stderr, self._file = tempfile.mkstemp()
        self.process = subprocess.Popen(
            program or [*command(vault), "--toolsets", ",".join(toolsets or ("core", "desk", "backup"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment or {**os.environ, "SPELLBOOK_EMBEDDER": "hash"},
            start_new_session=True,
        )
        os.close(stderr)
        assert self.process.stdin
        assert self.process.stdout
        self._stdin, self._stdout = self.process.stdin, self.process.stdout
        client = {"name": "fuzz", "version": "1"}
        try:
            self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
            self.send({"method": "notifications/initialized"})
        except Gone:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def errors(self) -> list[str]:
        """The lines of its stderr so far."""
        if os.path.exists(self._file):
            self._told = Path(self._file).read_text("utf-8", "replace")
        return self._told.splitlines(keepends=True)

    def send(self, message: dict[str, Any]) -> None:
        """Send a message, and wait for nothing."""
        try:
            self._stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self._stdin.flush()
        except OSError as error:
            raise Gone from error

    def ask(self, method: str, params: dict[str, Any], id: str | None = None) -> dict[str, Any]:
        """Return the result, or `{"error": …}`. Raises Gone."""
        self._count += 1
        asked = id or self._count
        self.send({"id": asked, "method": method, "params": params})
        while line := self._stdout.readline().decode("utf-8", "replace"):
            try:
                message = json.loads(line)
                assert message["jsonrpc"] == "2.0"
            except (ValueError, KeyError, TypeError, AssertionError):
                self.said.append(line)
                continue
            if message.get("id") == asked:
                return message["result"] if "result" in message else {"error": message["error"]}
        raise Gone

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
        self._stdin.close()
        return self.ended()

    def ended(self) -> int:
        """Wait for the end, and return the exit code."""
        code = self.process.wait(PATIENCE)
        _ = self.errors  # kept, since the file goes
        Path(self._file).unlink(missing_ok=True)
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        return code
