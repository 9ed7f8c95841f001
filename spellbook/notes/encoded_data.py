"""
Data in a text: encoded files, numbers and drawings, which nobody reads as words and which are not searched. Pure.

The forms are of programs that write them into notes: Excalidraw, tldraw, draw.io, hexdump, and `data:` addresses.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from spellbook.system.lazy import regex

# What Excalidraw writes besides the words of a drawing: a warning, a heading, and the drawing itself.
_DRAWING = regex(r"^==⚠.*EXCALIDRAW VIEW.*|^# Excalidraw Data[ \t]*$|^(?:%%\s+)?#{1,2} Drawing\s+```(?s:.*)", re.M)
_NO_LINE_END = regex(r"[^\r\n]")
_SHORT_LINE = 60
"""Letters of a line of data, but for its last: base64 in mails has 76, that of keys 64."""

LEAST_DATA = 200
"""Letters that are data if they are encoded. By hand: hashes and names are shorter."""

_LETTER = r"[A-Za-z0-9+/_-]"
_LONG_WORD = regex(rf"\s\S{{{_SHORT_LINE},}}+")
_DATA_BEGINS = regex(rf"data:|(?<![A-Za-z0-9+/=_-]){_LETTER}{{{_SHORT_LINE}}}")
_DATA = regex(
    rf"data:[\w.+-]{{1,50}}/[^\s,]{{0,100}},[^\s)>\"']{{{_SHORT_LINE},}}+"
    rf"|{_LETTER}{{{_SHORT_LINE},}}+(?:=*\s++{_LETTER}{{{_SHORT_LINE},}}+)*+(?:\s*?\n{_LETTER}++(?==*\s*?\n))?=*"
)
_LEAST_FIGURES = 2_000
"""Letters of numbers in a row that nobody reads as text. By hand: a page of a table is shorter."""

_LONG_LINE = 200
"""Letters of a line of numbers that is no row of a table. By hand."""

_BLOCK = _LEAST_FIGURES // 2
"""Letters that are looked at first: one such block lies within all figures, and a twelfth of it is 0, 1, 2 or 5."""

_LINE = regex(r"[^\n]+\n?")
_LISTED = regex(r"\s*(?:[-*+]\s|[|#>]|\d+[.)]\s)|[^\n]*\[\[[^\[\],\n]+\]\]")
_WHOLE_WORD = regex(r"(?<!\w)[^\W\d_]{3,}(?!\w)")
# A line of hexdump, xxd or od, its text column included; a number with four places or more, or alone before a comma.
_DUMP = regex(
    r"\s*(?=[\da-fA-F]{6,16}:?\s|[^\n]*(?:\d[a-fA-F]|[a-fA-F]\d))(?:[\da-fA-F]{4,16}:?[ \t]+)?"
    r"(?:(?:0x)?[\da-fA-F]{2,4}[ \t,:-]+){7}"
)
_EXACT = regex(r"[^\n]*\d\.\d{4}|\s*-?[\d.]+(?:[eE][-+]?\d+)?,?\s*$|[\s\[\](){},;]+$")
# A drawing of SVG or draw.io; its tags are data, and the words between them are text. And what tldraw writes.
_DRAWN = regex(
    r"<(svg|mxfile|mxGraphModel)\b(?s:(?!<\1\b).)*?</\1\s*>"
    r"|!!!_START_OF_TLDRAW_DATA(?s:(?!!!!_START).)*?!!!_END_OF_TLDRAW_DATA\w*!*"
)
_TAGS = regex(r"(?:(?:<style\b[^<]*</style>|<[^<>]*>)\s*+)+|!!!(?s:.*)")


def places(text: str, body_at: int, is_drawn: bool) -> list[tuple[int, int]]:
    """Return where data is in a text (base64, numbers, drawings, `data:` addresses); that of a drawing ends with it."""
    drawn = [match.span() for match in _DRAWING.finditer(text, body_at)] if is_drawn else []
    end = drawn[-1][0] if drawn else len(text)
    found = [*_data_in(text, body_at), *_figures_in(text, body_at), *_drawings_in(text, body_at)]
    whole: list[tuple[int, int]] = []
    for span in sorted([*drawn, *(span for span in found if span[0] < end)]):
        if whole and span[0] < whole[-1][1]:
            span = whole[-1][0], max(span[1], whole.pop()[1])
        whole.append(span)
    return whole


def blanked(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return `text` with blanks in place of the letters of each span; spans are in order."""
    parts, at = [], 0
    for first, last in spans:  # a drawing has one for each of its tags
        parts += [text[at:first], _NO_LINE_END.sub(" ", text[first:last])]
        at = last
    return "".join(parts) + text[at:]


