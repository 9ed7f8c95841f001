"""
Chunks: a note cut at its headings, so that a search finds the part that answers.

Every character of the body is in exactly one chunk: joined in order, chunks are the body, but for an ellipsis in place
of data. A table's header, a fence or a speaker that a cut parts from its text is given back beside it. Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

from spellbook.notes import chunk_sizes as sizes
from spellbook.notes import encoded_data, splitter
from spellbook.notes.dialogue import Turn, date_of, turns
from spellbook.notes.labels import DECISION, SESSION
from spellbook.notes.links import without_folders
from spellbook.notes.markdown import CODE, REST
from spellbook.notes.note import Block, Note, height, lines
from spellbook.notes.splitter import Frame, Piece
from spellbook.notes.titles import begins_with
from spellbook.system.lazy import regex
from spellbook.text.terms import token_weight
from spellbook.text.unicode import composed, slug

_BOLD_LINE = regex(r"[ ]{0,3}(\*\*|__)(?=\S)([^*_\n]{1,80}?)(?<=\S)\1[ \t]*[:：]?[ \t]*$")
_BLANKS, _APART = regex(r"\s+"), regex("\n{3,}")
_FENCE = regex(r"([ \t>]*(?:(?:[-+*]|\d{1,9}[.)])[ \t]+[ \t>]*)*)(`{3,}|~{3,})([^\r\n]*)")


class Chunk(NamedTuple):
    """
    One section of a note, or a part of a long one.

    `suffix` added to the note's id is the chunk's id: `#` and the anchor of its section, a bare `#` above the first
    `##`, and `~2`, `~3` for later parts. `heading` is the path of headings below the title. `line` and `end_line` are
    1-based lines of the file, the first and last with text; `start` and `end` are characters of `Note.text`, and `text`
    has an ellipsis for each `Note.data` there. `lead` and `tail` complete `text` where a cut went through a table (its
    header) or code (fences), "" mostly. `above` are the lines before its embedded text: its day, titles and headings,
    keywords, and the turn or sentences before it.
    """

    suffix: str
    ordinal: int
    heading: tuple[str, ...]
    line: int
    end_line: int
    start: int
    end: int
    text: str
    above: str
    lead: str = ""
    tail: str = ""

    @property
    def embedded(self) -> str:
        """The text that is embedded for the chunk; see `embedded`."""
        return embedded(self.above, self.lead, self.text, self.tail)


def embedded(above: str, lead: str, text: str, tail: str) -> str:
    """Return the embedded text of a chunk: it names neither its file nor any folder, so a move embeds nothing."""
    return without_folders("\n".join(filter(None, (above, _squeeze(f"{lead}{text}{tail}")))))


def cut(note: Note, max_tokens: int = sizes.CHUNK_TOKENS) -> tuple[Chunk, ...]:
    """
    Cut `note` at its `##` headings, and sections over `max_tokens` (estimated) where it hurts least.

    A further `#` heading begins a section too. In a note with more sections than `most_sections`, the last is all the
    rest, cut by size alone. A subsection, a turn, a block (code and tables above all), an item, a sentence stays whole
    if it fits. A note always has at least one chunk.
    """
    text = encoded_data.blanked(note.text, note.data) if note.data else note.text
    source = lines(text[note.body_at :]) if note.data else note.body_lines
    offsets = note.offsets
    page = _NoteLines(text, source, offsets, turns(note, source), max_tokens)
    above = _Above.of(note)
    chunks: list[Chunk] = []
    seen: dict[str, int] = {}
    for section in _sections(note, source):
        suffix = _make_unique(f"#{slug(section.top.text)[: sizes.MOST_SUFFIX]}", seen) if section.top else "#"
        parts = page.parts(section)
        starts = [part.start for part in parts]
        headed = zip(_paths(section, offsets, starts), page.labels(section, starts), strict=True)
        before = [None, *parts[:-1]]
        for number, (part, previous, (heading, label)) in enumerate(zip(parts, before, headed, strict=True), 1):
            bounds = part.start, part.end
            written = encoded_data.elided(note.text, note.data, *bounds) if note.data else note.text[slice(*bounds)]
            first = note.body_line + bisect_right(offsets, part.start) - 1
            begun = written.index(bare) if (bare := written.strip()) else 0
            line = first + (height(f"{written[:begun]}|") - 1 if begun else 0)
            end_line = first + (height(written.rstrip()) or 1) - 1
            name = suffix if number == 1 else f"{suffix}~{number}"
            lines_above = above.lines(bare, (*heading, label), part, previous, page, is_first=not chunks)
            place = (line, end_line, *bounds)
            chunks.append(Chunk(name, len(chunks), heading, *place, written, lines_above, part.lead, part.tail))
    return tuple(chunks)


class _Above(NamedTuple):
    """Title, day and words of keywords that a note gives to the lines above its embedded texts."""

    title: str
    day: str
    words: str
    may_omit_title: bool
    is_session: bool

    @classmethod
    def of(cls, note: Note) -> _Above:
        """Return that of a note."""
        weights = [*accumulate(token_weight(word) + 1 for word in note.keywords)]
        words = ", ".join(note.keywords[: bisect_right(weights, sizes.MOST_KEYWORDS)])
        # People's notes and decisions had titles before memories did: what is embedded of them stays as it was.
        category = note.category
        may_omit_title = note.kind == "memory" and category != DECISION
        return cls(note.own_title, date_of(note), words, may_omit_title, category == SESSION)

    def lines(
        self, text: str, headings: Iterable[str], part: _Part, previous: _Part | None, page: _NoteLines, is_first: bool
    ) -> str:
        """Return the lines above the text of a part under some headings, `previous` its section's part before it."""
        is_untitled = (self.is_session and not is_first) or (self.may_omit_title and begins_with(text, self.title))
        named = ("" if is_untitled else self.title, *headings)
        path = _path(tuple(dict.fromkeys(filter(None, named))))
        # Overlap helps a text that has no heading and no keywords. It blurs a text that has them
        # (tests/benchmarks/README.md, Chunks).
        follows = page.turn_before(part)
        if not (follows or path or self.words) and part.is_torn and previous:
            follows = splitter.ending(page.text[previous.start : previous.end], sizes.OVERLAP)  # its last sentences
        return "\n".join(filter(None, ("" if self.day in path else self.day, path, self.words, follows)))


