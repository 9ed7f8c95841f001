"""
Tombstones: keyed hashes of the sentences that were erased, so that nobody writes them again unasked.

They are in one file of the data folder, with a random key that never leaves it: no text, no path and no vector. A file
that cannot be read is an error, never an empty one.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hmac
import os
import secrets
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from spellbook.notes.note import Note, parse
from spellbook.settings import paths
from spellbook.system import disk, platform
from spellbook.system.errors import InvalidInput, StorageError, UnreadableNote
from spellbook.text import sentences

MOST = 100_000
"""Sentences that are kept; the oldest are let go."""

_AT_ONCE = 500  # hashes in one statement
_PATIENCE = 30.0  # seconds
_TABLES = """
    CREATE TABLE secret (key BLOB NOT NULL);
    -- `by` is the name of the agent that erased it, "" for a person.
    CREATE TABLE stones (hash BLOB NOT NULL UNIQUE, day TEXT NOT NULL, note TEXT NOT NULL, by TEXT NOT NULL);
"""


class Stone(NamedTuple):
    """When (a day) and by whom (an agent's name, "" for a person) a text was erased, and its `hashes`."""

    day: str
    by: str
    hashes: frozenset[bytes]


class Tombstones:
    """The tombstones of the vault at the real path `root`. Methods raise StorageError."""

    def __init__(self, root: Path) -> None:
        self._root, self._file = root, Path(paths.tombstones(str(root)))

    def keep(self, erased: Iterable[tuple[str, str]], by: str) -> list[bytes]:
        """Keep the sentences of erased texts, each as its note's id and the text; return the hashes that are new."""
        with self._errors():
            if not self._file.exists():
                self._begin()
            with self._open() as (database, key):
                day, new = dt.datetime.now().date().isoformat(), list[bytes]()
                for note, text in erased:
                    hashes = _hashes(key, frozenset().union(*sentences.ways(text)))
                    known = {stone.hash: stone.by for stone in _rows(database, hashes)}
                    rows = [(each, day, note, by and known.get(each, by)) for each in hashes]
                    database.executemany("INSERT OR REPLACE INTO stones VALUES (?, ?, ?, ?)", rows)
                    new += hashes - known.keys()
                older = "SELECT rowid FROM stones ORDER BY rowid DESC LIMIT -1 OFFSET ?"
                database.execute(f"DELETE FROM stones WHERE rowid IN ({older})", (MOST,))
                return new

    def lift(self, hashes: Collection[bytes]) -> None:
        """Take tombstones away."""
        with self._errors(), self._open() as (database, _):
            database.executemany("DELETE FROM stones WHERE hash = ?", [(each,) for each in hashes])

    def over(self, path: str, new: bytes, old: Sequence[bytes], least: float) -> Stone | None:
        """
        Return the tombstone of the text that a note at `path` gets, with bytes `old` before; None for none.

        There is one if a share of at least `least` of its added sentences, or of those of a key, was erased.
        """
        with contextlib.suppress(UnreadableNote):
            known = frozenset(key for each in old for way in _ways(parse(path, each)) for key in way)
            return self._over([way - known for way in _ways(parse(path, new))], least)
        return None

    def over_text(self, text: str, least: float) -> Stone | None:
        """Return the tombstone of a text, None for none."""
        return self._over(sentences.ways(text), least)

    def among(self, texts: Iterable[tuple[str, str]], least: float) -> Iterator[str]:
        """Yield the names of those of the texts, each with its name, that mostly say what was erased."""
        with self._errors(), self._open() as (database, key):
            known = {row[0] for row in database.execute("SELECT hash FROM stones")}
            for name, text in texts:
                hashes = _hashes(key, sentences.ways(text)[0]) if known else ()
                if hashes and len(known.intersection(hashes)) >= least * len(hashes):
                    yield name

    def _over(self, ways: Sequence[frozenset[str]], least: float) -> Stone | None:
        with self._errors(), self._open() as (database, key):
            hashes = [_hashes(key, way) for way in ways]
            rows = {row.hash: row for row in _rows(database, frozenset().union(*hashes))}
        found = [rows.keys() & way for way in hashes if way and len(rows.keys() & way) >= max(1, least * len(way))]
        stones = [rows[each] for each in frozenset().union(*found)]
        if not stones:
            return None
        # A person's word stands above an agent's.
        first = min(stones, key=lambda stone: (bool(stone.by), stone.day))
        return Stone(first.day, first.by, frozenset(stone.hash for stone in stones))

    def _begin(self) -> None:
        """Make the file, whole or not at all, for this user alone."""
        disk.restrict(self._file.parent, self._root)
        new = disk.temporary_name(self._file.parent)
        try:
            os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            with contextlib.closing(sqlite3.connect(new)) as database:
                database.executescript(_TABLES)
                with database:
                    database.execute("INSERT INTO secret VALUES (?)", (secrets.token_bytes(32),))
            with contextlib.suppress(FileExistsError):  # another process was first
                disk.claim(new, self._file)
        finally:
            platform.discard(new)

    @contextlib.contextmanager
    def _open(self) -> Iterator[tuple[sqlite3.Connection, bytes]]:
        address = f"{self._file.absolute().as_uri()}?mode=rw"
        with contextlib.closing(sqlite3.connect(address, timeout=_PATIENCE, uri=True)) as database, database:
            yield database, database.execute("SELECT key FROM secret").fetchone()[0]

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, TypeError) as error:
            raise StorageError(
                f"{self._file}: what was erased before cannot be read ({error}).",
                "Mend the file, or delete it: then anything may be written again.",
            ) from error


def refusal(stone: Stone, *, is_agent: bool) -> InvalidInput:
    """Return the error for a text that was erased."""
    force = "Repeat with force=true if it is to be there again; nothing was written."
    if stone.by:
        return InvalidInput(f"{stone.by} erased this on {stone.day}.", force)
    if not is_agent:
        return InvalidInput(f"You erased this on {stone.day}.", force)
    ask = "Ask them; with their yes it is written by `spellbook add --force`. Nothing was written."
    return InvalidInput(f"The person erased this on {stone.day}.", ask)


class _Row(NamedTuple):
    hash: bytes
    day: str
    by: str


def _rows(database: sqlite3.Connection, hashes: Collection[bytes]) -> list[_Row]:
    found, left = list[_Row](), list(hashes)
    for start in range(0, len(left), _AT_ONCE):
        some = left[start : start + _AT_ONCE]
        marks = ", ".join("?" * len(some))
        found += map(_Row._make, database.execute(f"SELECT hash, day, by FROM stones WHERE hash IN ({marks})", some))
    return found


def _hashes(key: bytes, keys: Iterable[str]) -> frozenset[bytes]:
    return frozenset(hmac.digest(key, each.encode(), "sha256") for each in keys)


def _ways(note: Note) -> Iterator[frozenset[str]]:
    """Yield the sentences of a note's text, and of each key of its frontmatter that says something else."""
    yield from sentences.ways(note.body)
    body = sentences.squeezed(note.body)
    for value in note.meta.values():
        texts = (text for text in sentences.texts_of(value) if sentences.squeezed(text) not in body)
        yield from sentences.ways("\n\n".join(texts))
