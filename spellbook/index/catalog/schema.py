"""The rows of the catalog's tables as plain values, and its texts, deflated; `tables` has the tables."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from spellbook.index.catalog.words import Words
from spellbook.index.filters import day_of, moment
from spellbook.notes.note import Fault, Stamp
from spellbook.system.lazy import lazy
from spellbook.system.sqlite import Database
from spellbook.text.unicode import digest_of

if TYPE_CHECKING:
    from spellbook.notes import chunks
else:  # It compiles many patterns, and a search by words needs none.
    (chunks,) = lazy("spellbook.notes", "chunks")

_BLANK_LINES = "\r\n"

_READ = 2_000
"""Size of the cache of parsed lists and mappings: the chunks of a note share theirs, and notes are read again."""

_SHOWN = 64
"""Texts of chunks that are kept after reading: an answer shows few, and reads each several times."""

TITLE = "title"
QUESTION = "question"
"""Kinds of labels."""

NO_TEXT = ""
"""The key of a chunk that is empty, or a title alone. It has no vector; only properties of its note find it."""

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
    """A link to be stored: its target, the `links.key` that finds its file, and its relation, if any."""

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
        return whole(self.text, self.lead, self.tail)

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


def whole(text: str, lead: str, tail: str) -> str:
    """Return a chunk's whole text as an answer shows it."""
    return framed(text.strip(_BLANK_LINES), lead, tail) if lead or tail else text.strip()


def framed(text: str, lead: str, tail: str) -> str:
    """Return `text` with the table header or the fence that it was cut from."""
    return f"{lead}{text}" + (f"\n{tail.strip(_BLANK_LINES)}" if tail else "")


def hash_of(text: str) -> str:
    """Return the hash of a section's text, without blank lines around it, to detect changes: 16 hex digits."""
    return digest_of(text.strip(), 16)


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic in one category, with counts; `updated` is ISO 8601, of the frontmatter or the file."""

    category: str
    topic: str
    notes: int
    chunks: int
    updated: str
    titles: tuple[str, ...]
    keywords: tuple[str, ...]
    is_outside: bool = False  # all of its notes say that they are untrusted


def topic_of(row: Sequence[Any]) -> Topic:
    """Return a topic from a row: its columns, with the file's time after `updated`, and JSON lists as keywords."""
    category, topic, notes, chunks, updated, mtime_ns, titles, keywords, is_outside = row
    words = dict.fromkeys(word for listed in keywords for word in json.loads(listed))
    day = updated or day_of(mtime_ns)
    return Topic(category, topic, notes, chunks, day, tuple(titles), tuple(words), bool(is_outside))


@dataclass(frozen=True, slots=True)
class Counts:
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


def packed(text: str) -> bytes:
    """Return `text` deflated."""
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY)
    return deflate.compress(text.encode("utf-8", "surrogatepass")) + deflate.flush()


def unpacked(data: bytes) -> str:
    """Return the text that `packed` was given."""
    return zlib.decompress(data, _WINDOW).decode("utf-8", "surrogatepass")


def _embedded_text(above: str, lead: str, text: bytes, tail: str) -> str:
    return chunks.embedded(above, lead, unpacked(text), tail)


FUNCTIONS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "unpacked": (1, unpacked),
    "embedded_text": (4, _embedded_text),
}
"""The same for SQL; `embedded_text(above, lead, text, tail)` is the embedded text of a chunk, from its columns."""
