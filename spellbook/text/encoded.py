"""
Data in a text: base64 and other long encoded runs, and `data:` addresses, which are neither searched nor shown. Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

_SHORT = 60
"""Letters of a line of data, but for its last: base64 in mails has 76, that of keys 64."""

_LEAST = 200
"""Letters that are data if they are encoded. By hand: hashes and names are shorter."""

_LETTER = r"[A-Za-z0-9+/_-]"
_BEGINNING = re.compile(rf"data:|(?<![A-Za-z0-9+/=_-]){_LETTER}{{{_SHORT}}}")
_DATA = re.compile(
    rf"data:[\w.+-]{{1,50}}/[^\s,]{{0,100}},[^\s)>\"']{{{_SHORT},}}+"
    rf"|{_LETTER}{{{_SHORT},}}+(?:=*\s++{_LETTER}{{{_SHORT},}}+)*+(?:\s*?\n{_LETTER}++(?==*\s*?\n))?=*"
)


def spans(text: str, first: int = 0) -> list[tuple[int, int]]:
    """Return the first character and the end of all data in a text from the character `first` on, in order."""
    found, at, words = [], first, iter(text[first:].split())
    for word in words:
        if len(word) < _SHORT:
            continue
        at = text.find(word, at)
        end = at + len(word)
        while begin := _BEGINNING.search(text, at, end):
            match = _DATA.match(text, begin.start())
            at = match.end() if match else begin.end()
            # Rules of dashes, repeated letters and numbers are text.
            if match and len(match[0]) >= _LEAST and re.search("[0-9]", match[0]) and re.search("[A-Za-z]", match[0]):
                found.append(match.span())
            for _ in match[0].split()[1:] if match else ():  # else each of its lines would be read again from here
                next(words, None)
    return found


def without(text: str, spans: Sequence[tuple[int, int]], start: int, end: int) -> str:
    """Return `text[start:end]` with an ellipsis and the line ends of each span of data in its place."""
    parts, at = [], start
    for first, last in spans[max(0, bisect_left(spans, (start, start)) - 1) : bisect_left(spans, (end, end))]:
        if first < end and last > start:
            parts += [text[at : max(at, first)], "…", "\n" * text.count("\n", max(first, start), min(last, end))]
            at = min(last, end)
    return "".join(parts) + text[at:end]
