"""
Publish a vault's catalog to PostgreSQL: what changed since the mark, in batches.

The mark is stored in the transaction of the batch, so that a kill at any point loses nothing and doubles nothing.
A catalog that was begun anew, or that has another embedding, is published beside the former copy and takes its place
when it is complete: readers never see half of it.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from spellbook.index.catalog.changes import ChangedChunk, batches_by_seq
from spellbook.index.catalog.vectors import IN_USE
from spellbook.index.opened import Index
from spellbook.index.postgres import words
from spellbook.index.postgres.conditions import clean
from spellbook.index.postgres.database import PARTITIONS, PostgresDatabase, literal
from spellbook.system.lazy import np
from spellbook.text.unicode import digest_of

if TYPE_CHECKING:
    import psycopg

NUMBERS = 1 << 40
"""The numbers of a vault's notes and chunks are those of its catalog, and so many times the number of the vault."""

NOTES = 200
"""Notes in a transaction. By hand: it takes under a second."""

VECTORS = 1_000
"""Vectors in a transaction. By hand: it takes under a second."""

_MOST_WIDTH = 4_000
"""Numbers of a halfvec that an HNSW index takes."""

_TABLES = ("notes", "fields", "links", "labels", "chunks")
_MARKS = "notes_seq, vectors_seq, second_seq"


@dataclass(frozen=True, slots=True)
class PublishReport:
    """What a run published: the vault's name there, notes written, notes removed there, vectors written, seconds."""

    name: str
    notes: int
    removed: int
    vectors: int
    seconds: float

    def as_dict(self) -> dict[str, object]:
        """Return it as the command line's JSON shows it."""
        return asdict(self)


@dataclass(slots=True)
class _CopyState:
    """The vault's row: its number there, and how far the copy is."""

    vault: int
    marks: tuple[int, int, int]


class _Overtaken(Exception):
    """Another process published meanwhile; what was read is read again."""


def own(vault: int) -> str:
    """Return the word that every chunk of a vault has, by which the index of words finds its chunks alone."""
    return f"v:{vault}"


def publish(index: Index, database: PostgresDatabase) -> PublishReport:
    """
    Bring the copy of a vault up to its catalog. Several processes may do so at once.

    Raises StorageError; the next run goes on where this one ended.
    """
    started = time.monotonic()
    database.prepare()
    vault = _vault(index, database)
    catalog = index.catalog
    notes = removed = vectors = 0
    while True:
        try:
            while changed := catalog.changes.since(vault.marks[0], NOTES):
                of_batch = _notes(index, database, vault, changed)
                notes, removed, vectors = notes + of_batch[0], removed + of_batch[1], vectors + of_batch[2]
            for which, mark in ((0, vault.marks[1]), (1, vault.marks[2])):
                rows = catalog.changes.seconds(mark) if which else catalog.vectors.since(mark, IN_USE)
                for batch in batches_by_seq(rows, VECTORS):
                    _vectors(database, vault, batch, which)
                    vectors += len(batch) * (not which)
            if not catalog.changes.since(vault.marks[0], 1):
                break
        except _Overtaken:
            vault = _vault(index, database)
    name = _finish(index, database, vault)
    return PublishReport(name, notes, removed, vectors, round(time.monotonic() - started, 3))


def behind(index: Index, database: PostgresDatabase) -> int:
    """Return how many notes changed since they were published; all, if they never were. Raises StorageError."""
    database.expect()
    rows = database.rows("SELECT notes_seq FROM vaults WHERE owner = %(owner)s AND origin = %(origin)s", _names(index))
    return index.catalog.changes.left(rows[0][0] if rows else 0)


def _names(index: Index) -> dict[str, object]:
    vault = index.config.vault
    return {
        "name": clean(vault.name) or "vault",
        "owner": digest_of(f"{platform.node()}\0{vault}", 16),
        "origin": f"{index.catalog.changes.catalog}:{index.catalog.fingerprint}",
    }


def _vault(index: Index, database: PostgresDatabase) -> _CopyState:
    catalog = index.catalog
    values = {
        **_names(index),
        "embedder": index.embedder.name,
        "fingerprint": catalog.fingerprint,
        "encoder": catalog.second.fingerprint,
        # Read before any note: a note that is published later has the vectors up to here with it.
        "vectors": catalog.vectors.seq,
        "second": catalog.second.last(),
    }
    with database.writing() as connection:
        connection.execute(
            """
            INSERT INTO vaults (name, owner, origin, embedder, fingerprint, second, vectors_seq, second_seq)
            VALUES
                (%(name)s, %(owner)s, %(origin)s, %(embedder)s, %(fingerprint)s, %(encoder)s, %(vectors)s, %(second)s)
            ON CONFLICT (owner, origin) DO NOTHING
            """,
            values,
        )
        sql = f"SELECT vault, {_MARKS} FROM vaults WHERE owner = %(owner)s AND origin = %(origin)s"
        row = connection.execute(sql, values).fetchone()
    assert row is not None
    return _CopyState(row[0], (row[1], row[2], row[3]))


