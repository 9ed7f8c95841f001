"""
Merge two similar notes. The older keeps id and path; the other goes to the trash with a pointer to it.

Links to the other are redirected. Nothing is written unless `apply` is set, and never while the two contradict each
other and `keep` is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from spellbook.editing import combine, edits
from spellbook.editing.combine import ChangedPair
from spellbook.editing.moves import Relinking
from spellbook.editing.relink import Shift, mend, unlink
from spellbook.editing.revise import date_of_change, embed_note
from spellbook.index import sync
from spellbook.index.catalog.schema import StoredChunk
from spellbook.index.filters import fold, instant
from spellbook.index.lookup import resolve
from spellbook.index.opened import Index
from spellbook.notes.links import Files, Link, key
from spellbook.notes.note import Note, parse
from spellbook.system.errors import Conflict, InvalidInput
from spellbook.text.diff import unified
from spellbook.vault.folder import digest

Keep = Literal["", "a", "b", "both"]
"""Which note's sentences stand where the two contradict, by the order in which they were named."""


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


@dataclass(frozen=True, slots=True)
class _MergeSide:
    """One of the two: its note as it is in its file, whose hash is `sha256`, and when it was made."""

    chunk: StoredChunk
    note: Note
    sha256: str
    since: float


def merge(index: Index, a: str, b: str, *, keep: Keep = "", apply: bool = False) -> Merged:
    """
    Merge the notes `a` and `b`, given by id, path, or the id of a chunk; only report unless `apply`.

    Raises MemoryNotFound; InvalidInput if both are one note, or for faulty frontmatter; Conflict, with nothing written,
    if they contradict and `keep` is empty, or if a file changes meanwhile.
    """
    named = [_side(index, id) for id in (a, b)]
    if named[0].chunk.path == named[1].chunk.path:
        raise InvalidInput(f"{a!r:.200} and {b!r:.200} are one note, {named[0].chunk.path}.", "Name two notes.")
    first, other = sorted(named, key=lambda side: side.since)
    swapped = first is not named[0]
    take: dict[Keep, combine.Take] = {"a": "other" if swapped else "first", "b": "first" if swapped else "other"}
    shift = _plan_shift(index, first.note, other.note)
    here, there = (_unlink(side.note, shift, first.chunk.path) for side in (first, other))
    here = _mend_links(here, first.chunk.path, shift)
    # Read as if it lay where the first does, so that its relative links lead where they led.
    there = _mend_links(parse(first.chunk.path, there.encode()), other.chunk.path, shift)
    joined = combine.join(here, there, take.get(keep, "both" if keep else ""))
    linking = _plan_linking(index, first.chunk.path, other.chunk.path, shift)
    wanted, differs = combine.metadata(here, parse(other.chunk.path, there.encode()))
    text = edits.with_meta(parse(here.path, here.encode(joined.text)), {**wanted, **date_of_change(here)})
    done = Merged(
        id=first.chunk.note,
        path=first.chunk.path,
        gone=other.chunk.path,
        trash="",
        difference=unified(first.note.text, text, f"a/{first.chunk.path}", f"b/{first.chunk.path}"),
        added=joined.added,
        changed=tuple(map(_swap, joined.changed)) if swapped else joined.changed,
        differs=differs,
        linking=tuple(sorted(linking.texts)),
        generation=index.catalog.generation,
    )
    if not apply:
        return done
    if done.changed and not keep:
        raise Conflict(
            f"{named[0].chunk.path} (a) and {named[1].chunk.path} (b) contradict each other.",
            "Say whose sentences stand: keep a, b or both. Nothing was written.",
            "\n".join(f"a: {pair.first}\nb: {pair.other}" for pair in done.changed),
        )
    with index.vault.change("merge", f"{other.chunk.path} into {first.chunk.path}"):
        index.vault.write(first.chunk.path, first.note.encode(text), first.sha256)
        name = other.chunk.path.rpartition("/")[2].removesuffix(".md")
        pointing = other.note.encode(_point_to(other.note, first.chunk.note))
        trash = index.vault.trash.keep(other.chunk.path, name, pointing)
        index.vault.remove(other.chunk.path, other.sha256, hard=True)
        for error in linking.write(linking.texts).values():
            raise error
    sync.scan_paths(index, [first.chunk.path, other.chunk.path, *linking.texts])
    embed_note(index, first.chunk.path)
    return replace(done, trash=trash, generation=index.catalog.generation)


def _side(index: Index, id: str) -> _MergeSide:
    chunk = resolve(index, id)
    data = index.vault.read(chunk.path)[0]
    note = parse(chunk.path, data)
    return _MergeSide(chunk, note, digest(data), instant(note.created) or chunk.mtime_ns / 1e9)


def _plan_shift(index: Index, first: Note, other: Note) -> Shift:
    """Return where links lead before and after the merge. `first` then has the text of `other` and all its names."""
    files, aliases = index.vault.files(), index.catalog.links.aliases()
    named = {name: first.path if path == other.path else path for name, path in aliases.items()}
    for name in combine.metadata(first, other)[0].get("aliases", ()):  # type: ignore[attr-defined]
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


def _plan_linking(index: Index, first: str, other: str, shift: Shift) -> Relinking:
    """Plan the other notes that link to the one at `other`."""
    planned = Relinking(index.vault)
    for path in {link.source for link in index.catalog.links.to({key(other)})} - {first, other}:
        planned.plan(path, path, lambda note: mend(note, note.path, shift))
    return planned


def _swap(pair: ChangedPair) -> ChangedPair:
    return ChangedPair(pair.other, pair.first, tuple((b, a) for a, b in pair.parts))


def _point_to(note: Note, id: str) -> str:
    """Return the text of a note for the trash, with the id that has its text now if its frontmatter can be changed."""
    try:
        return edits.with_meta(note, {"merged_into": id})
    except (Conflict, InvalidInput):
        return note.text
