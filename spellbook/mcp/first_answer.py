"""
The first answers of `spellbook mcp`, given before the SDK is imported: that takes a second of processor time.

What the SDK answers to the requests that list is kept in the vault's state folder. `Wire` answers a client from there,
and hands the same lines to the SDK once it is loaded; the SDK alone calls tools. A request is answered only if its form
is plain enough that the SDK is sure to accept it: from any other on, the SDK answers all.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from spellbook import __version__
from spellbook.settings.config import Config
from spellbook.settings.translate import language
from spellbook.system import children, disk, platform
from spellbook.system.errors import StorageError

HANDSHAKE = ("initialize", "ping", "tools/list", "prompts/list", "resources/list", "resources/templates/list")
MODERN = ("server/discover", *HANDSHAKE[2:])
"""The requests that are answered in each era of the protocol, that which begins it first."""

PREFIX = "io.modelcontextprotocol/"
"""How the protocol's own keys in `_meta` begin."""

OTHER = ""
"""The version under which is kept what a client gets that initializes with an unknown one."""

Answers = dict[str, dict[str, Any]]
"""The results by version and method. The version of a request that names it in `_meta` has PREFIX before it."""

_FILE = "first-answers-{}.json"
_MOST_FILES = 8
"""Files that are kept: one for each way in which clients start the server of this vault."""

_MOST_BYTES = 2_000_000
_MOST_BRACKETS = 50
"""A request with as many is left to the SDK, which refuses values that are nested too deeply."""

_LIST_SECONDS = 1.0
"""Seconds that loading the SDK waits for a client to list the tools, which it would delay."""

_CHANGED = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'


def place(toolsets: tuple[str, ...], settings: Config) -> Path:
    """Return the file of the answers of a server with these toolsets and settings, in these versions of libraries."""
    folder = Path(str((found := find_spec("mcp")) and found.origin)).parent.parent
    # Not from importlib.metadata, whose import takes 40 ms.
    versions = sorted(each for each in os.listdir(folder) if each.startswith(("mcp", "pydantic")) and "-" in each)
    key = ascii((__version__, versions, toolsets, language(), settings)).encode()
    return settings.state / _FILE.format(sha256(key).hexdigest())


def read(file: Path) -> Answers:
    """Return the answers in a file; none if it is broken or another user's, or if others can write it."""
    try:
        status = os.lstat(file)
        is_ours = os.name == "nt" or (status.st_uid == os.geteuid() and not status.st_mode & 0o022)
        found = json.loads(disk.read_small(file, _MOST_BYTES)) if is_ours else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return found if _fits(found, {"*": {"*": (dict,)}}) else {}


def write(file: Path, answers: Answers) -> None:
    """Keep answers in a file. Where that is impossible, the next start is slow."""
    with contextlib.suppress(OSError, StorageError):
        disk.put(file, json.dumps(answers).encode(), 0o600)
        for old in sorted(file.parent.glob(_FILE.format("*")), key=os.path.getmtime)[:-_MOST_FILES]:
            platform.remove(old)


