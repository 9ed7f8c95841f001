"""
Keep: a person confirms a note. That is written into the note, under `verified`, so that other programs read it too.

Only doors of a person call it: a page, a command, and a tool to whose question the person said yes.
"""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spellbook.editing import edits
from spellbook.index import privacy, sync
from spellbook.index.filters import PERSON, STABLE
from spellbook.index.lookup import named
from spellbook.index.opened import Index
from spellbook.notes.note import parse
from spellbook.vault.folder import digest


@dataclass(frozen=True, slots=True)
class KeptNote:
    """A note that a person keeps: who, when (a time or a day, ISO 8601), and whether that is new to the file."""

    id: str
    path: str
    by: str
    at: str
    changed: bool
    generation: int


def keep(index: Index, id: str) -> KeptNote:
    """
    Add the person of this vault to those who confirmed a note, make a draft of it stable, and end a stranger's claims.

    Raises MemoryNotFound; InvalidInput or Conflict for frontmatter that cannot be changed, Conflict for a file that
    another program changes at this moment.
    """
    [chunk, *_], _ = named(index, id, to_change=True)
    data = index.vault.read(chunk.path)[0]
    note, by = parse(chunk.path, data), f"{privacy.HUMAN}{index.config.person}"
    standing = privacy.standing(note.meta, note.updated)
    # Not before the last change, which another clock may have dated.
    at = dt.datetime.fromtimestamp(max(int(time.time()), math.ceil(max(0.0, standing.changed)))).astimezone()
    is_kept = standing.tier == PERSON and standing.person == index.config.person
    if is_kept and standing.status != privacy.DRAFT:
        return KeptNote(chunk.note, chunk.path, by, standing.day, False, index.catalog.generation)
    text = edits.with_meta(note, _changes(note.meta, {"by": by, "at": at}))
    with index.vault.change("keep", chunk.note):
        index.vault.write(chunk.path, note.encode(text), digest(data))
    sync.scan_paths(index, [chunk.path])
    return KeptNote(chunk.note, chunk.path, by, at.isoformat(), True, index.catalog.generation)


def _changes(meta: Mapping[str, Any], confirmed: Mapping[str, object]) -> dict[str, Any]:
    """Return the keys that a note gets when it is `confirmed`."""
    written = meta.get(privacy.VERIFIED)
    before = written if isinstance(written, list) else [] if written is None else [written]
    changes: dict[str, Any] = {privacy.VERIFIED: [*before, confirmed]}
    if privacy.standing(meta).status == privacy.DRAFT:
        changes["status"] = STABLE
    if privacy.CLAIMED in meta:
        changes[privacy.CLAIMED] = None
    return changes
