"""Keep the copy of a vault in PostgreSQL up to date, in a thread of a long process. No answer waits for it."""

from __future__ import annotations

import logging
import threading

from spellbook.index.postgres.database import PostgresDatabase, configured
from spellbook.index.postgres.publish import publish
from spellbook.library.book import Spellbook
from spellbook.system.errors import SpellbookError

LOOK_SECONDS = 1.0
"""Seconds between two looks whether the catalog changed: a look reads one row of it."""

_MOST_SECONDS = 60.0
"""Seconds at most before a server that did not answer is tried again; the first time after one second, then twice."""

_log = logging.getLogger(__name__)


class Publisher:
    """Publishes the catalog of a book in a thread, whenever it changed; see `index.postgres.publish`."""

    def __init__(self, book: Spellbook, database: PostgresDatabase) -> None:
        self._book, self._database = book, database
        self._stopped = threading.Event()
        self._logged = ""
        self._thread = threading.Thread(target=self._run, name="spellbook-publisher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop without waiting for the batch under way: the next publisher sends again what was not committed."""
        self._stopped.set()
        self._thread.join(timeout=0.5)
        self._database.close()

    def _run(self) -> None:
        seen, wait = -1, LOOK_SECONDS
        while not self._stopped.wait(wait):
            try:
                generation = self._book.index.catalog.generation
                if generation != seen:
                    publish(self._book.index, self._database)
                    seen = generation
                wait = LOOK_SECONDS
                if self._logged:
                    self._say("The database answers again; the vault is published.")
                    self._logged = ""
            except Exception as error:  # a thread that ends would leave the copy behind without a word
                if self._stopped.is_set():
                    return
                is_known = isinstance(error, SpellbookError)
                self._say(str(error) if is_known else f"publishing failed ({type(error).__name__})")
                wait = min(_MOST_SECONDS, 2 * wait)

    def _say(self, text: str) -> None:
        if text != self._logged:
            self._logged = text
            _log.warning("%s", text)


def started(book: Spellbook) -> Publisher | None:
    """Start a publisher if SPELLBOOK_DATABASE_URL names a database; a fault in it is logged once."""
    try:
        database = configured()
    except SpellbookError as error:
        _log.warning("%s", error)
        return None
    return Publisher(book, database) if database else None
