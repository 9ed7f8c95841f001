"""Counts that the vault cannot restore: uses of notes, times and errors of verbs, REST sessions."""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from spellbook.index.catalog.rows import Tables
from spellbook.index.filters import day_of
from spellbook.system.errors import RestExpired, RestInvalid
from spellbook.text.unicode import digest_of

KEPT_DAYS = 30
"""Days for which counts, timings and errors are kept."""

_HOUR = 3_600
"""Seconds of an hour."""

DAY = 86_400
"""Seconds of a day."""

_MOST_ERRORS = 1_000
"""Different errors that are kept, and resolved ones."""

_PATIENCE = 0.05
"""Seconds to wait for another process's write: counting must not delay anything."""


class Use(NamedTuple):
    """How often a note was opened, and when last, in seconds since 1970."""

    times: int
    last: float


class FailureKind(NamedTuple):
    """The part that equal errors have in common; `message` has no values in it, so no text of notes or questions."""

    code: str
    verb: str
    door: str
    message: str

    @property
    def id(self) -> str:
        """The id of these errors: 12 hex digits."""
        return digest_of("\0".join(self), 12)


class Failures(NamedTuple):
    """Equal errors: how many, and when the first and the last were, in seconds since 1970."""

    kind: FailureKind
    times: int
    first: float
    last: float

    def as_dict(self) -> dict[str, object]:
        """Return them as JSON shows them."""
        ends = {"first": local(self.first), "last": local(self.last)}
        return {"errorId": self.kind.id, **self.kind._asdict(), "count": self.times, **ends}


def local(seconds: float) -> str:
    """Return a time in ISO 8601, local, with its offset; its day where the system knows no local time for that year."""
    try:
        return dt.datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return day_of(int(seconds * 1e9))


