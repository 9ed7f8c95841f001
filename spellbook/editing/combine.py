"""
Join two notes that say much the same into one, without losing a sentence.

The text of the first note stays as it is. The sentences, list items and blocks that only the other note has go to the
end of the section of the same heading. Where the two differ in numbers or in a "not", both are shown and the caller
decides. Pure.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Literal

from spellbook.editing.merged_labels import LISTS, as_list, unite
from spellbook.index import privacy
from spellbook.index.filters import fold, instant
from spellbook.notes.frontmatter import load_value
from spellbook.notes.links import replaced
from spellbook.notes.note import MERGED, Block, Note, lines, newline, parse
from spellbook.notes.splitter import sentences
from spellbook.system.errors import Conflict, InvalidInput
from spellbook.text.diff import contradiction
from spellbook.text.unicode import composed

Take = Literal["", "first", "other", "both"]
"""Whose sentence stands where two contradict: that of one note, or both; "" is not decided yet, and shows both."""

_Path = tuple[str, ...]

_OWN = {*LISTS, "importance", "id", "created", "updated", "modified", "title", MERGED}
_MARKER = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+")
_NEXT_LINE = re.compile(r"[ \t]*(?:\r\n|\r|\n)([^\r\n]*)")
_EDGES = " .。!?！？"
_ENDED = re.compile(r"[.!?…。！？:;][\"'”’»)\]*_]*$")
_MOST_LETTERS = 5_000
"""Letters of a unit that is compared with others word by word."""
_MOST_UNITS = 10_000
"""Sentences, items and blocks of a note that is merged; a megabyte of prose has as many."""

_COMMON = 200
"""A word that more units hold says nothing about which two belong together."""

_MOST_ALIKE = 20
"""Units that one is compared with: those that share most words with it."""

_LEAST_ALIKE = 0.5
"""Share of the shorter unit's words that two units must have in common to be compared. By hand."""


@dataclass(frozen=True, slots=True)
class ChangedPair:
    """Two sentences that contradict each other; `parts` are the pairs of words in which they differ."""

    first: str
    other: str
    parts: tuple[tuple[str, str], ...]


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
        """What is compared: the text without case, line breaks and what ends it; of code, the text to the letter."""
        text = composed(self.bare)
        if self.kind == "block":
            return "\n".join(line.rstrip() for line in lines(text))
        return " ".join(text.casefold().split()).strip(_EDGES)


@dataclass(slots=True)
class _NoteUnits:
    """A note as units in order, the end of each block, the last block of each section, and the headings as written."""

    units: list[_Unit] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    last: dict[_Path, int] = field(default_factory=dict)
    headings: dict[_Path, str] = field(default_factory=dict)


