"""
Inline content as Obsidian reads it: the text of a paragraph, a heading, an item or a cell of a table. Linear, pure.

`runs` yields these texts, `marks` the links, tags and comments in one of them. Code, formulas, HTML and escaped signs
hold none.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from spellbook.notes.markdown import Block, literals

WIKILINK = re.compile(
    r"!?\[\[(?P<target>(?:(?!\[\[|\]\])[^\r\n|#\\]|\\(?!\|))*+)(?P<fragment>#(?:(?!\]\])[^\r\n|\\]|\\(?!\|))*+)?(?:\\?\|[^\r\n]*?)?\]\]"
)
ELSEWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//")
_CLOSING = re.compile(r"\]\]|[\r\n]")
_TITLE = r"""(?:\s+(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?"""
_PLAIN = (
    r"(?:[^\s()\\<]|\\.|\((?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*\))"
    r"(?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*\))*"
)
_INLINE = re.compile(rf"\(\s*(?:<(?P<angle>[^<>\r\n]*)>|(?P<plain>{_PLAIN})){_TITLE}\s*\)", re.S)
_HTML = r"""/?[A-Za-z][\w-]*(?:\s+[A-Za-z_:][\w.:-]*(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'=<>`]+))?)*\s*/?>"""
# Obsidian's own rule: all letters but white space, these signs, and two ranges of punctuation; a number is no tag.
_TAG = r"""[^\s\ufeff\u2000-\u206f\u2e00-\u2e7f'!"#$%&()*+,.:;<=>?@^`{|}~\[\]\\]++"""
# A search for a set of letters is several times as fast as one for alternatives.
_TOKEN = re.compile(
    r"[\\%<\[\]#](?:(?<=\\)[!-/:-@\[-`{-~]|(?P<comment>(?<=%)%)"
    rf"|(?<=<)(?:(?P<html>!--)|[A-Za-z][A-Za-z0-9+.-]{{1,31}}:[^\s<>]*>|{_HTML})"
    rf"|(?P<wiki>(?<=\[)\[)|(?P<open>(?<=\[))|(?P<close>(?<=\]))|(?P<tag>(?<=#)[0-9]*+/*+{_TAG}))"
)
_SPAN, _IMAGE = re.compile(r"[^\[\]]*+\]"), re.compile(r"[^\[\]]*+\][(\[]")
_BAR = re.compile(r"(?<!\\)\|")
_EDGE = re.compile(r"[ \t>]*+(?:\[\^[^\]\s]++\]:|(?P<before>\[![^\]\r\n]++\]|[\r\n]))")
_QUOTED = re.compile(r"(?:^|[\r\n])[ \t>]*>$")
_MOST_BEFORE = 20
"""Letters before a tag that are read for marks of quotes and of emphasis. By hand."""

_PAIRS = {
    "*": (re.compile(r"\*(?=\S)"), re.compile(r"(?<=\S)\*")),
    "_": (re.compile(r"(?<!\\)_(?=\S)"), re.compile(r"(?<=\S)_(?![A-Za-z0-9])")),
    "~": (re.compile(r"~~(?=\S)"), re.compile(r"(?<=\S)~~")),
    "=": (re.compile(r"==(?=\S)"), re.compile(r"(?<=\S)==")),
}
"""By the sign of an emphasis, where it can open and where it can close."""


def runs(
    blocks: Iterable[Block], text: str, offsets: Sequence[int], is_wanted: Callable[[int, int], bool]
) -> Iterator[tuple[int, int]]:
    """
    Yield the start and end of each wanted inline content of wanted blocks; their lines begin at `offsets` of `text`.
    """
    for block in blocks:
        if is_wanted(offsets[block.start], offsets[block.end]):
            for first, last in block.prose:
                if is_wanted(offsets[first], offsets[last]):
                    yield from _parted(text, offsets, first, last)
            for line in (line for span in block.tables for line in range(*span)):
                start, end = offsets[line], offsets[line + 1]
                bars = (bar.end() for bar in _BAR.finditer(text, start, end))
                yield from (cell for cell in pairwise((start, *bars, end)) if is_wanted(*cell))


def _parted(text: str, offsets: Sequence[int], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the texts in some lines: a footnote, and lines after a blank line or a callout's title, are each one."""
    for line in range(first, last if last - first > 1 else first):
        if edge := _EDGE.match(text, offsets[line]):
            here = line + (edge["before"] is not None)
            yield offsets[first], offsets[here]
            first = here
    yield offsets[first], offsets[last]


def marks(text: str, first: int, last: int) -> Iterator[tuple[str, re.Match[str]]]:
    """
    Yield the links, tags and comments in `text[first:last]`, one inline content, each with its kind.

    A "wiki" is a match of `WIKILINK`, a "link" has the group `angle` or `plain`, a "tag" the group `tag`, and a
    "comment" is one `%%`.
    """
    skipped = [(first + start, first + end) for start, end in reversed([*literals(text[first:last])])]
    closed = _Closed(text, first, last) if text.find("[[", first, last) >= 0 else ()
    emphasis = None
    opened, at, free, alt = 0, first, first, first  # `free` is where the last mark ended, `alt` a picture's label
    is_closed = True
    while token := _TOKEN.search(text, at, last):
        start, at, kind = token.start(), token.end(), token.lastgroup
        while skipped and skipped[-1][1] <= start:
            free = max(free, skipped.pop()[1])
        if skipped and skipped[-1][0] <= start:
            at = skipped[-1][1]
        elif kind == "html":
            end = text.find("-->", start + 2, last) if is_closed else -1
            is_closed = end >= 0  # text without a closing mark is not a comment; it is not searched again
            at = free = end + 3 if is_closed else at
        elif kind == "comment":
            yield kind, token
        elif kind == "tag":
            emphasis = emphasis or _Emphasis(text, first, last)
            if start >= alt and (start == free or emphasis.may_begin(start)):
                at = free = emphasis.end(token)
                yield kind, _TOKEN.match(text, start, at) or token
        elif kind == "open":
            opened += 1
            image = _IMAGE.match(text, at, last) if text[start - 1 : start] == "!" else None
            alt = image.end() if image else alt
        elif kind == "close":
            if opened and (inline := _INLINE.match(text, at, last)):
                yield "link", inline
                at = inline.end()
            free = at if opened and text[start - 1] != "[" else free
            opened = max(0, opened - 1)
        elif kind == "wiki":
            wiki = WIKILINK.match(text, start, last) if start in closed else None
            opened += 0 if wiki else 2
            if wiki:
                at = free = wiki.end()
                inline = _INLINE.match(text, at, last)
                if not (inline and ELSEWHERE.match(inline["plain"] or inline["angle"] or "")):
                    yield kind, wiki  # [[1]](https://…) is none
        else:
            free = at


def wikilinks(text: str, first: int, last: int) -> Iterator[re.Match[str]]:
    """Yield the wikilinks in a text that has no marks of Markdown."""
    closed = _Closed(text, first, last)
    while (first := text.find("[[", first, last)) >= 0:
        wiki = WIKILINK.match(text, first, last) if first in closed else None
        if wiki:
            yield wiki
        first = wiki.end() if wiki else first + 1


class _Closed:
    """Knows which positions of a text have a `]]` later on their line, so no other lines are scanned in vain."""

    def __init__(self, text: str, first: int, last: int) -> None:
        self._marks = [(mark.start(), mark[0] == "]]") for mark in _CLOSING.finditer(text, first, last)]

    def __contains__(self, at: int) -> bool:
        next_mark = bisect_right(self._marks, (at, True))
        return next_mark < len(self._marks) and self._marks[next_mark][1]


class _Emphasis:
    """Knows which signs beside a tag are emphasis: one can open it and another close it later in the same text."""

    def __init__(self, text: str, first: int, last: int) -> None:
        self._text, self._first, self._last = text, first, last
        self._places: dict[str, tuple[int, int]] = {}

    def may_begin(self, at: int) -> bool:
        """Say whether a tag at the character `at` begins after a blank, in brackets, in a quote or in emphasis."""
        before = self._text[max(self._first, at - _MOST_BEFORE) : at]
        if before[-1] in _PAIRS:
            opens, closes = self._ends(before[-1])
            return closes > at or opens < at - len(before) + len(before.rstrip(before[-1]))
        if before[-1] == "[":
            return before[-2:-1] != "]" and _SPAN.match(self._text, at, self._last) is not None
        return before[-1].isspace() or _QUOTED.search(before) is not None

    def end(self, tag: re.Match[str]) -> int:
        """Return where a tag ends: before the `_` that closes an emphasis which began before it."""
        end = tag.start() + len(tag[0].rstrip("_"))
        return end if self._ends("_")[0] < tag.start() else tag.end()

    def _ends(self, sign: str) -> tuple[int, int]:
        """Return the first place where an emphasis can open, and the last where one can close."""
        if sign not in self._places:
            opens, closes = ([*pattern.finditer(self._text, self._first, self._last)] for pattern in _PAIRS[sign])
            self._places[sign] = opens[0].start() if opens else self._last, closes[-1].start() if closes else -1
        return self._places[sign]
