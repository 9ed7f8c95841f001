"""
Merge two similar notes, without losing a sentence. The older keeps id and path; the other goes to the trash.

The text of the first note stays. Sentences, list items and blocks that only the other note has go to the end of the
section of the same heading, and links to the other are redirected. Where the two differ in numbers or in a "not", both
are shown, and nothing is written while `keep` is empty.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from spellbook.editing import edits
from spellbook.editing.joining import ChangedPair, Keep, join
from spellbook.editing.moves import Relinking
from spellbook.editing.relinking import Shift, mend, unlink
from spellbook.editing.revise import date_of_change, embed_note
from spellbook.editing.threeway import LISTS, as_list, unite
from spellbook.index import privacy, sync
from spellbook.index.filters import fold, instant
from spellbook.index.lookup import resolve
from spellbook.index.opened import Index
from spellbook.notes.frontmatter import load_value
from spellbook.notes.links import Link
from spellbook.notes.note import Note, parse
from spellbook.notes.relations import MERGED
from spellbook.notes.where_links_lead import Files
from spellbook.notes.where_links_lead import key as link_key
from spellbook.system.errors import Conflict, InvalidInput
from spellbook.text.diff import unified
from spellbook.text.unicode import without_ending
from spellbook.vault.folder import digest

_OWN = {*LISTS, "importance", "id", "created", "updated", "modified", "title", MERGED, *privacy.STANDING}


@dataclass(frozen=True, slots=True)
class Merged:
    """
    The result of a merge of two notes, done or planned.

    `id` and `path` are of the note that stays, `gone` is the path of the other, `trash` where it lies, "" if nothing
    was written. `added` are sentences that only the other had, `changed` contradictions, in the order in which the
    notes were named. `differs` has the keys whose first value stays although the other note's differs, `linking` the
    notes with mended links.
    """

    id: str
    path: str
    gone: str
    trash: str
    difference: str
    added: tuple[str, ...]
    changed: tuple[ChangedPair, ...]
    differs: Mapping[str, tuple[object, object]]
    linking: tuple[str, ...]
    generation: int


def merge(index: Index, a: str, b: str, *, keep: Keep = "", apply: bool = False) -> Merged:
    """
    Merge the notes `a` and `b`, given by id, path, or the id of a chunk; only report unless `apply`.

    Raises MemoryNotFound; InvalidInput if both are one note, or for faulty frontmatter; Conflict, with nothing written,
    if they contradict and `keep` is empty, or if a file changes meanwhile.
    """
    chunks = [resolve(index, id) for id in (a, b)]
    named = [parse(chunk.path, index.vault.read(chunk.path)[0]) for chunk in chunks]
    if named[0].path == named[1].path:
        raise InvalidInput(f"{a!r:.200} and {b!r:.200} are one note, {named[0].path}.", "Name two notes.")
    times = [instant(note.created) or chunk.mtime_ns / 1e9 for chunk, note in zip(chunks, named, strict=True)]
    swapped = times[1] < times[0]
    first, other = reversed(named) if swapped else named
    id = chunks[swapped].note
    kept: dict[Keep, Keep] = {"a": "b", "b": "a"} if swapped else {}
    shift = _plan_shift(index, first, other)
    here, there = (_unlink(note, shift, first.path) for note in (first, other))
    here = _mend_links(here, first.path, shift)
    # Read as if it lay where the first does, so that its relative links lead where they led.
    there = _mend_links(parse(first.path, there.encode()), other.path, shift)
    joined = join(here, there, kept.get(keep, keep))
    links_to = index.catalog.links.to({link_key(other.path)})
    linking = Relinking(index.vault)
    for path in {link.source for link in links_to} - {first.path, other.path}:
        linking.plan(path, path, lambda note: mend(note, note.path, shift))
    wanted, differs = metadata(here, parse(other.path, there.encode()))
    text = edits.with_meta(parse(here.path, here.encode(joined.text)), {**date_of_change(here), **wanted})
    done = Merged(
        id=id,
        path=first.path,
        gone=other.path,
        trash="",
        difference=unified(first.text, text, f"a/{first.path}", f"b/{first.path}"),
        added=joined.added,
        changed=tuple(pair.swapped() for pair in joined.changed) if swapped else joined.changed,
        differs=differs,
        linking=tuple(sorted(linking.texts)),
        generation=index.catalog.generation,
    )
    if not apply:
        return done
    if done.changed and not keep:
        raise Conflict(
            f"{named[0].path} (a) and {named[1].path} (b) contradict each other.",
            "Say whose sentences stand: keep a, b or both. Nothing was written.",
            "\n".join(f"a: {pair.first}\nb: {pair.other}" for pair in done.changed),
        )
    with index.vault.change("merge", f"{other.path} into {first.path}"):
        index.vault.write(first.path, first.encode(text), digest(first.encode()))
        name = without_ending(other.path.rpartition("/")[2])
        pointing = other.text
        with contextlib.suppress(Conflict, InvalidInput):  # its frontmatter cannot be changed
            pointing = edits.with_meta(other, {"merged_into": id})
        trash = index.vault.trash.keep(other.path, name, other.encode(pointing))
        index.vault.trash.remove(other.path, digest(other.encode()), hard=True)
        for error in linking.write().values():
            raise error
    sync.scan_paths(index, [first.path, other.path, *linking.texts])
    embed_note(index, first.path)
    return replace(done, trash=trash, generation=index.catalog.generation)


def _plan_shift(index: Index, first: Note, other: Note) -> Shift:
    """Return where links lead before and after the merge. `first` then has the text of `other` and all its names."""
    files, aliases = index.vault.files(), index.catalog.links.aliases()
    named = {name: first.path if path == other.path else path for name, path in aliases.items()}
    for name in metadata(first, other)[0].get("aliases", ()):  # type: ignore[attr-defined]
        named.setdefault(fold(name), first.path)
    return Shift(
        Files(files, aliases), Files((path for path in files if path != other.path), named), {other.path: first.path}
    )


def _mend_links(note: Note, source: str, shift: Shift) -> Note:
    """Return a note that was at `source` with its links mended."""
    return parse(note.path, note.encode(mend(note, source, shift).text))


def _unlink(note: Note, shift: Shift, home: str) -> Note:
    """Return a note without links that would lead to the note at `home`, of which it becomes a part."""

    def is_own(link: Link) -> bool:
        now = shift.before.follow(note.path, link.target, link.is_markdown)
        after = shift.after.follow(home, link.target, link.is_markdown)
        return home == (shift.now(now.path) if now else after.path if after else "")

    return parse(note.path, note.encode(unlink(note, is_own)))


# -- texts


def metadata(first: Note, other: Note) -> tuple[dict[str, object], dict[str, tuple[object, object]]]:
    """
    Return keys to set in the first note's frontmatter, and values of both where they differ and the first one stays.

    Lists and entities are united, importance is the higher, `created` the older; privacy and trust are as `privacy`
    rules; missing keys are added. The other's ids, path and title stay as pointers.
    """
    wanted: dict[str, object] = {}
    stays: dict[str, tuple[object, object]] = {}
    theirs = dict(other.meta)
    if other.own_title and fold(other.own_title) != fold(first.title):
        theirs["aliases"] = [*as_list(theirs.get("aliases"), LISTS["aliases"]), other.own_title]
    for key in LISTS:
        if (both := unite(key, None, first.meta.get(key), theirs.get(key))) is not first.meta.get(key):
            wanted[key] = both
    if "importance" in other.meta and other.importance > first.importance:
        wanted["importance"] = other.meta["importance"]
    if (instant(other.created) or math.inf) < (instant(first.created) or math.inf):
        wanted["created"] = load_value(str(other.created))
    for key, value in theirs.items():
        if key in _OWN or fold(key) in privacy.RULED:
            continue
        if key not in first.meta:
            wanted[key] = value
        elif first.meta[key] != value:
            stays[key] = first.meta[key], value
    if privacy.waits(other.meta):  # so does what takes its sentences in
        by = other.meta.get(privacy.GENERATED) or {"by": privacy.writer_of(other.meta)}
        wanted |= {privacy.GENERATED: by, "status": privacy.DRAFT}
    wanted |= privacy.needed({**first.meta, **wanted}, first.meta, other.meta)
    names = [*filter(None, [other.declared_id]), without_ending(other.path), *other.merged]
    if new := [name for name in dict.fromkeys(names) if name not in first.merged]:
        wanted[MERGED] = [*first.merged, *new]
    return wanted, stays
