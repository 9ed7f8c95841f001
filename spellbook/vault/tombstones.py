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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from spellbook.notes.note import parse
from spellbook.system import disk, platform, sqlite
from spellbook.system.errors import InvalidInput, StorageError, UnreadableNote
from spellbook.system.lock import tell
from spellbook.text import sentences
from spellbook.text.unicode import is_markdown
from spellbook.vault.entries import Change, EntryDraft
from spellbook.vault.journal import BY_ITSELF, CALLER
from spellbook.vault.names import TRASH

MOST = 100_000
"""Sentences that are kept; the oldest are let go."""

_OWN_CHECK = {"merge", BY_ITSELF}
"""Verbs of changes that write what other notes of the vault say, or that look for tombstones themselves."""

_AT_ONCE = 500  # hashes in one statement
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
    """The tombstones of the vault at the real path `root`, in `file`. Methods raise StorageError."""

    def __init__(self, root: Path, file: str) -> None:
        self._root, self._file = root, Path(file)

    def keep(self, erased: Iterable[tuple[str, str]], by: str) -> list[bytes]:
        """Keep the sentences of erased texts, each as its note's id and the text; return the hashes that are new."""
        with self._open("IMMEDIATE") as (database, key):
            day, new = dt.datetime.now().date().isoformat(), list[bytes]()
            for note, text in erased:
                hashes = _hashes(key, frozenset().union(*sentences.ways(text)))
                known = _known(database, hashes)
                rows = [(each, day, note, by and known.get(each, ("", by))[1]) for each in hashes]
                database.executemany("INSERT OR REPLACE INTO stones VALUES (?, ?, ?, ?)", rows)
                new += hashes - known.keys()
            older = "SELECT rowid FROM stones ORDER BY rowid DESC LIMIT -1 OFFSET ?"
            database.execute(f"DELETE FROM stones WHERE rowid IN ({older})", (MOST,))
            return new

    def lift(self, hashes: Collection[bytes]) -> None:
        """Take tombstones away."""
        with self._open("IMMEDIATE") as (database, _):
            database.executemany("DELETE FROM stones WHERE hash = ?", [(each,) for each in hashes])

    def check(self, changes: Sequence[Change], draft: EntryDraft) -> None:
        """
        Raise InvalidInput if changes of an entry write what was erased, unless it comes from another note of the vault.

        If the entry may write it `again` a person may, and an agent what agents erased: `lifted` gets its hashes.
        Raises StorageError for an agent if the tombstones cannot be read.
        """
        is_agent = CALLER.get() is not None
        least = 0.0 if draft.again and not is_agent else sentences.MOSTLY
        is_text = [each for each in changes if is_markdown(each.path) and not each.path.startswith(f"{TRASH}/")]
        old = [each.before for each in is_text if isinstance(each.before, bytes)]
        for change in is_text if draft.verb not in _OWN_CHECK else ():
            stone = self.found(change.path, change.after, old, least) if isinstance(change.after, bytes) else None
            if stone and not (draft.again and (stone.by or not is_agent)):
                raise _refusal(stone, is_agent=is_agent)
            draft.lifted.update(stone.hashes if stone else ())

    def found(self, path: str, new: bytes, old: Sequence[bytes] = (), least: float = sentences.MOSTLY) -> Stone | None:
        """
        Return the tombstone of the text that a note at `path` gets, with bytes `old` before; None for none.

        There is one if a share of at least `least` of its added sentences, or of those of a key, was erased. If the
        tombstones cannot be read an agent gets StorageError, and a person is told.
        """
        try:
            known = frozenset(key for each in old for way in _ways(path, each) for key in way)
            return self._over([way - known for way in _ways(path, new)], least)
        except StorageError as error:
            if CALLER.get() is not None:
                raise
            tell(str(error))
            return None

    def over_text(self, text: str, least: float) -> Stone | None:
        """Return the tombstone of a text, None for none."""
        return self._over(sentences.ways(text), least)

    def first_day(self) -> str:
        """Return the day of the oldest tombstone; "~", which is after all days, without any."""
        with self._open() as (database, _):
            return database.execute("SELECT min(day) FROM stones").fetchone()[0] or "~"

    def among(self, texts: Iterable[tuple[str, str, str]], least: float) -> Iterator[str]:
        """Yield the names of those texts, each with a name and a day, that mostly say what was erased until then."""
        with self._open() as (database, key):
            known = dict(database.execute("SELECT hash, day FROM stones"))
            for name, day, text in texts:
                if sentences.are_mostly(text, least, partial(_was_erased, known, key, day)):
                    yield name

    def _over(self, ways: Sequence[frozenset[str]], least: float) -> Stone | None:
        with self._open() as (database, key):
            hashes = [_hashes(key, way) for way in ways]
            known = _known(database, frozenset().union(*hashes))
        found = [known.keys() & way for way in hashes if len(known.keys() & way) >= max(1, least * len(way))]
        stones = {each: known[each] for each in frozenset().union(*found)}
        if not stones:
            return None
        # A person's word stands above an agent's.
        day, by = min(stones.values(), key=lambda stone: (bool(stone[1]), stone[0]))
        return Stone(day, by, frozenset(stones))

    def _begin(self) -> None:
        """Make the file, whole or not at all, for this user alone."""
        disk.restrict(self._file.parent, self._root)
        new = disk.temporary_name(self._file.parent)
        try:
            os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            with sqlite.there(new) as database:
                sqlite.run_script(database, _TABLES)
                database.execute("INSERT INTO secret VALUES (?)", (secrets.token_bytes(32),))
            with contextlib.suppress(FileExistsError):  # another process was first
                disk.claim(new, self._file)
        finally:
            platform.discard(new)

    @contextlib.contextmanager
    def _open(self, kind: str = "DEFERRED") -> Iterator[tuple[Any, bytes]]:
        """Open the file, and yield its key too; to be changed, it is made if it is not there."""
        try:
            if kind == "IMMEDIATE" and not self._file.exists():
                self._begin()
            with sqlite.there(self._file, kind) as database:
                yield database, database.execute("SELECT key FROM secret").fetchone()[0]
        except (StorageError, OSError, TypeError) as error:  # TypeError: it has no key
            raise StorageError(
                f"{self._file}: what was erased before cannot be read ({error}).",
                "Mend the file, or delete it: then anything may be written again.",
            ) from error


