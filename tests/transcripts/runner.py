"""
Plays transcripts: the commands, calls of tools and requests of a file, each with the answer that the file promises.

`play` returns the text of the file with the answers as they are now. tests/README.md says how a file reads.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from spellbook import __version__
from spellbook.cli import main
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.server.app import build
from spellbook.server.http.app import make
from spellbook.server.http.served import Served
from spellbook.server.names import DEFAULT, toolsets_of
from tests.commands import git
from tests.helpers import until
from tests.server.agent import Agent, talk
from tests.server.http.described import Described

from .clock import Clock

ANSWERS = (">", "2>", "?")
"""How the lines of an answer begin: of stdout, of stderr, and the exit code."""

WIDTH = 110
"""Letters of a line up to which a value of JSON stays on one line."""

MADE = {
    "session": r"rest-[0-9a-f]{24}",
    "job": r"(?<=/api/jobs/)[0-9a-f]{8}\b|(?<=\"id\": \")[0-9a-f]{8}(?=\")",
    "token": r"\bspb_[\w-]{43}",
}
"""What is random. The first one of a file is `<session-1>`, also in commands that follow."""

TIMES = "ms|duration_ms|seconds|p50|p95|search_time|query_time|averageQueryTime|averageSearchTime|time|uptime_s|uptime|cpuUsage"
SIZES = "databaseSize|usage|rss|peak|before_bytes|after_bytes"
CHANGING = (
    (rf'("(?:{TIMES}|{SIZES}|generation)": )[\d.]+', r"\g<1>0"),
    (r'("loadAverage": )\[.*?\]', r"\g<1>[]"),
    (r"(\d\.\d{6})\d+", r"\g<1>"),
    (r"\bgeneration \d+", "generation N"),
    (r'("(?:looked_at|last_indexed)": ")[^"]+', r"\g<1>TIME"),
    (r"(SPELLBOOK_CACHE\"?(?:: | = |=))[^\s,}]+", r"\g<1>CACHE"),
    (r"(looked at|확인 시각) +[-\d]+ [:\d]+", r"\g<1> TIME"),
    (r"\b(vault|fresh|other|people)-[0-9a-f]{10}\b", r"\g<1>-HASH"),
    (r'("bytes": )\d+(?=,\s+"vectors")', r"\g<1>0"),
    (r"\(\d\.\d MB\)", "(N MB)"),
    (r"\b\d+\.\d s\b", "N s"),
)
"""What differs between two runs, and what stands for it."""


@dataclass
class Answer:
    """What a line `$ …` gave."""

    out: str = ""
    err: str = ""
    code: int = 0


@dataclass
class Player:
    """The doors of one vault, `folder`/vault."""

    folder: Path
    clock: Clock
    made: dict[str, str] = field(default_factory=dict)
    toolsets: tuple[str, ...] = (DEFAULT,)
    open: ExitStack = field(default_factory=ExitStack)

    def play(self, text: str) -> str:
        """Return the transcript `text` with the answers that its lines `$ …` get now."""
        lines = [line for line in text.splitlines() if not line.startswith(ANSWERS)]
        with self.open:
            return "".join(f"{line}\n" for line in self._lines(lines))

    def _lines(self, lines: list[str]) -> Iterator[str]:
        for at, line in enumerate(lines):
            yield line
            if line.startswith(("$ ", "< ")) and not "".join(lines[at + 1 : at + 2]).startswith("<"):
                begin = max(at for at, each in enumerate(lines[: at + 1]) if each.startswith("$ "))
                given = "".join(f"{each[2:]}\n" for each in lines[begin + 1 : at + 1])
                yield from self._shown(self._answer(self._known(lines[begin][2:]), self._known(given)))

    def _shown(self, answer: Answer) -> Iterator[str]:
        for mark, text in ((">", answer.out), ("2>", answer.err)):
            yield from (f"{mark} {line}".rstrip() for line in self._steady(text).splitlines())
        if answer.code:
            yield f"? {answer.code}"

    def _known(self, text: str) -> str:
        """Return a line of a transcript with what its placeholders stand for."""
        for value, name in self.made.items():
            text = text.replace(name, value)
        return text

    def _steady(self, text: str) -> str:
        """Return an answer as it is in every run."""
        for kind, pattern in MADE.items():
            for value in re.findall(pattern, text):
                count = sum(name.startswith(f"<{kind}-") for name in self.made.values())
                self.made.setdefault(value, f"<{kind}-{count + 1}>")
        for value, name in self.made.items():
            text = text.replace(value, name)
        for value, name in (
            (str(self.folder), "/here"),
            (__version__, "VERSION"),
            (str(Path(books.__file__).parents[1]), "PACKAGE"),
            (str(Path(sys.executable).parent), "/bin"),
            (sys.version.split()[0], "PYTHON"),
        ):
            text = text.replace(value, name)
        for pattern, name in CHANGING:
            text = re.sub(pattern, name, text)
        return text

    def _answer(self, line: str, given: str) -> Answer:
        """Answer one line `$ …` of a transcript; `given` are its lines `< …`."""
        word, _, rest = line.partition(" ")
        if word in {"GET", "POST", "PATCH", "DELETE", "page"}:
            return self._http(word, *rest.partition(" ")[::2], given)
        if word == "tool":
            name, _, arguments = rest.partition(" ")
            return self._tool(name, json.loads(arguments or "{}"))
        if word == "tools":
            self.toolsets = toolsets_of(rest)
            return Answer(self._listed())
        words = shlex.split(line)
        if "spellbook" in words[:3]:
            at = words.index("spellbook")
            return _command(words[at + 1 :], given, dict(each.split("=", 1) for each in words[:at]))
        files: Mapping[str, Callable[..., str]] = {
            "cat": lambda path: self._path(path).read_text("utf-8"),
            "write": lambda path: self._write(path, given),
            "rm": lambda path: self._path(path).unlink() or "",
            "ls": self._ls,
            "later": self._later,
            "export": lambda pair: self.clock.patch.setenv(*pair.split("=", 1)) or "",
            "git": lambda *words: git(self.folder, *words),
        }
        try:
            return Answer(files[words[0]](*words[1:]))
        except OSError as error:
            return Answer(err=f"{error.strerror}", code=1)

    # -- files

    def _path(self, path: str) -> Path:
        return self.folder / path

    def _write(self, path: str, text: str) -> str:
        self._path(path).parent.mkdir(parents=True, exist_ok=True)
        self._path(path).write_text(text, "utf-8", newline="")
        return ""

    def _ls(self, path: str) -> str:
        place = self._path(path)
        files = (file.relative_to(place).as_posix() for file in place.rglob("*") if file.is_file())
        return "\n".join(sorted(files))

    def _later(self, hours: str) -> str:
        self.clock.now += dt.timedelta(hours=float(hours.removesuffix("h")))
        return ""

    # -- the other doors

    @cached_property
    def _book(self) -> Spellbook:
        return self.open.enter_context(books.open(self._path("vault"), embedder="hash"))

    @cached_property
    def _api(self) -> Described:
        self.served = Served(self._book)
        app = make(self.served, live=False)
        client = Described(app, "http://localhost:17950", raise_server_exceptions=False, follow_redirects=False)
        return self.open.enter_context(client)

    @cached_property
    def _server(self) -> Any:
        return build(self._book, self.toolsets, live=False)

    def _listed(self) -> str:
        self.__dict__.pop("_server", None)
        tools = talk(self._book, Agent.tools, server=self._server)
        return "\n".join(_laid(tool.model_dump(mode="json", exclude_none=True, by_alias=True)) for tool in tools)

    def _tool(self, name: str, arguments: dict[str, Any]) -> Answer:
        done = talk(self._book, lambda agent: agent.client.call_tool(name, arguments), server=self._server)
        parts = [_read(part.text) if part.type == "text" else str(part) for part in done.content]
        if done.structured_content is not None:
            parts.append(f"structured: {_laid(done.structured_content)}")
        return Answer("\n".join(parts), code=int(bool(done.is_error)))

    def _http(self, method: str, path: str, body: str, headers: str) -> Answer:
        sent = dict(line.split(": ", 1) for line in headers.splitlines())
        sent |= {"accept": "text/html"} if method == "page" else {}
        options = {"json": json.loads(body)} if body else {}
        reply = self._api.request("GET" if method == "page" else method, path, headers=sent, **options)
        if method == "page":
            return Answer(f"{reply.status_code} {reply.headers.get('content-type', '')}")
        if reply.status_code == 202:
            until(lambda: all(job.state != "running" for job in self.served.jobs.all()))
        told = [f"{name}: {reply.headers[name]}" for name in ("etag", "location") if name in reply.headers]
        return Answer("\n".join([str(reply.status_code), *told, _read(reply.text)]))


def _command(words: list[str], given: str, environment: Mapping[str, str]) -> Answer:
    done = CliRunner().invoke(main, words, input=given, env=environment, prog_name="spellbook")
    assert isinstance(done.exception, SystemExit | None), (words, done.exc_info)
    return Answer(_read(done.stdout), done.stderr, done.exit_code)


def _read(text: str) -> str:
    """Return a text, laid out if it is an object or a list of JSON."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return _laid(value) if isinstance(value, dict | list) else text


def _laid(value: Any, indent: str = "") -> str:
    """Return JSON in lines that can be compared: a value that is too wide has a line for each of its parts."""
    short = json.dumps(value, ensure_ascii=False)
    if len(short) + len(indent) <= WIDTH or not isinstance(value, dict | list) or not value:
        return short
    deeper = f"{indent}  "
    if isinstance(value, list):
        return "[\n" + ",\n".join(f"{deeper}{_laid(each, deeper)}" for each in value) + f"\n{indent}]"
    rows = (f"{deeper}{json.dumps(key, ensure_ascii=False)}: {_laid(each, deeper)}" for key, each in value.items())
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
