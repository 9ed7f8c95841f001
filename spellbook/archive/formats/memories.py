"""
Convert memories of other programs to notes: mcp-memory-service, mem0, Claude Code's, and basic-memory's notes.

Each memory is a note with an id that is always the same, so that importing again brings only what is new. The shapes
are those that these programs write. Pure.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

from spellbook.archive.formats.conversations import Incoming, cleaned, lowered, make_note, moment, on_one_line
from spellbook.notes import labels
from spellbook.notes.decisions import title as first_sentence
from spellbook.notes.frontmatter import FRONTMATTER, BadHeader, dump, load
from spellbook.notes.note import parse
from spellbook.system.lazy import regex
from spellbook.vault.names import note_name

_PERMALINK = regex(r"[^\s:/?#\[\]][^\s:?#\[\]]{0,250}(?<!/)")


def with_id(path: str, head: bytes) -> tuple[str, bytes]:
    """
    Return the permalink of a note of basic-memory, and its first bytes with that as `id`; "" and `head` for any other.

    Such a note has a title, a type and a permalink; a page of a web site also has a layout. A title or a permalink
    that differs from the file's name becomes an alias, unless the note has aliases. So `memory://` addresses and links
    by title or permalink still lead to the note, and another import finds it. All other bytes stay.
    """
    text = head.decode("utf-8", "ignore")
    header = FRONTMATTER.match(text) if b"permalink:" in head else None
    if not header:
        return "", head
    try:
        meta = load(header[0])[0]
    except BadHeader:
        return "", head
    title, permalink = meta.get("title"), meta.get("permalink")
    is_one = isinstance(title, str) and isinstance(permalink, str) and isinstance(meta.get("type"), str)
    if not is_one or meta.keys() & {"id", "layout"} or not _PERMALINK.fullmatch(str(permalink)):
        return "", head
    stem = path.removesuffix(".md")
    names = [str(title)] if str(title).casefold() != posixpath.basename(stem).casefold() else []
    names += [str(permalink)] if str(permalink).casefold() != stem.casefold() else []
    at = head.index(b"\n") + 1
    end = "\r\n" if head[:at].endswith(b"\r\n") else "\n"
    more = f"id: {dump(permalink)}{end}" + (f"aliases: {dump(names)}{end}" if names and "aliases" not in meta else "")
    return str(permalink), head[:at] + more.encode() + head[at:]


KIND = "claude-memory"
INDEX = "MEMORY.md"
"""The file that lists the others by their titles, and is no memory itself."""

MOST_BYTES = 2 * 1024 * 1024
"""Bytes of a file that is read."""

_TITLED = regex(r"\[([^\[\]\n]{1,200})\]\(([^()\s]{1,300})\)")
_PREFERENCE, _MEMORY = {"category": "preference", "type": "semantic"}, {"category": "memory", "type": "semantic"}
_FILED = {"user": _PREFERENCE, "feedback": _PREFERENCE, "project": {"category": "memory", "type": "episodic"}}


def titles(index: bytes) -> dict[str, str]:
    """Return the titles that the bytes of `INDEX` give to files, by their paths."""
    return {file: title.strip() for title, file in _TITLED.findall(index[:25_000].decode("utf-8", "ignore"))}


def convert_claude(slug: str, path: str, data: bytes, titled: Mapping[str, str]) -> Incoming | None:
    """Convert the memory at `path` of the project `slug`; None if it has no text. Raises UnreadableNote."""
    note = parse(path, data)
    inner = note.meta.get("metadata")
    about = {**(inner if isinstance(inner, dict) else {}), **note.meta}
    text, source, hash = cleaned(note.body).strip(), f"{KIND}:{slug}/{path}", sha256(data).hexdigest()
    title = on_one_line(titled.get(path) or str(about.get("name") or note.title))[:80]
    meta = {
        "id": f"{KIND}-{sha256(source.encode('utf-8', 'replace')).hexdigest()[:16]}",
        "title": title,
        **_FILED.get(str(about.get("type")), _MEMORY),
        "topic": KIND,
        "summary": on_one_line(str(about.get("description") or "")),
        "trust": "agent",
        "source": source,
        "source_hash": hash,
        "updated": moment(str(about.get("modified") or "")),
    }
    made = make_note(f"{meta['category']}/{KIND}/{note_name(title)}.md", meta, text)
    made.sha256 = hash
    return made if text else None


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
    extra = {
        key: value
        for key, value in (about.items() if isinstance(about, Mapping) else ())
        if isinstance(key, str) and re.fullmatch(r"[A-Za-z][\w-]{0,40}", key)
        if isinstance(value, str | int | float | bool) and len(str(value)) <= 200
    }
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
    return make_note(f"memories/{server}/{note_name(title) or number}.md", meta, lowered(text))


def _tags_of(value: object) -> list[str]:
    """Return tags of an export, a list or a text with commas, each on one line and without `#`."""
    given = labels.tags(value)
    listed = given if isinstance(given, list) else []
    tags = (on_one_line(str(tag)).lstrip("#")[:60] for tag in listed)
    return list(dict.fromkeys(filter(None, tags)))[:50]