class Wire:
    """
    The client's lines on stdin and stdout, as a file for the SDK; everything else prints to stderr from now on.

    Lines are answered from `file` until the SDK takes over, or a line comes that only the SDK can answer. The SDK gets
    the line that began the era of the protocol, whose answer is not sent again, and what was not answered. SIGINT and
    SIGTERM end the process.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self._is_listed = threading.Event()
        self._answers = read(file) if file else {}
        """{} once the SDK alone answers."""
        self._rows: dict[str, Any] | None = None
        """The answers after `initialize`; {} if the client uses the era without it, None if that is not known."""
        self._began: object = None
        """The id of the request that began the era."""
        self._lines: SimpleQueue[str | OSError] = SimpleQueue()
        self._lock = threading.Lock()
        if sys.platform != "win32" and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                # The thread that reads stdin cannot be interrupted.
                signal.signal(number, lambda number, _: children.leave(128 + number))
        own = _moved(0, os.open(os.devnull, os.O_RDONLY)), _moved(1, 2)
        self._in = open(own[0], encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        self._out = open(own[1], "w", 1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        self.flush = self._out.flush
        threading.Thread(target=self._read, name="spellbook-wire", daemon=True).start()

    def _read(self) -> None:
        end: str | OSError = ""
        try:
            for line in self._in:
                with self._lock:
                    if not (self._answers and self._answer(line)):
                        self._lines.put(line)
                if not self._answers or '"tools/list"' in line:
                    self._is_listed.set()
            if self._answers:
                children.leave(0)  # the client has gone, and waits for nothing
        except OSError as error:
            end = error
        self._lines.put(end)
        self._is_listed.set()

    def readline(self) -> str:
        """Return the client's next line, "" at the end. Raises OSError if a stream fails."""
        line = self._lines.get()
        if isinstance(line, OSError):
            raise line
        return line

    def close(self) -> None:
        """Give the process its stdout back: an error at its end tells whether the client still reads."""
        os.dup2(self._out.fileno(), 1)

    def wait(self) -> None:
        """Wait a moment for the client to list the tools, unless the SDK is needed first."""
        if self._answers:
            self._is_listed.wait(_LIST_SECONDS)

    def write(self, line: str) -> None:
        """Send a line of the SDK, unless it answers what was answered."""
        if self._began is not None and json.loads(line).get("id") == self._began:
            self._began = None
        else:
            self._out.write(line)

    def take_over(self, answers: Answers) -> None:
        """Let the SDK alone answer from now on. If its answers are not those of the file, they are kept there."""
        with self._lock:
            self._answers = {}
        if self.file and answers != read(self.file):
            write(self.file, answers)
            if self._began is not None:
                self._out.write(_CHANGED)

    def _answer(self, line: str) -> bool:
        """Answer a line if that can be done, and return whether the SDK does not need it."""
        is_plain = line.count("{") + line.count("[") < _MOST_BRACKETS and "\\u" not in line  # it may name half a letter
        try:
            asked: Any = json.loads(line) if is_plain else None
        except ValueError:
            asked = None
        if isinstance(asked, dict) and "id" not in asked:  # a notification
            return False
        before = self._rows
        result = self._result(asked["method"], asked.get("params", {})) if _fits(asked, _REQUEST) else None
        if result is None:
            self._answers = {}
            return False
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
        self._out.write(json.dumps(answer, ensure_ascii=False, separators=(",", ":")) + "\n")
        if self._rows is before:
            return True
        self._began = asked["id"]
        return False

    def _result(self, method: str, params: dict[str, Any]) -> Any:
        rows: dict[str, Any] = {}
        if not self._rows and _fits(params, _ENVELOPED):
            rows = self._answers.get(PREFIX + params["_meta"][f"{PREFIX}protocolVersion"], {})
            if self._rows is None and method != "server/discover":  # which may be a trial
                self._rows = {}
        elif self._rows is None and method == "initialize" and _fits(params, _INITIALIZE):
            rows = self._rows = self._answers.get(params["protocolVersion"]) or self._answers.get(OTHER, {})
        elif self._rows and method != "initialize" and _fits(params, _LISTING):
            rows = self._rows
        return rows.get(method)


def _moved(number: int, instead: int) -> int:
    """Return a standard stream under a number that no library writes to; `instead` takes its place."""
    own = os.dup(number)
    os.dup2(instead, number)
    return own


_TEXT = (str,)
_CLIENT = {"name": _TEXT, "version": _TEXT, "title?": _TEXT, "description?": _TEXT, "websiteUrl?": _TEXT}
_ABLE = {
    "roots?": {"listChanged?": (bool,)},
    "sampling?": {"context?": (dict,), "tools?": (dict,)},
    "elicitation?": {"form?": (dict,), "url?": (dict,)},
    "experimental?": {"*": (dict,)},
    "extensions?": {"*": (dict,)},
}
_LISTING = {"_meta?": {"progressToken?": (int, str)}}
_INITIALIZE = {"protocolVersion": _TEXT, "capabilities": _ABLE, "clientInfo": _CLIENT, **_LISTING}
_OF_ALL = {"protocolVersion": _TEXT, "clientCapabilities": _ABLE, "clientInfo?": _CLIENT}
_ENVELOPED = {"_meta": {**{PREFIX + name: form for name, form in _OF_ALL.items()}, "progressToken?": (int, str)}}
_REQUEST = {"jsonrpc": ("2.0",), "id": (int, str), "method": _TEXT, "params?": (dict,)}
"""
The forms of requests that the SDK is sure to accept: those that clients send. A name has a form, or the types or values
that its value may have; `?` is behind those that may be missing, `*` is any other name.
"""


def _fits(value: object, form: Any) -> bool:
    if isinstance(form, tuple):
        return type(value) in form or value in form
    needed = {name for name in form if name[-1] not in "?*"}
    return (isinstance(value, dict) and needed <= value.keys()) and all(
        _fits(each, form.get(name) or form.get(f"{name}?") or form.get("*", ())) for name, each in value.items()
    )
