"""
A rule of markdown-it that takes what most of a note is, plain paragraphs and headings, at once.

The parser asks ten rules about each block, and seven about each further line
of a paragraph. A line that begins with a letter is for none of them, so where
lines do that there is nothing to ask. Such a paragraph is one token that says
where it stands, instead of three with its text, which nobody asks for either;
anything else is left to the parser's own rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from markdown_it.rules_block import heading

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock

_MOST_INDENT = 3
_BULLETS = "-*+"
_BLANK = " \t"
_OF_TABLES = "|-:"


def prose(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a paragraph whose lines all begin with letters, or a `#` heading; say whether this was one."""
    if silent or state.sCount[start] - state.blkIndent > _MOST_INDENT:
        return False
    first = state.src[state.bMarks[start] + state.tShift[start]]
    if first == "#":
        return not _may_be_table(state, start, end) and heading(state, start, end, False)
    if not first.isalpha():
        return False
    stop = _stop(state, start)
    if not stop:
        return False
    state.line = stop
    state.push("inline" if state.level else "paragraph_open", "p", 0).map = [start, stop]
    return True


def _stop(state: StateBlock, start: int) -> int:
    """The line on which a paragraph ends, 0 if only other rules can tell."""
    source, begins, shifts, ends = state.src, state.bMarks, state.tShift, state.eMarks
    at = start + 1
    while at < state.lineMax:
        begin = begins[at] + shifts[at]
        if begin >= ends[at] or _ends_item(state, at, begin):
            break
        if not source[begin].isalpha():
            return 0
        at += 1
    return at


def _ends_item(state: StateBlock, at: int, begin: int) -> bool:
    """Say whether the line that begins there is the next item of the list that the paragraph stands in."""
    indent = state.sCount[at]
    if not 0 <= indent < state.blkIndent or (state.listIndent >= 0 and indent - state.listIndent > _MOST_INDENT):
        return False
    return state.src[begin] in _BULLETS and state.src[begin + 1 : begin + 2] in tuple(_BLANK)


def _may_be_table(state: StateBlock, start: int, end: int) -> bool:
    if start + 2 > end:
        return False
    begin = state.bMarks[start + 1] + state.tShift[start + 1]
    return begin < state.eMarks[start + 1] and state.src[begin] in _OF_TABLES
