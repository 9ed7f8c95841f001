"""
Merge the frontmatter of two notes, with a common version (`threeway`) or without (`merge`).

Lists are united. The older time of making, the newer change and the higher importance hold. The text is as private and
as untrusted as `privacy` rules. For every other key the first note's value stays. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from spellbook.editing.edits import with_meta
from spellbook.index import privacy
from spellbook.index.filters import fold, instant
from spellbook.notes.note import Note
from spellbook.notes.relations import RELATIONS

LISTS = {
    **{"keywords": r",", "questions": r"\n", "tags": r"[,\s]+", "aliases": r",", "entities": r","},
    **dict.fromkeys(RELATIONS, r"\n"),
}
"""Keys that hold lists, each with what stands between the items of one that is written as a text."""

RULED = {"id", "created", "date", "updated", "modified", "importance", *LISTS, *privacy.RULED}
"""Keys for which a rule chooses one value or unites both, so that the other value need not be shown."""


def as_list(value: object, split: str) -> list[Any]:
    """Return the items of a list, of a text with `split` between them, or of a single value."""
    if isinstance(value, str):
        return [part.strip() for part in re.split(split, value) if part.strip()]
    return [] if value is None else list(value) if isinstance(value, list) else [value]


def unite(key: str, was: object, ours: object, theirs: object) -> Any:
    """
    Return the items of two lists under `key`, ours first, without items that one side removed from the list `was`.

    Items are compared by name, without case. Our value is returned as it is if it has all of them.
    """
    before, here, there = (
        {_name(item): item for item in reversed(as_list(value, LISTS.get(key, r"\n"))) if item != ""}
        for value in (was, ours, theirs)
    )
    gone = before.keys() - (here.keys() & there.keys())
    new = {name: item for name, item in reversed(there.items()) if name not in here.keys() | gone}
    if not new and not gone & here.keys():
        return ours
    kept = [item for item in as_list(ours, LISTS.get(key, r"\n")) if _name(item) not in gone]
    return [*kept, *new.values()]


def choose(key: str, was: object, ours: Note, theirs: Note) -> Any:
    """Return the value of a key that both notes have, and that `was` before; ours where no rule holds."""
    here, there = ours.meta[key], theirs.meta[key]
    if key in LISTS or (isinstance(here, list) and isinstance(there, list)):
        return unite(key, was, here, there)
    if key == "importance":
        return here if ours.importance >= theirs.importance else there
    times = [instant(str(value)) for value in (here, there)]
    if key in {"created", "date", "updated", "modified"} and None not in times:
        is_ours = times[0] == times[1] or (times[0] < times[1]) is (key in {"created", "date"})  # type: ignore[operator]
        return here if is_ours else there
    return here


def guard(note: Note, *parts: Note) -> str:
    """Return a note's text as private and untrusted as the extreme of `parts`. Raises InvalidInput, Conflict."""
    wanted = privacy.needed(note.meta, *(part.meta for part in parts))
    return with_meta(note, wanted) if wanted else note.text


def _name(item: object) -> str:
    return fold(item["name"] if isinstance(item, Mapping) and "name" in item else item)
