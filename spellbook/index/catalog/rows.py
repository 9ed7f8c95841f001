"""
The rows of the catalog's tables as plain values, its texts, deflated, and its words; `tables` has the tables.

The full-text index has no text of its own: the view `worded` makes its words from chunks and notes. FTS5 needs the very
words of a row to delete it, so a checksum of them is stored with each chunk. If the rules have changed the words since,
the whole index is built anew.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from spellbook.index.filters import day_of, moment
from spellbook.notes import chunks
from spellbook.notes.files import Fault, Stamp
from spellbook.system.sqlite import Database
from spellbook.text import terms
from spellbook.text.unicode import digest_of

Words = tuple[str, str, str, str, str, str]
"""The columns of the full-text index: title, heading, keywords, questions (and properties), body, parts."""

_COLUMNS = "title, heading, keywords, questions, body, parts"

_BLANK_LINES = "\r\n"

_READ = 2_000
"""Size of the cache of parsed lists and mappings: the chunks of a note share theirs, and notes are read again."""

_SHOWN = 64
"""Texts of chunks that are kept after reading: an answer shows few, and reads each several times."""

TITLE = "title"
QUESTION = "question"
"""Kinds of labels."""

NO_TEXT = ""
"""
The key of a chunk that is empty, or a title alone. It has no vector: its properties find it, and, if it is a whole
note, its names, labels, and the meaning of its title.
"""

_LEVEL = 6
_MEMORY = 5
"""zlib's level of compression and of memory."""

_WINDOW = -13
"""Deflate without a header, within 8 kB: few chunks are longer, and a larger window takes three times as long."""


class ChunkRow(NamedTuple):
    """
    A chunk to be stored: its columns in the catalog, and last its columns in the full-text index.

    `text` is packed, see `packed`; `above` are the lines above it where it is embedded, see `chunks.Chunk`; `same`
    is the hash of its folded text.
    """

    suffix: str
    ordinal: int
    heading: str
    line: int
    end_line: int
    text: bytes
    above: str
    lead: str
    tail: str
    same: str
    key: str
    checksum: int
    words: Words


class LabelRow(NamedTuple):
    """A name for a whole note: its title, or a question that it answers, as `kind` says; it has a vector of its own."""

    kind: str
    text: str
    key: str


class LinkRow(NamedTuple):
    """A link to be stored: its target, the `files.key` that finds its file, and its relation, if any."""

    name: str
    target: str
    fragment: str
    is_markdown: bool
    line: int
    relation: str = ""


class FileEntry(NamedTuple):
    """A file as it was read at `read_ns`: its stamp, hash and faults, and its note if it has one; see `extract`."""

    path: str
    stamp: Stamp
    read_ns: int
    sha256: str
    faults: tuple[Fault, ...] = ()
    note: Mapping[str, Any] | None = None
    fields: frozenset[tuple[str, str, int]] = frozenset()
    chunks: tuple[ChunkRow, ...] = ()
    links: tuple[LinkRow, ...] = ()
    labels: tuple[LabelRow, ...] = ()


class KnownFile(NamedTuple):
    """A file as the catalog knows it."""

    stamp: Stamp
    read_ns: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a chunk stands: its id, its note's path and title, its first line (from 1), and its heading path."""

    id: str
    path: str
    line: int
    title: str
    heading: str


class StoredChunk(NamedTuple):
    """
    A chunk as the catalog has it, with its note's labels; `number` is its row.

    `line` and `end_line` count from 1. `lead` and `tail` are the table header or code fence that the text was cut from.
    `importance` is 0..1; `created` and `updated` are ISO 8601. `packed` is the deflated text: most chunks that a search
    reads never need it.
    """

    number: int
    id: str
    path: str
    line: int
    end_line: int
    title: str
    heading: str
    packed: str | bytes
    key: str
    topic: str
    category: str
    importance: float
    created: str | None
    updated: str | None
    mtime_ns: int
    ordinal: int
    keywords: tuple[str, ...]
    tags: tuple[str, ...]
    meta: Mapping[str, Any]
    lead: str = ""
    tail: str = ""

    @property
    def text(self) -> str:
        """Its text."""
        return self.packed if isinstance(self.packed, str) else inflated(self.packed)

    @property
    def note(self) -> str:
        """The id of its note."""
        return self.id.rpartition("#")[0]

    @property
    def suffix(self) -> str:
        """The end of the chunk's id, behind the note's id; see `chunks.Chunk`."""
        return self.id[len(self.note) :]

    @property
    def hash(self) -> str:
        """The hash of its text, which proves the version that a caller has read."""
        return hash_of(self.text)

    @property
    def whole(self) -> str:
        """Its whole text as an answer shows it."""
        is_cut = self.lead or self.tail
        return framed(self.text.strip(_BLANK_LINES), self.lead, self.tail) if is_cut else self.text.strip()

    @property
    def source(self) -> str:
        """The source that its note names, "" for none."""
        source = self.meta.get("source")
        return ", ".join(map(str, source)) if isinstance(source, list) else str(source or "")

    @property
    def when(self) -> float:
        """The time of its note, in seconds since 1970; see `filters.moment`."""
        return moment(self.created, self.updated, self.mtime_ns)

    @property
    def day(self) -> str:
        """The day of `when`, in local time and as ISO 8601."""
        return day_of(int(self.when * 1e9))

    @property
    def place(self) -> Place:
        """Where it stands."""
        return Place(self.id, self.path, self.line, self.title, self.heading)


