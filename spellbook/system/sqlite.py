"""
One SQLite file shared by many processes and threads: connections, transactions, forms, recovery.

Every process that has it open sets a damaged file aside and begins a new one. Its content is derived from the vault and
returns with the next scan.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from spellbook.system.damaged import DatabasePlace, present_file
from spellbook.system.disk import open_restricted
from spellbook.system.errors import SearchError, StorageError
from spellbook.system.lock import held

BUSY_SECONDS = 30
"""Seconds that a write waits for another process."""

BRIEF_SECONDS = 0.005
"""Seconds of waiting for a write that another process may do as well."""

_SOME = 1_000
"""Rows of a long answer that are loaded at a time."""

_HINTS = {
    sqlite3.SQLITE_FULL: "Free some disk space; the vault is unharmed and the next run goes on.",
    sqlite3.SQLITE_READONLY: "The state folder cannot be written: mend its permissions or set SPELLBOOK_STATE.",
    sqlite3.SQLITE_BUSY: "Another process holds the index; try again in a moment.",
    sqlite3.SQLITE_LOCKED: "Another process holds the index; try again in a moment.",
    sqlite3.SQLITE_CANTOPEN: "The state folder cannot be used: mend it or set SPELLBOOK_STATE.",
    sqlite3.SQLITE_IOERR: "The disk of the state folder fails or is full; the vault is unharmed.",
}


class Damaged(StorageError):
    """The file is not a valid database; the next use begins a new one."""


class _Unready(StorageError):
    """The file must be made, or brought to another form, which only one process may do."""


class Database:
    """
    The SQLite file `file` in the form of this number, with SQL `functions` as `name: (arguments, function)`.

    `build` makes the tables in an empty file (form 0), or from those of an older form, in one transaction: a failure or
    a kill leaves the file as before. `what` and `loss` are for messages. A use waits `patience` seconds for another
    process. With `is_durable` a commit survives a power cut.
    """

    def __init__(
        self,
        file: Path,
        form: int,
        build: Callable[[sqlite3.Connection, int], object],
        functions: Mapping[str, tuple[int, Callable[..., Any]]],
        what: str = "index",
        loss: str = "it is rebuilt from the vault, which is unharmed",
        *,
        patience: float = BUSY_SECONDS,
        is_durable: bool = False,
    ) -> None:
        self.file = file
        self._place = DatabasePlace(file, what, loss)
        self._patience = patience
        self._is_durable = is_durable
        self._form = form
        self._build = build
        self._functions = functions
        self._local = threading.local()
        self._connections: weakref.WeakSet[_Connection] = weakref.WeakSet()
        self._guard = threading.Lock()

    def exists(self) -> bool:
        """Say whether there is a file, be it empty or damaged."""
        return present_file(self.file).exists()

    def close(self) -> None:
        """Close the connections of all threads; the next use opens new ones."""
        with self._guard:
            for connection in list(self._connections):
                with contextlib.suppress(sqlite3.Error):
                    connection.close()
            self._local = threading.local()

    def rows(self, sql: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        """Run one statement and return its rows. Raises StorageError."""
        connection = self.connection()
        with self._translate_errors(connection):
            return connection.execute(sql, values).fetchall()

    def matches(self, sql: str, values: Sequence[object] | Mapping[str, object] = ()) -> list[Any]:
        """Run a query of a full-text index and return its rows. Raises SearchError if the index itself fails."""
        try:
            return self.rows(sql, values)
        except StorageError as error:
            if isinstance(error, Damaged):
                raise SearchError(error.message, f"Ask again: {self._place.loss}.") from error
            if getattr(error.__cause__, "sqlite_errorcode", 0) == sqlite3.SQLITE_ERROR:
                raise SearchError(error.message, f"Delete {self.file}: {self._place.loss}.") from error
            raise

    def stream(self, sql: str, values: Sequence[object] = ()) -> Iterator[Any]:
        """Run one statement and yield its rows without loading all of them; raises as `rows` does."""
        connection = self.connection()
        with self._translate_errors(connection):
            cursor = connection.execute(sql, values)
            while rows := cursor.fetchmany(_SOME):
                yield from rows

    @contextlib.contextmanager
    def transaction(self, kind: str = "IMMEDIATE", patience: float | None = None) -> Iterator[sqlite3.Connection]:
        """
        Commit everything inside, or nothing; nested, join.

        Raises StorageError after `patience` seconds, those of the database if not given.
        """
        connection = self.connection()
        if connection.in_transaction:
            yield connection
            return
        with self._translate_errors(connection), self._waiting(connection, patience), _atomic(connection, kind):
            self._expect_own_form(connection)
            yield connection

    @contextlib.contextmanager
    def _waiting(self, connection: sqlite3.Connection, patience: float | None) -> Iterator[None]:
        """Have a connection wait `patience` seconds for other processes while inside."""
        if patience is None or patience == self._patience:
            yield
            return
        connection.execute(f"PRAGMA busy_timeout = {int(patience * 1000)}")
        try:
            yield
        finally:
            connection.execute(f"PRAGMA busy_timeout = {int(self._patience * 1000)}")

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Let all reads inside see one state of the file."""
        with self.transaction("DEFERRED"):
            yield

    def free_bytes(self) -> int:
        """Return the bytes of the file that it no longer needs."""
        return int(self.rows("SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size")[0][0])

    def vacuum(self, patience: float = BRIEF_SECONDS) -> None:
        """
        Write the file anew, without what was deleted. Raises StorageError if somebody writes, or on a full disk.

        With more patience than that it also raises if another process reads the file, which may hold deleted text.
        """
        connection = self.connection()
        if self._place.is_beside:
            raise StorageError(
                f"{self.file}: another program has this damaged file open, which may hold deleted text.",
                "Close that program, and try again.",
            )
        with self._translate_errors(connection), self._waiting(connection, patience):
            connection.execute("PRAGMA temp_store = FILE")  # a copy of the whole file would be much for memory
            try:
                connection.execute("VACUUM")
                [(is_left, *_)] = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                connection.execute("PRAGMA temp_store = MEMORY")
        if is_left and patience > BRIEF_SECONDS:
            raise StorageError(
                f"{self.file}: another program reads this file, which may hold deleted text.",
                "Close that program, and try again.",
            )

    # -- connections

    def connection(self) -> _Connection:
        """Return this thread's connection, a new one if the file was set aside or deleted. Raises StorageError."""
        connection: _Connection | None = getattr(self._local, "connection", None)
        if connection is not None:
            # Nobody can replace a file that Windows has open; one that another process found damaged is left.
            is_changed = self._place.is_to_be_left() if os.name == "nt" else connection.inode != self._inode()
            if connection.in_transaction or not (connection.is_spoiled or is_changed):
                return connection
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        self._local.connection = connection = self._open()
        with self._guard:
            self._connections.add(connection)
        return connection

    def _inode(self) -> int:
        try:
            return os.stat(self._place.used).st_ino
        except OSError:
            return 0

    def _open(self) -> _Connection:
        with contextlib.suppress(StorageError):  # it is made, built anew or mended below
            if self._inode() and not self._place.mark.exists():
                return self._connect(self._check)
        # One process at a time: the switch to WAL does not wait, and a damaged file must be set aside once.
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with held(self.file.with_suffix(".lock"), self._patience) as is_ours:
                if not is_ours:
                    raise StorageError(f"{self.file}: another process is opening it.", "Try again in a moment.")
                self._place.move_damaged(self.close)
                try:
                    return self._connect(self._prepare)
                except Damaged:
                    self._place.move_damaged(self.close)
                    return self._connect(self._prepare)
        except OSError as error:
            raise StorageError(
                f"{self.file.parent}: the state folder cannot be written ({error.strerror}).",
                "Set SPELLBOOK_STATE to a folder that can be written.",
            ) from error

    def _connect(self, prepare: Callable[[_Connection], None]) -> _Connection:
        inode = self._inode()
        if not inode:  # what belongs to the file gets its permissions from SQLite
            with contextlib.suppress(OSError):
                os.close(open_restricted(self._place.used, os.O_CREAT | os.O_RDWR))
        with self._translate_errors(None):
            # isolation_level None: transactions are opened by name, above.
            connection = sqlite3.connect(
                self._place.used,
                timeout=self._patience,
                isolation_level=None,
                check_same_thread=False,
                factory=_Connection,
            )
        connection.inode = self._inode()
        try:
            with self._translate_errors(connection):
                # On macOS even FULL leaves the bytes to the drive's cache; elsewhere `fullfsync` changes nothing.
                kept = "synchronous = FULL; PRAGMA fullfsync = ON" if self._is_durable else "synchronous = NORMAL"
                connection.executescript(f"PRAGMA {kept}; PRAGMA temp_store = MEMORY;")
                for name, (arguments, function) in self._functions.items():
                    connection.create_function(name, arguments, function, deterministic=True)
                prepare(connection)
            if inode not in {0, self._inode()}:
                raise _Unready(f"{self.file}: another process has begun it anew.")
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: _Connection) -> None:
        """Raise _Unready if the file is not as `_prepare` leaves it."""
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != self._form or connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            raise _Unready(f"{self.file}: it is of another form.")

    def _expect_own_form(self, connection: sqlite3.Connection) -> None:
        """Raise StorageError if a newer version has rebuilt the file since this program opened it."""
        form = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if form > self._form:
            command = " ".join(["spellbook", *(word for word in sys.argv[1:2] if not word.startswith("-"))])
            raise StorageError(
                f"{self.file}: a newer Spellbook has rebuilt it (schema {form}) while this one ran (schema "
                f"{self._form}).",
                f"Restart `{command}` (process {os.getpid()}): it is still the older version.",
            )

    def _prepare(self, connection: _Connection) -> None:
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if version > self._form:
            raise StorageError(
                f"{self.file}: written by a newer Spellbook (schema {version}, this one knows {self._form}).",
                f"Upgrade Spellbook, or delete the folder {self.file.parent}; it is rebuilt from the vault.",
            )
        connection.execute("PRAGMA journal_mode = WAL")
        if version < self._form:
            with _atomic(connection, "IMMEDIATE"):
                self._build(connection, version)
                connection.execute(f"PRAGMA user_version = {self._form}")

    # -- damage

    @contextlib.contextmanager
    def _translate_errors(self, connection: _Connection | None) -> Iterator[None]:
        """Raise a SQLite error in words for a person, and remember a damaged file."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
                if connection is not None:
                    connection.is_spoiled = True
                    with contextlib.suppress(OSError):
                        self._place.mark.write_text(str(connection.inode))
                raise Damaged(
                    f"{self.file}: the {self._place.what} is damaged ({error}).",
                    f"Run the command again: {self._place.loss}.",
                ) from error
            if connection is not None and code == sqlite3.SQLITE_ERROR:
                self._expect_own_form(connection)  # the file may be another version's by now
            raise StorageError(
                f"{self.file}: {error}.", _HINTS.get(code, "The index can be deleted; it is rebuilt from the vault.")
            ) from error

    def set_aside(self) -> list[Path]:
        """Return the damaged file that was set aside last, with what belongs to it; nothing if there is none."""
        return self._place.set_aside()


@contextlib.contextmanager
def there(file: Path, kind: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
    """Yield a connection to a file that is there, in a transaction. It is never made or mended. Raises StorageError."""
    address = f"{file.absolute().as_uri()}?mode=rw"
    try:
        opened = sqlite3.connect(address, timeout=BUSY_SECONDS, isolation_level=None, uri=True)
        with contextlib.closing(opened) as connection, _atomic(connection, kind):
            yield connection
    except sqlite3.Error as error:
        raise StorageError(str(error)) from error


def expect(file: Path, form: int, patience: float) -> None:
    """Raise StorageError unless the file is there, of this form, and free within `patience` seconds. Makes nothing."""
    hint = "Run `spellbook reindex`."
    file = present_file(file)
    if not file.is_file():
        raise StorageError(f"{file.parent}: there is no index yet.", hint)
    try:
        with contextlib.closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=patience)) as connection:
            connection.execute("SELECT name FROM sqlite_master LIMIT 1").fetchone()
            known = connection.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.Error as error:
        raise StorageError(f"{file}: the index cannot be read now ({error}).", hint) from error
    if known != form:
        raise StorageError(f"{file}: the index is of another version.", hint)


def run_script(connection: sqlite3.Connection, sql: str) -> None:
    """Run the statements of a script within a transaction, which `executescript` would commit."""
    statement = ""
    for piece in sql.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):  # the statements of a trigger's body are one with it
            connection.execute(statement)
            statement = ""


@contextlib.contextmanager
def _atomic(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


class _Connection(sqlite3.Connection):
    """A connection that goes with its thread; `inode` names the file it has open."""

    inode = 0
    is_spoiled = False

    def __del__(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self.close()
