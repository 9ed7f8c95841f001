"""
Rules of markdown-it: plain text, lists and code as one token each, which halves the time of a note; and formulas.

The parser asks a dozen rules about each paragraph and makes several tokens of an item; here only a block's lines
matter. Blocks with more than plain text are left to the parser's own rules.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock

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
    """Parse a formula from a line that begins with `$$` to one that ends so, else to the end, as Obsidian does."""
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
