"""REST sessions, which allow writing for a limited time. All processes share them."""

from __future__ import annotations

import time
from dataclasses import dataclass

from spellbook.system.errors import RestExpired, RestInvalid
from spellbook.system.sqlite import Database


@dataclass(frozen=True, slots=True)
class Session:
    """A REST session; times are seconds since 1970, `language` is that of the guides it was begun with."""

    id: str
    created: float
    expires: float
    scribed: int
    language: str = "en"


class Sessions:
    """The sessions in a catalog's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
