"""
Transcripts of Claude Code and Codex: where they lie, and which exchanges they hold.

The words that a person typed count, and the last text of the answer. Both forms are internal to their clients: a line
of another shape is skipped, and costs no other exchange. Tools, other agents, summaries and the client's own words do
not count.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from spellbook.archive.formats.conversations import cleaned, moment
from spellbook.capture.ledger import LONG_ID
from spellbook.capture.private import OMITTED, taken_out, without_private
from spellbook.system.errors import InvalidInput
from spellbook.system.lazy import regex
from spellbook.text.unicode import BROKEN

CLIENTS = {
    "claude-code": ("Claude Code", "CLAUDE_CONFIG_DIR", "~/.claude", "projects", "*/*.jsonl"),
    "codex": ("Codex", "CODEX_HOME", "~/.codex", "sessions", "*/*/*/*.jsonl"),
}
"""For each client: its name, the variable with its folder, the usual folder, that of transcripts, and their places."""

_MOST_OF_LINE = 4_000_000  # bytes; a longer line is skipped without being held
_MOST_EXCHANGES = 200  # of one reading
_MOST_LETTERS = 100_000  # of a text: more than a note keeps, as secrets are masked before it is cut
_MOST_NAME = 4_096  # letters of a folder or an id

_PROMPT = regex(rb'"(?:type|role)"\s*:\s*"(?:user|queued_command)"')
_LINE = regex(rb'"type"\s*:\s*"(?:user|assistant|queued_command|response_item|session_meta|turn_context)"')
_COMMAND = regex(r"(?s)\s*+<command-(?:name|message)>.*?<command-args>(.*)</command-args>")
_COMMAND_NAME = regex(r"<command-name>\s*/?([^<\s]*)")
_TYPED = (None, "typed", "queued")
_FLAGS = ("isMeta", "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_INTERRUPTED = ("[Request interrupted by user", "<turn_aborted>")
_PRINTED = ("<local-command-stdout>", "<local-command-stderr>")  # by a command of the client, which no model answers
_WRAPPED = regex(r"(?s)\s*+<([A-Za-z]+[-_][\w-]*+)[\s>].*</\1>\s*+")
"""A text in one tag with a name of several words: in a line that nothing marks as typed, a client's own."""

_VERSION = regex(r"[\w.+-]{1,60}", re.A)
_UNREADABLE = {"type": "user"}
_UNKNOWN = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
"""The time of words whose line has none."""


@dataclass(slots=True)
class Exchange:
    """
    A person's words, their time (UTC) and folder ("" if unknown), and the last text of the answer.

    `sessions` are the ids of sessions that its line names as its own, `turn` is the byte at which the first prompt with
    the same answer begins, and `parent` the line before. Words that were taken back or have no time are not kept. The
    caller adds the key, and how many secrets and private parts were taken out. `folders` are those of the answer, and
    `version` is the client's.
    """

    prompt: str
    at: dt.datetime
    uuid: str
    cwd: str
    sessions: frozenset[str]
    turn: int
    parent: str
    is_kept: bool
    answer: str = ""
    version: str = ""
    folders: set[str] = field(default_factory=set)
    key: str = ""
    removed: int = 0


def located(place: str) -> tuple[str, Path]:
    """Return the client and the path of a transcript. Raises InvalidInput for a link, and for what lies elsewhere."""
    real = Path(os.path.realpath(place))
    for client in CLIENTS:
        if real.suffix == ".jsonl" and real.is_relative_to(_folder(client)) and not os.path.islink(place):
            return client, real
    raise InvalidInput(f"{place:.200}: this is no transcript of Claude Code or Codex.", "Nothing was read.")


def session_of(place: Path) -> str:
    """Return the id of a transcript's session."""
    return place.stem[-LONG_ID:]


def transcripts() -> Iterator[tuple[str, Path, float]]:
    """Yield the client, the path and the time of change (seconds since 1970) of all transcripts."""
    for client, (*_, places) in CLIENTS.items():
        for file in _folder(client).glob(places):
            with contextlib.suppress(OSError):  # it is gone
                if not file.is_symlink():
                    yield client, file, file.stat().st_mtime


def _folder(client: str) -> Path:
    _, variable, usual, below, _ = CLIENTS[client]
    return Path(os.path.realpath(os.path.join(os.path.expanduser(os.environ.get(variable) or usual), below)))