class Usage(Tables):
    """The counters in a catalog's database."""

    def opened(self, notes: Iterable[str]) -> None:
        """Count that these notes, by id, were opened now. Raises StorageError if another process is writing."""
        now = time.time()
        with self._database.transaction(patience=_PATIENCE) as connection:
            connection.executemany(
                """
                INSERT INTO uses VALUES (?, 1, ?)
                ON CONFLICT (note) DO UPDATE SET count = count + 1, last = excluded.last
                """,
                [(note, now) for note in dict.fromkeys(notes)],
            )

    def of(self, notes: Iterable[str]) -> dict[str, Use]:
        """Return the use of those of `notes` that were ever opened."""
        listed = json.dumps(list(dict.fromkeys(notes)))
        rows = self._database.rows("SELECT * FROM uses WHERE note IN (SELECT value FROM json_each(?))", (listed,))
        return {note: Use(count, last) for note, count, last in rows}

    def most(self, limit: int) -> dict[str, Use]:
        """Return the notes that are opened most."""
        rows = self._database.rows("SELECT * FROM uses ORDER BY count DESC, last DESC LIMIT ?", (limit,))
        return {note: Use(count, last) for note, count, last in rows}

    def add(self, counts: Mapping[tuple[str, int], int], failures: Sequence[Failures] = ()) -> None:
        """Add to this hour's counts, by name and bucket, and to the errors. Raises StorageError if another writes."""
        now = time.time()
        hour = int(now) // _HOUR
        with self._database.transaction(patience=_PATIENCE) as connection:
            connection.execute("DELETE FROM counters WHERE hour < ?", (hour - KEPT_DAYS * 24,))
            connection.executemany(
                """
                INSERT INTO counters VALUES (?, ?, ?, ?)
                ON CONFLICT (name, bucket, hour) DO UPDATE SET count = count + excluded.count
                """,
                [(name, bucket, hour, count) for (name, bucket), count in counts.items()],
            )
            if failures:
                connection.executemany(
                    """
                    INSERT INTO errors VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                    ON CONFLICT (id) DO UPDATE SET
                        count = count + excluded.count, first = min(first, excluded.first),
                        last = max(last, excluded.last)
                    """,
                    [(each.kind.id, *each.kind, each.times, each.first, each.last) for each in failures],
                )
                _trim(connection, "errors", "last")

    def counts(self, hours: int = KEPT_DAYS * 24) -> dict[str, Counter[int]]:
        """Return the counts of the last `hours`, this one included, by name, then by bucket."""
        counts: dict[str, Counter[int]] = {}
        for name, bucket, count in self._database.rows(
            "SELECT name, bucket, sum(count) FROM counters WHERE hour > ? GROUP BY name, bucket",
            (int(time.time()) // _HOUR - hours,),
        ):
            counts.setdefault(name, Counter())[bucket] = count
        return counts

    def failures(self, hours: int = KEPT_DAYS * 24) -> list[Failures]:
        """Return the errors that occurred in the last `hours`, the latest first."""
        rows = self._database.rows(
            "SELECT code, verb, door, message, count, first, last FROM errors WHERE last > ? ORDER BY last DESC, id",
            (time.time() - hours * _HOUR,),
        )
        return [Failures(FailureKind(*row[:4]), *row[4:]) for row in rows]

    def resolve(self, id: str, by: str, reason: str) -> bool:
        """Mark an error as resolved; return whether there is one of this id that is not. Raises StorageError."""
        now = time.time()
        with self._database.transaction() as connection:
            moved = connection.execute(
                "INSERT INTO resolved SELECT id || '-' || ?, code, verb, door, message, count, first, last, ?, ?, ? "
                "FROM errors WHERE id = ?",
                (time.time_ns(), now, by, reason, id),
            )
            connection.execute("DELETE FROM errors WHERE id = ?", (id,))
            _trim(connection, "resolved", "at")
            return moved.rowcount > 0

    def resolved(self, hours: int = KEPT_DAYS * 24) -> list[dict[str, object]]:
        """Return the resolved errors that occurred in the last `hours`, as JSON shows them, latest first."""
        rows = self._database.rows(
            "SELECT code, verb, door, message, count, first, last, at, by, reason FROM resolved "
            "WHERE last > ? ORDER BY at DESC",
            (time.time() - hours * _HOUR,),
        )
        return [
            {
                **Failures(FailureKind(*row[:4]), *row[4:7]).as_dict(),
                "resolvedAt": local(row[7]),
                "resolvedBy": row[8],
                "reason": row[9],
            }
            for row in rows
        ]


def _trim(connection: sqlite3.Connection, table: str, newest: str) -> None:
    """Delete errors that are too old, and the oldest of too many."""
    connection.execute(f"DELETE FROM {table} WHERE last < ?", (time.time() - KEPT_DAYS * DAY,))
    too_many = f"SELECT id FROM {table} ORDER BY {newest} DESC LIMIT -1 OFFSET {_MOST_ERRORS}"
    connection.execute(f"DELETE FROM {table} WHERE id IN ({too_many})")


class Session(NamedTuple):
    """A REST session; times are seconds since 1970, `language` is that of the guides it was begun with."""

    id: str
    created: float
    expires: float
    scribed: int
    language: str = "en"


class Sessions(Tables):
    """The sessions in a catalog's database."""

    def begin(self, id: str, seconds: float, language: str = "en") -> Session:
        """Open a session that lasts `seconds`."""
        now = time.time()
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM sessions WHERE expires < ?", (now - 30 * 86400,))
            sql = "INSERT INTO sessions (id, created, expires, language) VALUES (?, ?, ?, ?)"
            connection.execute(sql, (id, now, now + seconds, language))
        return Session(id, now, now + seconds, 0, language)

    def live(self, id: str) -> Session:
        """Return a live session. Raises RestInvalid for an unknown id, RestExpired for one past its time or ended."""
        sql = "SELECT id, created, expires, scribed, language, ended FROM sessions WHERE id = ?"
        rows = self._database.rows(sql, (id,))
        if not rows:
            raise RestInvalid(
                f"{id[:80]!r} is not a REST session of this vault.", "Call rest() and use the session_id it returns."
            )
        *fields, ended = rows[0]
        session = Session(*fields)
        if ended is not None:
            raise RestExpired("This REST session was ended by rest_end.", "Call rest() for a new one.")
        if session.expires <= time.time():
            raise RestExpired("This REST session has expired after one hour.", "Call rest() for a new one.")
        return session

    def count(self, id: str, number: int) -> None:
        """Add to what a session has written."""
        with self._database.transaction() as connection:
            connection.execute("UPDATE sessions SET scribed = scribed + ? WHERE id = ?", (number, id))

    def end(self, id: str) -> Session:
        """End a live session and return it."""
        with self._database.transaction() as connection:
            session = self.live(id)
            connection.execute("UPDATE sessions SET ended = ? WHERE id = ?", (time.time(), id))
            return session

    def forget_ended(self) -> None:
        """Delete sessions that are over."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM sessions WHERE ended IS NOT NULL OR expires < ?", (time.time(),))