class ListedNote(NamedTuple):
    """A note in a list of many; `untrusted` says that it, and so its title, comes from outside."""

    path: str
    id: str
    title: str
    category: str
    topic: str
    untrusted: bool = False


class CountedNote(NamedTuple):
    """A note in statistics: its category, `when` in seconds since 1970, its chunks, and those that lack no vector."""

    category: str
    when: float
    chunks: int
    vectors: int


def framed(text: str, lead: str, tail: str) -> str:
    """Return `text` with the table header or the fence that it was cut from."""
    return f"{lead}{text}" + (f"\n{tail.strip(_BLANK_LINES)}" if tail else "")


def hash_of(text: str) -> str:
    """Return the hash of a section's text, without blank lines around it, to detect changes: 16 hex digits."""
    return digest_of(text.strip(), 16)


class Topic(NamedTuple):
    """One topic in one category, with counts; `updated` is ISO 8601, of the frontmatter or the file."""

    category: str
    topic: str
    notes: int
    chunks: int
    updated: str
    titles: tuple[str, ...]
    keywords: tuple[str, ...]
    is_outside: bool = False  # all of its notes say that they are untrusted


class Counts(NamedTuple):
    """The state of the index; `pending` and `second_pending` count texts of chunks without a vector."""

    generation: int
    notes: int
    chunks: int
    pending: int
    second_pending: int


@lru_cache(maxsize=_SHOWN)
def inflated(packed: bytes) -> str:
    """Return the text of a chunk; those shown lately are kept."""
    return unpacked(packed)


@lru_cache(maxsize=_READ)
def list_of(text: str) -> tuple[str, ...]:
    """Return a column that holds a list in JSON."""
    return tuple(json.loads(text))


@lru_cache(maxsize=_READ)
def mapping_of(text: str) -> Mapping[str, Any]:
    """Return a column that holds an object in JSON."""
    return MappingProxyType(json.loads(text))


class Meta:
    """The table `meta` in a catalog's database."""

    def __init__(self, database: Database) -> None:
        self._rows = database.rows

    def get(self, key: str) -> Any:
        """Return a value, None if there is none."""
        rows = self._rows("SELECT value FROM meta WHERE key = ?", (key,))
        return rows[0][0] if rows else None

    @staticmethod
    def put(connection: sqlite3.Connection, key: str, value: object) -> None:
        """Set a value."""
        connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    @staticmethod
    def bump(connection: sqlite3.Connection, key: str, by: int = 1) -> int:
        """Increase a number, by one by default, and return it."""
        connection.execute("UPDATE meta SET value = value + ? WHERE key = ?", (by, key))
        return int(connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()[0])

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the embedder that the chunks' vector keys are of, "" before the first."""
        return str(self.get("fingerprint") or "")

    def counts(self) -> Counts:
        """Return the state of the index."""
        names = ("generation", "notes", "chunks", "pending", "second_pending")
        return Counts(**dict(self._rows(f"SELECT key, value FROM meta WHERE key IN {names}")))


class Tables:
    """Some tables of a catalog's database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rows = database.rows
        self._meta = Meta(database)


def packed(text: str) -> bytes:
    """Return `text` deflated."""
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY)
    return deflate.compress(text.encode("utf-8", "surrogatepass")) + deflate.flush()


def unpacked(data: bytes) -> str:
    """Return the text that `packed` was given."""
    return zlib.decompress(data, _WINDOW).decode("utf-8", "surrogatepass")


def checksum(*words: str) -> int:
    """Return the checksum of a chunk's words."""
    return zlib.crc32("\0".join(words).encode("utf-8", "surrogatepass"))


def add_words(connection: sqlite3.Connection, rows: Iterable[tuple[int, Words]]) -> None:
    """Index the words of chunks, by their numbers."""
    sql = f"INSERT INTO words (rowid, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
    connection.executemany(sql, [(chunk, *words) for chunk, words in rows])


def drop_words(connection: sqlite3.Connection, notes: Sequence[int]) -> None:
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
            sums = f"SELECT words_checksum({_COLUMNS}) FROM worded WHERE chunk = chunks.chunk"
            connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
            connection.execute(f"UPDATE chunks SET checksum = ({sums})")
            return drop_words(connection, notes)  # now all fit, and the words that were removed are back
        connection.executemany(
            f"INSERT INTO words (words, rowid, {_COLUMNS}) VALUES ('delete', ?, ?, ?, ?, ?, ?, ?)",
            [row[:-1] for row in rows],
        )


@lru_cache(maxsize=64)
def _labels(labels: str) -> Sequence[Sequence[str]]:
    parsed: Sequence[Sequence[str]] = json.loads(labels)
    return parsed


FUNCTIONS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "unpacked": (1, unpacked),
    "embedded_text": (4, lambda above, lead, text, tail: chunks.embedded(above, lead, unpacked(text), tail)),
    "label_words": (3, lambda labels, ordinal, column: _labels(labels)[-1 if ordinal else 0][column]),
    "heading_words": (1, lambda text: terms.findable(text)),
    "body_words": (1, lambda text: terms.index_form(text)),
    "part_words": (1, lambda text: terms.parts(text)),
    "words_checksum": (6, checksum),
}
"""
The functions of SQL by which the view makes words, and texts are read, with the number of arguments of each;
`embedded_text(above, lead, text, tail)` is the embedded text of a chunk, from its columns.
"""
