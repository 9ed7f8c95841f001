"""
Merge two changed versions of one note whose common version is known: what git's merge driver does.

Frontmatter is merged key by key, the text section by section and block by block. Where both sides changed the same
place, both stay: ours in its place, theirs in a callout below that names the side. No conflict marker is written. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

from spellbook.editing import merged_labels
from spellbook.editing.edits import same, with_meta
from spellbook.index import privacy
from spellbook.index.filters import fold
from spellbook.notes.chunks import tops
from spellbook.notes.frontmatter import compose, dump
from spellbook.notes.note import MERGED, Note, blocks, lines, newline, parse
from spellbook.notes.splitter import sentences
from spellbook.system.errors import Conflict, InvalidInput
from spellbook.text.diff import changed_spans, weave, woven
from spellbook.text.quoting import one_line

_DELETED = ("{} 쪽에서는 지움", "deleted by {}")
"""What a callout says where one side deleted a text, in Korean and in English."""


@dataclass(frozen=True, slots=True)
class MergedNote:
    """The bytes of the merged note, and the keys, and the headings or the title, at which both sides stand in it."""

    data: bytes
    both: tuple[str, ...] = ()


_NOWHERE: Mapping[str, Any] = MappingProxyType({})
_FINAL = 1_000_000_000
"""The number of a block that no other follows."""
_ENDED = {"paragraph", "bullet_list", "ordered_list", "table"}
"""Blocks that a heading ends without a blank line."""


class _SpacedBlock(NamedTuple):
    """
    A block of a note with the line ends after it.

    It stands in the place of some blocks of each side. `first` maps a side to the number of the first of these, `last`
    to the number of the last one, or `_FINAL` if no block follows it, and the line ends after it.
    """

    text: str
    kind: str = ""
    first: Mapping[str, int] = _NOWHERE
    last: Mapping[str, tuple[int, str]] = _NOWHERE

    @property
    def bare(self) -> str:
        return self.text.strip("\n")


@dataclass(slots=True)
class _SectionBlocks:
    """A `##` section: its heading, "" above the first one, and its blocks, the heading's included."""

    heading: str
    units: list[_SpacedBlock] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """Its blocks without blank lines around them."""
        return [unit.bare for unit in self.units]


def merge(
    path: str, base: bytes, ours: bytes, theirs: bytes, names: tuple[str, str] = ("this copy", "other copy")
) -> MergedNote:
    """
    Return the three-way merge of a note; `base` is empty if both sides added it.

    `names` are what the sides are called in callouts. If one side changed nothing, the other side's bytes are returned.
    Raises UnreadableNote if a version is not a note.
    """
    if theirs in (base, ours):
        return MergedNote(ours)
    if ours == base:
        return MergedNote(theirs)
    original = parse(path, ours)
    of_base, of_ours, of_theirs = (_with_lf(parse(path, data)) for data in (base, ours, theirs))
    draft = _MergeDraft(names, of_ours.title)
    header = _guard(_merge_header(of_base, of_ours, of_theirs, draft), of_ours, of_theirs, draft)
    tail = draft.body([_sections(note, side) for note, side in zip((of_base, of_ours, of_theirs), "bot", strict=True)])
    above = draft.above()
    text = header + (above + tail.lstrip("\n") if above else tail)
    data = original.encode(text.replace("\n", newline(original.text)))
    return MergedNote(data, tuple(dict.fromkeys(draft.both)))


def _with_lf(note: Note) -> Note:
    """Return a note with LF alone as its line end."""
    text = re.sub(r"\r\n?", "\n", note.text)
    return parse(note.path, text.encode()) if text != note.text or note.encoding != "utf-8" else note


# -- frontmatter


def _merge_header(base: Note, ours: Note, theirs: Note, draft: _MergeDraft) -> str:
    """Return the merged frontmatter as text, and tell `draft` which values of theirs it does not have."""
    was, here, there = (note.text[: note.body_at] for note in (base, ours, theirs))
    if there in (was, here):
        return here
    if here == was:
        return there
    if ours.editable and theirs.editable and base.editable:
        changes, aside = _merge_values(base, ours, theirs)
        try:
            text = with_meta(ours, changes)
        except Conflict:
            aside |= {key: theirs.meta[key] for key in changes if key in theirs.meta}
            text = ours.text
        known = set(lines(was + here))
        comments = [line.strip() for line in lines(there) if line.lstrip().startswith("#") and line not in known]
        draft.values(aside, comments)
        return text[: len(text) - len(ours.body)]
    draft.header(1, there)
    return here


