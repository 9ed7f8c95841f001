"""Files that an import reads, with their paths, in any order, a piece at a time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from spellbook.notes.frontmatter import compose
from spellbook.notes.note import Fault

UNTOUCHED = "Nothing was imported."


@dataclass(slots=True)
class Incoming:
    """
    A file as a source has it; read its `pieces` before the next file.

    `id` names a note that may have been moved since an earlier import; `category` is the note's. `sha256` is the hash
    of the original, which the note keeps as `source_hash`.
    """

    path: str
    pieces: Iterator[bytes]
    mode: int | None = None
    mtime_ns: int | None = None
    id: str = ""
    category: str = ""
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
    about = str(meta["id"]), str(meta["category"])
    return Incoming(path, iter([text.encode("utf-8", "replace")]), None, mtime_ns, *about)