class _CombinedDraft:
    """The first note and its planned changes: units in place of units, and units at the end of sections."""

    def __init__(self, note: Note, page: _NoteUnits) -> None:
        self._note = note
        self._page = page
        self._newline = newline(note.text)
        self._ends: dict[_Path, int] = {}  # the last block of each section and all below it
        for path, last in page.last.items():
            self._ends |= {above: max(last, self._ends.get(above, 0)) for above in _above(path)}
        self._instead: dict[tuple[int, int], str] = {}
        self._sections: dict[_Path, list[_Unit]] = defaultdict(list)

    def exchange(self, old: _Unit, new: _Unit) -> bool:
        """Put `new` in the place of `old`, unless something is there already."""
        span = (old.start, old.end)
        if span in self._instead:
            return False
        self._instead[span] = old.text[: len(old.text) - len(old.bare)] + new.bare
        return True

    def add(self, unit: _Unit) -> None:
        """Insert `unit` at the end of its section."""
        self._sections[unit.section].append(unit)

    def text(self, other: _NoteUnits) -> str:
        """Return the whole text. Sections that only `other` has follow the section that they belong to."""
        gap = self._newline * 2
        parts: dict[int, list[str]] = defaultdict(list)
        above: list[str] = []
        for path in [path for path in self._sections if path in self._page.last or not path]:
            added = self._join_units(self._sections.pop(path))
            (parts[self._page.last[path]] if path in self._page.last else above).append(added)
        for path in self._missing_headings(other):
            section = re.sub(r"\r\n|\r|\n", self._newline, other.headings[path])
            section += gap + self._join_units(self._sections[path]) if path in self._sections else ""
            (parts[self._last_block_above(path)] if self._page.ends else above).append(section)
        put = [(self._page.ends[block], "".join(gap + text for text in texts)) for block, texts in parts.items()]
        edits = [(at, at, new + self._blank_at(at)) for at, new in put]
        text = replaced(self._note.text, sorted([*edits, *((*span, new) for span, new in self._instead.items())]))
        if above:
            body = text[self._note.body_at :]
            at = len(text) - len(body.lstrip("\r\n"))
            text = text[:at] + gap.join(above) + (gap if body.strip() else self._newline) + text[at:]
        return text

    def _missing_headings(self, other: _NoteUnits) -> Iterator[_Path]:
        """Yield, in order, the headings that only the other note has and that have new text, or no text at all."""
        filled = {unit.section for unit in other.units}.intersection(other.headings)
        full, new = (
            {above for path in those for above in _above(path)}
            for those in (filled, self._sections.keys() & other.headings.keys())
        )
        below = Counter(above for path in other.headings for above in _above(path))
        for path in other.headings:
            is_empty = path not in full and below[path] == 1
            if path not in self._page.headings and (is_empty or path in new):
                yield path

    def _last_block_above(self, path: _Path) -> int:
        """Return the last block of the nearest existing section above `path`, with its subsections."""
        ends = (self._ends[above] for above in reversed(_above(path)[:-1]) if above in self._ends)
        return next(ends, len(self._page.ends) - 1)

    def _join_units(self, added: Sequence[_Unit]) -> str:
        """Return units as blocks; units from one block of the other note stay one block."""
        text = ""
        before: _Unit | None = None
        for unit in added:
            is_same = before is not None and before.block == unit.block
            if is_same and unit.kind == "item":
                text += self._newline
            elif is_same and unit.kind == "sentence" and before and _ENDED.search(before.text):
                text += " "
            elif before:
                text += self._newline * 2
            text += re.sub(r"\r\n|\r|\n", self._newline, unit.text)
            before = unit
        return text

    def _blank_at(self, at: int) -> str:
        """The blank line needed after a block inserted at `at`, so that it does not run into the next."""
        rest = _NEXT_LINE.match(self._note.text, at)
        return self._newline if rest and rest[1].strip() else ""


def join(first: Note, other: Note, take: Take = "") -> Joined:
    """
    Return the first note's text plus the sentences that only the other note has, each in its section.

    Raises InvalidInput for a note that is too long, and Conflict if the notes cannot be joined without changing how
    they read.
    """
    here, there = _page(first), _page(other)
    for note, page in ((first, here), (other, there)):
        if len(page.units) > _MOST_UNITS:
            raise InvalidInput(
                f"{note.path} has {len(page.units):,} sentences and items, and notes are merged up to {_MOST_UNITS:,}.",
                "Divide it, or put the two together by hand; nothing was changed.",
            )
    alike = _UnitIndex(here.units)
    known = {unit.wording for unit in here.units}
    draft = _CombinedDraft(first, here)
    added: list[str] = []
    changed: list[ChangedPair] = []
    taken: set[str] = set()
    let_go: set[str] = set()
    for unit in there.units:
        if unit.wording in known or unit.wording in taken:
            continue  # said twice in the other note, once is enough
        contrary, parts = alike.contrary(unit)
        if contrary is not None:
            changed.append(ChangedPair(contrary.bare, unit.bare, parts))
            if take == "first":
                let_go.add(unit.wording)
                continue
            if take == "other" and draft.exchange(contrary, unit):
                let_go.add(contrary.wording)
                added.append(unit.bare)
                continue
        taken.add(unit.wording)
        added.append(unit.bare)
        draft.add(unit)
    text = draft.text(there)
    _check(first, text, {unit.wording for unit in (*here.units, *there.units)} - let_go)
    return Joined(text, tuple(added), tuple(changed))


def _check(first: Note, text: str, wanted: set[str]) -> None:
    after = parse(first.path, first.encode(text))
    if after.body_at != first.body_at or not wanted <= {unit.wording for unit in _page(after).units}:
        raise Conflict(
            f"{first.path}: the two notes cannot be joined so that both still read as they did.",
            "Close every code fence and HTML comment in them, or join them by hand; nothing was changed.",
        )