def _refusal(stone: Stone, *, is_agent: bool) -> InvalidInput:
    """Return the error for a text that was erased."""
    force = "Repeat with force=true if it is to be there again; nothing was written."
    if stone.by:
        return InvalidInput(f"{stone.by} erased this on {stone.day}.", force)
    if not is_agent:
        return InvalidInput(f"You erased this on {stone.day}.", force)
    ask = "Ask them; with their yes it is written by `spellbook add --force`. Nothing was written."
    return InvalidInput(f"The person erased this on {stone.day}.", ask)


def _known(database: Any, hashes: Collection[bytes]) -> dict[bytes, tuple[str, str]]:
    """Return the day and the name of those hashes that are kept."""
    found, left = dict[bytes, tuple[str, str]](), list(hashes)
    for start in range(0, len(left), _AT_ONCE):
        some = left[start : start + _AT_ONCE]
        sql = f"SELECT hash, day, by FROM stones WHERE hash IN ({', '.join('?' * len(some))})"
        found |= {stone: (day, by) for stone, day, by in database.execute(sql, some)}
    return found


def _was_erased(known: Mapping[bytes, str], key: bytes, day: str, sentence: str) -> bool:
    """Say whether a sentence was erased on a day, or before."""
    return known.get(_hash(key, sentence), "~") <= day


def _hash(key: bytes, sentence: str) -> bytes:
    return hmac.digest(key, sentence.encode(), "sha256")


def _hashes(key: bytes, sentences: Iterable[str]) -> frozenset[bytes]:
    return frozenset(_hash(key, each) for each in sentences)


def _ways(path: str, data: bytes) -> Iterator[frozenset[str]]:
    """Yield the sentences of a note's text, and of each key that says something else; none if it cannot be read."""
    try:
        note = parse(path, data)
    except UnreadableNote:
        return
    yield from sentences.ways(note.body)
    body = sentences.squeezed(note.body)
    for value in note.meta.values():
        texts = (text for text in sentences.texts_of(value) if sentences.squeezed(text) not in body)
        yield from sentences.ways("\n\n".join(texts))
