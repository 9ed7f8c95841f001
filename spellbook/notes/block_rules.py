"""
Rules of markdown-it that bound the memory of a very long note: its end as text, and a table as one token.

The parser makes three tokens, of half a kilobyte each, of a table's cell. Here only the lines of a table matter. What
looks like a table and is none is left to the parser's own rules.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING

from markdown_it.rules_block import table

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock

_MOST_INDENT = 3
_MOST_CELLS = 50_000
"""A table of so few cells never ends because too many are missing."""

_MOST_MISSING = table.__globals__.get("MAX_AUTOCOMPLETED_CELLS", math.inf)
"""Missing cells after which the parser ends a table; early versions add any number."""


def rest(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Take all that is left as text if there are more tokens than `env["most"]`; `env["rest"]` is its first line."""
    if silent or len(state.tokens) < state.env.get("most", math.inf):
        return False
    state.env["rest"] = min(state.env["rest"], start)
    state.line = end
    return True


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
    """The line after a table whose rows all begin with a bar, None for anything else."""
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
    """The line after a table that may end where more cells are missing than the parser adds."""
    rows = (state.src[state.bMarks[at] + state.tShift[at] : state.eMarks[at]] for at in (start, *range(start + 2, end)))
    columns = _cells(next(rows))
    missing = accumulate(columns - _cells(row) for row in rows)
    return next((at for at, count in enumerate(missing, start + 2) if count > _MOST_MISSING), end)


def _cells(row: str) -> int:
    """How many cells a row has that begins with a bar."""
    bare = row.strip()
    return bare.count("|") - bare.count("\\|") - (bare.endswith("|") and not bare.endswith("\\|"))
