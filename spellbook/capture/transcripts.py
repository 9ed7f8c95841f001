"""
Read transcripts of Claude Code and Codex: what a person typed, and the last text of the answer.

Both forms are internal to their clients: a line of another shape is skipped. What tools, other agents, summaries and
the client itself say does not count. Pure over a binary stream.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from spellbook.archive.formats.conversations import cleaned, moment

OMITTED = "\0"
"""Stands in a text for what was `<private>`."""

_MOST_LINE = 4_000_000  # bytes; a longer line is skipped without being held
_MOST_EXCHANGES = 200  # of one reading
_MOST_LETTERS = 12_000  # of a text: more than a note keeps, as secrets are masked before it is cut

_LINE = re.compile(rb'"type"\s*:\s*"(?:user|assistant|queued_command|response_item|session_meta|turn_context)"')
_PRIVATE = re.compile(r"(?i)<(/?)private\b[^<>]{0,200}>")
_OF_EDITOR = re.compile(r"(?s)\A\s*(?:<(ide_\w+)>.*?</\1>\s*|# Context from my IDE.*?\n## My request for Codex:)")
_TYPED = (None, "typed", "queued")
_FLAGS = ("isMeta", "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_ADDED = (  # how a text begins that a client adds in the person's name
    *("<command-", "<local-command", "<bash-", "<system-reminder", "<task-notification", "<user-prompt-submit-hook"),
    *("<user_shell_command", "<skill>", "<subagent_notification", "<recommended_plugins", "<hook_prompt"),
    *("<goal_context", "<codex_internal_context", "<permissions"),
    *("# AGENTS.md", "<environment_context>", "<user_instructions>", "<turn_aborted>", "[Request interrupted by user"),
)


@dataclass(slots=True)
class Exchange:
    """A person's words, their time (UTC) and folder, and the last text of the answer; `run` adds the key."""

    prompt: str
    at: dt.datetime
    uuid: str
    cwd: str
    answer: str = ""
    key: str = ""
    removed: int = 0


def read(stream: BinaryIO, offset: int, *, is_over: bool) -> tuple[list[Exchange], int, bool]:
    """
    Return some exchanges from a byte offset on, the offset at which to read on, and whether they are the last.

    A cut last line is left for the next time, and so is the last exchange unless the session `is_over`: its answer may
    go on. Lines that compaction repeats, with their uuid, are one exchange.
    """
    stream.seek(0)
    head: Mapping[str, Any] = next((entry for _, _, entry in _entries(stream, 0)), {})
    cwd = _cwd(head)  # Codex names it there alone
    source = _mapping(head.get("payload")).get("source")
    if source in ("exec", "mcp") or _mapping(source):  # a program, or another agent, speaks in the person's name
        return [], offset, True
    stream.seek(offset)
    found: dict[str, Exchange] = {}
    current, begin, end = "", offset, offset
    for start, stop, entry in _entries(stream, offset):
        end, cwd = stop, _cwd(entry) or cwd
        role, text = _spoken(entry)
        at = moment(entry.get("timestamp"))
        if role == "assistant" and text and current:
            found[current].answer = text
        elif role == "user" and not (text and current and (text, "") == (found[current].prompt, found[current].answer)):
            current = ""  # a command, or a picture alone, has an answer of its own
            if text and at and 2000 < at.year < 2100:
                uuid = str(entry.get("uuid") or "")
                current, begin = uuid or f"{at} {text}", start
                if current not in found and len(found) == _MOST_EXCHANGES:
                    return [*found.values()], start, False
                found.setdefault(current, Exchange(text, at, uuid, cwd))
    if current and not is_over:
        del found[current]
        end = begin
    return [*found.values()], end, True


def _entries(stream: BinaryIO, at: int) -> Iterator[tuple[int, int, Mapping[str, Any]]]:
    """Yield the start and end of each whole line with its object, an empty one if it is of no use."""
    while line := stream.readline(_MOST_LINE):
        start, at, entry = at, at + len(line), {}
        if line.endswith(b"\n") and _LINE.search(line):
            with contextlib.suppress(ValueError, RecursionError):
                entry = _mapping(json.loads(line))
        while not line.endswith(b"\n"):
            if not (line := stream.readline(1 << 16)):
                return
            at += len(line)
        yield start, at, entry


def _spoken(entry: Mapping[str, Any]) -> tuple[str, str]:
    """Return who speaks in a line (user, assistant or "") and the text, "" if it does not count."""
    if entry.get("type") == "response_item":  # Codex
        entry = {**entry, "type": _mapping(entry.get("payload")).get("role"), "message": entry.get("payload")}
    queued = _mapping(entry.get("attachment"))  # typed while the agent works; a line `user` may say it again
    if queued.get("type") == "queued_command" and queued.get("commandMode") == "prompt":
        entry = {**entry, "type": "user", "message": {"content": queued.get("prompt")}}
    message = _mapping(entry.get("message"))
    role, content = entry.get("type"), message.get("content")
    is_human = entry.get("origin") is None or _mapping(entry["origin"]).get("kind") == "human"
    is_sdk = str(entry.get("entrypoint")).startswith("sdk-") or entry.get("promptSource") not in _TYPED
    if any(map(entry.get, _FLAGS)) or role not in ("user", "assistant") or message.get("model") == "<synthetic>":
        return "", ""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    blocks = [*map(_mapping, blocks)] if isinstance(blocks, list) else []
    if entry.get("toolUseResult") or any(block.get("type") == "tool_result" for block in blocks):
        return "", ""
    if role == "user" and (is_sdk or not is_human):  # its answer is not one to the question before
        return "user", ""
    texts = [block.get("text") for block in blocks if block.get("type") in ("text", "input_text", "output_text")]
    asked = [_OF_EDITOR.sub("", text) for text in texts if isinstance(text, str)]
    typed = [text for text in asked if not text.lstrip().startswith(_ADDED)]
    return str(role), _without_private(cleaned("\n\n".join(typed))).strip()[:_MOST_LETTERS]


def _without_private(text: str) -> str:
    """Return a text with OMITTED in place of each private part; one that is not closed reaches to the end."""
    kept, depth, at = [], 0, 0
    for tag in _PRIVATE.finditer(text):
        kept += [] if depth else [text[at : tag.start()]]
        kept += [] if depth or tag[1] else [OMITTED]
        depth, at = max(0, depth + (-1 if tag[1] else 1)), tag.end()
    return "".join([*kept, "" if depth else text[at:]])


def _cwd(entry: Mapping[str, Any]) -> str:
    return str(entry.get("cwd") or _mapping(entry.get("payload")).get("cwd") or "")


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
