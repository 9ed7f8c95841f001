"""
A rule of markdown-it for the most frequent blocks of a note.

It takes plain paragraphs, headings, lists, tables, code and quotes.

The parser asks ten rules about each block, and seven about each further line
of a paragraph. Most lines begin with something that is for none of them, so
where lines do that there is nothing to ask. What is parsed here is one token
that says where it stands (`meta` has a list's items and the lines of text in
it), instead of several for each item and cell with their text, which nobody
asks for either; anything else is left to the parser's own rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from markdown_it.rules_block import table

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock

_MOST_INDENT = 3
_MOST_DEPTH = 8
"""Lists in lists that are taken at once; the parser itself goes no deeper than twenty levels, two for each list."""

_MOST_CELLS = 50_000
"""A table of so few cells never ends because too many are missing."""

_MOST_MISSING = table.__globals__.get("MAX_AUTOCOMPLETED_CELLS", math.inf)
"""Missing cells after which the parser ends a table; early versions add any number."""

_BULLETS = "-*+"
_BLANK = " \t"
_OF_TABLES = "|-:"
# The beginning of a line that can only be running text. Only the rules of tables and underlines can take such a line,
# because they look at the next line.
_TEXT = (
    r"(?:[^\s`~>*\-_+<#=|:\[\d]|\*\*?[^\s*]|__?[^\s_]|``?[^\s`]|\d+(?![\d.)])"
    r"|\[(?:\[|[^\[\]\\\n]*(?:\[|\](?!:))))"
)
_IS_TEXT = re.compile(_TEXT).match
_ITEM = re.compile(rf"( *)([-*+]|[0-9]{{1,9}}[.)])( {{1,4}})(?={_TEXT})").match
_QUOTED = re.compile(rf" {{0,3}}>(?: ?(?={_TEXT})|(?P<blank>[ \t]*$))", re.M).match
_HEADING = re.compile(r"#{1,6}[ \t]").match
# What ends a paragraph wherever it stands.
_ENDS = re.compile(r"#{1,6}[ \t]|[-*+][ \t]+\S|`{3,}[^`\n]*$|~~~", re.M).match
_FENCE = re.compile(r"(`{3,})[^`\n]*$|(~{3,})", re.M).match

_CLOSING = re.compile(r"\n {0,3}(`{3,}|~{3,})[ \t]*$", re.M)

_Found = tuple[str, int, dict[str, Any]]
"""The kind of a block, the line after it, and what there is to say of it."""


def prose(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a block if it is one of the plain ones; say whether it was."""
    if not silent and len(state.tokens) >= state.env.get("most", math.inf):
        return _rest(state, start, end)
    if silent or state.sCount[start] - state.blkIndent > _MOST_INDENT:
        return False
    begin = state.bMarks[start] + state.tShift[start]
    first = state.src[begin]
    if first == "#":
        return _heading(state, start, end, begin)
    rule = None if state.level else _RULES.get(first)
    found = (rule(state, start, end) if rule else None) or _paragraph(state, start, begin)
    if found is None:
        return False
    kind, stop, meta = found
    state.line = stop
    token = state.push("inline" if state.level else kind, "", 0)
    token.map, token.meta = [start, stop], meta
    return True


def _rest(state: StateBlock, start: int, end: int) -> bool:
    """Take all that is left as text: there are more blocks than are looked for."""
    state.env["rest"] = min(state.env["rest"], start)
    state.line = end
    return True


def _paragraph(state: StateBlock, start: int, begin: int) -> _Found | None:
    stop = _stop(state, start) if _IS_TEXT(state.src, begin) else 0
    return ("paragraph", stop, {}) if stop else None


def _stop(state: StateBlock, start: int) -> int:
    """The line on which a paragraph ends, 0 if only other rules can tell."""
    source, begins, shifts, ends = state.src, state.bMarks, state.tShift, state.eMarks
    at = start + 1
    while at < state.lineMax:
        begin = begins[at] + shifts[at]
        if begin >= ends[at]:
            break
        if not _IS_TEXT(source, begin):
            return at if _ends_paragraph(state, at, begin) else 0
        at += 1
    return at


def _ends_paragraph(state: StateBlock, at: int, begin: int) -> bool:
    """
    Say whether the line that begins there certainly ends the paragraph.

    It does if it is a block of its own, or the next item of the list that the paragraph is in.
    """
    indent = state.sCount[at]
    if indent >= state.blkIndent:
        return indent - state.blkIndent <= _MOST_INDENT and bool(_ENDS(state.src, begin))
    if indent < 0 or (state.listIndent >= 0 and indent - state.listIndent > _MOST_INDENT):
        return False
    return state.src[begin] in _BULLETS and state.src[begin + 1 : begin + 2] in tuple(_BLANK)


def _heading(state: StateBlock, start: int, end: int, begin: int) -> bool:
    marked = state.src[begin : state.eMarks[start]].rstrip(_BLANK)
    text = marked.lstrip("#")
    level = len(marked) - len(text)
    if level > 6 or text[:1] not in ("", *_BLANK) or _may_be_table(state, start, end):
        return False
    bare = text.rstrip("#")
    state.line = start + 1
    token = state.push("inline" if state.level else "heading", f"h{level}", 0)
    token.map, token.content = [start, start + 1], (bare if bare[-1:] in tuple(_BLANK) else text).strip()
    return True