class _UnitIndex:
    """An index of a note's units by their words."""

    def __init__(self, units: Iterable[_Unit]) -> None:
        self._units = [unit for unit in units if len(unit.text) <= _MOST_LETTERS]
        self._words = [set(unit.wording.split()) for unit in self._units]
        self._holding: dict[str, list[int]] = defaultdict(list)
        for number, words in enumerate(self._words):
            for word in words:
                self._holding[word].append(number)

    def contrary(self, unit: _Unit) -> tuple[_Unit | None, tuple[tuple[str, str], ...]]:
        """Return the unit that `unit` contradicts with the fewest differences, and these; None if there is none."""
        best: tuple[_Unit | None, tuple[tuple[str, str], ...]] = (None, ())
        words = set(unit.wording.split()) if len(unit.text) <= _MOST_LETTERS else set()
        holders = (self._holding.get(word, ()) for word in words)
        shared = Counter(number for held in holders if len(held) <= _COMMON for number in held)
        for number in sorted(number for number, _ in shared.most_common(_MOST_ALIKE)):
            candidate, others = self._units[number], self._words[number]
            if len(words & others) < _LEAST_ALIKE * min(len(words), len(others)):
                continue
            parts = contradiction(candidate.bare, unit.bare)
            if parts and (best[0] is None or len(parts) < len(best[1])):
                best = candidate, parts
        return best


def _above(path: _Path) -> list[_Path]:
    """The section and all sections that contain it, outermost first."""
    return [path[:depth] for depth in range(1, len(path) + 1)]


def _page(note: Note) -> _NoteUnits:
    source = note.body_lines
    offsets = [*accumulate(map(len, source), initial=note.body_at)]
    page = _NoteUnits()
    stack: list[tuple[int, str]] = []
    has_title = False
    for block in _all_blocks(note, source):
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
        items = [offsets[line] - start for line in block.items]
        page.units += (
            _Unit(start + a, start + b, text[a:b], kind, number, path) for a, b, kind in _spans(block, text, items)
        )
    return page


def _spans(
    block: Block, text: str, items: Sequence[int]
) -> Iterator[tuple[int, int, Literal["sentence", "item", "block"]]]:
    """Yield where the units of a block stand in its text, whose items begin at `items`."""
    if block.kind == "paragraph":
        yield from ((a, b, "sentence") for a, b in sentences(text))
    elif block.kind.endswith("_list"):
        for a, b in zip(items, [*items[1:], len(text)], strict=True):
            yield a, a + len(text[a:b].rstrip()), "item"
    elif block.kind not in {"heading", "hr"}:
        yield 0, len(text), "block"


def _all_blocks(note: Note, source: Sequence[str]) -> Iterator[Block]:
    """Yield the note's blocks, and as blocks the lines that are in none: what links refer to."""
    at = 0
    for block in (*note.blocks, Block("", len(source), len(source))):
        written = [i for i in range(at, block.start) if source[i].strip()]
        if written:
            yield Block("references", written[0], written[-1] + 1)
        if block.end > block.start:
            yield block
        at = max(at, block.end)


# -- frontmatter


def metadata(first: Note, other: Note) -> tuple[dict[str, object], dict[str, tuple[object, object]]]:
    """
    Return what to set in the first note's frontmatter, and where the two differ and the first one's value stays.

    Lists and entities are united, importance is the higher, `created` the older, privacy and trust are as `privacy`
    rules, and what the first one does not say is taken over. The other's ids, path and title stay as pointers.
    """
    wanted: dict[str, object] = {}
    for key, split in LISTS.items():
        ours, theirs = first.meta.get(key), other.meta.get(key)
        if key == "aliases" and other.own_title and fold(other.own_title) != fold(first.title):
            theirs = [*as_list(theirs, split), other.own_title]
        if (value := unite(key, None, ours, theirs)) is not ours:
            wanted[key] = value
    if "importance" in other.meta and other.importance > first.importance:
        wanted["importance"] = other.meta["importance"]
    if (instant(other.created) or math.inf) < (instant(first.created) or math.inf):
        wanted["created"] = load_value(str(other.created))
    more = {key: value for key, value in other.meta.items() if key not in _OWN and fold(key) not in privacy.RULED}
    wanted |= {key: value for key, value in more.items() if key not in first.meta}
    wanted |= privacy.needed({**first.meta, **wanted}, first.meta, other.meta)
    names = [*filter(None, [other.declared_id]), other.path.removesuffix(".md"), *other.merged]
    if new := [name for name in dict.fromkeys(names) if name not in first.merged]:
        wanted[MERGED] = [*first.merged, *new]
    stays = {key: (first.meta[key], value) for key, value in more.items() if first.meta.get(key, value) != value}
    return wanted, stays
