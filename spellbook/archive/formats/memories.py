"""
Convert memories of other servers to notes: those of mcp-memory-service and mem0.

Each memory is a note with an id that is always the same, so that importing again brings only what is new. The shapes
are those that these servers write. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from spellbook.archive.formats.conversations import cleaned, lowered, moment, on_one_line
from spellbook.archive.formats.incoming import Incoming, make_note
from spellbook.notes.decisions import title as first_sentence
from spellbook.vault.names import safe_name

_MOST_TITLE = 80
_KEPT = ("user_id", "agent_id", "run_id", "memory_type")


def is_memory(value: object) -> bool:
    """Say whether an item of an export is a memory of mcp-memory-service or mem0."""
    if not isinstance(value, Mapping):
        return False
    return (isinstance(value.get("content"), str) and isinstance(value.get("content_hash"), str)) or (
        isinstance(value.get("memory"), str) and isinstance(value.get("id"), str)
    )


TABLE = "memories"
COLUMNS = (
    *("content", "content_hash", "tags", "memory_type", "metadata", "deleted_at"),
    *("created_at", "created_at_iso", "updated_at", "updated_at_iso"),
)
"""Columns of a memory in the database of mcp-memory-service."""


def of_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[Incoming]:
    """Yield the memories in the database of mcp-memory-service, but those that were deleted."""
    for row in rows:
        if row.get("deleted_at") is None and is_memory(row):
            try:
                about = json.loads(row.get("metadata") or "{}")
            except (TypeError, ValueError, RecursionError):
                about = {}
            if note := convert({**row, "metadata": about}):
                yield note


def convert(memory: Mapping[str, Any]) -> Incoming | None:
    """Convert a memory to a note; None if it has no text or no id."""
    server = "mcp-memory-service" if "content_hash" in memory else "mem0"
    text = cleaned(str(memory.get("content") or memory.get("memory") or "")).strip()
    number = re.sub(r"[^\w-]", "-", str(memory.get("content_hash") or memory.get("id") or ""))[:64]
    if not text or not number:
        return None
    about = memory.get("metadata")
    extra = {key: value for key, value in about.items() if _is_plain(key, value)} if isinstance(about, Mapping) else {}
    title = first_sentence(text)[:_MOST_TITLE]
    meta: dict[str, object] = {
        **extra,
        **{key: memory[key] for key in _KEPT if isinstance(memory.get(key), str)},
        "id": f"{server}-{number}",
        "title": title,
        "category": "memory",
        "topic": server,
        "tags": _tags_of(memory.get("tags")) or _tags_of(memory.get("categories")),
        "created": moment(memory.get("created_at")) or moment(memory.get("created_at_iso")),
        "updated": moment(memory.get("updated_at")) or moment(memory.get("updated_at_iso")),
    }
    return make_note(f"memories/{server}/{safe_name(title) or number}.md", meta, lowered(text))


def _is_plain(key: object, value: object) -> bool:
    """Say whether an entry of a memory's metadata becomes a key of its note: a name, and a text or a number."""
    is_name = isinstance(key, str) and bool(re.fullmatch(r"[A-Za-z][\w-]{0,40}", key))
    return is_name and isinstance(value, str | int | float | bool) and len(str(value)) <= 200


def _tags_of(value: object) -> list[str]:
    """Return tags of an export, a list or a text with commas, each on one line and without `#`."""
    listed = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    tags = (on_one_line(str(tag)).lstrip("#")[:60] for tag in listed)
    return list(dict.fromkeys(filter(None, tags)))[:50]
