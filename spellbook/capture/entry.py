"""
A line of a transcript of Claude Code or Codex: who speaks, and which words of it count.

The words that a person typed count, and the texts of an answer. Both forms are internal to their clients: a line of
another shape is of no use. Tools, other agents, summaries and the client's own words do not count. Pure.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Any, NamedTuple

from spellbook.archive.formats.conversations import cleaned, moment
from spellbook.capture.private import OMITTED, taken_out, without_private
from spellbook.system.lazy import regex
from spellbook.text.json_values import mapping_of, name_of, parsed

_MOST_LETTERS = 100_000  # of a text: more than a note keeps, as secrets are masked before it is cut

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
CONTEXT = regex(rb'"type"\s*:\s*"(?:session_meta|turn_context)"')
"""Lines of Codex that name folder, session and version for the lines behind them."""


UNDATED = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
"""The time of words whose line has none."""


class TranscriptEntry(NamedTuple):
    """
    A line of a transcript. "" stands for what it does not name.

    `speaker` is "user", "assistant", "printed" by a command of the client, "unfinished" if the answer before it is not
    the last, "context" if it holds for the lines behind it, or "" if it does not count. `parent` is the line before. A
    `folder` that can be none is "?", and one of the `sessions` that it names as its own is "". It
    `is_foreign` if nobody knows that a person speaks in a transcript that begins with it.
    """

    speaker: str = ""
    text: str = ""
    at: dt.datetime = UNDATED
    uuid: str = ""
    parent: str | None = None
    folder: str = ""
    sessions: frozenset[str] = frozenset()
    version: str = ""
    is_queued: bool = False
    is_foreign: bool = False

    @classmethod
    def read(cls, line: bytes) -> TranscriptEntry | None:
        """Return the entry of a line, None for one of no use; see UNREADABLE."""
        if not _LINE.search(line):
            return None
        given = parsed(line)
        if isinstance(given, dict):
            return (_context if given.get("type") in ("session_meta", "turn_context") else _message)(given)
        return UNREADABLE if _PROMPT.search(line) and b'"tool_result"' not in line else None

    def within(self, context: TranscriptEntry) -> TranscriptEntry:
        """Return it with what the lines before it hold for it."""
        return self._replace(
            folder=self.folder or context.folder,
            sessions=self.sessions | context.sessions,
            version=self.version or context.version,
        )


UNREADABLE = TranscriptEntry("user")
"""A prompt that is too long or broken: the answer behind it is none to the prompt before."""


def _context(given: Mapping[str, Any]) -> TranscriptEntry:
    payload = mapping_of(given.get("payload"))
    source = name_of(payload.get("source", "cli"))
    return TranscriptEntry(
        "context",
        folder=_folder(payload),
        sessions=_sessions(payload.get("id"), payload.get("forked_from_id")),
        version=_version(payload.get("cli_version")),
        is_foreign=given["type"] != "session_meta" or not payload or source in ("", "exec", "mcp"),
    )


def _message(given: Mapping[str, Any]) -> TranscriptEntry:
    speaker, text = _spoken(given)
    fork = given.get("forkedFrom")
    return TranscriptEntry(
        speaker,
        text,
        moment(given.get("timestamp")) or UNDATED,
        name_of(given.get("uuid")),
        name_of(given["parentUuid"]) if "parentUuid" in given else None,
        _folder(given),
        _sessions(given.get("sessionId"), mapping_of(fork).get("sessionId") or fork),
        _version(given.get("version")),
        is_queued=given.get("promptSource") == "queued" or given.get("type") == "attachment",
        is_foreign="payload" in given,
    )


def _folder(given: Mapping[str, Any]) -> str:
    return name_of(given["cwd"]) or "?" if "cwd" in given else ""


def _sessions(*ids: object) -> frozenset[str]:
    """Return the ids that a line names, "" for one that can be none."""
    return frozenset(name_of(each) for each in ids if each not in (None, ""))


def _version(value: object) -> str:
    """Return a client's version, "" for a value that can be none."""
    return value if isinstance(value, str) and _VERSION.fullmatch(value) else ""


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
        called = _COMMAND_NAME.search(text)
        return f"/{called[1]} {arguments}" if called else arguments
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
    payload = mapping_of(entry.get("payload"))
    is_of_codex = entry.get("type") == "response_item"
    if is_of_codex and str(payload.get("type")).endswith(("_call", "_call_output")):
        return "unfinished", ""
    role, content = (payload.get("role"), payload) if is_of_codex else _role_and_content(entry)
    message = mapping_of(content)
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
    queued = mapping_of(entry.get("attachment"))  # a line `user` may say it again
    if queued.get("type") == "queued_command" and queued.get("commandMode") == "prompt":
        return "user", {"content": queued.get("prompt")}
    return entry.get("type"), entry.get("message")


def _blocks(content: object) -> list[Mapping[str, Any]]:
    """Return the blocks of a message; a text is one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [*map(mapping_of, content)] if isinstance(content, list) else []


def _asked(entry: Mapping[str, Any], whole: Sequence[str]) -> tuple[str, str]:
    """Return who speaks in a line of a person, and the words that they typed, of its `whole` texts; see `_spoken`."""
    is_human = entry.get("origin") is None or mapping_of(entry["origin"]).get("kind") == "human"
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
