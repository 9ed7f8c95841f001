"""
Merge two similar notes, without losing a sentence. The older keeps id and path; the other goes to the trash.

The text of the first note stays. Sentences, list items and blocks that only the other note has go to the end of the
section of the same heading, and links to the other are redirected. Where the two differ in numbers or in a "not", both
are shown, and nothing is written while `keep` is empty.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain, pairwise
from typing import Literal

from spellbook.editing import edits
from spellbook.editing.moves import Relinking, Shift, mend, unlink
from spellbook.editing.revise import date_of_change, embed_note
from spellbook.editing.threeway import LISTS, as_list, unite
from spellbook.index import privacy, sync
from spellbook.index.filters import fold, instant
from spellbook.index.lookup import resolve
from spellbook.index.opened import Index
from spellbook.notes.frontmatter import load_value
from spellbook.notes.links import Link
from spellbook.notes.note import Block, Note, lines, newline, parse, replaced
from spellbook.notes.relations import MERGED
from spellbook.notes.splitter import sentences
from spellbook.notes.where_links_lead import Files
from spellbook.notes.where_links_lead import key as link_key
from spellbook.system.errors import Conflict, InvalidInput
from spellbook.system.lazy import regex
from spellbook.text.diff import contradiction, unified
from spellbook.text.unicode import composed, without_ending
from spellbook.vault.folder import digest

Keep = Literal["", "a", "b", "both"]
"""Which note's sentences stand where two contradict: the first one's, the other's, or both; "" is not decided yet."""

_Path = tuple[str, ...]
"""A section by its heading and those above it, without case; () is above the first heading."""

