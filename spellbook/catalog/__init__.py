"""
The catalog: files, notes, chunks, words and vectors in one SQLite file; the only SQL.

Derived from the vault and safe to delete. Many processes share it: each change
is one `BEGIN IMMEDIATE` transaction that raises the generation, and nothing
slow ever happens inside one.
"""

from __future__ import annotations

import fnmatch
import json
import re
import sqlite3
import time
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from spellbook.catalog.schema import MIGRATIONS, WEIGHTS, Counts, Entry, Found, Known, Topic
from spellbook.catalog.sessions import Sessions
from spellbook.database import Database
from spellbook.errors import InvalidInput
from spellbook.filters import Condition, instant
from spellbook.notes import Fault, Stamp

FILE = "catalog.db"

_BATCH = 500
_MOST_CONDITIONS = 100


class Catalog:
    """The SQLite side of the index in the folder `state`; open it with `Catalog.open`."""

    def __init__(self, state: Path) -> None:
        self._database = Database(state / FILE, MIGRATIONS, {"path_glob": (2, _path_glob), "instant": (1, instant)})
        self._rows = self._database.rows
        self.sessions = Sessions(self._database)
        self._counts: tuple[tuple[int, int], Counts] | None = None

    @classmethod
    def open(cls, state: Path) -> Catalog:
        """
        Open the catalog, making or migrating it; one that is no database is set aside and begun anew.

        Raises StorageError if the folder cannot be written, or if a newer
        Spellbook wrote the catalog.
        """
        catalog = cls(state)
        catalog._database.connection()
        return catalog

    @property
    def file(self) -> Path:
        """Where the catalog is kept."""
        return self._database.file

    def close(self) -> None:
        """Close the connections of all threads."""
        self._database.close()

    def reading(self) -> AbstractContextManager[None]:
        """Let all reads inside see one state of the catalog."""
        return self._database.reading()

    def _transaction(self, kind: str) -> AbstractContextManager[sqlite3.Connection]:
        return self._database.transaction(kind)

    # -- meta

    def _get(self, key: str) -> Any:
        rows = self._rows("SELECT value FROM meta WHERE key = ?", (key,))
        return rows[0][0] if rows else None

    @staticmethod
    def _bump(connection: sqlite3.Connection, key: str) -> int:
        connection.execute("UPDATE meta SET value = value + 1 WHERE key = ?", (key,))
        return int(connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()[0])

    @property
    def generation(self) -> int:
        """How many changes were committed so far."""
        return int(self._get("generation") or 0)

    @property
    def fingerprint(self) -> str:
        """Name of the embedding whose vector keys the chunks carry, "" before the first."""
        return str(self._get("fingerprint") or "")

    def counts(self) -> Counts:
        """Return the state of the index, computed once per generation."""
        with self.reading():
            generation = self.generation
            # A catalog that was begun anew counts from 0 again.
            version = (self._database.identity, generation)
            if self._counts is None or self._counts[0] != version:
                row = self._rows(
                    """
                    SELECT (SELECT count(*) FROM notes), (SELECT count(*) FROM chunks),
                    (SELECT count(DISTINCT key) FROM chunks WHERE key NOT IN (SELECT key FROM vectors))
                    """
                )[0]
                self._counts = (version, Counts(generation, *row))
            return self._counts[1]

    # -- files and notes

    def known(self, paths: Sequence[str] | None = None) -> dict[str, Known]:
        """Return what the catalog remembers of every file, or of `paths`."""
        sql = "SELECT path, size, mtime_ns, inode, read_ns, sha256 FROM files"
        if paths is None:
            rows = self._rows(sql)
        else:
            rows = [row for batch in _batches(paths) for row in self._rows(f"{sql} WHERE path IN ({','.join('?' * len(batch))})", batch)]
        return {path: Known(Stamp(size, mtime, inode), read, sha) for path, size, mtime, inode, read, sha in rows}

    def faults(self) -> tuple[Fault, ...]:
        """Return what a person should mend in the vault's files."""
        return tuple(Fault(*row) for row in self._rows("SELECT path, line, reason FROM faults ORDER BY path, line"))

    def twins(self) -> tuple[Fault, ...]:
        """Return the notes that declare an id which another one has; they go by their paths."""
        rows = self._rows(
            """
            SELECT notes.path, notes.declared, holder.path FROM notes JOIN notes AS holder ON holder.id = notes.declared
            OR holder.path = notes.declared || '.md'
            WHERE notes.declared IS NOT NULL AND notes.id IS NOT notes.declared AND notes.note <> holder.note
            GROUP BY notes.path ORDER BY notes.path
            """
        )
        return tuple(Fault(path, 1, f"its id {id} belongs to {holder}, so its path serves as its id") for path, id, holder in rows)

    def apply(
        self,
        entries: Iterable[Entry],
        gone: Iterable[str],
        now: Callable[[str], Stamp | None],
        fingerprint: str,
        heirs: Collection[str] = (),
    ) -> tuple[list[str], list[str]]:
        """
        Make the catalog say of `entries` what was read, and forget `gone`; return the paths taken and forgotten.

        `now` tells a file's stamp: one that changed since it was read, or came
        back, is left for the next run, so that of two processes the one with
        the older bytes yields. Ids that fall free go to `heirs` first, the paths
        to which notes were moved. Entries cut for another embedding than the
        catalog's are refused the same way.
        """
        with self._transaction("IMMEDIATE") as connection:
            if self.fingerprint != fingerprint:
                return [], []
            before = int(connection.total_changes)
            taken: list[str] = []
            affected: set[str] = set()
            lost = [path for path in gone if now(path) is None]
            for path in lost:
                affected |= self._forget(connection, path)
                connection.execute("DELETE FROM files WHERE path = ?", (path,))
            for entry in entries:
                if now(entry.path) != entry.stamp:
                    continue
                self._remember(connection, entry)
                taken.append(entry.path)
                if entry.sha256:  # else it could not be opened, and what was read before stays
                    affected |= self._replace_note(connection, entry)
            self._settle_ids(connection, affected, heirs)
            if connection.total_changes != before:
                self._bump(connection, "generation")
            return taken, lost

    def touch(self, entries: Iterable[Entry]) -> None:
        """Note that files were read again and hold what they held; no generation passes."""
        with self._transaction("IMMEDIATE") as connection:
            for entry in entries:
                connection.execute(
                    "UPDATE files SET size = ?, mtime_ns = ?, inode = ?, read_ns = ? WHERE path = ? AND sha256 = ?",
                    (*_stamp(entry.stamp), entry.read_ns, entry.path, entry.sha256),
                )
                connection.execute("UPDATE notes SET mtime_ns = ? WHERE path = ?", (entry.stamp.mtime_ns, entry.path))

    def set_looked(self, complaint: str = "") -> None:
        """Note that the whole vault was looked at, and what kept the look from being finished."""
        if self._get("looked") != complaint:
            with self._database.transaction() as connection:
                connection.execute("INSERT OR REPLACE INTO meta VALUES ('looked', ?)", (complaint,))

    @property
    def looked(self) -> str | None:
        """What kept the last look at the whole vault from being finished, "" if nothing did, None before the first."""
        value = self._get("looked")
        return None if value is None else str(value)

    def set_walk_faults(self, faults: Sequence[Fault]) -> None:
        """Keep the faults of the last walk, apart from those of notes."""
        new = sorted((f.path, f.line, f.reason) for f in faults)
        old = self._rows("SELECT path, line, reason FROM faults WHERE walk ORDER BY 1, 2, 3")
        if [tuple(row) for row in old] == new:
            return
        with self._transaction("IMMEDIATE") as connection:
            connection.execute("DELETE FROM faults WHERE walk")
            connection.executemany("INSERT INTO faults VALUES (?, ?, ?, 1)", new)
            self._bump(connection, "generation")

    def _remember(self, connection: sqlite3.Connection, entry: Entry) -> None:
        connection.execute(
            "INSERT OR REPLACE INTO files (path, size, mtime_ns, inode, read_ns, sha256) VALUES (?, ?, ?, ?, ?, ?)",
            (entry.path, *_stamp(entry.stamp), entry.read_ns, entry.sha256),
        )
        connection.execute("DELETE FROM faults WHERE path = ? AND NOT walk", (entry.path,))
        connection.executemany("INSERT INTO faults VALUES (?, ?, ?, 0)", [(f.path, f.line, f.reason) for f in entry.faults])

    def _forget(self, connection: sqlite3.Connection, path: str) -> set[str]:
        """Remove a note and its chunks; return the ids that may change hands."""
        connection.execute("DELETE FROM faults WHERE path = ? AND NOT walk", (path,))
        row = connection.execute("SELECT note, declared FROM notes WHERE path = ?", (path,)).fetchone()
        if row is None:
            return set()
        note, declared = row
        self._drop_chunks(connection, note)
        connection.execute("DELETE FROM fields WHERE note = ?", (note,))
        connection.execute("DELETE FROM notes WHERE note = ?", (note,))
        return {name for name in (declared, _path_id(path)) if name}

    @staticmethod
    def _drop_chunks(connection: sqlite3.Connection, note: int) -> None:
        rows = connection.execute("SELECT chunk, key FROM chunks WHERE note = ?", (note,)).fetchall()
        connection.executemany("DELETE FROM words WHERE rowid = ?", [(chunk,) for chunk, _ in rows])
        connection.execute("DELETE FROM chunks WHERE note = ?", (note,))
        now = int(time.time())
        connection.executemany("UPDATE vectors SET used = ? WHERE key = ?", [(now, key) for _, key in rows])

    def _replace_note(self, connection: sqlite3.Connection, entry: Entry) -> set[str]:
        row = connection.execute("SELECT note, declared FROM notes WHERE path = ?", (entry.path,)).fetchone()
        if entry.note is None:
            return self._forget_keeping_faults(connection, entry)
        columns = {**entry.note, "path": entry.path, "mtime_ns": entry.stamp.mtime_ns}
        old_keys: set[str] = set()
        affected = {name for name in (columns["declared"], _path_id(entry.path)) if name}
        if row is None:
            names = ", ".join(columns)
            marks = ", ".join(f":{name}" for name in columns)
            note = connection.execute(f"INSERT INTO notes ({names}) VALUES ({marks})", columns).lastrowid
        else:
            note = row[0]
            affected |= {row[1]} if row[1] else set()
            old_keys = {key for (key,) in connection.execute("SELECT key FROM chunks WHERE note = ?", (note,))}
            self._drop_chunks(connection, note)
            connection.execute("DELETE FROM fields WHERE note = ?", (note,))
            sets = ", ".join(f"{name} = :{name}" for name in columns)
            connection.execute(f"UPDATE notes SET {sets} WHERE note = :note", {**columns, "note": note})
        connection.executemany("INSERT OR IGNORE INTO fields VALUES (?, ?, ?)", [(note, *field) for field in entry.fields])
        self._revive(connection, {chunk.key for chunk in entry.chunks} - old_keys)
        for chunk in entry.chunks:
            rowid = connection.execute(
                """
                INSERT INTO chunks (note, ordinal, suffix, heading, line, end_line, text, embedded, same, key, lead, tail)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """,
                (
                    note,
                    chunk.ordinal,
                    chunk.suffix,
                    chunk.heading,
                    chunk.line,
                    chunk.end_line,
                    chunk.text,
                    chunk.embedded,
                    chunk.same,
                    chunk.key,
                    chunk.lead,
                    chunk.tail,
                ),
            ).lastrowid
            connection.execute(
                "INSERT INTO words (rowid, title, heading, keywords, questions, body, parts) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (rowid, *chunk.words),
            )
        return affected

    def _forget_keeping_faults(self, connection: sqlite3.Connection, entry: Entry) -> set[str]:
        affected = self._forget(connection, entry.path)
        connection.executemany("INSERT INTO faults VALUES (?, ?, ?, 0)", [(f.path, f.line, f.reason) for f in entry.faults])
        return affected

    def _revive(self, connection: sqlite3.Connection, keys: set[str]) -> None:
        """Give vectors that come back into use a new seq, so that readers who follow seq see them again."""
        for batch in _batches(sorted(keys)):
            marks = ",".join("?" * len(batch))
            back = connection.execute(
                f"SELECT key FROM vectors WHERE key IN ({marks}) AND NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.key = vectors.key)",
                batch,
            ).fetchall()
            if back:
                seq = self._bump(connection, "seq")
                connection.executemany("UPDATE vectors SET seq = ? WHERE key = ?", [(seq, key) for (key,) in back])

    def _settle_ids(self, connection: sqlite3.Connection, names: set[str], heirs: Collection[str]) -> None:
        """
        Decide who carries each of `names`: a path is an id of its own; a declared id stays
        with the note that has it, else goes to the shortest path, since a copy's is longer; the others go by their paths.
        """
        settled: dict[int, str] = {}
        for name in sorted(names):
            rows = connection.execute(
                """
                SELECT note, path, declared, id FROM notes WHERE declared = :name OR path = :name || '.md' OR path = :name
                ORDER BY id IS NOT :name, length(path), path
                """,
                {"name": name},
            ).fetchall()
            owner: tuple[Any, ...] | None = next((row for row in rows if _path_id(row[1]) == name), None)
            claimants = [row for row in rows if row[2] == name]
            claimants.sort(key=lambda row: (row[3] != name, row[1] not in heirs))
            winner = owner or (claimants[0] if claimants else None)
            for row in rows:
                note, path, declared, id = row
                if row is winner and declared in {name, None}:
                    settled[note] = name
                elif declared == name:
                    settled[note] = _path_id(path)
                elif id is None:
                    settled.setdefault(note, _path_id(path))
        connection.executemany("UPDATE notes SET id = NULL WHERE note = ?", [(note,) for note in settled])
        connection.executemany("UPDATE notes SET id = ? WHERE note = ?", [(name, note) for note, name in settled.items()])

    # -- vectors

    def recut(self, rules: str) -> None:
        """Have every note read again if `rules`, the name of how notes are cut, are not those it was cut by."""
        if self._get("rules") == rules:
            return
        with self._transaction("IMMEDIATE") as connection:
            if self._get("rules") not in {rules, None}:
                connection.execute("UPDATE files SET sha256 = '', read_ns = 0")
            connection.execute("INSERT OR REPLACE INTO meta VALUES ('rules', ?)", (rules,))

    def adopt(self, fingerprint: str, key: Callable[[str], str]) -> None:
        """Give every chunk its key under the embedding `fingerprint`; vectors of the old one stay as a cache."""
        if self.fingerprint == fingerprint:
            return
        with self._transaction("IMMEDIATE") as connection:
            if self.fingerprint == fingerprint:
                return
            connection.create_function("vector_key", 1, key, deterministic=True)
            connection.execute(f"UPDATE vectors SET used = ? WHERE {_IN_USE}", (int(time.time()),))
            connection.execute("UPDATE chunks SET key = vector_key(embedded)")
            connection.execute("UPDATE meta SET value = ? WHERE key = 'fingerprint'", (fingerprint,))
            seq = self._bump(connection, "seq")
            connection.execute("UPDATE vectors SET seq = ? WHERE key IN (SELECT key FROM chunks)", (seq,))
            connection.execute("DELETE FROM claims")
            self._bump(connection, "generation")

    def pending(self) -> list[str]:
        """Return the vector keys that have no vector yet, those of the newest files first."""
        rows = self._rows(
            """
            SELECT key FROM chunks JOIN notes USING (note) WHERE key NOT IN (SELECT key FROM vectors)
            GROUP BY key ORDER BY max(mtime_ns) DESC, min(chunk)
            """
        )
        return [key for (key,) in rows]

    def claim(self, keys: Sequence[str], owner: str, seconds: float = 60) -> list[tuple[str, str]]:
        """Return the keys and texts of `keys` that are still pending and that no other process is at."""
        now = time.time()
        marks = ",".join("?" * len(keys))
        with self._transaction("IMMEDIATE") as connection:
            rows: list[tuple[str, str]] = connection.execute(
                f"""
                SELECT key, min(embedded) FROM chunks WHERE key IN ({marks}) AND key NOT IN (SELECT key FROM vectors)
                AND key NOT IN (SELECT key FROM claims WHERE owner <> ? AND until > ?) GROUP BY key
                """,
                (*keys, owner, now),
            ).fetchall()
            order = {key: i for i, key in enumerate(keys)}
            rows.sort(key=lambda row: order[row[0]])
            connection.executemany("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", [(key, owner, now + seconds) for key, _ in rows])
            return rows

    def texts(self, keys: Sequence[str]) -> list[tuple[str, str]]:
        """Return the keys and texts of `keys` that are still pending, whoever is at them."""
        marks = ",".join("?" * len(keys))
        return self._rows(
            f"SELECT key, min(embedded) FROM chunks WHERE key IN ({marks}) AND key NOT IN (SELECT key FROM vectors) GROUP BY key", keys
        )

    def add_vectors(self, rows: Iterable[tuple[str, bytes]]) -> int:
        """Store vectors (float32, little endian) by key and return how many were new."""
        with self._transaction("IMMEDIATE") as connection:
            seq = self._bump(connection, "seq")
            now = int(time.time())
            listed = list(rows)
            before = connection.total_changes
            connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?, ?)", [(k, v, seq, now) for k, v in listed])
            added = connection.total_changes - before
            connection.executemany("DELETE FROM claims WHERE key = ?", [(key,) for key, _ in listed])
            self._bump(connection, "generation")
            return added

    def has_vectors(self, keys: Iterable[str]) -> set[str]:
        """Return those of `keys` that have a vector."""
        found: set[str] = set()
        for batch in _batches(list(keys)):
            found.update(key for (key,) in self._rows(f"SELECT key FROM vectors WHERE key IN ({','.join('?' * len(batch))})", batch))
        return found

    def vectors_since(self, seq: int) -> list[tuple[str, bytes, int]]:
        """Return key, vector and seq of the vectors in use that came after `seq`, oldest first."""
        return self._rows(
            f"SELECT key, vector, seq FROM vectors WHERE seq > ? AND {_IN_USE} ORDER BY seq",
            (seq,),
        )

    def changes(self, seq: int) -> list[tuple[str, int]]:
        """Return key and seq of the vectors in use that came after `seq`, oldest first."""
        return self._rows(
            f"SELECT key, seq FROM vectors WHERE seq > ? AND {_IN_USE} ORDER BY seq",
            (seq,),
        )

    def vectors(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the stored vectors of `keys` (float32, little endian); keys without one are left out."""
        found: dict[str, bytes] = {}
        for batch in _batches(list(keys)):
            found.update(self._rows(f"SELECT key, vector FROM vectors WHERE key IN ({_quoted(batch)})"))
        return found

    def width(self) -> int:
        """Return how many numbers the vectors in use have, 0 if there are none."""
        rows = self._rows(f"SELECT length(vector) / 4 FROM vectors WHERE {_IN_USE} LIMIT 1")
        return rows[0][0] if rows else 0

    def evict(self, most_bytes: int) -> int:
        """Delete unused vectors, longest unused first, until all are within `most_bytes`; return how many."""
        count, size = self._rows("SELECT count(*), (SELECT length(vector) FROM vectors LIMIT 1) FROM vectors")[0]
        surplus = count - most_bytes // (size or 1)
        if surplus <= 0:
            return 0
        with self._transaction("IMMEDIATE") as connection:
            return connection.execute(
                f"DELETE FROM vectors WHERE key IN (SELECT key FROM vectors WHERE NOT {_IN_USE} ORDER BY used, seq LIMIT ?)",
                (surplus,),
            ).rowcount

    # -- search

    def keys(self, conditions: Sequence[Condition]) -> list[str]:
        """Return the distinct vector keys of the chunks that meet `conditions`."""
        where, values = self._where(conditions)
        return [key for (key,) in self._rows(f"SELECT DISTINCT key FROM chunks JOIN notes USING (note) WHERE {where}", values)]

    def match(self, expression: str, conditions: Sequence[Condition], limit: int) -> list[tuple[int, float]]:
        """Return chunk numbers and bm25 (larger is better) of an FTS5 expression, its columns weighted as `WEIGHTS` says."""
        where, values = self._where(conditions)
        join = "JOIN chunks ON chunk = words.rowid JOIN notes USING (note)" if conditions else ""
        return self._rows(
            f"""
            SELECT words.rowid, -{_BM25} AS score FROM words {join}
            WHERE words MATCH :expression AND {where} ORDER BY score DESC, words.rowid LIMIT :limit
            """,
            {**values, "expression": expression, "limit": limit},
        )

    def match_among(self, expression: str, numbers: Sequence[int]) -> list[tuple[int, float]]:
        """Return what `match` would, for the chunks `numbers` alone."""
        # `+`: else SQLite runs the whole match, idf included, once for every rowid.
        return [
            row
            for batch in _batches(numbers)
            for row in self._rows(
                f"""
                SELECT rowid, -{_BM25} FROM words
                WHERE words MATCH ? AND +rowid IN ({",".join(map(str, map(int, batch)))})
                """,
                (expression,),
            )
        ]

    def in_use(self, keys: Sequence[str]) -> set[str]:
        """Return those of `keys` that a chunk carries."""
        return {
            key for batch in _batches(keys) for (key,) in self._rows(f"SELECT DISTINCT key FROM chunks WHERE key IN ({_quoted(batch)})")
        }

    def frequency(self, expression: str) -> int:
        """Return how many chunks match an FTS5 expression."""
        return int(self._rows("SELECT count(*) FROM words WHERE words MATCH ?", (expression,))[0][0])

    def by_key(self, keys: Sequence[str], conditions: Sequence[Condition] = ()) -> list[Found]:
        """Return the chunks that carry one of `keys` and meet `conditions`."""
        where, values = self._where(conditions)
        return [found for batch in _batches(list(keys)) for found in self._found(f"key IN ({_quoted(batch)}) AND {where}", values)]

    def by_number(self, numbers: Sequence[int]) -> list[Found]:
        """Return chunks by their numbers, in no order."""
        return [
            found for batch in _batches(list(numbers)) for found in self._found(f"chunk IN ({','.join(map(str, map(int, batch)))})", {})
        ]

    def by_fold(self, same: Sequence[str]) -> list[Found]:
        """Return the chunks whose folded text has one of these hashes."""
        return self._found(f"same IN ({_quoted(same)})", {}) if same else []

    def note(self, id: str) -> list[Found]:
        """Return all chunks, in order, of the note with this id, else with this path; none if there is no such note."""
        return self._found("notes.id = :id", {"id": id}) or self.at(id)

    def at(self, path: str) -> list[Found]:
        """Return all chunks, in order, of the note at `path`; none if there is no such note."""
        return self._found("notes.path = :path", {"path": path})

    def topic(self, topic: str, category: str | None = None) -> list[Found]:
        """Return all chunks of a topic in reading order."""
        return self._found(
            "notes.topic = :topic AND (:category IS NULL OR notes.category = :category)", {"topic": topic, "category": category}
        )

    def paths(self, conditions: Sequence[Condition]) -> list[str]:
        """Return the paths of the notes that meet `conditions`."""
        where, values = self._where(conditions)
        return [path for (path,) in self._rows(f"SELECT path FROM notes WHERE {where} ORDER BY path", values)]

    def where_is(self, path: str) -> str | None:
        """Return the id of the note at `path`."""
        rows = self._rows("SELECT id FROM notes WHERE path = ?", (path,))
        return rows[0][0] if rows else None

    def topics(self, conditions: Sequence[Condition] = ()) -> list[Topic]:
        """Return every topic, largest first within its category."""
        where, values = self._where(conditions)
        rows = self._rows(
            f"""
            SELECT category, topic, count(DISTINCT note), count(*), max(coalesce(updated, created, '')), max(mtime_ns),
                   json_group_array(DISTINCT title), json_group_array(DISTINCT keywords)
            FROM chunks JOIN notes USING (note) WHERE {where} GROUP BY category, topic ORDER BY category, count(*) DESC, topic
            """,
            values,
        )
        return [
            Topic(
                category,
                topic,
                notes,
                chunks,
                updated or time.strftime("%Y-%m-%d", time.localtime(mtime / 1e9)),
                tuple(json.loads(titles)),
                tuple(dict.fromkeys(word for words in json.loads(keywords) for word in json.loads(words))),
            )
            for category, topic, notes, chunks, updated, mtime, titles, keywords in rows
        ]

    def sizes(self) -> dict[str, int]:
        """Return figures for `status`: bytes on disk, vectors stored and in use."""
        stored, used = self._rows(
            "SELECT (SELECT count(*) FROM vectors), (SELECT count(*) FROM vectors WHERE key IN (SELECT key FROM chunks))"
        )[0]
        size = sum(part.stat().st_size for part in self.file.parent.glob(f"{FILE}*") if part.is_file())
        return {"bytes": size, "vectors": stored, "vectors_in_use": used}

    def verify(self) -> list[str]:
        """Return what SQLite's own checks find wrong; empty for a sound catalog."""
        problems = [row[0] for row in self._rows("PRAGMA integrity_check(5)") if row[0] != "ok"]
        with self._transaction("IMMEDIATE") as connection:
            try:
                connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
            except sqlite3.DatabaseError as error:
                problems.append(f"full-text index: {error}; delete {self.file.parent} and run again, it is rebuilt from the vault")
        return problems

    def _found(self, where: str, values: Mapping[str, object]) -> list[Found]:
        rows = self._rows(
            f"""
            SELECT chunk, notes.id || suffix, path, line, end_line, title, heading, text, key, topic, category, importance,
                   created, updated, mtime_ns, ordinal, keywords, tags, meta, lead, tail
            FROM chunks JOIN notes USING (note) WHERE {where} ORDER BY path, ordinal
            """,
            values,
        )
        return [Found(*(*row[:16], tuple(json.loads(row[16])), tuple(json.loads(row[17])), json.loads(row[18]), *row[19:])) for row in rows]

    def _where(self, conditions: Sequence[Condition]) -> tuple[str, dict[str, object]]:
        """Return the SQL that `conditions` mean on the table notes, and its values. Raises InvalidInput for an unknown key."""
        if len(conditions) > _MOST_CONDITIONS:
            raise InvalidInput(f"The filter has {len(conditions)} keys.", f"{_MOST_CONDITIONS} are the most.")
        parts: list[str] = ["1"]
        values: dict[str, object] = {}
        for number, condition in enumerate(conditions):
            sql = self._condition(condition, f"c{number}", values)
            parts.append(f"NOT ({sql})" if condition.negated else f"({sql})")
        return " AND ".join(parts), values

    def _condition(self, condition: Condition, name: str, values: dict[str, object]) -> str:
        key = condition.key
        if condition.low is not None or condition.high is not None:
            column = {"importance": "importance", "created": "instant(created)"}.get(key, "coalesce(instant(updated), mtime_ns / 1e9)")
            values |= {f"{name}low": condition.low, f"{name}high": condition.high}
            bounds = [f"{column} >= :{name}low"] * (condition.low is not None) + [f"{column} <= :{name}high"] * (condition.high is not None)
            return f"coalesce({' AND '.join(bounds)}, 0)"
        # One value however long the list: SQLite bounds how many there are, and how deep an expression is.
        values[f"{name}any"] = json.dumps(condition.values)
        if key == "path":
            return f"EXISTS (SELECT 1 FROM json_each(:{name}any) AS pattern WHERE path_glob(notes.path, pattern.value))"
        values[name] = key
        if not self._rows("SELECT 1 FROM fields WHERE key = ? LIMIT 1", (key,)) and key not in _COMMON_FIELDS:
            present = sorted({row[0] for row in self._rows("SELECT DISTINCT key FROM fields")} | _COMMON_FIELDS)
            raise InvalidInput(f"No note has the key {key!r} to filter by.", f"Keys here are {', '.join(present[:40])}.")
        return f"note IN (SELECT note FROM fields WHERE key = :{name} AND value IN (SELECT value FROM json_each(:{name}any)))"


_T = TypeVar("_T")
_BM25 = f"bm25(words, {', '.join(map(str, WEIGHTS))})"
_IN_USE = "EXISTS (SELECT 1 FROM chunks WHERE chunks.key = vectors.key)"
_COMMON_FIELDS = {"category", "topic", "tags", "keywords", "entities", "kind", "scope", "importance", "path", "created", "updated"}


def _stamp(stamp: Stamp) -> tuple[int, int, int]:
    return stamp.size, stamp.mtime_ns, stamp.inode


def _path_id(path: str) -> str:
    # Never the same for two paths: what still ends in .md is a whole path.
    return path[:-3] if path.endswith(".md") and not path[:-3].lower().endswith(".md") else path


def _batches(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]


def _quoted(texts: Sequence[str]) -> str:
    return ", ".join("'" + text.replace("'", "''") + "'" for text in texts)


def _path_glob(path: str, pattern: str) -> bool:
    return bool(_glob(pattern).match(unicodedata.normalize("NFC", path)))


@lru_cache(maxsize=64)
def _glob(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern.removesuffix("/") + "/*" if pattern.endswith("/") else pattern))
