"""
Lists in SQL: in batches, since SQLite bounds what one statement may hold, and as literals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")
_BATCH = 500
"""Values in one statement: SQLite before 3.32 takes 999."""


def batches(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yield `items` in batches that fit into one statement."""
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]


def quoted(texts: Sequence[str]) -> str:
    """Return texts as a list of SQL strings."""
    return ", ".join("'" + text.replace("'", "''") + "'" for text in texts)