def most_sections(note: Note) -> int:
    """Return how many sections of a note have chunks of their own."""
    return sizes.SECTIONS + (len(note.text) - note.body_at) // sizes.LETTERS_EACH


def tops(note: Note) -> list[int]:
    """Return which blocks of a note begin a section: `##` headings, and `#` headings but for the title."""
    headings = [i for i, block in enumerate(note.blocks) if block.kind == "heading" and block.level <= 2]
    first = next((i for i, block in enumerate(note.blocks) if block.kind == "heading"), None)
    return [i for i in headings if i != first or note.blocks[i].level > 1]


class _Section(NamedTuple):
    """A heading (None above the first), the blocks under it and itself, and its lines of the body, end exclusive."""

    top: Block | None
    blocks: Sequence[Block]
    first: int
    last: int


def _sections(note: Note, source: Sequence[str]) -> Iterator[_Section]:
    blocks = note.blocks
    headings = tops(note)[: most_sections(note)]
    starts = [blocks[i].start for i in headings]
    # Blank lines alone above the first heading belong to its section.
    is_headed = bool(starts) and not "".join(source[: starts[0]]).strip()
    begun = [blocks[i] for i in headings] if is_headed else [None, *(blocks[i] for i in headings)]
    spans = pairwise([0, *starts[is_headed:], len(source)])
    inside = pairwise([0, *headings[is_headed:], len(blocks)])
    for top, (first, last), (begin, end) in zip(begun, spans, inside, strict=True):
        yield _Section(top, blocks[begin:end], first, last)


def _make_unique(suffix: str, seen: dict[str, int]) -> str:
    name, number = suffix, seen.get(suffix, 1)
    while name in seen:
        number += 1
        name = f"{suffix}-{number}"
    seen[suffix] = number
    seen.setdefault(name, 1)
    return name


