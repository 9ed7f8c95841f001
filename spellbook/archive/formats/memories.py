"""
Convert memories of other servers to notes: those of mcp-memory-service and mem0, and of the knowledge-graph server.

Each memory, and each entity of a graph, is a note with an id that is always the same, so that importing again brings
only what is new. The shapes are those that these servers write. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from spellbook.archive.formats.conversations import cleaned, lowered, moment
from spellbook.archive.formats.incoming import Made, note_text, stable_id
from spellbook.notes.decisions import title as first_sentence
from spellbook.vault.names import safe_name

_MOST_TITLE = 80
_KEPT = ("user_id", "agent_id", "run_id", "memory_type")
_SAFE = re.compile(r"[^\w-]")


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
"""What the database of mcp-memory-service says of a memory."""


def of_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[Made]:
    """Yield the memories in the database of mcp-memory-service, but those that were deleted."""
    for row in rows:
        if row.get("deleted_at") is None and is_memory(row):
            try:
                about = json.loads(row.get("metadata") or "{}")
            except (TypeError, ValueError, RecursionError):
                about = {}
            if made := convert({**row, "metadata": about}):
                yield made


def convert(given: Mapping[str, Any]) -> Made | None:
    """Convert a memory to a note; None if it has no text or no id."""
    server = "mcp-memory-service" if "content_hash" in given else "mem0"
    text = cleaned(str(given.get("content") or given.get("memory") or "")).strip()
    number = _SAFE.sub("-", str(given.get("content_hash") or given.get("id") or ""))[:64]
    if not text or not number:
        return None
    about = given.get("metadata")
    extra = {key: value for key, value in about.items() if _is_plain(key, value)} if isinstance(about, Mapping) else {}
    created, updated = (
        moment(given.get(f"{name}_at")) or moment(given.get(f"{name}_at_iso")) for name in ("created", "updated")
    )
    title = first_sentence(text)[:_MOST_TITLE]
    id = f"{server}-{number}"
    meta: dict[str, object] = {
        **extra,
        **{key: given[key] for key in _KEPT if isinstance(given.get(key), str)},
        "id": id,
        "title": title,
        "category": "memory",
        "topic": server,
        "tags": tags_of(given.get("tags")) or tags_of(given.get("categories")),
        "created": created,
        "updated": updated,
    }
    path = f"memories/{server}/{safe_name(title) or number}.md"
    return Made(id, path, note_text(meta, lowered(text)), updated.timestamp() if updated else None)


def _is_plain(key: object, value: object) -> bool:
    """Say whether an entry of a memory's metadata becomes a key of its note: a name, and a text or a number."""
    is_name = isinstance(key, str) and bool(re.fullmatch(r"[A-Za-z][\w-]{0,40}", key))
    return is_name and isinstance(value, str | int | float | bool) and len(str(value)) <= 200


def tags_of(given: object) -> list[str]:
    """Return tags of an export, a list or a text with commas, each on one line and without `#`."""
    listed = given.split(",") if isinstance(given, str) else given if isinstance(given, list) else []
    words = (" ".join(cleaned(str(each)).split()).lstrip("#")[:60] for each in listed)
    return list(dict.fromkeys(filter(None, words)))[:50]


# -- the knowledge graph: entities with observations, and relations between them


def is_graph(line: object) -> bool:
    """Say whether a line of a file is one of the knowledge-graph server's."""
    return isinstance(line, Mapping) and line.get("type") in {"entity", "relation"}


def graph(records: Iterable[Mapping[str, Any]]) -> Iterator[Made]:
    """Yield the notes of a graph, one for each entity; what it says of others are links below its observations."""
    entities: dict[str, tuple[str, Sequence[Any]]] = {}
    relations: dict[str, list[tuple[str, str]]] = {}
    for each in records:
        if each["type"] == "entity" and isinstance(each.get("name"), str):
            observations = each.get("observations")
            kind = str(each.get("entityType") or "")
            entities[each["name"]] = kind, observations if isinstance(observations, list) else ()
        elif each["type"] == "relation":
            relations.setdefault(str(each.get("from")), []).append((str(each.get("relationType")), str(each.get("to"))))
    paths = {name: _path_of(name, kind) for name, (kind, _) in entities.items()}
    for name, (kind, observations) in entities.items():
        title = _line(name)
        lines = [f"- {_line(str(each))}" for each in observations if str(each).strip()]
        led = [
            f"- {_line(relation)} [[{paths[to].removesuffix('.md')}|{_shown(to)}]]"
            for relation, to in dict.fromkeys(relations.get(name, ()))
            if to in paths
        ]
        parts = ["\n".join(lines), "\n".join(["## Relations", "", *led]) if led else ""]
        id = stable_id("graph", name)
        meta = {"id": id, "title": title, "category": "entity", "topic": _line(kind) or "entity"}
        yield Made(id, paths[name], note_text(meta, "\n\n".join(filter(None, parts)) or title))


def _path_of(name: str, kind: str) -> str:
    return f"entities/{safe_name(_line(kind)) or 'entity'}/{safe_name(_line(name)[:_MOST_TITLE]) or 'unnamed'}.md"


def _line(text: str) -> str:
    return " ".join(cleaned(text).split())


def _shown(name: str) -> str:
    return re.sub(r"[\[\]|]", " ", _line(name))
