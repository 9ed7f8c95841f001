"""
What the words of a question ask of an index, as a tree: phrases, and what combines them.

Each engine renders the tree in its own query language. `str` gives FTS5's, which people also read. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    """What contains one of `parts` at least."""

    parts: tuple[Expression, ...]

    def __str__(self) -> str:
        return " OR ".join(map(_inner, self.parts))


@dataclass(frozen=True, slots=True)
class AllOf:
    """What contains all of `parts`."""

    parts: tuple[Expression, ...]

    def __str__(self) -> str:
        return " AND ".join(map(_inner, self.parts))


@dataclass(frozen=True, slots=True)
class Without:
    """The same as `part`, in all columns of the full-text index but `column`."""

    column: str
    part: Expression

    def __str__(self) -> str:
        return f"- {self.column} : ({self.part})"


Expression = Phrase | AnyOf | AllOf | Without


def phrases(tree: Expression, column: str = "") -> Iterator[tuple[Phrase, str]]:
    """Yield the phrases of a tree, each as often as it is in it, with the column that it does not count in, or ""."""
    if isinstance(tree, Phrase):
        yield tree, column
    elif isinstance(tree, Without):
        yield from phrases(tree.part, tree.column)
    else:
        for part in tree.parts:
            yield from phrases(part, column)


def alternatives(tree: Expression) -> tuple[Expression, ...]:
    """Return the parts of a tree that any of them fulfils; none of another tree."""
    if isinstance(tree, Without):
        return tuple(Without(tree.column, part) for part in alternatives(tree.part))
    return tree.parts if isinstance(tree, AnyOf) else ()


def _inner(part: Expression) -> str:
    is_one = isinstance(part, Phrase) or (isinstance(part, AnyOf | AllOf) and len(part.parts) == 1)
    return str(part) if is_one else f"({part})"
