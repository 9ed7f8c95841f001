"""
Transcripts of commands, tools and routes: every answer is what its file says. `SPELLBOOK_RECORD=1` writes it anew.

`Player.play` returns the text of a file with the answers of now. tests/README.md says how a file reads.
"""

from __future__ import annotations

import ctypes
import datetime as dt
import difflib
import errno
import html
import json
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from spellbook import __version__
from spellbook.cli import main
from spellbook.http.app import make
from spellbook.http.served import Served
from spellbook.library import book as books
from spellbook.mcp.app import build
from spellbook.mcp.tool_names import DEFAULT, toolsets_of
from tests.commands import git, git_alone  # noqa: F401
from tests.helpers import session_writer, until
from tests.http.running import PROGRAM, Described, form
from tests.mcp.agent import Agent, talk
from tests.transcripts.clock import BEGIN, Clock
from tests.transcripts.only import Only, changes, laid

HERE = Path(__file__).parent
RECORD = bool(os.environ.get("SPELLBOOK_RECORD"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Callback with id:RuntimeWarning"),
]


ANSWERS = (">", "2>", "?")
MADE = {
    "session": r"rest-[0-9a-f]{24}",
    "job": r"(?<=/api/jobs/)[0-9a-f]{8}\b|(?<=\"id\": \")[0-9a-f]{8}(?=\")",
    "token": r"\bspb_[\w-]{43}",
}
"""Random names. The first one of a file is `<session-1>`, also in commands that follow."""

TIMES = "ms|duration_ms|seconds|p50|p95|(?:search|query)_time|average(?:Query|Search)Time|time|uptime(?:_s)?|cpuUsage"
SIZES = "databaseSize|usage|rss|peak|before_bytes|after_bytes|index_size_mb"
CHANGING = (
    (rf'("(?:{TIMES}|{SIZES}|generation)": )[\d.]+', r"\g<1>0"),
    (r'("loadAverage": )\[.*?\]', r"\g<1>[]"),
    (r"\bgeneration \d+", "generation N"),
    (r'("(?:looked_at|last_indexed)": ")[^"]+', r"\g<1>TIME"),
    (r"(SPELLBOOK_CACHE\"?(?:: | = |=)\"?)[^\s,}\"]+", r"\g<1>CACHE"),
    (r"(looked at|확인 시각) +[-\d]+ [:\d]+", r"\g<1> TIME"),
    (r"\b(vault|fresh|other|people)-[0-9a-f]{10}(?![0-9a-f])", r"\g<1>-HASH"),
    (r'("bytes": )\d+(?=,\s+"vectors")', r"\g<1>0"),
    (r"\(\d\.\d MB\)", "(N MB)"),
    (r"\b\d+\.\d( s\b|초)", r"N\g<1>"),
    (r"(?m)^spellbook: .+: \d+ ?%.*\n", ""),
    (r"(?m)^spellbook: .+ …\n", ""),  # said where a busy machine makes a command wait
    (re.escape(__version__), "VERSION"),
    (re.escape(str(Path(books.__file__).parents[1])), "PACKAGE"),
    (re.escape(str(Path(sys.executable).parent)), "/bin"),
    (re.escape(sys.version.split()[0]), "PYTHON"),
)
"""What differs between two runs or machines, and what stands for it."""

WORDS: dict[str, str] = {}
"""The system's words for an error, and those of POSIX that stand for them."""
if sys.platform == "win32":
    numbers = ((2, errno.ENOENT), (3, errno.ENOENT), (5, errno.EACCES), (80, errno.EEXIST), (183, errno.EEXIST))
    WORDS = {ctypes.FormatError(windows).rstrip(". "): os.strerror(posix) for windows, posix in numbers}

PREVIEW = r' --(?:dry-run|yes)\b|(?:, |(?<=\{))"dry_run": (?:true|false)| \{(?:"dry_run": (?:true|false))?\}$'
"""What makes a command or a call one of a preview, whose answer is compared with that of the call itself."""


@dataclass
class Answer:
    """The answer to a line `$ …`; `page` is the address of a page without its query."""

    out: str = ""
    err: str = ""
    code: int = 0
    page: str = ""
    failed: bool = False


@dataclass
class Player:
    """The doors of one vault, `folder`/vault."""

    folder: Path
    clock: Clock
    made: dict[str, str] = field(default_factory=dict)
    toolsets: tuple[str, ...] = (DEFAULT,)
    open: ExitStack = field(default_factory=ExitStack)
    seen: str = ""
    only: Only = field(default_factory=Only)
    once: Only = field(default_factory=Only)
    answered: dict[str, str] = field(default_factory=dict)

    def play(self, text: str) -> str:
        """Return the transcript `text` with the answers that its lines `$ …` get now."""
        lines = [line for line in text.splitlines() if not line.startswith(ANSWERS)]
        with self.open:
            played = "".join(f"{line}\n" for line in self._lines(lines))
        self.only.close()
        self.once.close()
        return played

    def _lines(self, lines: list[str]) -> Iterator[str]:
        command, given = "", ""
        for line, following in zip(lines, [*lines[1:], ""], strict=True):
            yield line
            if line.startswith("$ "):
                command, given = line[2:], ""
            elif line.startswith("<"):
                given += f"{line[2:]}\n"
            if line.startswith(("$ ", "<")) and not following.startswith("<"):
                answer = self._answer(self._known(command), self._known(given))
                only = self.once if self.once.words else self.only
                yield from (f"> {each}".rstrip() for each in self._shown(answer, command, only))
                yield from (f"2> {each}".rstrip() for each in only.of_failed(self._steady(answer.err)))
                yield from [f"? {answer.code}"] if answer.code else []
                if only is self.once and (answer.out or answer.err):
                    only.close()
                    self.once = Only()

    def _shown(self, answer: Answer, command: str, only: Only) -> list[str]:
        """Return the lines of an answer that the filter `only` selects."""
        text = self._steady(answer.out)
        if not answer.out:
            return []
        if answer.code or answer.failed:
            return only.of_failed(text)
        kind = answer.page or re.sub(PREVIEW, "", command)
        before = self.answered.get(kind)
        self.answered[kind] = text
        return only.of_answer(text, before)

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
        text = self._here(text)
        for value, name in {**self.made, **WORDS}.items():
            text = text.replace(value, name)
        for pattern, name in CHANGING:
            text = re.sub(pattern, name, text)
        return text

    def _here(self, text: str) -> str:
        """Return a text with paths below the player's folder as POSIX writes them, below `/here`."""
        if sys.platform == "win32":
            parts = map(re.escape, (self.folder.drive, *self.folder.parts[1:]))
            path = r"[\\/]+".join(parts) + r"[^\s\"'<>|*?:]*"
            text = re.sub(path, lambda found: re.sub(r"\\+", "/", found[0]), text)
            quoted = quote(str(self.folder), safe="")
            inside = re.escape(quoted) + r"([\w%.~-]*)"
            text = re.sub(inside, lambda found: f"/here{found[1].replace('%5C', '/')}", text)
        return text.replace(self.folder.as_posix(), "/here")

    def _answer(self, line: str, given: str) -> Answer:
        """Answer one line `$ …` of a transcript; `given` are its lines `< …`."""
        word, _, rest = line.partition(" ")
        if word in {"GET", "POST", "PATCH", "DELETE", "page", "see", "send", "press"}:
            return self._http(word, *rest.partition(" ")[::2], given)
        if word == "tool":
            return self._tool(*rest.partition(" ")[::2])
        if word in {"tools", "toolsets"}:
            listed = self._listed(rest)
            return listed if word == "tools" else Answer()
        if word in {"only", "once"}:
            getattr(self, word).close()
            setattr(self, word, Only(rest))
            return Answer()
        if word in {"write", "session"}:
            self._write(word, rest, given)
            return Answer()
        words = shlex.split(line)
        if "spellbook" in words[:4]:
            at = words.index("spellbook")
            return self._command(words[at + 1 :], given, dict(each.split("=", 1) for each in words[:at]))
        try:
            return Answer(self._by_hand()[word](*words[1:]) or "")
        except OSError as error:
            return Answer(err=f"{error.strerror}", code=1)

    def _write(self, word: str, line: str, given: str) -> None:
        """
        Write the file that `line` names, with the frontmatter and the text that follow on it, and then `given`; or the note
        of a session VAULT/NAME in which a person said the text.
        """
        parts = re.fullmatch(r"""("(?:[^"\\]|\\.)*"|'[^']*'|\S+)(?: --- (.+?) ---)?(?: (.+))?""", line)
        assert parts, f"$ {word} {line}: use $ {word} FILE --- KEY: VALUE; KEY: VALUE --- TEXT"
        path = shlex.split(parts[1])[0]
        keys = parts[2].split("; ") if parts[2] else []
        if word == "session":
            vault, _, name = path.rpartition("/")
            file = session_writer(self.folder / vault)(name, parts[3], **dict(key.split(": ", 1) for key in keys))
            os.utime(file, (self.clock.now.timestamp(),) * 2)
            return
        header = "\n".join(["---", *keys, "---", ""]) if keys else ""
        text = header + (f"{parts[3]}\n" if parts[3] else "") + given
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text, "utf-8", newline="")
        self.answered[f'cat "{path}"' if " " in path else f"cat {path}"] = text
        if not path.startswith("project/"):  # answers say how old a note is
            os.utime(self.folder / path, (self.clock.now.timestamp(),) * 2)

    def _by_hand(self) -> Mapping[str, Callable[..., str | None]]:
        """Return the things that a person does between commands."""

        def ls(path: str) -> str:
            found = (file for file in (self.folder / path).rglob("*") if file.is_file())
            return "\n".join(sorted(file.relative_to(self.folder / path).as_posix() for file in found))

        def later(hours: str) -> None:
            self.clock.now += dt.timedelta(hours=float(hours.removesuffix("h")))

        def reindex() -> None:
            self._command(["reindex", "--quiet"], "", {})

        return {
            **{"ls": ls, "later": later, "reindex": reindex, "git": lambda *words: git(self.folder, *words)},
            "cat": lambda path: (self.folder / path).read_text("utf-8"),
            "rm": lambda path: (self.folder / path).unlink(),
            "export": lambda pair: self.clock.patch.setenv(*pair.split("=", 1)),
        }

    @cached_property
    def _book(self) -> books.Spellbook:
        return self.open.enter_context(books.open(self.folder / "vault", embedder="hash"))

    @cached_property
    def _api(self) -> Described:
        self.served = Served(self._book)
        app = make(self.served, live=False)
        client = Described(app, "http://localhost:17950", client=PROGRAM, raise_server_exceptions=False)
        return self.open.enter_context(client)

    @cached_property
    def _server(self) -> Any:
        return build(self._book, self.toolsets, live=False)

    def _listed(self, names: str) -> Answer:
        """Return the list of tools; one that was listed before by its name, with the lines that came and went."""
        self.toolsets = toolsets_of(names)
        self.__dict__.pop("_server", None)
        lines: list[str] = []
        for tool in talk(self._book, Agent.tools, server=self._server):
            text = _described(tool.model_dump(mode="json", exclude_none=True, by_alias=True))
            before = self.answered.get(f"tools {tool.name}", "").splitlines()
            shown = min([tool.name, *changes(before, text.splitlines())], text.splitlines(), key=len)
            lines += shown
            self.answered[f"tools {tool.name}"] = text
        return Answer("\n".join(lines))

    def _tool(self, name: str, given: str) -> Answer:
        arguments = json.loads(given or "{}")
        done = talk(self._book, lambda agent: agent.client.call_tool(name, arguments), server=self._server)
        parts = [self._read(part.text) if part.type == "text" else str(part) for part in done.content]
        if done.structured_content is not None:
            parts.append(f"structured: {laid(done.structured_content)}")
        return Answer("\n".join(parts), code=int(bool(done.is_error)))

    def _command(self, words: list[str], given: str, environment: Mapping[str, str]) -> Answer:
        with patch.dict(os.environ):  # `serve --container` sets variables
            done = CliRunner().invoke(main, words, input=given, env=environment, prog_name="spellbook")
        assert isinstance(done.exception, SystemExit | None), (words, done.exc_info)
        return Answer(self._read(done.stdout), done.stderr, done.exit_code)

    def _http(self, method: str, path: str, body: str, headers: str) -> Answer:
        sent = dict(line.split(": ", 1) for line in headers.splitlines())
        if method == "press":  # a form of the page that was seen last
            method, body = "send", json.dumps(form(self.seen, path) | json.loads(body or "{}"))
        options = {"json": json.loads(body)} if body else {}
        if method in {"see", "send"}:
            sent |= {"accept": "text/html", "origin": "http://localhost:17950"}
            reply = self._api.request("POST" if body else "GET", path, headers=sent, data=options.get("json"))
            if self.__dict__.get("served"):
                until(lambda: all(job.state != "running" for job in self.served.jobs.all()))
            self.seen = reply.text
            code = 0 if reply.is_success else reply.status_code
            return Answer(_seen(reply.text), code=code, page=reply.url.path)
        if method == "page":
            reply = self._api.get(path, headers={"accept": "text/html"}, follow_redirects=False)
            return Answer(f"{reply.status_code} {reply.headers.get('content-type', '')}", failed=not reply.is_success)
        reply = self._api.request(method, path, headers=sent, **options)
        if reply.status_code == 202:
            until(lambda: all(job.state != "running" for job in self.served.jobs.all()))
        told = [f"{name}: {reply.headers[name]}" for name in ("etag", "location") if name in reply.headers]
        status = [] if reply.status_code == 200 else [str(reply.status_code)]
        out = "\n".join([*status, *told, self._read(reply.text)])
        return Answer(out, failed=not reply.is_success)

    def _read(self, text: str) -> str:
        """Return a text, laid out if it is an object or a list of JSON."""
        try:
            # The length of a path decides about lines, and two digits of a score tell who is first.
            value = json.loads(self._here(text), parse_float=lambda each: round(float(each), 2))
        except ValueError:
            return text
        return laid(value) if isinstance(value, dict | list) else text