def elided(text: str, spans: Sequence[tuple[int, int]], start: int, end: int) -> str:
    """Return `text[start:end]` with an ellipsis and the line ends of each span of data in its place."""
    parts, at = [], start
    for first, last in spans[max(0, bisect_left(spans, (start, start)) - 1) : bisect_left(spans, (end, end))]:
        if first < end and last > start:
            parts += [text[at : max(at, first)], "…", "\n" * text.count("\n", max(first, start), min(last, end))]
            at = min(last, end)
    return "".join(parts) + text[at:end]


def _figures_in(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Yield the first character and the end of lines of numbers, coordinates and dumps, _LEAST_FIGURES letters long."""
    if sum(map(text.count, "0125")) * 12 < _BLOCK:  # as of most texts
        return
    for block in range(at, len(text), _BLOCK):
        limit = block + _BLOCK
        if limit <= at or sum(text.count(digit, block, limit) for digit in "0125") * 12 < _BLOCK:
            continue
        at = start = max(at, text.rfind("\n", at, max(at, block - _BLOCK)) + 1)
        for line in _LINE.finditer(text, at):
            is_one = _is_figures(line[0])
            if line.start() != at or not is_one:
                if at - start >= _LEAST_FIGURES:
                    yield start, at
                start = line.start() if is_one else line.end()
            at = line.end()
            if at >= limit and not is_one:
                break
        if at - start >= _LEAST_FIGURES:
            yield start, at


def _is_figures(line: str) -> bool:
    """Say whether a line is of numbers that nobody reads as text: no row of a table, no item, no words."""
    if _LISTED.match(line):
        return False
    if _DUMP.match(line):
        return True
    size = sum(map(len, line.split()))
    words = sum(map(len, _WHOLE_WORD.findall(line)))
    is_number = sum(map(str.isdigit, line)) * 10 >= size * 3 or size <= 4
    return words * 10 <= size and is_number and (size >= _LONG_LINE or bool(_EXACT.match(line)))


def _drawings_in(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Yield where the tags of a drawing of SVG or draw.io are, and all that tldraw keeps."""
    if not any(end in text for end in ("</svg", "</mx", "!!!_END")):
        return
    for drawing in _DRAWN.finditer(text, at):
        if len(drawing[0]) >= _LEAST_FIGURES:
            yield from (tags.span() for tags in _TAGS.finditer(text, *drawing.span()))


def _data_in(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Yield the first character and the end of all data in a text from the character `at` on, in order."""
    # Each word follows a blank in the text that is searched: a search that begins with a set of letters is quicker.
    for word in _LONG_WORD.finditer(f"\n{text}", at):
        if word.start() < at:  # data of several lines ended in this word or later
            continue
        at = word.start()
        while begin := _DATA_BEGINS.search(text, at, word.end() - 1):
            match = _DATA.match(text, begin.start())
            at = match.end() if match else begin.end()
            # Rules of dashes, repeated letters and numbers are text.
            is_long = match is not None and len(match[0]) >= LEAST_DATA
            if match and is_long and re.search("[0-9]", match[0]) and re.search("[A-Za-z]", match[0]):
                yield match.span()
