"""
Chunks: a note cut at its headings, so that what is found is what was meant.

Every character of the body is in exactly one chunk: the chunks of a note,
joined in order, are its body. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from spellbook.notes import Block, Note, lines
from spellbook.terms import token_weight

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
    offsets = [*accumulate(map(len, source), initial=note.body_at)]
    title, words = note.own_title, ", ".join(note.keywords)
    chunks: list[Chunk] = []
    seen: dict[str, int] = {}
    for section in _sections(note, source):
        suffix = _unique(f"#{slug(section.top.text)}", seen) if section.top else ""
        spans = _parts(note.text, offsets, section, max_tokens)
        paths = _heading_paths(section, offsets, [start for start, _ in spans])
        for number, ((start, end), heading) in enumerate(zip(spans, paths, strict=True), 1):
            text = note.text[start:end]
            first = note.body_line + bisect_right(offsets, start) - 1
            written = text.strip()
            lead = len(lines(text[: text.index(written)] + "|")) - 1 if written else 0
            height = len(lines(text.rstrip())) or 1
            part = suffix if number == 1 else f"{suffix}~{number}"
            embedded = _embedded(title, heading, words, text)
            chunks.append(Chunk(part, len(chunks), heading, first + lead, first + height - 1, start, end, text, embedded))
    return tuple(chunks)


def slug(text: str) -> str:
    """Return the GitHub-style anchor of a heading, Unicode kept; `section` if nothing is left."""
    folded = unicodedata.normalize("NFC", text).lower()
    # Vowel signs of Thai and Indic scripts are marks; so is the selector that colours an emoji, which says nothing.
    kept = "".join(c for c in folded if re.match(r"[\w\-\s]", c) or (unicodedata.category(c)[0] == "M" and not "\ufe00" <= c <= "\ufe0f"))
    return re.sub(r"\s", "-", kept.strip()) or "section"


@dataclass(frozen=True, slots=True)
class _Section:
    """A heading (None above the first), the blocks under it and itself, and its lines of the body, end exclusive."""

    top: Block | None
    blocks: Sequence[Block]
    first: int
    last: int


def _sections(note: Note, source: list[str]) -> Iterator[_Section]:
    blocks = note.blocks
    headings = [i for i, block in enumerate(blocks) if block.kind == "heading"]
    title = headings[0] if headings and blocks[headings[0]].level == 1 else None
    tops = [i for i in headings if blocks[i].level <= 2 and i != title]
    # Blank lines alone above the first heading belong to its section.
    first, begin = 0, 0
    if not tops or "".join(source[: blocks[tops[0]].start]).strip():
        last, end = (blocks[tops[0]].start, tops[0]) if tops else (len(source), len(blocks))
        yield _Section(None, blocks[:end], 0, last)
        first, begin = last, end
    for i, following in zip(tops, [*tops, None][1:], strict=True):
        last, end = (len(source), len(blocks)) if following is None else (blocks[following].start, following)
        yield _Section(blocks[i], blocks[begin:end], first, last)
        first, begin = last, end


def _unique(suffix: str, seen: dict[str, int]) -> str:
    name, number = suffix, seen.get(suffix, 1)
    while name in seen:
        number += 1
        name = f"{suffix}-{number}"
    seen[suffix] = number
    seen.setdefault(name, 1)
    return name


def _heading_paths(section: _Section, offsets: list[int], starts: list[int]) -> Iterator[tuple[str, ...]]:
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


def _embedded(title: str, heading: tuple[str, ...], words: str, text: str) -> str:
    path = " > ".join(dict.fromkeys(filter(None, (title, *heading))))
    body = unicodedata.normalize("NFC", text.replace("\0", " ")).strip()
    return "\n".join(filter(None, (path, words, body)))


def _parts(text: str, offsets: list[int], section: _Section, most: int) -> list[tuple[int, int]]:
    """Pack a section's blocks into spans of characters of at most `most` tokens, by the estimate."""
    whole = (offsets[section.first], offsets[section.last])
    if token_weight(text[slice(*whole)]) <= most:
        return [whole]
    units: list[tuple[int, int]] = []
    heads: list[bool] = []
    starts = [section.first, *(block.start for block in section.blocks if block.start > section.first)]
    kinds = {block.start: block for block in section.blocks}
    for a, b in pairwise([*starts, section.last]):
        block = kinds.get(a)
        found = list(_units(text, offsets, block, a, b, most))
        units += found
        # A heading too long for one chunk is text like any other.
        heads += [block is not None and block.kind == "heading" and len(found) == 1] * len(found)
    sizes = [token_weight(text[start:end]) for start, end in units]
    # A heading goes with what it heads: it counts as its whole run.
    runs = sizes[:]
    for i in range(len(units) - 2, -1, -1):
        if heads[i]:
            runs[i] += runs[i + 1]
    spans: list[tuple[int, int]] = []
    begin, filled, bare = 0, 0.0, True  # bare: headings alone so far
    for i, size in enumerate(sizes):
        full = heads[i] and filled + size > most if bare else filled + runs[i] > most
        if full and i > begin:
            spans.append((units[begin][0], units[i][0]))
            begin, filled, bare = i, 0.0, True
        filled += size
        bare = bare and heads[i]
    spans.append((units[begin][0], units[-1][1]))
    return spans


def _units(text: str, offsets: list[int], block: Block | None, a: int, b: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the smallest spans that lines `a` to `b` may be cut into."""
    if token_weight(text[offsets[a] : offsets[b]]) <= most:
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
    if end - start <= _MOST_LETTERS and token_weight(line) <= most:
        yield start, end
        return
    bounds = [0, *(match.end() for match in _SENTENCE_END.finditer(line) if match.end() < len(line)), len(line)]
    for a, b in pairwise(bounds):
        step = _MOST_LETTERS if token_weight(line[a:b]) > most or b - a > _MOST_LETTERS else b - a
        while step > 64 and any(token_weight(line[at : at + step]) > most for at in range(a, b, step)):
            step //= 2
        for at in range(a, b, max(1, step)):
            yield start + at, start + min(b, at + step)
