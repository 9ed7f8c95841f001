"""
Chunks: a note cut at its headings, so that what is found is what was meant.

Every character of the body is in exactly one chunk: the chunks of a note,
joined in order, are its body. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from spellbook.notes import Block, Note, lines
from spellbook.terms import estimate_tokens

TEMPLATE = "t1"
"""Names the form of `Chunk.embedded`; part of the embedding fingerprint."""

_SENTENCE_END = re.compile(r"(?<=[.!?。！？…])\s+|(?<=[。！？])")
_MOST_LETTERS = 1200


@dataclass(frozen=True, slots=True)
class Chunk:
    """
    One section of a note, or a part of a long one.

    `suffix` added to the note's id is the chunk's id. `heading` is the path of
    headings below the title. `line` and `end_line` are 1-based lines of the
    file, the first and last with text; `start` and `end` are characters of
    `Note.text`. `embedded` is the text that stands for the chunk in an
    embedding: it names neither file nor folder, so a move embeds nothing.
    """

    suffix: str
    ordinal: int
    heading: tuple[str, ...]
    line: int
    end_line: int
    start: int
    end: int
    text: str
    embedded: str


def cut(note: Note, max_tokens: int = 256) -> tuple[Chunk, ...]:
    """
    Cut `note` at its `##` headings, and sections over `max_tokens` (estimated) at their blocks.

    A further `#` heading begins a section too. Code and tables stay whole
    while they fit. A note always has at least one chunk.
    """
    source = lines(note.body)
    offsets = _offsets(source, note.body_at)
    chunks: list[Chunk] = []
    seen: set[str] = set()
    for top, blocks, first, last in _sections(note, len(source)):
        suffix = _unique(f"#{slug(top.text)}", seen) if top else ""
        size = estimate_tokens("".join(source[first:last]))
        spans = [(offsets[first], offsets[last])]
        if size > max_tokens:
            spans = _parts(note.text, source, offsets, blocks, first, last, max_tokens)
        for number, (start, end) in enumerate(spans, 1):
            heading = _heading_path(top, blocks, offsets, start)
            text = note.text[start:end]
            line = note.body_line + _line_of(offsets, start)
            lead = len(lines(text[: len(text) - len(text.lstrip())])) if text.strip() else 0
            height = len(lines(text.rstrip())) or 1
            part = suffix if number == 1 else f"{suffix}~{number}"
            chunks.append(
                Chunk(part, len(chunks), heading, line + lead, line + height - 1, start, end, text, _embedded(note, heading, text))
            )
    return tuple(chunks)


def slug(text: str) -> str:
    """Return the GitHub-style anchor of a heading, Unicode kept; `section` if nothing is left."""
    folded = unicodedata.normalize("NFC", text).lower()
    return re.sub(r"\s", "-", re.sub(r"[^\w\- ]", "", folded).strip()) or "section"


def _offsets(source: list[str], at: int) -> list[int]:
    offsets = [at]
    for line in source:
        offsets.append(offsets[-1] + len(line))
    return offsets


def _line_of(offsets: list[int], at: int) -> int:
    from bisect import bisect_right

    return bisect_right(offsets, at, 0, max(1, len(offsets) - 1)) - 1


def _sections(note: Note, height: int) -> Iterator[tuple[Block | None, list[Block], int, int]]:
    """Yield each section's own heading (None above the first), its blocks, and its lines of the body."""
    headings = [block for block in note.blocks if block.kind == "heading"]
    title = headings[0] if headings and headings[0].level == 1 else None
    tops = [block for block in headings if block.level <= 2 and block is not title]
    source = lines(note.body)
    # Blank lines alone above the first heading belong to its section.
    has_lead = not tops or bool("".join(source[: tops[0].start]).strip())
    starts: list[Block | None] = [None, *tops] if has_lead else [*tops]
    bounds = [0, *(block.start for block in starts[1:] if block), height]
    for top, (first, last) in zip(starts, pairwise(bounds), strict=True):
        yield top, [block for block in note.blocks if first <= block.start < last], first, last


def _unique(suffix: str, seen: set[str]) -> str:
    name, number = suffix, 1
    while name in seen:
        number += 1
        name = f"{suffix}-{number}"
    seen.add(name)
    return name


def _heading_path(top: Block | None, blocks: list[Block], offsets: list[int], start: int) -> tuple[str, ...]:
    path = [(top.level, top.text)] if top else []
    for block in blocks:
        if block.kind != "heading" or block is top or (top is None and block.level == 1):
            continue
        if offsets[block.start] > start:
            break
        path = [pair for pair in path if pair[0] < block.level] + [(block.level, block.text)]
    return tuple(text for _, text in path if text)


def _embedded(note: Note, heading: tuple[str, ...], text: str) -> str:
    path = " > ".join(dict.fromkeys(filter(None, (note.own_title, *heading))))
    words = ", ".join(note.keywords)
    body = unicodedata.normalize("NFC", text.replace("\0", " ")).strip()
    return "\n".join(filter(None, (path, words, body)))


def _parts(
    text: str, source: list[str], offsets: list[int], blocks: list[Block], first: int, last: int, most: int
) -> list[tuple[int, int]]:
    """Pack a section's blocks into spans of characters of at most `most` tokens."""
    units: list[tuple[int, int, bool]] = []  # start, end, is a heading
    starts = [first, *(block.start for block in blocks if block.start > first)]
    kinds = {block.start: block for block in blocks}
    for a, b in pairwise([*starts, last]):
        block = kinds.get(a)
        is_heading = bool(block and block.kind == "heading")
        units += [(start, end, is_heading) for start, end in _units(text, offsets, block, a, b, most)]
    sizes = [estimate_tokens(text[start:end]) for start, end, _ in units]
    spans: list[tuple[int, int]] = []
    begin, filled = 0, 0
    for i, size in enumerate(sizes):
        # A heading goes with what it heads: count its whole run before deciding.
        ahead = size
        j = i
        while units[j][2] and j + 1 < len(units):
            j += 1
            ahead += sizes[j]
        if filled and filled + ahead > most and not all(units[k][2] for k in range(begin, i)):
            spans.append((units[begin][0], units[i][0]))
            begin, filled = i, 0
        filled += size
    spans.append((units[begin][0], units[-1][1]))
    return spans


def _units(text: str, offsets: list[int], block: Block | None, a: int, b: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the smallest spans that lines `a` to `b` may be cut into."""
    if estimate_tokens(text[offsets[a] : offsets[b]]) <= most:
        yield offsets[a], offsets[b]
    elif block and len(block.items) > 1:
        for start, end in pairwise([a, *block.items[1:], b]):
            yield from _units(text, offsets, None, start, end, most)
    else:
        for line in range(a, b):
            yield from _pieces(text, offsets[line], offsets[line + 1], most)


def _pieces(text: str, start: int, end: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield spans of one line: whole, else its sentences, else runs of letters."""
    line = text[start:end]
    if end - start <= _MOST_LETTERS and estimate_tokens(line) <= most:
        yield start, end
        return
    bounds = [0, *(match.end() for match in _SENTENCE_END.finditer(line) if match.end() < len(line)), len(line)]
    for a, b in pairwise(bounds):
        step = _MOST_LETTERS if estimate_tokens(line[a:b]) > most or b - a > _MOST_LETTERS else b - a
        while step > 64 and estimate_tokens(line[a : a + step]) > most:
            step //= 2
        for at in range(a, b, max(1, step)):
            yield start + at, start + min(b, at + step)
