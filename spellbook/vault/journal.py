"""
The journal: the old and new states of each change, for undo.

It is a database in the state folder, bounded by bytes and age. Losing it loses no note. A change is recorded before it
is made: after a kill the journal knows both states, and the file shows which of them is current.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from typing import Any

from spellbook.settings.defaults import JOURNAL_DAYS, JOURNAL_MB
from spellbook.system.errors import MemoryNotFound, StorageError
from spellbook.system.sqlite import BUSY_SECONDS, Database, run_script
from spellbook.vault import lineage
from spellbook.vault.entries import INODE, Change, Entry, EntryDraft, Trace
from spellbook.vault.folder import digest

FILE = "journal.db"
_FORM = 5
"""The number of the form of the journal's tables."""

_TABLES = """
    -- `session` is the one that the change was made in, as the client names it, "" for all others; `caller` is an
    -- agent's CALLER, "" for a person.
    CREATE TABLE entries (
        entry INTEGER PRIMARY KEY AUTOINCREMENT, at REAL, verb TEXT, what TEXT, undoes INTEGER,
        whole INTEGER DEFAULT 0, session TEXT NOT NULL DEFAULT '', caller TEXT NOT NULL DEFAULT ''
    );
    CREATE INDEX entries_undoes ON entries (undoes) WHERE undoes IS NOT NULL;
    CREATE TABLE changes (
        change INTEGER PRIMARY KEY AUTOINCREMENT, entry INTEGER NOT NULL, path TEXT NOT NULL, before TEXT,
        after TEXT, mode INTEGER
    );
    CREATE INDEX changes_entry ON changes (entry);
    CREATE INDEX changes_path ON changes (path);
    CREATE TABLE blobs (sha256 TEXT PRIMARY KEY, data BLOB NOT NULL);
"""

_WITH_CALLER = "ALTER TABLE entries ADD COLUMN caller TEXT NOT NULL DEFAULT '';"


CALLER: ContextVar[str | None] = ContextVar("caller", default=None)
"""
The session of the agent that makes changes in this context: a name that no other session has, "" where sessions cannot
be told apart. None for a person.
"""

_EARLIER = {"scribe": "add", "revise": "edit", "erase": "forget", "mv": "move", "doctor": "repair"}
"""Verbs of entries that earlier versions wrote, and the words for the same acts now."""

_AN_AGENT = "an agent"
"""Stands in the journal for a CALLER that cannot be told apart, so that no person is taken for one."""

BY_ITSELF = "capture"
"""The verb of entries that nobody asked for. An undo takes such an entry back only by its number."""

_LOSS = "a new one is begun, and what was changed before can no longer be undone"
_DAY = 86_400.0
"""Seconds of a day."""

_FIRST_TOO_LARGE = 2**63
"""The least number that SQLite cannot hold."""
_MOST_WHAT = 1_000
"""Letters kept of an entry's description."""


class _Here(threading.local):
    """This thread's open entry."""

    draft: EntryDraft | None = None