def _lock(connection: psycopg.Connection[Any], vault: _CopyState) -> tuple[int, int]:
    """Lock the vault's row and return its chunks and words. Raises _Overtaken if the copy is not where it was."""
    sql = f"SELECT {_MARKS}, chunks, tokens FROM vaults WHERE vault = %s FOR UPDATE"
    row = connection.execute(sql, (vault.vault,)).fetchone()
    if row is None or row[:3] != vault.marks:
        raise _Overtaken
    return row[3], row[4]


def _notes(
    index: Index, database: PostgresDatabase, vault: _CopyState, changed: Sequence[tuple[int, int]]
) -> tuple[int, int, int]:
    """Publish these changes (seq, note); return how many notes were written and removed, and vectors written."""
    changes, numbers, base = index.catalog.changes, [note for _, note in changed], vault.vault * NUMBERS
    with index.catalog.reading():
        notes, chunks, fields = changes.notes(numbers), changes.chunks(numbers), changes.fields(numbers)
        labels, links = changes.labels(numbers), changes.links(numbers)
        keys = [*{*(chunk.key for chunk in chunks), *(key for *_, key in labels)}]
        vectors, seconds = index.catalog.vectors.of(keys), index.catalog.second.of(keys)
    stored = {key: _halfvec(blob) for key, blob in vectors.items()}
    with database.writing() as connection:
        count, tokens = _lock(connection, vault)
        mean = tokens / count if count else _mean(chunks)
        cut = words.of_chunks([chunk.words for chunk in chunks], own(vault.vault), mean)
        changed_notes = (vault.vault, [base + note for note in numbers])
        _frequencies(connection, changed_notes, -1)
        gone = connection.execute(
            "WITH gone AS (DELETE FROM chunks WHERE vault = %s AND note = ANY(%s) RETURNING length)"
            " SELECT count(*), coalesce(sum(length), 0) FROM gone",
            changed_notes,
        ).fetchone()
        assert gone is not None
        for table in ("fields", "links", "labels"):
            connection.execute(f"DELETE FROM {table} WHERE vault = %s AND note = ANY(%s)", changed_notes)
        sql = "DELETE FROM notes WHERE vault = %s AND note = ANY(%s) RETURNING note"
        dropped = [note - base for (note,) in connection.execute(sql, changed_notes)]
        copies: dict[str, Iterable[Sequence[object]]] = {
            "notes": ((base + row[0], *row[1:]) for row in notes),
            "fields": ((base + note, *field) for note, *field in fields),
            "links": ((base + row[0], *row[1:5], bool(row[5]), *row[6:]) for row in links),
            "labels": ((base + note, kind, key, stored.get(key), seconds.get(key)) for note, kind, key in labels),
            "chunks": (
                (
                    *(base + chunk.chunk, base + chunk.note, *chunk[2:11]),
                    *(*made, stored.get(chunk.key), seconds.get(chunk.key)),
                )
                for chunk, made in zip(chunks, cut, strict=True)
            ),
        }
        for table, rows in copies.items():
            _copy(connection, table, ((vault.vault, *row) for row in rows))
        _frequencies(connection, changed_notes, 1)
        connection.execute(
            """
            UPDATE vaults SET notes_seq = %s, notes = notes + %s, chunks = chunks + %s, tokens = tokens + %s,
                published = now() WHERE vault = %s
            """,
            (
                *(changed[-1][0], len(notes) - len(dropped), len(chunks) - gone[0]),
                *(sum(made.length for made in cut) - gone[1], vault.vault),
            ),
        )
    vault.marks = (changed[-1][0], *vault.marks[1:])
    return len(notes), len({*dropped} - {row[0] for row in notes}), len(stored)


def _frequencies(connection: psycopg.Connection[Any], notes: tuple[int, list[int]], sign: int) -> None:
    """Add, or with -1 take away, the words of these notes of a vault to how many chunks have each."""
    connection.execute(
        """
        INSERT INTO frequencies
        SELECT vault, word, %s * count(*) FROM chunks, unnest(tsvector_to_array(words)) AS word
        WHERE vault = %s AND note = ANY(%s) GROUP BY vault, word ORDER BY word
        ON CONFLICT (vault, word) DO UPDATE SET chunks = frequencies.chunks + excluded.chunks
        """,
        (sign, *notes),
    )


