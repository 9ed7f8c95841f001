"""
Words of a question as a tree for an index: phrases, and what combines them. `str` gives it in FTS5's query language.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Phrase:
    """One word, or several in a row; with `is_prefix` the last one may be the beginning of a word. False if empty."""

    words: tuple[str, ...] = ()
    is_prefix: bool = False

    def __bool__(self) -> bool:
        return bool(self.words)

    def __str__(self) -> str:
        return f'"{self.text}"' + "*" * self.is_prefix if self.words else ""

    @property
    def text(self) -> str:
        """Its words, with blanks between."""
        return " ".join(self.words)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Any of `parts`, or `all` of them."""

    parts: tuple[Expression, ...]
    all: bool = False

    def __str__(self) -> str:
        is_one = [isinstance(part, Phrase) or len(part.parts) == 1 for part in self.parts]
        inner = (str(part) if one else f"({part})" for part, one in zip(self.parts, is_one, strict=True))
        return (" AND " if self.all else " OR ").join(inner)


Expression = Phrase | AnyOf