def _guard(header: str, ours: Note, theirs: Note, draft: _MergeDraft) -> str:
    """Return the merged frontmatter, as private as the more private side and as untrusted as the less trusted one."""
    note = parse(ours.path, header.encode())
    try:
        return merged_labels.guard(note, ours, theirs)
    except (Conflict, InvalidInput):  # it has a fault: what can be read of it is written anew
        draft.header(0, header)
        wanted = privacy.needed(note.meta, ours.meta, theirs.meta)
        return compose({**note.meta, **wanted}, "").rstrip("\n") + "\n"


def _merge_values(base: Note, ours: Note, theirs: Note) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what to set in our frontmatter, None to remove, and the values of theirs that ours go before."""
    changes: dict[str, Any] = {}
    aside: dict[str, Any] = {}
    for key in dict.fromkeys([*theirs.meta, *base.meta]):
        was, here, there = (note.meta.get(key) for note in (base, ours, theirs))
        if same(there, was) or same(there, here):
            continue
        if same(here, was) or here is None:
            changes[key] = there
        elif there is not None:
            value = merged_labels.choose(key, was, ours, theirs)
            if not same(value, here):
                changes[key] = value
            elif key not in merged_labels.RULED and not (isinstance(here, list) and isinstance(there, list)):
                aside[key] = there
    ids = [note.declared_id for note in (ours, theirs)]
    if all(ids) and ids[0] != ids[1]:
        changes[MERGED] = list(dict.fromkeys([*ours.merged, *theirs.merged, str(ids[1])]))
    return changes, aside


# -- text


def _sections(note: Note, side: str) -> list[_SectionBlocks]:
    """Return the sections of a note's body; together their blocks are the body."""
    source = note.body_lines
    offsets = [*accumulate(map(len, source), initial=0)]
    starts = [0, *(block.start for block in note.blocks), len(source)]
    kinds = ["", *(block.kind for block in note.blocks)]
    first = set(tops(note))
    sections = [_SectionBlocks("")]
    for at, (kind, (start, end)) in enumerate(zip(kinds, pairwise(starts), strict=True)):
        if at - 1 in first:
            sections.append(_SectionBlocks(note.blocks[at - 1].text))
        if end > start:
            text = note.body[offsets[start] : offsets[end]]
            ends = text[len(text.rstrip("\n")) :]
            last = _FINAL if end == len(source) else at
            sections[-1].units.append(_SpacedBlock(text, kind, {side: at}, {side: (last, ends)}))
    return sections


