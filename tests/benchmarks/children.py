"""Child processes: one that runs a measurement, and an MCP server that is called over stdin and stdout."""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

_HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


def apart(measure: Callable[P, Iterable[T]], *given: P.args, **named: P.kwargs) -> Iterator[T]:
    """
    Run `measure` in a new process and yield its results as they arrive; the processes share no memory.

    Raises RuntimeError if the process fails; its traceback is on stderr.
    """
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe(duplex=False)
    child = spawn.Process(target=_tell, args=(there, measure, given, named))
    child.start()
    there.close()
    try:
        with contextlib.suppress(EOFError):
            while True:
                yield here.recv()
        child.join()
        if child.exitcode:
            raise RuntimeError(f"the process ended with {child.exitcode}")
    finally:
        child.terminate()
        child.join()


def _tell(
    there: Connection, measure: Callable[..., Iterable[Any]], given: Sequence[Any], named: Mapping[str, Any]
) -> None:
    for each in measure(*given, **named):
        there.send(each)


class Server:
    """A running MCP server with process id `pid`; it answered `initialize` after `seconds`."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], folder: Path | None = None) -> None:
        started = time.perf_counter()
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
        )
        self._numbers = itertools.count(1)
        self.pid = self._process.pid
        self._ask("initialize", _HELLO)
        self.seconds = time.perf_counter() - started
        self._say({"method": "notifications/initialized"})

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)

    def call(self, tool: str, **arguments: Any) -> None:
        """Call a tool and wait for its result. Raises RuntimeError if the result is an error."""
        answer = self._ask("tools/call", {"name": tool, "arguments": arguments})
        if "error" in answer or answer["result"].get("isError"):
            raise RuntimeError(f"{tool} answered {answer}")

    def _ask(self, method: str, given: Mapping[str, Any]) -> Any:
        assert self._process.stdout
        number = next(self._numbers)
        self._say({"id": number, "method": method, "params": given})
        while (answer := json.loads(self._process.stdout.readline())).get("id") != number:
            pass
        return answer

    def _say(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()