def _seen(page: str) -> str:
    """Return what a person reads on a page: its text, with `‹addresses›` of links, `[buttons]`, and `**bold**` or marked words."""
    text = page.partition("<main")[2].partition(">")[2].partition("</main>")[0]
    inside = r'\b(?:[^>"]|"[^"]*")*'
    for pattern, shown in (
        (r"<script.*?</script>|<svg.*?</svg>|<!--.*?-->", ""),
        (r"\s+", " "),
        (rf'<a{inside}href="([^"]*)"(?:[^>"]|"[^"]*")*>(.*?)</a>', r"\2 ‹\1›"),
        (rf"<button{inside}>(.*?)</button>", r"[\1]"),
        (rf'<input(?![^>]*type="(?:hidden|radio)"){inside}name="([^"]*)"{inside[2:]}value="([^"]+)"', r"\n\1=\2<"),
        (rf"</?(?:strong|mark){inside}>", "**"),
        (rf"<del{inside}>(.*?)</del>", r"{-\1-}"),
        (rf"<ins{inside}>(.*?)</ins>", r"{+\1+}"),
        (rf"</?(?:h\d|p|li|ul|ol|div|section|article|form|d[ldt]|details|summary|pre|aside|option){inside}>", "\n"),
        (r'<(?:[^>"]|"[^"]*")*>', ""),
        (r" +", " "),
        (r"\s*\n\s*", "\n"),
    ):
        text = re.sub(pattern, shown, text, flags=re.S)
    return html.unescape(text.strip())