def read(stream: BinaryIO, offset: int, *, is_over: bool) -> tuple[list[Exchange], int, bool]:
    """
    Return some exchanges from a byte offset on, the offset at which to read on, and whether they are the last.

    A cut last line is left for the next time, and so are the last prompts unless the session `is_over`: their answer
    may go on. Lines that compaction repeats, with their uuid, are one exchange. An answer belongs to all prompts since
    the answer before it, which share a `turn`; the last turn is read again, as a session may go on after its end.
    """
    stream.seek(0)
    head: Mapping[str, Any] = next((entry for _, entry in _entries(stream, 0) if entry not in ({}, _UNREADABLE)), {})
    source = _mapping(head.get("payload")).get("source")
    is_nameless = "payload" in head and head.get("type") != "session_meta"
    if is_nameless or source in ("exec", "mcp") or _mapping(source):  # a program, or another agent, may speak
        return [], offset, True
    reading = _Reading(offset)
    is_full = False
    first = 0 if "payload" in head else offset  # Codex names folder and sessions in lines of their own
    stream.seek(first)
    for start, entry in _entries(stream, first):
        if entry.get("type") in ("session_meta", "turn_context"):
            reading.learn(_mapping(entry.get("payload")))
        if start >= offset:
            reading.take(start, entry)
        is_full = len(reading.found) > _MOST_EXCHANGES and reading.begin == start
        if is_full:
            break
    is_last = is_over and not is_full
    found = [each for each in reading.found.values() if is_last or each.turn != reading.begin]
    return found, reading.begin, not is_full


@dataclass(slots=True)
class _Reading:
    """
    The exchanges `found` so far, by uuid.

    Those that share an answer with the last begin at the byte `begin`. `current` is None after a command, whose answer
    does not count.
    """

    begin: int
    found: dict[str, Exchange] = field(default_factory=dict)
    current: Exchange | None = None
    is_answered: bool = True
    cwd: str = ""
    sessions: tuple[str, ...] = ()
    version: str = ""

    def learn(self, payload: Mapping[str, Any]) -> None:
        """Keep the folder, the session and the version that a line of Codex names for the lines behind it."""
        self.version = _version(payload.get("cli_version")) or self.version
        self.cwd = _name(payload.get("cwd", self.cwd))
        self.sessions += (_name(payload.get("id")), _name(payload.get("forked_from_id")))

    def take(self, start: int, entry: Mapping[str, Any]) -> None:
        """Take the line that begins at the byte `start`."""
        role, text = _spoken(entry)
        if role == "unfinished":
            self.is_answered = False
            if self.current:
                self.current.prompt += text  # at most OMITTED
        elif role == "printed":
            if self.current and not self.current.answer:
                self.current.is_kept = False
            self.current = None
        elif role == "assistant" and text and self.current:
            self.is_answered = True
            self.current.answer = text
            self.current.version = _version(entry.get("version")) or self.version
            self.current.folders |= {_name(entry.get("cwd"))} - {""}
        elif role == "user" and not (text and self.current and not self.is_answered and text == self.current.prompt):
            self.current = self._asked(start, entry, text)

    def _asked(self, start: int, entry: Mapping[str, Any], text: str) -> Exchange | None:
        at = moment(entry.get("timestamp"))
        uuid = _name(entry.get("uuid"))
        key = f"{uuid or at} {text}"
        parent = str(entry.get("parentUuid", key))
        is_queued = entry.get("promptSource") == "queued" or entry.get("type") == "attachment"
        known = self.found.get(key)
        for each in () if known else self.found.values():
            if each.turn == self.begin and each.parent == parent and not each.answer:
                each.is_kept = False
        if not text or (known and known.turn != self.begin):  # a command, or a copy of an old line
            return None
        if self.is_answered and not known and not is_queued:
            self.begin = start
        self.is_answered = False
        cwd = _name(entry.get("cwd")) or self.cwd
        own = (entry.get("sessionId"), _mapping(entry.get("forkedFrom")).get("sessionId"), *self.sessions)
        is_dated = bool(at and 2000 < at.year < 2100)
        asked = Exchange(text, at or _UNKNOWN, uuid, cwd, frozenset(map(_name, own)), self.begin, parent, is_dated)
        return self.found.setdefault(key, asked)


def _entries(stream: BinaryIO, at: int) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """
    Yield the start of each whole line with its object, an empty one if it is of no use.

    A prompt that is too long or broken is _UNREADABLE: the answer behind it is none to the prompt before.
    """
    while line := stream.readline(_MOST_OF_LINE):
        start, at, entry = at, at + len(line), {}
        if _LINE.search(line):
            entry = _UNREADABLE if _PROMPT.search(line) and b'"tool_result"' not in line else {}
            with contextlib.suppress(ValueError, RecursionError):
                entry = _mapping(json.loads(line))
        while not line.endswith(b"\n"):
            if not (line := stream.readline(1 << 16)):
                return
            at += len(line)
        yield start, entry


@cache
def _marks() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns, by client_marks.toml, of the beginning of a client's own text, and of its additions to words."""
    table = tomllib.loads(files(__package__).joinpath("client_marks.toml").read_text("utf-8"))
    rows = (chain(*table["tags"].values()), table["around"]["tags"])
    tags, around = ("|".join(row).replace("*", r"[\w-]*") for row in rows)
    own = "|".join(chain(*table["lines"].values()))
    before = "|".join((rf"<({around})\b[^>]*>.*?</\1>", *table["around"]["before"]))
    request, pictures = r"\s*## My request(?: for Codex)?:", "|".join(table["around"]["pictures"])
    return (
        re.compile(rf"\s*+(?:<(?:{tags})(?=[\s>/])|{own})"),
        re.compile(rf"(?s)\A(?:\s*+(?:{before}))+(?:{request})?\s*|{pictures}"),
    )