class Journal:
    """The journal in `state`, opened on first use; it keeps about `most_bytes` bytes and `most_days` days."""

    def __init__(self, state: Path, most_bytes: int = JOURNAL_MB * 1_000_000, most_days: float = JOURNAL_DAYS) -> None:
        self._database = Database(state / FILE, _FORM, _build, {}, "journal of changes", _LOSS)
        self._most_bytes = most_bytes
        self._most_days = most_days
        self._here = _Here()

    def close(self) -> None:
        """Close the connections of all threads."""
        self._database.close()

    # -- writing

    @property
    def draft(self) -> EntryDraft | None:
        """This thread's open entry, None if there is none, or while a failed change is taken back."""
        return None if self._here.draft and self._here.draft.reverts else self._here.draft

    @contextlib.contextmanager
    def entry(
        self, verb: str, what: str = "", *, undoes: int | None = None, for_good: bool = False, session: str = ""
    ) -> Iterator[EntryDraft]:
        """
        Record all changes of this thread as one entry, made in a `session`; nested calls join the outermost one.

        Without changes no entry is written, unless it `undoes` another. `for_good` keeps no text, and deletes earlier
        texts of its files.
        """
        if self._here.draft is not None:
            yield self._here.draft
            return
        draft = self._here.draft = EntryDraft(verb, what, undoes, for_good, session)
        try:
            yield draft
        except BaseException:
            if draft.id is not None and not net(tuple(draft.made.values())):
                with contextlib.suppress(StorageError):  # changes that were taken back need no undo
                    self._drop(draft.id)
            raise
        else:
            if draft.id is not None and draft.undoes is None and not net(tuple(draft.made.values())):
                self._drop(draft.id)
            elif draft.id is not None or draft.undoes is not None:
                with contextlib.suppress(StorageError):  # the files are changed: that is no failure, and can be undone
                    with self._database.transaction() as connection:
                        if draft.id is None:
                            draft.id = self._begin(connection, draft)
                        connection.execute("UPDATE entries SET whole = 1 WHERE entry = ?", (draft.id,))
                    self.prune()
        finally:
            self._here.draft = None

    def note(self, changes: Sequence[Change]) -> list[int]:
        """
        Record changes before they are made, in the open entry; return their numbers for `discard`. Raises StorageError.
        """
        draft = self._here.draft
        if draft is None:
            with self.entry("change"):
                return self.note(changes)
        traces = [Trace(change.path, _hash(change.before), _hash(change.after), change.mode) for change in changes]
        try:
            numbers = self._record(draft, changes, traces)
        except StorageError:
            if not draft.reverts:
                raise
            least = min(0, *draft.made)
            numbers = [*range(least - len(traces), least)]
        draft.made |= zip(numbers, traces, strict=True)
        return numbers

    def _record(self, draft: EntryDraft, changes: Sequence[Change], traces: Sequence[Trace]) -> list[int]:
        numbers: list[int] = []
        with self._database.transaction() as connection:
            known = connection.execute("SELECT entry FROM entries WHERE entry = ?", (draft.id,)).fetchone()
            # Begun again if the journal was lost in between.
            entry = int(known[0]) if known else self._begin(connection, draft)
            for change, trace in zip(changes, traces, strict=True):
                if draft.for_good:
                    lineage.forget(connection, change.path)
                    if change.after is None:
                        lineage.rename(connection, change.path, draft.what)
                        trace = trace._replace(path=draft.what)
                else:
                    texts = ((trace.before, change.before), (trace.after, change.after))
                    rows = [(sha256, zlib.compress(data, 1)) for sha256, data in texts if isinstance(data, bytes)]
                    connection.executemany("INSERT OR IGNORE INTO blobs VALUES (?, ?)", rows)
                row = (entry, trace.path, trace.before, trace.after, trace.mode)
                sql = "INSERT INTO changes (entry, path, before, after, mode) VALUES (?, ?, ?, ?, ?)"
                numbers.append(int(connection.execute(sql, row).lastrowid or 0))
        draft.id = entry  # only now: the transaction may have failed
        return numbers

    def discard(self, numbers: Sequence[int]) -> None:
        """Delete the record of changes that were not made."""
        with self._database.transaction() as connection:
            connection.executemany("DELETE FROM changes WHERE change = ?", [(number,) for number in numbers])
        if self._here.draft:
            for number in numbers:
                self._here.draft.made.pop(number, None)

    def _begin(self, connection: Any, draft: EntryDraft) -> int:
        sql = "INSERT INTO entries (at, verb, what, undoes, session, caller) VALUES (?, ?, ?, ?, ?, ?)"
        caller = _AN_AGENT if CALLER.get() == "" else CALLER.get() or ""
        row = (time.time(), draft.verb, draft.what[:_MOST_WHAT], draft.undoes, draft.session, caller)
        return int(connection.execute(sql, row).lastrowid or 0)

    def _drop(self, entry: int) -> None:
        with self._database.transaction() as connection:
            for table in ("entries", "changes"):
                connection.execute(f"DELETE FROM {table} WHERE entry = ?", (entry,))

    def compact(self) -> None:
        """Write the file anew, without deleted texts. Raises StorageError."""
        self._database.vacuum(BUSY_SECONDS)

    # -- reading

    def entries(self, most: int | None = None, path: str = "") -> list[Entry]:
        """Return entries, newest first, at most `most`; with a `path` those that changed the file there."""
        # An entry may leave a file as it was: of those of a path it is known only when they are read.
        found = (each for each in self._newest(path) if not path or path in {trace.path for trace in each.traces})
        return list(islice(found, most))

    def _newest(self, path: str = "") -> Iterator[Entry]:
        """Yield entries, newest first, each as it is read; with a `path` those that touched the file there."""
        where = "WHERE entry IN (SELECT entry FROM changes WHERE path = :path)" if path else ""
        rows = self._database.rows(f"SELECT * FROM entries {where} ORDER BY entry DESC", {"path": path})
        undone = self._undone() if rows else set()
        return (self._read(row, undone) for row in rows)

    def get(self, entry: int) -> Entry:
        """Return one entry. Raises MemoryNotFound."""
        sql = "SELECT * FROM entries WHERE entry = ?"
        rows = self._database.rows(sql, (entry,)) if 0 < entry < _FIRST_TOO_LARGE else []
        if not rows:
            raise MemoryNotFound(
                f"The log has no entry {entry}.", "`spellbook log` lists what can be undone; older entries are let go."
            )
        return self._read(rows[0], self._undone())

    def latest(self, caller: str | None = None) -> Entry | None:
        """
        Return the newest entry that is neither undone, nor an undo, nor `BY_ITSELF`; None if there is none.

        With a `caller`, return the newest that it made: none for "", as nothing says that such a caller made an entry.
        """
        own = (entry for entry in self._newest() if caller is None or entry.caller == caller != "")
        return next((each for each in own if not (each.is_undone or each.undoes or each.verb == BY_ITSELF)), None)

    @property
    def lost(self) -> str:
        """A warning about a damaged journal, "" if there is none. It stays until a person deletes the damaged file."""
        self._database.connection()
        if aside := self._database.set_aside():
            return (
                f"The journal of changes was damaged, and lies in {aside[0]}: what was changed before cannot be undone"
            )
        return ""

    def made(self, path: str) -> Entry | None:
        """Return the newest entry that created the file at `path`, None if there is none."""
        sql = "SELECT entry FROM changes WHERE path = ? AND before IS NULL ORDER BY change DESC LIMIT 1"
        rows = self._database.rows(sql, (path,))
        return self.get(rows[0][0]) if rows else None

    def of_note(self, path: str) -> list[Entry]:
        """Return the entries that changed the file at `path`, oldest first, under its earlier and later paths too."""
        line = {place for (place,) in self._database.rows(lineage.PATHS, {"path": path})}
        entries = [self.get(entry) for (entry,) in self._database.rows(lineage.ENTRIES, {"path": path})]
        return [entry._replace(traces=tuple(each for each in entry.traces if each.path in line)) for entry in entries]

    def text(self, sha256: str) -> bytes | None:
        """Return a text by its sha256, None if it is not (or no longer) kept."""
        rows = self._database.rows("SELECT data FROM blobs WHERE sha256 = ?", (sha256,))
        with contextlib.suppress(zlib.error):  # SQLite does not detect all damage
            if rows and _hash(data := zlib.decompress(rows[0][0])) == sha256:
                return data
        return None

    def _undone(self) -> set[int]:
        undone: set[int] = set()
        # Newest first: an undo is newer than what it undoes, and an undone undo does not count.
        for entry, undoes in self._database.rows(
            "SELECT entry, undoes FROM entries WHERE undoes IS NOT NULL AND whole ORDER BY entry DESC"
        ):
            if entry not in undone:
                undone.add(undoes)
        return undone

    def _read(self, row: Sequence[Any], undone: set[int]) -> Entry:
        entry, at, verb, what, undoes, whole, *names = row
        sql = "SELECT path, before, after, mode FROM changes WHERE entry = ? ORDER BY change"
        traces = net([Trace(*change) for change in self._database.rows(sql, (entry,))])
        return Entry(entry, at, _EARLIER.get(verb, verb), what, undoes, entry in undone, bool(whole), traces, *names)

    # -- bounds

    def prune(self) -> None:
        """Delete entries that are too old, then the oldest while there are too many bytes; never the newest."""
        oldest = self._database.rows("SELECT at FROM entries ORDER BY entry LIMIT 1")
        cutoff = time.time() - self._most_days * _DAY
        if oldest and (oldest[0][0] < cutoff or self._bytes() > self._most_bytes):
            with self._database.transaction() as connection:
                self._delete(connection, "at < ?", cutoff)
                # Well below the bound, so that the next change does not prune again.
                while self._bytes() > self._most_bytes * 3 // 4:
                    [(count, newest)] = self._database.rows("SELECT count(*), max(entry) FROM entries")
                    if count < 2:
                        break
                    older = "SELECT entry FROM entries WHERE entry < ? ORDER BY entry LIMIT ?"
                    self._delete(connection, f"entry IN ({older})", newest, max(1, count // 8))

    def _bytes(self) -> int:
        [[size]] = self._database.rows("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        return int(size) - self._database.free_bytes()

    @staticmethod
    def _delete(connection: Any, where: str, *values: float) -> None:
        """Delete entries, with changes and texts that no entry refers to."""
        connection.execute(f"DELETE FROM entries WHERE {where}", values)
        connection.execute("DELETE FROM changes WHERE entry NOT IN (SELECT entry FROM entries)")
        connection.execute(
            """
            DELETE FROM blobs WHERE sha256 NOT IN (
                SELECT before FROM changes WHERE before IS NOT NULL
                UNION SELECT after FROM changes WHERE after IS NOT NULL
            )
            """
        )


def _build(connection: Any, form: int) -> None:
    """Make the tables in an empty file (form 0), or of those of an earlier form."""
    run_script(connection, _WITH_CALLER if form else _TABLES)


def inode_of(place: Path) -> str:
    """Return the state of a file, a folder or a link that is only moved, whatever is in it."""
    return f"{INODE}{os.lstat(place).st_ino}"


def _hash(data: bytes | str | None) -> str | None:
    return digest(data) if isinstance(data, bytes) else data


def net(traces: Sequence[Trace]) -> tuple[Trace, ...]:
    """
    Merge changes into one a file, from its first state to its last, and drop files that end as they began.

    If somebody else changed a file between two of them, only those after that count, which leave that change.
    """
    whole: dict[str, Trace] = {}
    for trace in traces:
        known = whole.get(trace.path, trace)
        first = known if known.after == trace.before else trace
        whole[trace.path] = Trace(trace.path, first.before, trace.after, first.mode if first.before else trace.mode)
    return tuple(trace for trace in whole.values() if trace.before != trace.after)