def _may_be_table(state: StateBlock, start: int, end: int) -> bool:
    if start + 2 > end:
        return False
    begin = state.bMarks[start + 1] + state.tShift[start + 1]
    return begin < state.eMarks[start + 1] and state.src[begin] in _OF_TABLES


# -- blocks that stand in no other


def _list(state: StateBlock, start: int, end: int) -> _Found | None:
    """A list, and lists in it, whose items are running text; between items may be blank lines."""
    source, begins, shifts, ends = state.src, state.bMarks, state.tShift, state.eMarks
    first = ""  # the mark of the items
    depths: list[
        tuple[int, int, str]
    ] = []  # of each list that is open: where its marker stands, where its text does, and its mark
    items: list[int] = []
    prose: list[tuple[int, int]] = []
    after_blank = False
    for at in range(start, end):
        begin = begins[at] + shifts[at]
        if begin >= ends[at]:
            after_blank = True
            continue
        if item := _ITEM(source, begins[at]):
            indent, mark = len(item[1]), item[2][-1]
            while depths and indent < depths[-1][0]:
                depths.pop()
            if depths and indent == depths[-1][0]:
                if depths.pop()[2] != mark:
                    return None
            elif depths and not (0 <= indent - depths[-1][1] <= _MOST_INDENT and item[2] in (*_BULLETS, "1.", "1)")):
                return None
            depths.append((indent, item.end() - begins[at], mark))
            first = first or mark
            if len(depths) > _MOST_DEPTH or (len(depths) == 1 and mark != first):
                return None
            items += [at] * (len(depths) == 1)
            prose.append((at, at + 1))
        elif not depths:
            return None
        elif not after_blank and _IS_TEXT(source, begin):
            prose[-1] = (prose[-1][0], at + 1)
        elif state.sCount[at] < depths[0][1] and (
            _ends_list(source, begin) if after_blank else _HEADING(source, begin)
        ):
            break
        else:
            return None
        after_blank = False
    else:
        at = end
    kind = "bullet_list" if first in _BULLETS else "ordered_list"
    return kind, at, {"items": tuple(items), "prose": tuple(prose)}


def _ends_list(source: str, begin: int) -> bool:
    """Say whether the line that begins there, after a blank one and left of a list's text, is none of its items."""
    return bool(_IS_TEXT(source, begin)) or not (source[begin] in _BULLETS or source[begin].isdigit())


def _table(state: StateBlock, start: int, end: int) -> _Found | None:
    """A table whose rows all begin with a bar."""
    if not table(state, start, end, True):
        return None
    at = start + 2
    while at < end and not state.isEmpty(at):
        if state.sCount[at] > _MOST_INDENT or state.src[state.bMarks[at] + state.tShift[at]] != "|":
            return None
        at += 1
    cells = state.src.count("|", state.bMarks[start], state.eMarks[start]) * (at - start)
    return ("table", at if cells < _MOST_CELLS else _last_row(state, start, at), {})


def _last_row(state: StateBlock, start: int, end: int) -> int:
    """The line after a table that may end where more cells are missing than the parser adds."""
    rows = (state.src[state.bMarks[at] + state.tShift[at] : state.eMarks[at]] for at in (start, *range(start + 2, end)))
    columns = _cells(next(rows))
    missing = accumulate(columns - _cells(row) for row in rows)
    return next((at for at, count in enumerate(missing, start + 2) if count > _MOST_MISSING), end)


def _cells(row: str) -> int:
    """How many cells a row has that begins with a bar."""
    bare = row.strip()
    return bare.count("|") - bare.count("\\|") - (bare.endswith("|") and not bare.endswith("\\|"))


def _fence(state: StateBlock, start: int, end: int) -> _Found | None:
    """Code between fences."""
    opening = _FENCE(state.src, state.bMarks[start] + state.tShift[start])
    if opening is None:
        return None
    marks = opening[1] or opening[2]
    for closing in _CLOSING.finditer(state.src, state.eMarks[start]):
        if closing[1].startswith(marks):
            return "fence", start + 2 + state.src.count("\n", state.eMarks[start], closing.start()), {}
    return "fence", end, {}


def _quote(state: StateBlock, start: int, end: int) -> _Found | None:
    """A quote of running text."""
    prose: list[tuple[int, int]] = []
    at, after_blank = start, True
    while at < end and not state.isEmpty(at):
        line = _QUOTED(state.src, state.bMarks[at])
        if line is None:
            return None
        at += 1
        if line["blank"] is None and not after_blank:
            prose[-1] = (prose[-1][0], at)
        elif line["blank"] is None:
            prose.append((at - 1, at))
        after_blank = line["blank"] is not None
    return None if after_blank else ("blockquote", at, {"prose": tuple(prose)})


_RULES: dict[str, Callable[[StateBlock, int, int], _Found | None]] = {
    **dict.fromkeys((*_BULLETS, *"0123456789"), _list),
    **dict.fromkeys("`~", _fence),
    "|": _table,
    ">": _quote,
}
"""What takes a block, by the letter that it begins with."""
