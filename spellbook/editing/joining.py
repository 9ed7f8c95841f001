"""
Join the texts of two notes, without losing a sentence. Pure.

The text of the first note stays. Sentences, list items and blocks that only the other note has go to the end of the
section of the same heading. Where the two differ in numbers or in a "not", both are shown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise
from typing import Literal

from spellbook.index.filters import fold
from spellbook.notes.note import Block, Note, lines, newline, parse, replaced
from spellbook.notes.splitter import sentences
from spellbook.system.errors import Conflict
from spellbook.system.lazy import regex
from spellbook.text.diff import contradiction
from spellbook.text.unicode import composed

Keep = Literal["", "a", "b", "both"]
"""Which note's sentences stand where two contradict: the first one's, the other's, or both; "" is not decided yet."""

_Path = tuple[str, ...]
"""A section by its heading and those above it, without case; () is above the first heading."""

_Kind = Literal["sentence", "item", "block"]
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
    kind: _Kind
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
    offsets = note.offsets
    page = _NoteUnits()
    stack: list[tuple[int, str]] = []
    has_title = False
    for block in _blocks(note):
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
        kind, spans = _spans(block, text, [offsets[line] - start for line in block.items])
        page.units += (_Unit(start + a, start + b, text[a:b], kind, number, path) for a, b in spans)
    return page


def _blocks(note: Note) -> list[Block]:
    """Return a note's blocks; lines that are in none, as definitions of links are, count as one."""
    source = note.body_lines
    blocks: list[Block] = []
    for block in (*note.blocks, Block("", len(source), len(source))):
        written = [i for i in range(blocks[-1].end if blocks else 0, block.start) if source[i].strip()]
        if written:
            blocks.append(Block("references", written[0], written[-1] + 1))
        if block.end > block.start:
            blocks.append(block)
    return blocks


def _spans(block: Block, text: str, items: Sequence[int]) -> tuple[_Kind, list[tuple[int, int]]]:
    """Return the kind of a block's units, and where they begin and end in its text; `items` are those of a list."""
    if block.kind in {"heading", "hr"}:
        return "block", []
    if block.kind == "paragraph":
        return "sentence", [*sentences(text)]
    if block.kind.endswith("_list"):
        return "item", [(a, a + len(text[a:b].rstrip())) for a, b in pairwise([*items, len(text)])]
    return "block", [(0, len(text))]
