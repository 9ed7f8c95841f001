"""
Convert the memories of Claude Code to notes.

Each memory is a note with an id that is always the same, so that importing again brings only what is new. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from spellbook.archive.formats.conversations import Incoming, cleaned, make_note, moment, on_one_line
from spellbook.notes.note import parse
from spellbook.system.lazy import regex
from spellbook.vault.names import note_name

KIND = "claude-memory"
INDEX = "MEMORY.md"
"""The file that lists the others by their titles, and is no memory itself."""

MOST_BYTES = 2 * 1024 * 1024
"""Bytes of a file that is read."""

_TITLED = regex(r"\[([^\[\]\n]{1,200})\]\(([^()\s]{1,300})\)")
_PREFERENCE = {"category": "preference", "type": "semantic"}
_MEMORY = {"category": "memory", "type": "semantic"}
_FILED = {"user": _PREFERENCE, "feedback": _PREFERENCE, "project": {"category": "memory", "type": "episodic"}}


def titles(index: bytes) -> dict[str, str]:
    """Return the titles that the bytes of `INDEX` give to files, by their paths."""
    return {file: title.strip() for title, file in _TITLED.findall(index[:25_000].decode("utf-8", "ignore"))}


def convert(slug: str, path: str, data: bytes, titled: Mapping[str, str]) -> Incoming | None:
    """Convert the memory at `path` of the project `slug`; None if it has no text. Raises UnreadableNote."""
    note = parse(path, data)
    inner = note.meta.get("metadata")
    about = {**(inner if isinstance(inner, dict) else {}), **note.meta}
    text = cleaned(note.body).strip()
    source = f"{KIND}:{slug}/{path}"
    hash = sha256(data).hexdigest()
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
