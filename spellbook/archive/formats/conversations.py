"""
Convert conversations exported by ChatGPT and Claude to notes.

Each turn is kept word for word under a `##` heading that names the speaker, as `dialogue` reads it. Headings inside
a turn are moved below that level. Of a ChatGPT tree, the branch shown last is kept. The same conversation gives the
same bytes. Pure.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

from spellbook.notes.files import Fault
from spellbook.notes.frontmatter import compose
from spellbook.notes.note import blocks, lines
from spellbook.system.lazy import regex
from spellbook.text.quoting import fence_of
from spellbook.text.unicode import BROKEN
from spellbook.vault.names import note_name

FILES = regex(r"conversations(?:-\d+)?\.json")
"""Names of the files in an export of ChatGPT or Claude that hold conversations."""

UNTOUCHED = "Nothing was imported."


@dataclass(slots=True)
class Incoming:
    """
    A file as a source has it; read its `pieces` before the next file.

    `id` names a note that may have been moved since an earlier import. A memory has the hash `sha256` of its original,
    which the note keeps as `source_hash`.
    """

    path: str
    pieces: Iterator[bytes]
    mode: int | None = None
    mtime_ns: int | None = None
    id: str = ""
    sha256: str = ""


@dataclass(slots=True)
class ImportSource:
    """An opened source. Its empty folders and faults are complete when all files are read."""

    files: Iterator[Incoming]
    folders: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


def make_note(path: str, meta: Mapping[str, object], body: str) -> Incoming:
    """Return a note with those keys of `meta` that have a value; its time is that of `updated`, if that is a time."""
    kept = {key: value for key, value in meta.items() if value}
    text = compose(kept, body) if kept else body
    updated = meta.get("updated")
    mtime_ns = int(updated.timestamp()) * 1_000_000_000 if isinstance(updated, dt.datetime) else None
    return Incoming(path, iter([text.encode("utf-8", "replace")]), None, mtime_ns, str(meta["id"]))


CATEGORY = "conversation"

_MOST_TITLE = 80
_MOST_SECONDS = 100_000_000_000
"""A larger number counts milliseconds: in seconds it would be after the year 5000."""

_SITES = {"chatgpt": ("ChatGPT", "https://chatgpt.com/c/"), "claude": ("Claude", "https://claude.ai/chat/")}
_MARKS = regex("\ue200[^\ue201]*\ue201|[\ue200-\ue2ff]")
"""How ChatGPT marks citations, in letters that no font has."""

_UNSEEN_KINDS = {"thoughts", "reasoning_recap", "user_editable_context", "model_editable_context"}
"""Kinds of messages of ChatGPT that nobody saw."""

_Turn = tuple[bool, str]
"""Whether the person speaks, and the text."""


def is_conversation(value: object) -> bool:
    """Say whether an item of an export is a conversation of ChatGPT or Claude."""
    return isinstance(value, Mapping) and (
        isinstance(value.get("mapping"), Mapping) or isinstance(value.get("chat_messages"), list)
    )


def convert(chat: Mapping[str, Any]) -> Incoming | None:
    """Convert a conversation to a note; None if it has no text, or no id."""
    kind, read = ("chatgpt", _of_chatgpt) if isinstance(chat.get("mapping"), Mapping) else ("claude", _of_claude)
    name, address = _SITES[kind]
    texts = ((who, cleaned(text).strip()) for who, text in read(chat))
    sides = groupby((turn for turn in texts if turn[1]), key=itemgetter(0))  # one may need several messages
    turns = [(is_person, "\n\n".join(text for _, text in run)) for is_person, run in sides]
    number = re.sub(r"[^\w-]", "-", _first(chat, "conversation_id", "id", "uuid"))[:100]
    if not turns or not number:
        return None
    begins = " ".join(turns[0][1].split()[:10])[:_MOST_TITLE]
    title = on_one_line(_first(chat, "title", "name")) or begins
    created, updated = (moment(chat.get(f"{verb}_time") or chat.get(f"{verb}d_at")) for verb in ("create", "update"))
    meta: dict[str, object] = {
        "id": f"{kind}-{number}",
        "title": title,
        "topic": name,
        "category": CATEGORY,
        "source": address + number,
        "created": created,
        "updated": updated,
    }
    body = "\n\n".join(f"## {'User' if is_person else name}\n\n{lowered(text)}" for is_person, text in turns)
    day = f"{created.date().isoformat()} " if created else ""
    return make_note(f"{CATEGORY}/{name}/{note_name(f'{day}{title[:_MOST_TITLE]}')}.md", meta, body)


def _first(chat: Mapping[str, Any], *keys: str) -> str:
    """Return the first value that a conversation has for one of `keys`, "" if it has none."""
    return next((str(chat[key]) for key in keys if chat.get(key)), "")


def cleaned(text: str) -> str:
    """Return a text without citations' marks and broken letters, its lines ended by LF."""
    return BROKEN.sub("", _MARKS.sub("", text)).replace("\r\n", "\n").replace("\r", "\n")


def on_one_line(text: str) -> str:
    """Return a cleaned text on one line, with single blanks."""
    return " ".join(cleaned(text).split())


