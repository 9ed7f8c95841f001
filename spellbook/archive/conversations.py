"""
Convert conversations exported by ChatGPT and Claude to notes.

Each turn is kept word for word under a `##` heading that names the speaker, as `dialogue` reads it. Headings inside
a turn are moved below that level. Of a ChatGPT tree, the branch shown last is kept. The same conversation gives the
same bytes. Pure.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spellbook.notes.frontmatter import compose
from spellbook.notes.note import blocks, lines
from spellbook.vault.names import safe_name

CATEGORY = "conversation"

_MOST_TITLE = 80
_NAMES = {"chatgpt": "ChatGPT", "claude": "Claude"}
_PLACES = {"chatgpt": "https://chatgpt.com/c/", "claude": "https://claude.ai/chat/"}
_MARKS = re.compile("\ue200[^\ue201]*\ue201|[\ue200-\ue2ff]")
"""How ChatGPT marks citations, in letters that no font has."""
_BROKEN = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Said:
    """One turn; `asks` is true for the person."""

    asks: bool
    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation as a note: its stable id, the note's path, its text, and its last change in seconds since 1970."""

    id: str
    path: str
    text: str
    updated: float | None


def is_conversation(value: object) -> bool:
    """Say whether an item of an export is a conversation of ChatGPT or Claude."""
    return isinstance(value, Mapping) and (
        isinstance(value.get("mapping"), Mapping) or isinstance(value.get("chat_messages"), list)
    )


def convert(given: Mapping[str, Any]) -> Conversation | None:
    """Convert a conversation to a note; None if it has no text."""
    kind = "chatgpt" if isinstance(given.get("mapping"), Mapping) else "claude"
    turns = [*_joined(_of_chatgpt(given) if kind == "chatgpt" else _of_claude(given))]
    if not turns:
        return None
    number = str(given.get("conversation_id") or given.get("id") or given.get("uuid") or "")
    title = " ".join(_clean(str(given.get("title") or given.get("name") or "")).split()) or _opening(turns)
    created, updated = (_moment(given.get(f"{name}_time") or given.get(f"{name}d_at")) for name in ("create", "update"))
    safe = re.sub(r"[^\w-]", "-", number)[:100]
    id = f"{kind}-{safe}"
    meta: dict[str, object] = {
        "id": id,
        "title": title,
        "topic": _NAMES[kind],
        "category": CATEGORY,
        "source": _PLACES[kind] + safe,
        **({"created": created} if created else {}),
        **({"updated": updated} if updated else {}),
    }
    body = "\n\n".join(f"## {'User' if turn.asks else _NAMES[kind]}\n\n{lowered(turn.text)}" for turn in turns)
    day = f"{created.date().isoformat()} " if created else ""
    path = f"{CATEGORY}/{_NAMES[kind]}/{safe_name(f'{day}{title[:_MOST_TITLE]}')}.md"
    return Conversation(id, path, compose(meta, body), updated.timestamp() if updated else None) if safe else None


def _opening(turns: Sequence[Said]) -> str:
    """A title for a conversation that has none: how it begins."""
    return " ".join(turns[0].text.split()[:10])[:_MOST_TITLE]


def _joined(said: Iterator[Said]) -> Iterator[Said]:
    """What one side says in several messages is one turn."""
    turn: Said | None = None
    for each in said:
        text = _clean(each.text).strip()
        if not text:
            continue
        if turn is not None and turn.asks == each.asks:
            turn = Said(turn.asks, f"{turn.text}\n\n{text}")
            continue
        if turn is not None:
            yield turn
        turn = Said(each.asks, text)
    if turn is not None:
        yield turn


def _clean(text: str) -> str:
    return _BROKEN.sub("", _MARKS.sub("", text)).replace("\r\n", "\n").replace("\r", "\n")


def lowered(text: str) -> str:
    """The text with all headings below `##`, so that a turn is one section."""
    source = lines(text)
    for block in blocks(text):
        if block.kind == "heading":
            first, *more = source[block.start : block.end]
            # One that is underlined has a line more.
            title = (
                " " + " ".join(line.strip() for line in (first, *more[:-1])) + "\n"
                if more
                else first.lstrip(" ").lstrip("#")
            )
            source[block.start : block.end] = ["#" * min(6, block.level + 2) + title, *("" for _ in more)]
    return "".join(source).strip("\n")