def _vectors(
    database: PostgresDatabase, vault: _CopyState, batch: Sequence[tuple[str, bytes, int]], which: int
) -> None:
    """Give chunks and labels the vectors that came after they were published; with `which`, the second encoder's."""
    column, kind, mark = ("second", "bytea", "second_seq") if which else ("vector", "halfvec", "vectors_seq")
    values = [blob if which else _halfvec(blob) for _, blob, _ in batch]
    with database.writing() as connection:
        _lock(connection, vault)
        for table in ("chunks", "labels"):
            connection.execute(
                f"""
                UPDATE {table} SET {column} = fresh.value::{kind}
                FROM unnest(%s::text[], %s::{"bytea" if which else "text"}[]) AS fresh (key, value)
                WHERE vault = %s AND {table}.key = fresh.key
                """,
                ([key for key, _, _ in batch], values, vault.vault),
            )
        connection.execute(
            f"UPDATE vaults SET {mark} = %s, published = now() WHERE vault = %s", (batch[-1][2], vault.vault)
        )
    vault.marks = (*vault.marks[:2], batch[-1][2]) if which else (vault.marks[0], batch[-1][2], vault.marks[2])


def _finish(index: Index, database: PostgresDatabase, vault: _CopyState) -> str:
    """Publish what is of the whole vault, and let a complete copy take the place of the former one; return its name."""
    counts, width, names = index.catalog.counts(), index.catalog.vectors.width(), _names(index)
    moves = index.catalog.changes.moves()
    values = {**names, "vault": vault.vault}
    if 0 < width <= _MOST_WIDTH:
        make_indexes(database, width)
    with database.writing() as connection:
        old = connection.execute("SELECT old, new, name FROM moves WHERE vault = %(vault)s ORDER BY old", values)
        if old.fetchall() != sorted(tuple(clean(part or "") for part in row) for row in moves):
            connection.execute("DELETE FROM moves WHERE vault = %(vault)s", values)
            _copy(connection, "moves", ((vault.vault, old, new, name or "") for old, new, name in moves))
        row = connection.execute(
            "SELECT is_live, name, generation FROM vaults WHERE vault = %(vault)s FOR UPDATE", values
        ).fetchone()
        assert row is not None
        is_live, name, generation = row
        if generation != counts.generation or not is_live:
            connection.execute(
                """
                UPDATE vaults SET generation = %s, pending = %s, second_pending = %s, second = %s, embedder = %s,
                    published = now() WHERE vault = %s
                """,
                (
                    *(counts.generation, counts.pending, counts.second_pending, index.catalog.second.fingerprint),
                    *(index.embedder.name, vault.vault),
                ),
            )
        if not is_live:
            others = connection.execute(
                "SELECT vault FROM vaults WHERE owner = %(owner)s AND vault <> %(vault)s", values
            ).fetchall()
            for (other,) in others:
                for table in (*_TABLES, "frequencies", "moves", "vaults"):
                    connection.execute(f"DELETE FROM {table} WHERE vault = %s", (other,))
            connection.execute("LOCK TABLE vaults IN SHARE ROW EXCLUSIVE MODE")
            taken = connection.execute("SELECT 1 FROM vaults WHERE name = %(name)s AND is_live", values).fetchone()
            name = f"{names['name']}-{str(names['owner'])[:6]}" if taken else str(names["name"])
            connection.execute("UPDATE vaults SET is_live = true, name = %s WHERE vault = %s", (name, vault.vault))
            for table in _TABLES:  # else the planner takes a new vault for an empty one
                connection.execute(f"ANALYZE {table}")
    return str(name)


def make_indexes(database: PostgresDatabase, width: int) -> None:
    """Make the HNSW indexes for vectors of `width` numbers, if there are none."""
    if database.rows("SELECT to_regclass(%(name)s)", {"name": f"spellbook.chunks_near_{width}"})[0][0]:
        return
    of_width = f"(vector::halfvec({width})) halfvec_ip_ops) WHERE vector_dims(vector) = {width}"
    for table in ("labels", "chunks"):
        # A partition at a time: what is made stays if the next one takes too long. The whole table's takes these over.
        for part in (*(f"{table}_{i}" for i in range(PARTITIONS)), table):
            with database.writing() as connection:
                connection.execute("SET LOCAL maintenance_work_mem = '512MB'")
                connection.execute("SET LOCAL max_parallel_maintenance_workers = 0")
                connection.execute(f"CREATE INDEX IF NOT EXISTS {part}_near_{width} ON {part} USING hnsw ({of_width}")


def _copy(connection: psycopg.Connection[Any], table: str, rows: Iterable[Sequence[object]]) -> None:
    with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
        for row in rows:
            copy.write_row([clean(value) if isinstance(value, str) else value for value in row])


def _halfvec(blob: bytes) -> str:
    return literal(np.frombuffer(blob, dtype="<f4").tolist())


def _mean(chunks: Sequence[ChangedChunk]) -> float:
    return sum(len(" ".join(chunk.words).split()) for chunk in chunks) / (len(chunks) or 1)