class _MergeDraft:
    """The merged text as it grows, and where both sides stand in it."""

    def __init__(self, names: tuple[str, str], title: str) -> None:
        self._title = title
        self.names = [one_line(name)[:100] or "?" for name in names]
        self.both: list[str] = []
        self._above: list[str] = []
        self._is_korean = False

    # Each callout is a block of its own.

    def _callout(self, side: int, text: str) -> str:
        quoted = "".join(f"> {line}\n" if line else ">\n" for line in text.strip("\n").split("\n"))
        return f"> [!merge] {self.names[side]}\n{quoted}\n"

    def _note_deletion(self, side: int) -> str:
        return f"> [!merge] {_DELETED[0 if self._is_korean else 1].format(self.names[side])}\n\n"

    def values(self, aside: Mapping[str, Any], comments: Sequence[str]) -> None:
        """Put values and comments of their frontmatter above the text."""
        self.both += aside
        rows = [*(f"{dump(key)}: {dump(value)}" for key, value in aside.items()), *comments]
        if rows:
            self._above.append(self._callout(1, "\n".join(f"    {line}" for line in rows)))

    def header(self, side: int, text: str) -> None:
        """Put the whole frontmatter of a side above the text."""
        self.both.append("frontmatter")
        self._above.append(self._callout(side, "\n".join(f"    {line}" for line in text.strip("\ufeff\n").split("\n"))))

    def above(self) -> str:
        """Return the callouts above the text."""
        return "\n" + "".join(self._above) if self._above else ""

    def body(self, sides: Sequence[list[_SectionBlocks]]) -> str:
        """Return the merged text of the sections of base, ours and theirs."""
        self._is_korean = any("가" <= letter <= "힣" for unit in sides[1][0].units for letter in unit.text) or any(
            "가" <= letter <= "힣" for section in sides[1] for letter in section.heading
        )
        base, ours, theirs = _number_sections(sides)
        units: list[_SpacedBlock] = []
        for name in _order(list(base), list(ours), list(theirs)):
            units += self._merge_section(base.get(name), ours.get(name), theirs.get(name))
        return _join(units)

    def _merge_section(
        self, base: _SectionBlocks | None, ours: _SectionBlocks | None, theirs: _SectionBlocks | None
    ) -> list[_SpacedBlock]:
        if ours and theirs:
            return self._merge_blocks(base.units if base else [], ours, theirs)
        there, gone = (ours, 1) if ours else (theirs, 0)
        if there is None or (base and base.texts == there.texts):
            return []
        if base is None:
            return there.units
        self.both.append(there.heading or self._title)
        return [*there.units, _SpacedBlock(self._note_deletion(gone), "callout")]

    def _merge_blocks(
        self, base: list[_SpacedBlock], ours: _SectionBlocks, theirs: _SectionBlocks
    ) -> list[_SpacedBlock]:
        bare = [[unit.bare for unit in units] for units in (base, ours.units, theirs.units)]
        if not base:  # both added the section: what they have in common is as if it had been there
            spans = changed_spans(bare[1], bare[2])
            edges = [(0, 0), *((span[0], span[1]) for span in spans), (len(bare[1]), len(bare[1]))]
            base = [unit for (_, a), (b, _) in pairwise(edges) for unit in ours.units[a:b]]
            bare[0] = [unit.bare for unit in base]
        merged: list[_SpacedBlock] = []
        for was, here, there in weave(*bare):
            before, us, them = base[was], ours.units[here], theirs.units[there]
            if bare[1][here] == bare[2][there]:
                olds = before if bare[1][here] == bare[0][was] else ()
                for at, unit in enumerate(us):
                    merged += _put_in_place([unit], olds[at : at + 1], [unit], [them[at]])
            elif bare[2][there] == bare[0][was]:
                merged += _put_in_place(us, before, us, them)
            elif bare[1][here] == bare[0][was]:
                merged += _put_in_place(them, before, us, them)
            else:
                merged += _put_in_place(self._merge_changed(before, us, them, ours.heading), before, us, them)
        return merged

    def _merge_changed(
        self, before: list[_SpacedBlock], ours: list[_SpacedBlock], theirs: list[_SpacedBlock], heading: str
    ) -> list[_SpacedBlock]:
        """Return what stands in the place of blocks that both sides changed, or where both inserted some."""
        if not before:
            have = {unit.bare for unit in ours}
            return [*ours, *(unit for unit in theirs if unit.bare not in have)]
        if ours and theirs:
            kinds = {unit.kind for unit in (*ours, *theirs)}
            parts = _by_sentence if kinds <= {"paragraph", "heading", "bullet_list", "ordered_list"} else lines
            was, here, there = (
                parts("".join(unit.text for unit in side).rstrip("\n") + "\n") for side in (before, ours, theirs)
            )
            text = woven(was, here, there, _both_inserted)
            if text is not None:
                return [_SpacedBlock(text.rstrip("\n") + "\n", ours[-1].kind, ours[0].first, ours[-1].last)]
        self.both.append(heading or self._title)
        if not ours:
            return [*theirs, _SpacedBlock(self._note_deletion(0), "callout")]
        kept = self._callout(1, "\n\n".join(unit.bare for unit in theirs)) if theirs else self._note_deletion(1)
        return [*ours, _SpacedBlock(kept, "callout")]


def _by_sentence(text: str) -> list[str]:
    """Cut a text at the ends of its lines and of its sentences; joined, the parts are the text."""
    parts: list[str] = []
    for line in lines(text):
        starts = [start for start, _ in sentences(line)]
        parts += [line[a:b] for a, b in pairwise([0, *starts[1:], len(line)])]
    return parts


def _both_inserted(old: Sequence[str], ours: Sequence[str], theirs: Sequence[str]) -> list[str] | None:
    """Return the lines that both sides inserted at one place; None if they changed a part, or within a line."""
    if old or not all(part.endswith("\n") for part in (*ours, *theirs)):
        return None
    return [*ours, *(part for part in theirs if part not in ours)]


def _put_in_place(
    units: list[_SpacedBlock], before: Sequence[_SpacedBlock], ours: list[_SpacedBlock], theirs: list[_SpacedBlock]
) -> list[_SpacedBlock]:
    """Return units that stand in the place of those of both sides."""
    sides = [side for side in (ours, theirs) if side]
    if units:
        first = {key: at for side in sides for key, at in side[0].first.items()}
        units = [units[0]._replace(first=first), *units[1:]]
    if units and units[-1].last:  # a callout has none
        ends = {key: end for side in (before, *sides) if side for key, end in side[-1].last.items()}
        units[-1] = units[-1]._replace(last=ends)
    return units


