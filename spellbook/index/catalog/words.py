"""
The full-text index, without a text of its own: the view `worded` makes its words from chunks and notes.

FTS5 needs the very words of a row to delete it, so a checksum of them is stored with each chunk. If the rules have
changed the words since, the whole index is built anew.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from spellbook.system.lazy import lazy

if TYPE_CHECKING:
    from spellbook.text import terms
else:  # It compiles many patterns, and a look at an unchanged vault needs none.
    (terms,) = lazy("spellbook.text", "terms")

Words = tuple[str, str, str, str, str, str]
"""The columns of the index: title, heading, keywords, questions (and properties), body, parts."""

_COLUMNS = "title, heading, keywords, questions, body, parts"


def shared_words(first: Sequence[str], later: Sequence[str]) -> str:
    """Return the words that a note's chunks share, as JSON: the first chunk's, and the others' if they differ."""
    return json.dumps([first] if first == later else [first, later], ensure_ascii=False)


def checksum(*words: str) -> int:
    """Return the checksum of a chunk's words."""
    return zlib.crc32("\0".join(words).encode("utf-8", "surrogatepass"))


def add(connection: sqlite3.Connection, rows: Iterable[tuple[int, Words]]) -> None:
    """Index the words of chunks, by their numbers."""
    connection.executemany(
        f"INSERT INTO words (rowid, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(chunk, *words) for chunk, words in rows],
    )


def drop(connection: sqlite3.Connection, notes: Sequence[int]) -> None:
    """Remove the words of these notes' chunks; call it while all their rows and chunks are as they were indexed."""
    for note in notes:  # a note may have 10 MB of words
        rows = connection.execute(
            """
            SELECT chunk, worded.title, worded.heading, keywords, questions, body, parts, checksum
            FROM chunks JOIN worded USING (chunk) WHERE note = ?
            """,
            (note,),
        ).fetchall()
        if any(checksum(*words) != known for _, *words, known in rows):
            rebuild(connection)
            return drop(connection, notes)  # now all fit, and the words that were removed are back
        connection.executemany(
            f"INSERT INTO words (words, rowid, {_COLUMNS}) VALUES ('delete', ?, ?, ?, ?, ?, ?, ?)",
            [row[:-1] for row in rows],
        )


def rebuild(connection: sqlite3.Connection) -> None:
    """Build the whole index anew from the chunks, by today's rules."""
    connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
    connection.execute(
        f"UPDATE chunks SET checksum = (SELECT words_checksum({_COLUMNS}) FROM worded WHERE chunk = chunks.chunk)"
    )


def check(connection: sqlite3.Connection) -> None:
    """Raise sqlite3.DatabaseError if the index is damaged, or has other words than the chunks."""
    # SQLite from 3.44 on compares with the chunks only if `rank` says so.
    connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")


def _label_words(labels: str, ordinal: int, column: int) -> str:
    parsed = _labels(labels)
    return parsed[-1 if ordinal else 0][column]


@lru_cache(maxsize=64)
def _labels(labels: str) -> Sequence[Sequence[str]]:
    parsed: Sequence[Sequence[str]] = json.loads(labels)
    return parsed


FUNCTIONS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "label_words": (3, _label_words),
    "heading_words": (1, lambda text: terms.findable(text)),
    "body_words": (1, lambda text: terms.index_form(text)),
    "part_words": (1, lambda text: terms.parts(text)),
    "words_checksum": (6, checksum),
}
"""The functions of SQL by which the view makes words: the number of arguments, and the function."""
