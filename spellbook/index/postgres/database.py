"""
The PostgreSQL database that vaults are published to: connections, the schema and its migrations, errors in words.

Its address comes from SPELLBOOK_DATABASE_URL alone, never from a vault's settings. The password in it is never shown.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from spellbook.system.errors import DatabaseAway, InvalidInput, StorageError

if TYPE_CHECKING:
    import psycopg

URL = "SPELLBOOK_DATABASE_URL"

CONNECT_SECONDS = 5
"""How long it may take to connect."""

ANSWER_SECONDS = 20
"""How long a statement of a question may take."""

WRITE_SECONDS = 600
"""How long a statement of publishing may take, for which nobody waits."""

GRACE_SECONDS = 5
"""Seconds beyond these after which a server that should have ended a statement by itself is given up."""

_LOCK = 0x5BE11B00
"""The number of the advisory lock under which one process migrates."""

PARTITIONS = 16
"""Parts of each large table, each with its own indexes: a vault is in one of them."""

logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # it would log addresses


def _partitioned(table: str, columns: str, near: Sequence[str] = ()) -> str:
    # What an exact search reads of every row is kept in the row: elsewhere it takes ten times as long.
    kept = "".join(f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE MAIN;" for column in near)
    parts = "".join(
        f"CREATE TABLE {table}_{i} PARTITION OF {table} FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {i});"
        for i in range(PARTITIONS)
    )
    return f"CREATE TABLE {table} (vault integer NOT NULL, {columns}) PARTITION BY HASH (vault); {kept} {parts}"


MIGRATIONS = (
    f"""
    CREATE TABLE vaults (
        vault integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, owner text NOT NULL,
        origin text NOT NULL, is_live boolean NOT NULL DEFAULT false, embedder text NOT NULL DEFAULT '',
        fingerprint text NOT NULL DEFAULT '', second text NOT NULL DEFAULT '',
        notes_seq bigint NOT NULL DEFAULT 0, vectors_seq bigint NOT NULL DEFAULT 0,
        second_seq bigint NOT NULL DEFAULT 0,
        generation bigint NOT NULL DEFAULT 0, notes bigint NOT NULL DEFAULT 0, chunks bigint NOT NULL DEFAULT 0,
        tokens bigint NOT NULL DEFAULT 0, pending bigint NOT NULL DEFAULT 0, second_pending bigint NOT NULL DEFAULT 0,
        published timestamptz NOT NULL DEFAULT now(), UNIQUE (owner, origin)
    );
    CREATE UNIQUE INDEX vaults_live ON vaults (name) WHERE is_live;
    {
        _partitioned(
            "notes",
            '''note bigint NOT NULL, path text NOT NULL, name text, id text, declared text, title text,
        topic text, category text, importance float8, created text, updated text, mtime_ns bigint, created_at float8,
        updated_at float8, moment float8, keywords text, tags text, meta text, PRIMARY KEY (vault, note)''',
        )
    }
    CREATE INDEX notes_path ON notes (vault, md5(path));
    CREATE INDEX notes_id ON notes (vault, md5(id));
    CREATE INDEX notes_name ON notes (vault, md5(name));
    {_partitioned("fields", "note bigint NOT NULL, key text NOT NULL, value text NOT NULL")}
    CREATE INDEX fields_value ON fields (vault, md5(key), md5(value), note);
    CREATE INDEX fields_note ON fields (vault, note);
    {
        _partitioned(
            "links",
            '''note bigint NOT NULL, ordinal integer, name text, target text, fragment text,
        is_markdown boolean, line integer, relation text''',
        )
    }
    CREATE INDEX links_name ON links (vault, md5(name));
    CREATE INDEX links_note ON links (vault, note, ordinal);
    CREATE TABLE moves (vault integer NOT NULL, old text NOT NULL, new text NOT NULL, name text);
    CREATE INDEX moves_vault ON moves (vault);
    {
        _partitioned(
            "labels", "note bigint NOT NULL, kind text, key text NOT NULL, vector halfvec, second bytea", ("vector",)
        )
    }
    CREATE INDEX labels_note ON labels (vault, note);
    CREATE INDEX labels_key ON labels (vault, key);
    {
        _partitioned(
            "chunks",
            '''chunk bigint NOT NULL, note bigint NOT NULL, ordinal integer, suffix text, heading text,
        line integer, end_line integer, text text, lead text, tail text, key text NOT NULL, length integer,
        words tsvector, bag sparsevec, vector halfvec, second bytea, PRIMARY KEY (vault, chunk)''',
            ("vector", "bag"),
        )
    }
    CREATE INDEX chunks_note ON chunks (vault, note, ordinal);
    CREATE INDEX chunks_key ON chunks (key);
    CREATE INDEX chunks_words ON chunks USING gin (words) WITH (fastupdate = off);
    {_partitioned("frequencies", 'word text COLLATE "C" NOT NULL, chunks bigint NOT NULL, PRIMARY KEY (vault, word)')}
    """,
)
"""The schema's history, in the schema `spellbook` of the database; append only."""