def lowered(text: str) -> str:
    """Return a text with all headings below `##`, so that a turn is one section."""
    source = lines(text)
    for block in blocks(text):
        if block.kind == "heading":
            first, *more = source[block.start : block.end]
            title = first.lstrip(" ").lstrip("#")
            if more:  # it is underlined
                title = " " + " ".join(line.strip() for line in (first, *more[:-1])) + "\n"
            source[block.start : block.end] = ["#" * min(6, block.level + 2) + title, *("" for _ in more)]
    return "".join(source).strip("\n")


def moment(value: object) -> dt.datetime | None:
    """Return a time of an export (seconds or milliseconds since 1970, or ISO 8601) in UTC; None if it is none."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if value > _MOST_SECONDS else value
            return dt.datetime.fromtimestamp(int(seconds), dt.UTC)
        if isinstance(value, str) and value:
            time = dt.datetime.fromisoformat(value).replace(microsecond=0)
            return time.astimezone(dt.UTC) if time.tzinfo else time.replace(tzinfo=dt.UTC)
    except (ValueError, OverflowError, OSError):
        pass
    return None


# -- ChatGPT: a tree of messages


def _of_chatgpt(chat: Mapping[str, Any]) -> Iterator[_Turn]:
    """Yield the turns from the root to the node that was seen last."""
    mapping = chat["mapping"]
    name = chat.get("current_node")
    if name not in mapping:  # the newest message that nothing follows
        leaves = [leaf for leaf, node in mapping.items() if isinstance(node, Mapping) and not node.get("children")]
        name = max(leaves, key=lambda leaf: _time_of(mapping[leaf].get("message") or {}), default=None)
    for node in _branch(mapping, name, "parent"):
        if isinstance(message := node.get("message"), Mapping):
            yield from _turn_of(message)


def _time_of(message: Mapping[str, Any]) -> float:
    value = message.get("create_time")
    return float(value) if isinstance(value, int | float) else 0.0


def _turn_of(message: Mapping[str, Any]) -> Iterator[_Turn]:
    role = (message.get("author") or {}).get("role")
    # Nobody saw what a model and its tools tell each other, which may have any form.
    if role not in {"user", "assistant"} or message.get("recipient", "all") != "all":
        return
    meta, content = ((message.get(key) or {}) for key in ("metadata", "content"))
    is_person = role == "user"
    kind = content.get("content_type")
    if meta.get("is_visually_hidden_from_conversation") or kind in _UNSEEN_KINDS:
        return
    text = str(content.get("text") or "")
    if kind == "code":
        yield is_person, _fence(text, str(content.get("language") or ""))
        return
    parts = content.get("parts")
    texts = [*map(_text_of, parts)] if isinstance(parts, list) else [text]
    texts += [f"(attached: {file['name']})" for file in _mappings(meta.get("attachments")) if file.get("name")]
    text = "\n\n".join(filter(None, texts))
    for reference in _mappings(meta.get("content_references")):
        matched = reference.get("matched_text")
        shown = reference.get("alt")
        if isinstance(matched, str) and matched.startswith("\ue200") and isinstance(shown, str):
            text = text.replace(matched, shown)
    yield is_person, text


def _text_of(part: object) -> str:
    """Return a part of a message of ChatGPT as text, "" for one that is neither text nor a picture."""
    if not isinstance(part, Mapping):
        return part if isinstance(part, str) else ""
    spoken = part.get("text")
    return spoken if isinstance(spoken, str) else "(image)" * ("image" in str(part.get("content_type") or ""))


# -- Claude: a list of messages


def _of_claude(chat: Mapping[str, Any]) -> Iterator[_Turn]:
    messages = _mappings(chat["chat_messages"])
    by_id = {message.get("uuid"): message for message in messages}
    if any(message.get("parent_message_uuid") in by_id for message in messages):  # else no parents are named
        messages = _branch(by_id, messages[-1].get("uuid"), "parent_message_uuid")
    for message in messages:
        parts = [part for part in _mappings(message.get("content")) if part.get("type") == "text"]
        texts = [str(part.get("text") or "") for part in parts]
        if not any(texts):
            texts = [str(message.get("text") or "")]
        for file in _mappings(message.get("attachments")):
            texts.append(f"(attached: {file.get('file_name') or 'a file'})")
            if file.get("extracted_content"):
                texts.append(_fence(str(file["extracted_content"]), ""))
        names = [file.get("file_name") for file in _mappings(message.get("files"))]
        texts += [f"(attached: {name})" for name in names if name]
        yield message.get("sender") == "human", "\n\n".join(filter(None, texts))


def _branch(nodes: Mapping[Any, Any], name: Any, parent: str) -> list[Mapping[str, Any]]:
    """Return the nodes that led to the one called `name`, from the first on."""
    branch: dict[Any, Mapping[str, Any]] = {}
    while name in nodes and name not in branch and isinstance(nodes[name], Mapping):
        branch[name] = nodes[name]
        name = nodes[name].get(parent)
    return [*branch.values()][::-1]


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _fence(text: str, language: str) -> str:
    fence = fence_of(text)
    return f"{fence}{language if language.isalnum() and language != 'unknown' else ''}\n{text.strip(chr(10))}\n{fence}"