def _paths(section: _Section, offsets: Sequence[int], starts: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """Yield the path of headings that each part begins under, or with."""
    top = section.top
    path = [(top.level, top.text)] if top else []
    headings = [b for b in section.blocks if b.kind == "heading" and b is not top and (top or b.level > 1)]
    at = 0
    for start in starts:
        while at < len(headings) and offsets[headings[at].start] <= start:
            path = [pair for pair in path if pair[0] < headings[at].level] + [(headings[at].level, headings[at].text)]
            at += 1
        yield tuple(text for _, text in path if text)


# -- what is embedded


def _path(names: tuple[str, ...]) -> str:
    """Return the title and the headings, those in the middle left out first."""
    while len(names) > 2 and _is_long(" > ".join(names)):
        names = (names[0], *names[2:])
    path = " > ".join(names)
    return " > ".join(splitter.beginning(name, sizes.MOST_PATH // 2) for name in names) if _is_long(path) else path


def _is_long(path: str) -> bool:
    return len(path) > sizes.MOST_PATH and token_weight(path) > sizes.MOST_PATH  # no letter weighs more than a token


def _squeeze(text: str) -> str:
    """Return the text without NUL, indentation and padding: models ignore them, and limits would count them."""
    text = text.replace("\0", " ").replace("\r\n", "\n")
    if "\r" in text:
        text = _BLANKS.sub(lambda run: "\n" * (run[0].count("\n") or run[0].count("\r")) or " ", text)
    text = "\n".join(map(" ".join, map(str.split, text.split("\n"))))
    return composed(_APART.sub("\n\n", text) if "\n\n\n" in text else text).strip()


# -- parts of a long section


class _Part(NamedTuple):
    """Characters `start` to `end`, and the text to repeat around them. `is_torn`: running text was cut before it."""

    start: int
    end: int
    lead: str = ""
    tail: str = ""
    is_torn: bool = False


@dataclass(frozen=True, slots=True)
class _NoteLines:
    """A note laid out in lines of its body; `offsets` are their characters in `text`, `most` the tokens of a part."""

    text: str
    source: Sequence[str]
    offsets: Sequence[int]
    turns: Sequence[Turn]
    most: int
    begun: dict[int, str] = field(default_factory=dict)  # the first lines of turns, by the turn's number

    def parts(self, section: _Section) -> list[_Part]:
        """Divide a section into parts of at most `most` tokens, twice that for headings that go with their text."""
        start, end = self.offsets[section.first], self.offsets[section.last]
        if token_weight(self.text[start:end]) <= self.most:
            return [_Part(start, end)]
        pieces = splitter.joined(self._divide(section.blocks, section.first, section.last, splitter.SECTION), self.most)
        cuts = [0, *splitter.cuts(pieces, self.most), len(pieces)]
        parts = []
        for i, j in pairwise(cuts):
            here = pieces[i]
            following = pieces[j].inside if j < len(pieces) else None
            end = pieces[j - 1].end
            tail = following.tail if following else ""
            if tail and self.text[end - 1] not in "\r\n":
                tail = "\n" + tail
            is_torn = i > 0 and here.cost >= splitter.SENTENCE and here.inside is None
            parts.append(_Part(here.start, end, here.inside.lead if here.inside else "", tail, is_torn))
        return parts

    def turn_before(self, part: _Part) -> str:
        """Return the beginning of the turn before the one that `part` begins in, "" outside a conversation."""
        if not self.turns:
            return ""
        line = bisect_right(self.offsets, part.start) - 1
        while line < len(self.source) and self.source[line].isspace():
            line += 1
        at = bisect_right(self.turns, line, key=lambda turn: turn.start) - 1
        if at < 1 or line >= self.turns[at].end or self.turns[at - 1].end != self.turns[at].start:
            return ""
        if at not in self.begun:
            start, end = (self.offsets[line] for line in self.turns[at - 1])
            self.begun[at] = splitter.beginning(self.text[start:end], sizes.MOST_BEFORE)
        return self.begun[at]

    def labels(self, section: _Section, starts: Sequence[int]) -> Iterator[str]:
        """Yield for each part the bold line above it that serves as a heading."""
        label, at = "", 0
        for start in starts:
            while at < len(section.blocks) and self.offsets[section.blocks[at].start] < start:
                block = section.blocks[at]
                if block.kind == "heading":
                    label = ""
                elif (
                    block.kind == "paragraph"
                    and block.end - block.start == 1
                    and (match := _BOLD_LINE.match(self.source[block.start]))
                ):
                    label = match[2].rstrip(":：")
                at += 1
            yield label

    def _divide(self, blocks: Sequence[Block], first: int, last: int, cost: int) -> Iterator[Piece]:
        """Yield lines `first` to `last` whole if they fit, else parted at highest headings or turns, or at blocks."""
        start, end = self.offsets[first], self.offsets[last]
        weight = token_weight(self.text[start:end])
        if weight <= self.most:
            yield Piece(start, end, weight, cost)
            return
        low = bisect_right(self.turns, first, key=lambda turn: turn.start)
        high = bisect_left(self.turns, last, low, key=lambda turn: turn.start)
        marks = {turn.start: 2 for turn in self.turns[low:high]}
        marks |= {block.start: block.level for block in blocks if block.kind == "heading" and block.start > first}
        if not marks:
            yield from self._blocks(blocks, first, last, cost)
            return
        highest = min(marks.values())
        at = 0
        for a, b in pairwise([first, *sorted(line for line, level in marks.items() if level == highest), last]):
            inner = blocks[at : (at := bisect_left(blocks, b, at, key=lambda block: block.start))]
            yield from self._divide(inner, a, b, cost)
            # A heading goes with what it heads.
            is_headed = a == first and inner and all(block.kind == "heading" for block in inner)
            cost = splitter.NEVER if is_headed else splitter.SECTION

    def _blocks(self, blocks: Sequence[Block], first: int, last: int, cost: int) -> Iterator[Piece]:
        starts = {block.start: block for block in blocks}
        for a, b in pairwise([first, *(line for line in starts if line > first), last]):
            block = starts.get(a)
            pieces = [*self._block(block, a, b, cost)]
            yield from pieces
            # A heading too long for one piece is text like any other.
            cost = splitter.NEVER if block and block.kind == "heading" and len(pieces) == 1 else splitter.BLOCK

    def _block(self, block: Block | None, a: int, b: int, cost: int) -> Iterator[Piece]:
        """Yield a block and the lines up to the next: whole if it fits, else items, rows, lines or sentences."""
        start, end = self.offsets[a], self.offsets[b]
        weight = token_weight(self.text[start:end])
        if weight <= self.most:
            yield Piece(start, end, weight, cost)
        elif block is None or block.kind in {"paragraph", "heading"}:
            yield from splitter.prose(self.text, start, end, self.most, cost)
        elif block.kind == REST:
            # Several lines at a time: there are very many, and no letter weighs more than a token.
            for line in range(a + 1, b + 1):
                if line == b or self.offsets[line + 1] - start > self.most:
                    yield from splitter.prose(self.text, start, self.offsets[line], self.most, cost)
                    start, cost = self.offsets[line], splitter.LINE
        else:
            prices, frames = self._price_lines(block, a, b)
            bounds = [a, *(item for item in block.items[1:] if item < b), b] if len(block.items) > 1 else [a, b]
            for first, last in pairwise(bounds):
                weight = token_weight(self.text[self.offsets[first] : self.offsets[last]])
                if weight <= self.most:
                    yield Piece(self.offsets[first], self.offsets[last], weight, cost)
                else:
                    for line in range(first, last):
                        price = cost if line == first else prices[line - a]
                        yield from splitter.prose(
                            self.text, self.offsets[line], self.offsets[line + 1], self.most, price, frames[line - a]
                        )
                cost = splitter.ITEM

    def _price_lines(self, block: Block, a: int, b: int) -> tuple[list[int], list[Frame | None]]:
        """Return the costs of a cut before lines `a` to `b` of a block, and the table or code that each divides."""
        source = self.source[a:b]
        prices = splitter.line_costs(source, code=block.kind in CODE)
        title = source[0] if block.kind == "blockquote" and re.match(r"[ \t]*>[ \t]*\[!", source[0]) else ""
        callout = self._frame(title) if title else None
        frames: list[Frame | None] = [callout] * len(source)
        nested = int(block.kind not in {"fence", "table"})
        spans = [*block.code, *block.tables] if nested else [(block.start, block.end)]
        tables = {*block.tables} if nested else {span for span in spans if block.kind == "table"}
        for start, end in ((start - a, min(end, b) - a) for start, end in spans):
            opening = _FENCE.match(source[start])
            if (start + a, end + a) in tables:
                head, costs = 2, [min(splitter.ITEM + nested, splitter.WORD)] * (end - start)
                frame = self._frame("".join(map(_without_marker, source[start : start + 2])))
            elif opening:
                is_all = not nested and not "".join(source[end:]).strip()
                costs = prices[:end] if is_all else splitter.line_costs(source[start:end], code=True)
                head, costs = 1, [min(cost + nested, splitter.NEVER) for cost in costs]
                fence = _without_marker(opening[1]) + opening[2]
                line_end = source[start][len(source[start].rstrip("\r\n")) :] or "\n"
                frame = self._frame(fence + opening[3] + line_end, fence + line_end)
                if end - start > 1 and source[end - 1].strip(" \t>\r\n").startswith(opening[2]):
                    costs[-1] = splitter.NEVER
            else:
                continue
            for i in range(start + 1, end):
                prices[i] = splitter.NEVER if i - start <= head else costs[i - start]
                frames[i] = frame
        return prices, frames

    def _frame(self, lead: str, tail: str = "") -> Frame:
        lead = re.sub(r"-{4,}", "---", re.sub(r"(?<=\S)[ \t]{2,}", " ", lead))
        return Frame(lead if token_weight(lead) <= self.most else tail, tail)


def _without_marker(line: str) -> str:
    """Return the first line of a list's item with blanks in place of its marker, indented like its later lines."""
    return re.sub(r"^[ \t>]*(?:(?:[-+*]|\d{1,9}[.)])[ \t]+)+", lambda match: re.sub(r"[^\s>]", " ", match[0]), line)
