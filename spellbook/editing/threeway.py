"""
Merge two changed versions of one note with a known common version, for git's merge driver.

Frontmatter is merged key by key. Lists are united. The older time of making, the newer change and the higher importance
hold. The note is as private and as untrusted as `privacy` rules. For every other key our value stays, and theirs stands
between conflict markers above the text. The text is merged by `git merge-file`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spellbook.editing.edits import with_meta
from spellbook.editing.frontmatter_edits import same
from spellbook.index import privacy
from spellbook.index.filters import bound, fold, instant
from spellbook.notes.frontmatter import dump
from spellbook.notes.note import OURS, Note, lines, newline, parse
from spellbook.notes.relations import MERGED, RELATIONS
from spellbook.system import git
from spellbook.system.errors import Conflict
from spellbook.text.quoting import one_line

LISTS = {
    **{"keywords": r",", "questions": r"\n", "tags": r"[,\s]+", "aliases": r",", "entities": r","},
    **dict.fromkeys(RELATIONS, r"\n"),
}
"""Keys that hold lists, each with what stands between the items of one that is written as a text."""

RULED = {"id", "created", "date", "updated", "modified", "importance", *LISTS, *privacy.RULED, privacy.GENERATED}
"""Keys for which a rule chooses one value or unites both, so that the other value need not be shown."""


@dataclass(frozen=True, slots=True)
class MergedNote:
    """The bytes of the merged note, and how many conflicts stand in it between git's markers."""

    data: bytes
    conflicts: int = 0


def merge(path: str, base: bytes, ours: bytes, theirs: bytes, name: str = "other copy") -> MergedNote:
    """
    Return the three-way merge of a note; `base` is empty if both sides added it.

    `name` is the other side's name at its markers. If one side changed nothing, the other's bytes are returned. Raises
    UnreadableNote if a version is not a note, InvalidInput or Conflict if the frontmatter cannot be merged, OSError or
    StorageError if git cannot merge the text.
    """
    if theirs in (base, ours):
        return MergedNote(ours)
    if ours == base:
        return MergedNote(theirs)
    original = parse(path, ours)
    of_base, of_ours, of_theirs = (_with_lf(parse(path, data)) for data in (base, ours, theirs))
    header, aside = _merge_header(of_base, of_ours, of_theirs)
    label = one_line(name)[:100] or "?"
    # Each version has the merged frontmatter, so that git finds no difference in it.
    texts = (f"{header}{note.body}".encode() for note in (of_ours, of_base, of_theirs))
    data, conflicts = git.merge_file(*texts, labels=(OURS, label))
    text = data.decode()
    if aside:
        rows = "".join(f"    {row}\n" for row in aside)
        text = f"{header}\n<<<<<<< {OURS}\n=======\n{rows}>>>>>>> {label}\n{text[len(header) :]}"
    text = guard(parse(path, text.encode()), of_ours, of_theirs)
    return MergedNote(original.encode(text.replace("\n", newline(original.text))), conflicts + bool(aside))


def _with_lf(note: Note) -> Note:
    text = re.sub(r"\r\n?", "\n", note.text)
    return parse(note.path, text.encode()) if text != note.text or note.encoding != "utf-8" else note


def _merge_header(base: Note, ours: Note, theirs: Note) -> tuple[str, list[str]]:
    """
    Return the merged frontmatter as text, and the lines of theirs that it lacks.

    Raises InvalidInput or Conflict if one has a fault, or cannot be changed by keys.
    """
    was, here, there = (note.text[: note.body_at] for note in (base, ours, theirs))
    aside: list[str] = []
    if here == was:
        here = there
    elif there not in (was, here):
        if not (base.editable and theirs.editable):
            raise Conflict("The frontmatter of one version has a fault.", "Merge the note by hand.")
        changes, values = _merge_values(base, ours, theirs)
        known = set(lines(was + here))
        comments = [line.strip() for line in lines(there) if line.lstrip().startswith("#") and line not in known]
        aside = [*(f"{dump(key)}: {dump(value)}" for key, value in values.items()), *comments]
        here = with_meta(ours, changes).removesuffix(ours.body)
    return here if here.endswith(("\n", "\ufeff")) or not here else f"{here}\n", aside


def _merge_values(base: Note, ours: Note, theirs: Note) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return values to set in our frontmatter, None to remove, and the values of theirs that ours override."""
    changes: dict[str, Any] = {}
    aside: dict[str, Any] = {}
    for key in dict.fromkeys([*theirs.meta, *base.meta]):
        was, here, there = (note.meta.get(key) for note in (base, ours, theirs))
        if same(there, was) or same(there, here):
            continue
        if same(here, was) or here is None:
            changes[key] = there
        elif there is not None:
            value = choose(key, was, ours, theirs)
            if not same(value, here):
                changes[key] = value
            elif key not in RULED and not (isinstance(here, list) and isinstance(there, list)):
                aside[key] = there
    ids = [note.declared_id for note in (ours, theirs)]
    if all(ids) and ids[0] != ids[1]:
        changes[MERGED] = list(dict.fromkeys([*ours.merged, *theirs.merged, str(ids[1])]))
    return changes, aside


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
    if key == privacy.GENERATED and isinstance(here, Mapping) and isinstance(there, Mapping):
        return max(here, there, key=lambda each: bound(str(each.get("at"))) or 0.0)
    if key in {"created", "date", "updated", "modified"} and None not in times:
        is_ours = times[0] == times[1] or (times[0] < times[1]) is (key in {"created", "date"})  # type: ignore[operator]
        return here if is_ours else there
    return here


def guard(note: Note, *parts: Note) -> str:
    """
    Return a note's text, as private and as untrusted as any of `parts`.

    Raises InvalidInput or Conflict if its frontmatter cannot be changed.
    """
    wanted = privacy.needed(note.meta, *(part.meta for part in parts))
    return with_meta(note, wanted) if wanted else note.text


def _name(item: object) -> str:
    return fold(item["name"] if isinstance(item, Mapping) and "name" in item else item)