_OWN = {*LISTS, "importance", "id", "created", "updated", "modified", "title", MERGED, *privacy.STANDING}
_MARKER = regex(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_TEXT_BELOW = regex(r"[ \t]*(?:\r\n|\r|\n)[ \t]*[^\s]")
_EDGES = " .。!?！？"
_ENDED = regex(r"[.!?…。！？:;][\"'”’»)\]*_]*$")

_COMMON = 200
"""A word that more units hold says nothing about which two belong together."""

_LEAST_ALIKE = 0.5
"""Share of the shorter unit's words that two units must have in common to be compared. By hand."""


@dataclass(frozen=True, slots=True)
class ChangedPair:
    """Two sentences that contradict each other; `parts` are the pairs of words in which they differ."""

    first: str
    other: str
    parts: tuple[tuple[str, str], ...]

    def swapped(self) -> ChangedPair:
        """Return the pair with the other sentence first."""
        return ChangedPair(self.other, self.first, tuple((b, a) for a, b in self.parts))


@dataclass(frozen=True, slots=True)
class Joined:
    """The text of the joined note, the sentences `added` to the first note, and the contradictions (`changed`)."""

    text: str
    added: tuple[str, ...]
    changed: tuple[ChangedPair, ...]


@dataclass(frozen=True)
class _Unit:
    """A sentence, an item of a list, or a whole block, from character `start` to `end` of a note's text."""

    start: int
    end: int
    text: str
    kind: Literal["sentence", "item", "block"]
    block: int
    section: _Path

    @property
    def bare(self) -> str:
        """Its text without the mark of an item."""
        return _MARKER.sub("", self.text, count=1) if self.kind == "item" else self.text

    @cached_property
    def wording(self) -> str:
        """Its text to compare: without case, line breaks and the mark at its end; of code, to the letter."""
        text = composed(self.bare)
        if self.kind == "block":
            return "\n".join(line.rstrip() for line in lines(text))
        return " ".join(text.casefold().split()).strip(_EDGES)

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of its wording."""
        return frozenset(self.wording.split())


@dataclass(slots=True)
class _NoteUnits:
    """A note as units in order, the end of each block, the last block of each section, and the headings as written."""

    units: list[_Unit] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    last: dict[_Path, int] = field(default_factory=dict)
    headings: dict[_Path, str] = field(default_factory=dict)

    def end_of(self, path: _Path) -> int:
        """Return the last block of a section; of one that is not there, of the nearest above it and its subsections."""
        if path in self.last or not path:
            return self.last.get(path, -1)
        for depth in range(len(path), 0, -1):
            if below := [block for section, block in self.last.items() if section[:depth] == path[:depth]]:
                return max(below)
        return len(self.ends) - 1


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
        index.vault.remove(other.path, digest(other.encode()), hard=True)
        for error in linking.write(linking.texts).values():
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


def join(first: Note, other: Note, keep: Keep = "") -> Joined:
    """Return the first note's text with the other's additional sentences, each in its section. Raises Conflict."""
    here, there = _page(first), _page(other)
    known = {unit.wording for unit in here.units}
    wanted = known | {unit.wording for unit in there.units}
    holding: dict[str, list[_Unit]] = defaultdict(list)
    for unit in here.units:
        for word in unit.words:
            holding[word].append(unit)
    new: dict[_Path, list[_Unit]] = defaultdict(list)
    instead: dict[tuple[int, int], str] = {}
    added: list[str] = []
    changed: list[ChangedPair] = []
    for unit in there.units:
        if unit.wording in known:
            continue
        holders = (holding[word] for word in unit.words if 0 < len(holding[word]) <= _COMMON)
        contrary, parts = _contrary(unit, {near.start: near for near in chain(*holders)})
        if contrary:
            changed.append(ChangedPair(contrary.bare, unit.bare, parts))
            if keep == "a":
                wanted.discard(unit.wording)
                continue
        known.add(unit.wording)
        added.append(unit.bare)
        if contrary and keep == "b" and (place := (contrary.start, contrary.end)) not in instead:
            instead[place] = contrary.text.removesuffix(contrary.bare) + unit.bare
            wanted.discard(contrary.wording)
        else:
            new[unit.section].append(unit)
    text = _inserted(first, here, there, new, instead)
    after = parse(first.path, first.encode(text))
    if after.body_at != first.body_at or not wanted <= {unit.wording for unit in _page(after).units}:
        raise Conflict(
            f"{first.path}: the two notes cannot be joined so that both still read as they did.",
            "Close every code fence and HTML comment in them, or join them by hand; nothing was changed.",
        )
    return Joined(text, tuple(added), tuple(changed))


def _contrary(unit: _Unit, near: Mapping[int, _Unit]) -> tuple[_Unit | None, tuple[tuple[str, str], ...]]:
    """Return the unit near to `unit`, by its start, that it contradicts with the fewest differences, and these."""
    best: tuple[_Unit | None, tuple[tuple[str, str], ...]] = (None, ())
    for _, candidate in sorted(near.items()):
        if len(unit.words & candidate.words) >= max(1, _LEAST_ALIKE * min(len(unit.words), len(candidate.words))):
            parts = contradiction(candidate.bare, unit.bare)
            if parts and (best[0] is None or len(parts) < len(best[1])):
                best = candidate, parts
    return best


def _inserted(
    note: Note,
    here: _NoteUnits,
    there: _NoteUnits,
    new: dict[_Path, list[_Unit]],
    instead: dict[tuple[int, int], str],
) -> str:
    """
    Return a note's text with some units replaced, and the `new` ones at the end of their sections.

    A section that only the other note has follows its parent, if it has new text or none at all.
    """
    end_of_line = newline(note.text)
    full, fresh = (
        {section[:depth] for section in sections for depth in range(1, len(section) + 1)}
        for sections in ([unit.section for unit in there.units], [*new])
    )
    inserted: dict[int, list[str]] = defaultdict(list)
    for path in ((), *there.headings):
        is_missing = bool(path) and path not in here.headings
        texts = [there.headings[path]] if is_missing and (path in fresh or path not in full) else []
        texts += [_joined_units(new[path])] if path in new else []
        if texts:
            inserted[here.end_of(path)].append("\n\n".join(texts))
    changes = [(start, end, text) for (start, end), text in instead.items()]
    for block, texts in inserted.items():
        text = re.sub(r"\r\n|\r|\n", end_of_line, "\n\n".join(texts))
        if block < 0:  # above all others
            rest = note.body.lstrip("\r\n")
            at = len(note.text) - len(rest)
            changes.append((at, at, text + end_of_line * (2 if rest.strip() else 1)))
        else:
            at = here.ends[block]
            # A block that follows without a blank line would run into the new text.
            gap = end_of_line if _TEXT_BELOW.match(note.text, at) else ""
            changes.append((at, at, f"{end_of_line * 2}{text}{gap}"))
    return replaced(note.text, sorted(changes))


def _joined_units(units: Sequence[_Unit]) -> str:
    """Return units as blocks; units from one block of the other note stay one block."""
    text = units[0].text
    for before, unit in pairwise(units):
        is_same = before.block == unit.block
        is_prose = unit.kind == "sentence" and _ENDED.search(before.text)
        text += "\n" if is_same and unit.kind == "item" else " " if is_same and is_prose else "\n\n"
        text += unit.text
    return text


def _page(note: Note) -> _NoteUnits:
    source = note.body_lines
    offsets = [*accumulate(map(len, source), initial=note.body_at)]
    page = _NoteUnits()
    stack: list[tuple[int, str]] = []
    has_title = False
    blocks: list[Block] = []
    for block in (*note.blocks, Block("", len(source), len(source))):
        # Lines that are in no block, as definitions of links are, count as one.
        written = [i for i in range(blocks[-1].end if blocks else 0, block.start) if source[i].strip()]
        blocks += [Block("references", written[0], written[-1] + 1)] if written else []
        blocks += [block] if block.end > block.start else []
    for block in blocks:
        start = offsets[block.start]
        text = note.text[start : offsets[block.end]].rstrip()
        if block.kind == "heading" and block.level == 1 and not stack and not has_title:
            has_title = True
        elif block.kind == "heading":
            stack = [pair for pair in stack if pair[0] < block.level] + [(block.level, fold(block.text))]
            page.headings.setdefault(tuple(name for _, name in stack), text)
        path = tuple(name for _, name in stack)
        number = len(page.ends)
        page.ends.append(start + len(text))
        page.last[path] = number
        kind: Literal["sentence", "item", "block"] = "block"
        spans = [] if block.kind in {"heading", "hr"} else [(0, len(text))]
        if block.kind == "paragraph":
            kind, spans = "sentence", [*sentences(text)]
        elif block.kind.endswith("_list"):
            starts = [*(offsets[line] - start for line in block.items), len(text)]
            kind, spans = "item", [(a, a + len(text[a:b].rstrip())) for a, b in pairwise(starts)]
        page.units += (_Unit(start + a, start + b, text[a:b], kind, number, path) for a, b in spans)
    return page


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
