"""
Rules of markdown-it that bound the time and memory of a note: plain text, lists, code and tables as one token each, and
the end of a very long note as text.

The parser asks a dozen rules about each paragraph and item, and makes several tokens, of half a kilobyte each, of an
item or a table's cell. Here only the lines of a block matter. A block that may hold more than plain text is left to
the parser's own rules.
"""

from __future__ import annotations

import re
from itertools import accumulate, pairwise
from math import inf
from typing import TYPE_CHECKING

from markdown_it.rules_block import table

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock

_MOST_INDENT = 3
"""The most blanks before a block; more make it code."""

_MOST_DEPTH = 8
"""Lists in lists that are taken at once; the parser goes no deeper than twenty levels, two for each list."""

# The beginning of a line that can only be running text, whatever the next line is, if that begins so too.
_TEXT = r"(?:[^\W\d_]|\*\*?(?=\w)|`[^`\n]|#(?=[^\W\d_])|\d++(?![.)])|\[(?:\[|[^\[\]\\\n]++\](?!:)))"
_PLAIN = re.compile(
    rf"(?:(?P<paragraph>(?:{_TEXT}.*\n)++)|(?P<blockquote>(?:> {_TEXT}.*\n)++)|(?P<heading>#{{1,6}} [^\s#][^#\n]*+\n))"
    r"(?=[ \t]*$)"
    rf"|(?P<bullet_list>([-*+]) {_TEXT}.*\n(?:\n* *\5 {_TEXT}.*\n)*+(?:\n++(?=[\w#|>`])|\n*+\Z))"
    r"|(?P<fence>(`{3,}+)[^`\n]*+\n(?:(?! {0,3}\7`*+[ \t]*$).*\n)*+ {0,3}\7`*+[ \t]*\n)",
    re.M,
).match

_CLOSES = re.compile(r"[^$]*+\$\$+\s*$").match
_MOST_OPEN = 50
"""Lines of a paragraph before a formula that are searched for another. By hand."""

_MOST_CELLS = 50_000
"""A table with at most this many cells never ends early because cells are missing."""

_MOST_MISSING = table.__globals__.get("MAX_AUTOCOMPLETED_CELLS", inf)
"""Missing cells after which the parser ends a table; early versions add any number."""


def rest(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Take the remaining lines as one text after `env["most"]` tokens; `env["rest"]` is its first line."""
    if silent or len(state.tokens) < state.env.get("most", inf):
        return False
    state.env["rest"] = min(state.env["rest"], start)
    state.line = end
    return True


def plain(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a block as one token if it stands in no other and each of its lines is plain."""
    match = None if silent or state.level else _PLAIN(state.src, state.bMarks[start])
    if match is None:
        return False
    kind, text = match.lastgroup or "", match[0]
    stop = start + text.count("\n")
    items: tuple[int, ...] = ()
    prose: tuple[tuple[int, int], ...] = ((start, stop),) if kind != "fence" else ()
    if kind == "bullet_list":
        depths = {at: len(line) - len(line.lstrip(" ")) for at, line in enumerate(text.split("\n"), start) if line}
        # Two more letters of indentation are a nested item; other depths are left to the parser's own rules.
        if max(depths.values()) > 2 * _MOST_DEPTH or any(
            depth % 2 or depth > before + 2 for before, depth in pairwise(depths.values())
        ):
            return False
        items = tuple(at for at, depth in depths.items() if not depth)
        prose = tuple((at, at + 1) for at in depths)
    state.line = stop
    token = state.push(kind, "", 0)
    token.map, token.meta = [start, stop], {"items": items, "prose": prose}
    if kind == "heading":
        marks, _, token.content = text.strip().partition(" ")
        token.tag = f"h{len(marks)}"
    return True


def math(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """
    Parse a formula that begins a line with `$$`, up to a line that ends so, else up to the end, as Obsidian does.

    One that closes on its own line, or begins within a paragraph's formula, is text with a formula.
    """
    if not state.src.startswith("$$", state.bMarks[start] + state.tShift[start]) or state.is_code_block(start):
        return False
    if "$" in _line(state, start).lstrip("$") or (silent and _is_open(state, start)):
        return False
    if silent:
        return True
    stop, line = start + 1, ""
    while stop < end and not _CLOSES(line) and (state.isEmpty(stop) or state.sCount[stop] >= state.blkIndent):
        line = _line(state, stop)
        stop += 1
    state.line = stop
    state.push("math", "", 0).map = [start, stop]
    return True


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _is_open(state: StateBlock, line: int) -> bool:
    """Say whether a formula is open at the end of the paragraph before a line."""
    first = line
    while first > max(0, line - _MOST_OPEN) and not state.isEmpty(first - 1):
        first -= 1
    return state.src.count("$$", state.bMarks[first], state.bMarks[line]) % 2 == 1


def whole_table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Parse a table that stands in no other block as one token."""
    begin = state.bMarks[start] + state.tShift[start]
    if silent or state.level or state.sCount[start] > _MOST_INDENT or state.src[begin] != "|":
        return False
    stop = _table_end(state, start, end)
    if stop is None:
        return False
    state.line = stop
    state.push("table", "", 0).map = [start, stop]
    return True


def _table_end(state: StateBlock, start: int, end: int) -> int | None:
    """Return the line after a table whose rows all begin with a bar; None for anything else."""
    if not table(state, start, end, True):
        return None
    at = start + 2
    while at < end and not state.isEmpty(at):
        if state.sCount[at] > _MOST_INDENT or state.src[state.bMarks[at] + state.tShift[at]] != "|":
            return None
        at += 1
    cells = state.src.count("|", state.bMarks[start], state.eMarks[start]) * (at - start)
    return at if cells < _MOST_CELLS else _last_row(state, start, at)


def _last_row(state: StateBlock, start: int, end: int) -> int:
    """Return the line after a table, which may end early because more cells are missing than the parser adds."""
    rows = (state.src[state.bMarks[at] + state.tShift[at] : state.eMarks[at]] for at in (start, *range(start + 2, end)))
    columns = _cells(next(rows))
    missing = accumulate(columns - _cells(row) for row in rows)
    return next((at for at, count in enumerate(missing, start + 2) if count > _MOST_MISSING), end)


def _cells(row: str) -> int:
    """Return the number of cells of a row that begins with a bar."""
    bare = row.strip()
    return bare.count("|") - bare.count("\\|") - (bare.endswith("|") and not bare.endswith("\\|"))