class PostgresDatabase:
    """A database by its address, for any number of threads, each with a connection of its own."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._local = threading.local()
        self._opened: dict[threading.Thread, Any] = {}
        self._guard = threading.Lock()
        self.place = _place(url)

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Let all reads inside see one state. Within another one of this thread, join that."""
        if getattr(self._local, "is_reading", False):
            yield
            return
        with self._translated():
            self._connection().execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self._local.is_reading = True
        try:
            yield
        finally:
            self._local.is_reading = False
            if not self._is_closed():
                with contextlib.suppress(Exception):
                    self._connection().execute("ROLLBACK")

    def rows(self, sql: str, values: Mapping[str, object] | None = None) -> list[Any]:
        """Run a statement and return its rows; once more if the server went away between two. Raises StorageError."""
        is_older = not self._is_closed()
        try:
            with self._translated():
                return self._connection().execute(sql, values or None).fetchall()
        except DatabaseAway as error:
            is_gone = is_older and self._is_closed() and not isinstance(error.__cause__, TimeoutError)
            if not is_gone or getattr(self._local, "is_reading", False):
                raise
        with self._translated():
            return self._connection().execute(sql, values or None).fetchall()

    @contextlib.contextmanager
    def writing(self) -> Iterator[psycopg.Connection[Any]]:
        """Commit all that is done inside, or nothing. Raises StorageError."""
        with self._translated():
            connection = self._connection()
            with connection.transaction():
                connection.execute(f"SET LOCAL statement_timeout = {WRITE_SECONDS * 1000}")
                self._local.seconds = WRITE_SECONDS
                try:
                    yield connection
                finally:
                    self._local.seconds = ANSWER_SECONDS

    def prepare(self) -> None:
        """Make or migrate the schema. Raises StorageError for one that a newer version made."""
        with self.writing() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            connection.execute("CREATE SCHEMA IF NOT EXISTS spellbook")
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)")
            row = connection.execute("SELECT version FROM schema_version").fetchone()
            version = int(row[0]) if row else 0
            if version == len(MIGRATIONS):
                return
            self._expect_not_newer(version)
            for step in MIGRATIONS[version:]:
                connection.execute(step)
            connection.execute("DELETE FROM schema_version")
            connection.execute("INSERT INTO schema_version VALUES (%s)", (len(MIGRATIONS),))

    def expect(self) -> None:
        """Make sure that the schema is the one this version reads. Raises StorageError."""
        try:
            rows = self.rows("SELECT version FROM schema_version")
        except StorageError as error:
            if getattr(error.__cause__, "sqlstate", "") != "42P01":
                raise
            rows = []
        version = rows[0][0] if rows else 0
        self._expect_not_newer(version)
        if version < len(MIGRATIONS):
            raise StorageError(
                f"{self.place}: no vault of this version is published there (schema {version} of {len(MIGRATIONS)}).",
                "Run `spellbook publish` with this version where a vault's files are.",
            )

    def _expect_not_newer(self, version: int) -> None:
        if version > len(MIGRATIONS):
            raise StorageError(
                f"{self.place}: written by a newer Spellbook (schema {version}, this one knows {len(MIGRATIONS)}).",
                "Upgrade Spellbook here.",
            )

    def close(self) -> None:
        """Close the connections of all threads."""
        with self._guard:
            for connection in self._opened.values():
                with contextlib.suppress(Exception):
                    connection.close()
            self._opened.clear()
        self._local = threading.local()

    # -- connections

    def _is_closed(self) -> bool:
        connection = getattr(self._local, "connection", None)
        return connection is None or connection.closed

    def _connection(self) -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] | None = getattr(self._local, "connection", None)
        if connection is None or connection.closed:
            connection = _kind(lambda: getattr(self._local, "seconds", ANSWER_SECONDS) + GRACE_SECONDS).connect(
                self.url,
                autocommit=True,
                connect_timeout=CONNECT_SECONDS,
                # Plans are made for the values at hand: which partitions are read depends on them. A question asks
                # for little: to start workers, or to read a table in order, takes longer than it.
                prepare_threshold=None,
                application_name="spellbook",
                options="-c search_path=spellbook,public -c jit=off -c max_parallel_workers_per_gather=0 "
                "-c random_page_cost=1.1 "
                f"-c statement_timeout={ANSWER_SECONDS * 1000} -c client_min_messages=error",
            )
            self._local.connection = connection
            with self._guard:
                self._opened[threading.current_thread()] = connection
                # A server's threads come and go: what one of them leaves open, the database would count for ever.
                for thread in [each for each in self._opened if not each.is_alive()]:
                    with contextlib.suppress(Exception):
                        self._opened.pop(thread).close()
        return connection

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn an error of the server into one that says what to do. It never shows the address: callers see it too."""
        try:
            import psycopg
        except ImportError as error:
            raise StorageError(
                f"{URL} is set, but the client for PostgreSQL is not installed.",
                "Install the extra: pip install 'spellbook-vault[postgres]'.",
            ) from error
        try:
            yield
        except (psycopg.errors.QueryCanceled, TimeoutError) as error:
            raise DatabaseAway(
                f"The database did not answer within {ANSWER_SECONDS} seconds.", "Try again; it is busy, or it hangs."
            ) from error
        except psycopg.errors.InvalidRegularExpression as error:
            raise InvalidInput(
                f"The database cannot read the glob of a path ({_reason(error)}).", "Write a simpler one."
            ) from error
        except psycopg.errors.UndefinedFile as error:
            raise StorageError(
                "The database lacks the extension pgvector.", "Install pgvector 0.8 or newer."
            ) from error
        except (psycopg.errors.DiskFull, psycopg.errors.OutOfMemory) as error:
            raise StorageError(
                f"The database stopped: the server is full ({_reason(error)}).",
                "Give it room; what is missing is published then.",
            ) from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise StorageError(
                f"The database's user may not do this ({_reason(error)}).", "Grant it the right."
            ) from error
        except psycopg.ProgrammingError as error:
            if error.sqlstate is None:  # the address could not be read
                raise InvalidInput(f"{URL} is not an address of a database.", _HINT) from None
            raise StorageError(f"The database failed ({_reason(error)}).", "Run `spellbook publish` again.") from error
        except psycopg.OperationalError as error:
            if error.sqlstate in {"28P01", "28000"} or "authentication failed" in str(error):
                raise StorageError("The database refused the user or the password.", f"Correct {URL}.") from None
            raise DatabaseAway(
                "The database does not answer: it cannot be reached.", f"Start it, or correct {URL}, and try again."
            ) from error
        except psycopg.Error as error:
            raise StorageError(f"The database failed ({_reason(error)}).", "Run `spellbook publish` again.") from error


def _kind(seconds: Callable[[], float]) -> type[psycopg.Connection[Any]]:
    """Return connections that raise TimeoutError, and are closed, once the server is silent for so long."""
    import psycopg

    class PostgresConnection(psycopg.Connection[Any]):
        def wait(self, gen: Generator[Any, Any, Any], *args: Any, **settings: Any) -> Any:
            try:
                return super().wait(_until(time.monotonic() + seconds(), gen), *args, **settings)
            except TimeoutError:
                self.pgconn.finish()  # its state is unknown
                raise

    return PostgresConnection


def _until(deadline: float, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Go on with `steps`, which psycopg wakes ten times a second at least. Raises TimeoutError after `deadline`."""
    try:
        state = next(steps)
        while True:
            ready = yield state
            if time.monotonic() > deadline:
                raise TimeoutError
            state = steps.send(ready)
    except StopIteration as end:
        return end.value


_HINT = "Write it as postgresql://USER:PASSWORD@HOST:PORT/NAME."


def configured(environment: Mapping[str, str] = os.environ) -> PostgresDatabase | None:
    """Return the database that the environment names, None if it names none. Raises InvalidInput."""
    url = environment.get(URL, "").strip()
    if not url:
        return None
    if not url.startswith(("postgresql://", "postgres://")):
        raise InvalidInput(f"{URL} is not an address of a database.", _HINT)
    return PostgresDatabase(url)


def literal(vector: Sequence[float]) -> str:
    """Return a vector as pgvector reads it."""
    return "[" + ",".join(f"{number:.5g}" for number in vector) + "]"


def _place(url: str) -> str:
    """Return what may be shown of an address: the host and the database."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or next(iter(parse_qs(parts.query).get("host", ())), "") or "localhost"
        return f"PostgreSQL at {host}{parts.path if len(parts.path) > 1 else ''}"
    except ValueError:
        return "PostgreSQL"


def _reason(error: Any) -> str:
    """Return the server's own first line, which never has an address."""
    return str(getattr(error.diag, "message_primary", None) or type(error).__name__)[:200]