def _described(tool: Mapping[str, Any]) -> str:
    """Return the description of a tool: a line for each part of it and for each argument; `*` marks a required one."""
    schema = tool["inputSchema"]
    rest = {key: value for key, value in schema.items() if key not in {"type", "properties", "required"}}
    head = {key: value for key, value in tool.items() if key not in {"name", "description", "inputSchema"}} | rest
    lines = [
        f"{tool['name']} {json.dumps(head, ensure_ascii=False)}",
        f"  {json.dumps(tool['description'], ensure_ascii=False)}",
    ]
    for name, argument in schema["properties"].items():
        mark = "*" if name in schema.get("required", []) else ""
        text = laid(argument, "  ") if "properties" in argument else json.dumps(argument, ensure_ascii=False)
        lines.append(f"  {name}{mark}: {text}")
    return "\n".join(lines)


@pytest.fixture
def player(tmp_path: Path, home: Path) -> Iterator[Player]:
    """A player on a copy of the vault whose files are six days old."""
    when = BEGIN.timestamp() - 6 * 86_400
    shutil.copytree(HERE / "vault", tmp_path / "vault")
    for file in (tmp_path / "vault").rglob("*"):
        os.utime(file, (when, when))
    variables = {"SPELLBOOK_VAULT": str(tmp_path / "vault"), "COLUMNS": "100", "TZ": "UTC"}
    variables |= dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), BEGIN.isoformat())
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        for name, value in variables.items():
            patched.setenv(name, value)
        _read_zone()
        # For hooks `context` ends its process a second later, and this one goes on.
        patched.setattr("spellbook.cli.hook_deadline.Deadline.start", Mock())
        yield Player(tmp_path, Clock(patched))
    _read_zone()


def _read_zone() -> None:
    """Let the C library read TZ again."""
    if sys.platform == "win32":
        ctypes.CDLL("ucrtbase")._tzset()
    else:
        time.tzset()


@pytest.mark.parametrize("file", sorted(HERE.glob("*.tesh")), ids=lambda file: file.stem)
def test_a_transcript_holds(file: Path, player: Player) -> None:
    """Each command, tool and request of the file answers as the file says."""
    expected = file.read_text("utf-8")
    actual = player.play(expected)
    if RECORD and actual != expected:
        file.write_text(actual, "utf-8", newline="\n")
        return
    changes = difflib.unified_diff(expected.splitlines(), actual.splitlines(), file.name, "now", lineterm="")
    assert actual == expected, "\n".join(changes)