def _moment(value: object) -> dt.datetime | None:
    """A time of an export (seconds since 1970 or ISO 8601) in UTC, so that every reader makes the same note."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return dt.datetime.fromtimestamp(int(value), dt.UTC)
        if isinstance(value, str) and value:
            moment = dt.datetime.fromisoformat(value)
            return (
                (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).astimezone(dt.UTC).replace(microsecond=0)
            )
    except (ValueError, OverflowError, OSError):
        pass
    return None


# -- ChatGPT: a tree of messages


def _of_chatgpt(given: Mapping[str, Any]) -> Iterator[Said]:
    """The messages from the root to the node that was seen last."""
    mapping = given["mapping"]
    node = given.get("current_node")
    if node not in mapping:
        node = _last_leaf(mapping)
    branch: list[Any] = []
    seen: set[Any] = set()
    while node in mapping and node not in seen and isinstance(mapping[node], Mapping):
        seen.add(node)
        branch.append(mapping[node].get("message"))
        node = mapping[node].get("parent")
    for message in reversed(branch):
        if isinstance(message, Mapping):
            yield from _message(message)


def _last_leaf(mapping: Mapping[str, Any]) -> str | None:
    """The newest message that nothing follows, for a tree that does not say where it ends."""
    leaves = [name for name, node in mapping.items() if isinstance(node, Mapping) and not node.get("children")]
    return max(leaves, key=lambda name: _number((mapping[name].get("message") or {}).get("create_time")), default=None)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _message(message: Mapping[str, Any]) -> Iterator[Said]:
    role = (message.get("author") or {}).get("role")
    meta = message.get("metadata") or {}
    # What a model tells its tools, and they it, nobody saw.
    if (
        role not in {"user", "assistant"}
        or message.get("recipient", "all") != "all"
        or meta.get("is_visually_hidden_from_conversation")
    ):
        return
    content = message.get("content") or {}
    kind = content.get("content_type")
    if kind in {"thoughts", "reasoning_recap", "user_editable_context", "model_editable_context"}:
        return
    if kind == "code":
        yield Said(role == "user", _fence(str(content.get("text") or ""), str(content.get("language") or "")))
        return
    parts = content.get("parts")
    texts = [_part(part) for part in parts] if isinstance(parts, list) else [str(content.get("text") or "")]
    attached = meta.get("attachments")
    names = [each.get("name") for each in attached if isinstance(each, Mapping)] if isinstance(attached, list) else []
    text = "\n\n".join(filter(None, [*texts, *(f"(attached: {name})" for name in names if name)]))
    for reference in meta.get("content_references") or ():
        matched, shown = (
            (reference.get("matched_text"), reference.get("alt")) if isinstance(reference, Mapping) else (None, None)
        )
        if isinstance(matched, str) and matched.startswith("\ue200") and isinstance(shown, str):
            text = text.replace(matched, shown)
    yield Said(role == "user", text)


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping):
        kind = str(part.get("content_type") or "")
        if isinstance(part.get("text"), str):  # what was spoken
            return str(part["text"])
        return "(image)" if "image" in kind else ""
    return ""


# -- Claude: a list of messages


def _of_claude(given: Mapping[str, Any]) -> Iterator[Said]:
    for message in _branch([each for each in given["chat_messages"] if isinstance(each, Mapping)]):
        asks = message.get("sender") == "human"
        content = message.get("content")
        listed = [each for each in content if isinstance(each, Mapping)] if isinstance(content, list) else []
        texts = [str(each.get("text") or "") for each in listed if each.get("type") == "text"]
        if not any(texts):
            texts = [str(message.get("text") or "")]
        for each in message.get("attachments") or ():
            if isinstance(each, Mapping):
                texts.append(f"(attached: {each.get('file_name') or 'a file'})")
                texts += [_fence(str(each["extracted_content"]), "")] if each.get("extracted_content") else []
        files = message.get("files") or ()
        texts += [
            f"(attached: {each['file_name']})" for each in files if isinstance(each, Mapping) and each.get("file_name")
        ]
        yield Said(asks, "\n\n".join(filter(None, texts)))


def _branch(messages: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The messages that led to the last one; all of them where no parents are named."""
    by_id = {message.get("uuid"): message for message in messages}
    if not any(message.get("parent_message_uuid") in by_id for message in messages):
        return messages
    branch: list[Mapping[str, Any]] = []
    node: Mapping[str, Any] | None = messages[-1]
    while node is not None and node not in branch:
        branch.append(node)
        node = by_id.get(node.get("parent_message_uuid"))
    return branch[::-1]


def _fence(text: str, language: str) -> str:
    # Longer than any in the text, so that the text cannot close it.
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language if language.isalnum() and language != 'unknown' else ''}\n{text.strip(chr(10))}\n{fence}"
