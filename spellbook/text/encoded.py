"""
Data in a text: base64 and other long runs of encoded letters, and `data:` addresses. Nobody reads it, so it is neither
searched nor shown. Linear, pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_SHORT = 60
"""Letters of a line of data, but for its last: base64 in mails has 76, that of keys 64."""

_LEAST = 200
"""Letters that are data if they are encoded. By hand: hashes and names are shorter."""

_LETTER = r"[A-Za-z0-9+/_-]"
_DATA = re.compile(
    rf"data:[\w.+-]+/[^\s,]*,[^\s)>\"']{{{_SHORT},}}+"
    rf"|(?<![A-Za-z0-9+/=_-]){_LETTER}{{{_SHORT},}}+(?:=*\s++{_LETTER}{{{_SHORT},}}+)*+(?:\s*?\n{_LETTER}++(?==*\s*?\n))?=*"
)


def spans(text: str, first: int = 0) -> list[tuple[int, int]]:
    """Return the first character and the end of all data in a text from the character `first` on, in order."""
    if max(map(len, text.split()), default=0) < _SHORT:
        return []
    found = (match for match in _DATA.finditer(text, first) if len(match[0]) >= _LEAST)
    return [match.span() for match in found if re.search("[0-9]", match[0])]  # a rule of dashes has none


def without(text: str, spans: Iterable[tuple[int, int]], start: int, end: int) -> str:
    """Return `text[start:end]` with an ellipsis and the line ends of each span of data in its place."""
    parts, at = [], start
    for first, last in spans:
        if first < end and last > start:
            parts += [text[at : max(at, first)], "…", "\n" * text.count("\n", max(first, start), min(last, end))]
            at = min(last, end)
    return "".join(parts) + text[at:end]