def _words(text: str) -> str:
    """Return a text without a client's additions; of a command with arguments, both as they were typed."""
    command = _COMMAND.match(text)
    if command and (arguments := command[1].strip()):
        name = _COMMAND_NAME.search(text)
        return f"/{name[1]} {arguments}" if name else arguments
    return cleaned(_marks()[1].sub("", text))


def _is_added(text: str, is_marked: bool) -> bool:
    """Return whether a text is a client's own, in a line that `is_marked` by who speaks, or not."""
    return bool(_marks()[0].match(text) or (not is_marked and _WRAPPED.fullmatch(text)))


def _spoken(entry: Mapping[str, Any]) -> tuple[str, str]:
    """
    Return who speaks in a line, and the text, "" if it does not count.

    It is user, assistant, "" for a line to skip, "printed" by a command of the client, or "unfinished": the answer
    before it is not the last. OMITTED stands for words that are hidden, also where a person answers a tool.
    """
    payload = _mapping(entry.get("payload"))
    is_of_codex = entry.get("type") == "response_item"
    if is_of_codex and str(payload.get("type")).endswith(("_call", "_call_output")):
        return "unfinished", ""
    role, content = (payload.get("role"), payload) if is_of_codex else _role_and_content(entry)
    message = _mapping(content)
    if any(map(entry.get, _FLAGS)) or role not in ("user", "assistant") or message.get("model") == "<synthetic>":
        return "", ""
    blocks = _blocks(message.get("content"))
    kinds = {str(block.get("type")) for block in blocks}
    if entry.get("toolUseResult") or "tool_result" in kinds:
        result = json.dumps(blocks, ensure_ascii=False)[:_MOST_LETTERS]  # a person may have answered the tool
        return "unfinished", OMITTED if OMITTED in without_private(result) else ""
    if role == "assistant" and kinds == {"tool_use"}:
        return "unfinished", ""
    texts = [block.get("text") for block in blocks if block.get("type") in ("text", "input_text", "output_text")]
    whole = [_words(text) for text in texts if isinstance(text, str)]
    if role == "user":
        return _asked(entry, whole)
    answered = (text for text in whole if not _is_added(text, is_marked=True))
    return "assistant", without_private("\n\n".join(answered)).strip()[:_MOST_LETTERS]


def _role_and_content(entry: Mapping[str, Any]) -> tuple[object, object]:
    """Return who speaks in a line of Claude Code, and the message; words that are queued are typed while it works."""
    queued = _mapping(entry.get("attachment"))  # a line `user` may say it again
    if queued.get("type") == "queued_command" and queued.get("commandMode") == "prompt":
        return "user", {"content": queued.get("prompt")}
    return entry.get("type"), entry.get("message")


def _blocks(content: object) -> list[dict[str, Any]]:
    """Return the blocks of a message; a text is one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [*map(_mapping, content)] if isinstance(content, list) else []


def _asked(entry: Mapping[str, Any], whole: Sequence[str]) -> tuple[str, str]:
    """Return who speaks in a line of a person, and the words that they typed, of its `whole` texts; see `_spoken`."""
    is_human = entry.get("origin") is None or _mapping(entry["origin"]).get("kind") == "human"
    is_sdk = str(entry.get("entrypoint")).startswith("sdk-") or entry.get("promptSource") not in _TYPED
    is_ours = is_human and not is_sdk  # an answer to others is none to the question before
    is_marked = entry.get("origin") is not None or entry.get("promptSource") is not None
    typed = [text for text in whole if is_ours and not _is_added(text, is_marked)]
    text = without_private("\n\n".join(typed)).strip()
    # Words that are not kept may hide something, and nobody looks for secrets in the rest of a long text.
    rest = (without_private(each) for each in whole if each not in typed)
    is_hiding = len(text) > _MOST_LETTERS or any(taken_out(each, 0)[1] for each in rest)
    first = whole[0].lstrip() if whole else ""
    if first.startswith(_PRINTED) and not is_hiding:
        return "printed", ""
    is_stopped = not typed and first.startswith(_INTERRUPTED)
    return "unfinished" if is_stopped else "user", text[:_MOST_LETTERS] + OMITTED * is_hiding


def _name(value: object) -> str:
    """Return a folder or an id, "" for a value that can be none."""
    return value if isinstance(value, str) and len(value) <= _MOST_NAME and not BROKEN.search(value) else ""


def _version(value: object) -> str:
    """Return a client's version, "" for a value that can be none."""
    return value if isinstance(value, str) and _VERSION.fullmatch(value) else ""


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