def _join(units: Sequence[_SpacedBlock]) -> str:
    """Return the text of units. Those that follow each other in a side are as far apart as there, others by a line."""
    texts = []
    for before, unit in pairwise(units):
        text = before.text.rstrip("\n")
        follows = any(unit.first.get(side) == at + 1 for side, (at, _) in before.last.items())
        ends = _ends({side: ends for side, (at, ends) in before.last.items() if at != _FINAL}) if follows else "\n\n"
        is_plain = before.kind == "heading" or (before.kind in _ENDED and unit.text.startswith("## "))
        apart = not text or (ends and is_plain) or ends.startswith("\n\n") or _stays_apart(text + ends, unit.text)
        texts.append(text + (ends if apart else "\n\n"))
    for unit in units[-1:]:
        texts.append(unit.text.rstrip("\n") + (_ends({k: v for k, (_, v) in unit.last.items()}) if unit.last else "\n"))
    return "".join(texts)


def _ends(ends: Mapping[str, str]) -> str:
    """Return the line ends after a unit, given by side, as the side has them that changed them."""
    was, here, there = map(ends.get, "bot")
    return str(there if here is None or (there is not None and here == was) else here)


def _stays_apart(before: str, text: str) -> bool:
    """Say whether what stands on lines that follow each other is read as when it stands alone."""
    count = len(lines(before))
    apart = [*_spans(before), *((kind, start + count, end + count) for kind, start, end in _spans(text))]
    return before.endswith("\n") and _spans(before + text) == apart


def _spans(text: str) -> list[tuple[str, int, int]]:
    return [(block.kind, block.start, block.end) for block in blocks(text)]


# -- which sections are the same


def _number_sections(sides: Sequence[list[_SectionBlocks]]) -> list[dict[int, _SectionBlocks]]:
    """Return the sections of base, ours and theirs by a number that is the same for the same section."""
    base = dict(enumerate(sides[0]))
    named = [base]
    for number, side in enumerate(sides[1:], 1):
        pairs = _pairs(sides[0], side)
        named.append({pairs.get(i, 1_000_000 * number + i): section for i, section in enumerate(side)})
    ours, theirs = ({key: section for key, section in side.items() if key not in base} for side in named[1:])
    pairs = _pairs_by_heading(list(ours.values()), list(theirs.values()))
    renamed = {list(theirs)[i]: list(ours)[j] for i, j in pairs.items()}
    named[2] = {renamed.get(key, key): section for key, section in named[2].items()}
    return named


def _pairs_by_heading(old: Sequence[_SectionBlocks], new: Sequence[_SectionBlocks]) -> dict[int, int]:
    """Return which section of `old` has the heading of each of `new`; of several with one heading, by their order."""
    places = {key: i for i, key in enumerate(_keys_of(old))}
    return {i: places[key] for i, key in enumerate(_keys_of(new)) if key in places}


def _pairs(old: Sequence[_SectionBlocks], new: Sequence[_SectionBlocks]) -> dict[int, int]:
    """Return which section of `old` each of `new` is: by its heading, else by equal text."""
    pairs = _pairs_by_heading(old, new)
    taken = set(pairs.values())
    texts = {tuple(section.texts[1:]): i for i, section in enumerate(old) if i not in taken and len(section.units) > 1}
    for i, section in enumerate(new):
        if i not in pairs and (twin := texts.pop(tuple(section.texts[1:]), None)) is not None:
            pairs[i] = twin
    return pairs


def _keys_of(side: Sequence[_SectionBlocks]) -> list[tuple[str, int]]:
    """Return each section's heading, and how many sections before it have the same."""
    count: dict[str, int] = {}
    keys = []
    for section in side:
        name = fold(section.heading)
        keys.append((name, count.setdefault(name, 0)))
        count[name] += 1
    return keys


def _order(base: list[int], ours: list[int], theirs: list[int]) -> list[int]:
    """Return all sections in our order, or in theirs if only they moved some; each new one after the one before it."""

    def has_moved(side: list[int]) -> bool:
        return [key for key in side if key in base] != [key for key in base if key in side]

    first, second = (theirs, ours) if has_moved(theirs) and not has_moved(ours) else (ours, theirs)
    order = list(first)
    for before, key in pairwise([-1, *second]):
        if key not in order:
            order.insert(order.index(before) + 1 if before in order else 0, key)
    return order
