"""
The vectors of chunks and labels, by the keys of their texts, and the texts that wait for one. The same texts share a
vector; unused ones are a cache.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice

from spellbook.index.catalog.rows import Tables
from spellbook.index.catalog.usage import DAY
from spellbook.system.errors import StorageError
from spellbook.system.lazy import np
from spellbook.system.sqlite import BRIEF_SECONDS, Database

Row = tuple[str, str, str]
"""The key of a vector, the kind of label ("" for the text of a chunk), and the text."""

OF_CHUNKS = "EXISTS (SELECT 1 FROM chunks WHERE chunks.key = vectors.key)"
OF_LABELS = "EXISTS (SELECT 1 FROM labels WHERE labels.key = vectors.key)"
IN_USE = f"({OF_CHUNKS} OR {OF_LABELS})"
_IS_KEPT = "EXISTS (SELECT 1 FROM spared WHERE spared.key = vectors.key AND until >= ?)"

_LEFT = "left"
"""The key in `meta` of the name of the previous embedder."""

AT_ONCE = 1_000
"""Vectors that are read at a time: 1.5 MB as float32."""

_MOST = 2_047


class Vectors(Tables):
    """The table `vectors` in a catalog's database."""

    def adopt(self, fingerprint: str, key: Callable[[str], str]) -> None:
        """Give all chunks and labels their keys under the embedding `fingerprint`; old vectors stay as a cache."""
        if self._meta.fingerprint == fingerprint:
            return
        with self._database.transaction() as connection:
            if self._meta.fingerprint == fingerprint:
                return
            connection.create_function("vector_key", 1, key, deterministic=True)
            connection.execute(f"UPDATE vectors SET used = ? WHERE {IN_USE}", (int(time.time()),))
            connection.execute(
                "UPDATE chunks SET key = vector_key(embedded_text(above, lead, text, tail)) WHERE key IS NOT NULL"
            )
            connection.execute("UPDATE labels SET key = label_key(?, kind, text)", (fingerprint,))
            self._meta.put(connection, "fingerprint", fingerprint)
            # A seq for each, so that a reader of a few at a time knows how far it is.
            seq = self._meta.bump(connection, "seq")
            connection.execute(f"UPDATE vectors SET seq = ? + rowid WHERE {IN_USE}", (seq,))
            [last] = connection.execute("SELECT coalesce(max(rowid), 0) FROM vectors").fetchone()
            self._meta.bump(connection, "seq", last)
            self._meta.bump(connection, "generation")

    @property
    def seq(self) -> int:
        """The latest seq that was given."""
        return int(self._meta.get("seq") or 0)

    def embedded(self, keys: Sequence[str]) -> list[str]:
        """Return the texts with these keys, each once."""
        sql = """
            SELECT embedded_text(above, lead, text, tail) FROM chunks
            WHERE chunk IN (SELECT min(chunk) FROM chunks WHERE key IN (SELECT value FROM json_each(?)) GROUP BY key)
        """
        return [text for (text,) in self._rows(sql, (json.dumps(list(keys)),))]

    def add(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """Store vectors (float32, little endian) by key."""
        now = int(time.time())
        with self._database.transaction() as connection:
            seq = self._meta.bump(connection, "seq")
            stored = [(key, compact(vector), seq, now) for key, vector in rows]
            connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?, ?, ?)", stored)
            self._meta.bump(connection, "generation")

    def drop(self, keys: Sequence[str]) -> None:
        """Delete the vectors of `keys`; their texts wait for new ones."""
        with self._database.transaction() as connection:
            # A trigger of the other two lets a key without a vector wait.
            for change in ("DELETE FROM vectors", "UPDATE chunks SET key = key", "UPDATE labels SET key = key"):
                connection.execute(f"{change} WHERE key IN (SELECT value FROM json_each(?))", (json.dumps(keys),))
            self._meta.bump(connection, "generation")

    def has(self, keys: Iterable[str]) -> set[str]:
        """Return those of `keys` that have a vector."""
        sql = "SELECT key FROM vectors WHERE key IN (SELECT value FROM json_each(?))"
        return {key for (key,) in self._rows(sql, (json.dumps(list(keys)),))}

    def since(self, seq: int, which: str = OF_CHUNKS) -> Iterator[tuple[str, bytes, int]]:
        """Yield key, vector (float32) and seq of the vectors after `seq` that chunks (or OF_LABELS) use, by seq."""
        return self._read(f"SELECT key, vector, seq FROM vectors WHERE seq > ? AND {which} ORDER BY seq", seq)

    def _read(self, sql: str, value: object) -> Iterator[tuple[str, bytes, int]]:
        left = self._database.stream(sql, (value,))
        while some := list(islice(left, AT_ONCE)):
            keys, stored, seqs = zip(*some, strict=True)
            yield from zip(keys, restored(stored), seqs, strict=True)

    def changes(self, seq: int, most: int = -1, which: str = OF_CHUNKS) -> list[tuple[str, int]]:
        """Return key and seq of the vectors after `seq` that chunks (or OF_LABELS) use, by seq; at most `most`."""
        return self._rows(f"SELECT key, seq FROM vectors WHERE seq > ? AND {which} ORDER BY seq LIMIT ?", (seq, most))

    def count_changes(self, seq: int) -> int:
        """Return how many vectors of chunks came after `seq`."""
        return int(self._rows(f"SELECT count(*) FROM vectors WHERE seq > ? AND {OF_CHUNKS}", (seq,))[0][0])

    def touched(self, change: int, since: float) -> list[str]:
        """Return the keys of notes that changed after `change`, and the keys that notes lost at `since` or later."""
        sql = """
            SELECT key FROM chunks
            WHERE key IS NOT NULL AND note IN (SELECT note FROM changes WHERE seq > ?)
            UNION SELECT key FROM vectors WHERE used >= ?
        """
        return [key for (key,) in self._rows(sql, (change, since))]

    def labels(self, keys: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return id, path, heading, category and topic ("" if missing) of the first chunk, by path, of each key."""
        names = ("id", "path", "heading", "category", "topic")
        named: dict[str, dict[str, str]] = {}
        # CROSS makes SQLite start with the chunks, not with the notes by path.
        sql = """
            SELECT key, notes.id || suffix, path, heading, category, topic FROM chunks CROSS JOIN notes USING (note)
            WHERE key IN (SELECT value FROM json_each(?)) ORDER BY path, ordinal
        """
        for key, *values in self._rows(sql, (json.dumps(list(keys)),)):
            named.setdefault(key, {name: value or "" for name, value in zip(names, values, strict=True)})
        return named

    def of(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the stored vectors of `keys` (float32, little endian); keys without one are left out."""
        sql = "SELECT key, vector, seq FROM vectors WHERE key IN (SELECT value FROM json_each(?))"
        return {key: vector for key, vector, _ in self._read(sql, json.dumps(list(keys)))} if keys else {}

    def keys_of(self, paths: Collection[str]) -> set[str]:
        """Return the keys of the texts and labels of the notes at `paths`."""
        sql = " UNION ".join(
            f"SELECT key FROM {table} JOIN notes USING (note) WHERE path IN (SELECT value FROM json_each(:paths))"
            for table in ("chunks", "labels")
        )
        return {key for (key,) in self._rows(sql, {"paths": json.dumps([*paths])})}

    def keep_unused(self, keys: Iterable[str], days: int) -> None:
        """Keep the vectors of `keys` for so many days, even unused: a migration to another embedder may lead back."""
        now = int(time.time())
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM spared WHERE until < ?", (now,))
            rows = [(key, now + days * DAY) for key in keys]
            connection.executemany("INSERT OR REPLACE INTO spared VALUES (?, ?)", rows)

    def set_left(self, embedder: str) -> None:
        """Store the name of the previous embedder."""
        with self._database.transaction() as connection:
            self._meta.put(connection, _LEFT, json.dumps(embedder))

    def left(self) -> str | None:
        """Return the name of the previous embedder, None if there was none."""
        name = self._meta.get(_LEFT)
        return None if name is None else str(json.loads(name))

    def width(self) -> int:
        """Return the dimensions of the vectors in use, 0 if there are none."""
        rows = self._rows(f"SELECT length(vector) FROM vectors WHERE {IN_USE} LIMIT 1")
        return width_of(rows[0][0]) if rows else 0

    def evict(self, most_bytes: int) -> int:
        """Delete unused vectors, longest unused first, until all, the second encoder's too, fit; return how many."""
        if self._rows("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")[0][0] <= most_bytes:
            return 0  # the whole database is within the limit
        sizes = "SELECT count(*), coalesce((SELECT length(vector) FROM {0} LIMIT 1), 0) FROM {0}"
        [(count, size)], [(second_count, second_size)] = (self._rows(sizes.format(t)) for t in ("vectors", "second"))
        excess = count * size + second_count * second_size - most_bytes
        surplus = math.ceil(excess / ((size + second_size) or 1))
        if surplus <= 0:
            return 0
        with self._database.transaction() as connection:
            return connection.execute(
                f"""
                DELETE FROM vectors WHERE key IN (
                    SELECT key FROM vectors WHERE NOT {IN_USE} AND NOT {_IS_KEPT} ORDER BY used, seq LIMIT ?
                )
                """,
                (int(time.time()), surplus),
            ).rowcount


class Waiting:
    """The table `pending` or `second_pending` in a catalog's database; triggers keep its rows."""

    def __init__(self, database: Database, table: str) -> None:
        self._database, self._table = database, table

    @property
    def is_there(self) -> bool:
        """Whether any text waits."""
        return bool(self._database.rows(f"SELECT 1 FROM {self._table} LIMIT 1"))

    def in_order(self, *, labels_last: bool = False) -> list[str]:
        """
        Return the vector keys that have no vector yet, likely questions' answers first.

        Texts that searches found by words come first, those of the latest search before others. Labels of notes follow,
        which are short and name all their texts, titles before questions. Then the texts edited last; a note with nine
        links to it counts as ten times as young. With `labels_last` the labels come last.
        """
        labels = self._database.rows(
            f"""
            SELECT key FROM {self._table} CROSS JOIN labels USING (key) JOIN notes USING (note) WHERE label <> ''
            GROUP BY key ORDER BY labels.kind = 'title' DESC, max(mtime_ns) DESC, min(note)
            """
        )
        # Without CROSS, SQLite would start with all chunks. Links are counted once for each note.
        texts = self._database.rows(
            f"""
            SELECT key FROM {self._table} CROSS JOIN chunks USING (key) CROSS JOIN (
                SELECT note, (:now - mtime_ns / 1e9)
                / (1 + (SELECT count(*) FROM links WHERE links.name = notes.name)) AS age
                FROM notes WHERE note IN (SELECT note FROM {self._table} CROSS JOIN chunks USING (key)) GROUP BY note
            ) USING (note) GROUP BY key ORDER BY asked DESC, min(age), min(chunk)
            """,
            {"now": time.time()},
        )
        ordered = [key for (key,) in (*texts, *labels)] if labels_last else [key for (key,) in (*labels, *texts)]
        return ordered if labels_last else list(dict.fromkeys([*self.asked_for(), *ordered]))

    def ask_for(self, keys: Iterable[str]) -> None:
        """Have `keys` embedded next, if they wait. If another process is writing, nothing is done."""
        rows = [(time.time(), key) for key in keys]
        with contextlib.suppress(StorageError), self._database.transaction(patience=BRIEF_SECONDS) as connection:
            connection.executemany(f"UPDATE {self._table} SET asked = ? WHERE key = ?", rows)

    def asked_for(self) -> list[str]:
        """Return the keys that searches asked for, those of the latest search first."""
        sql = f"SELECT key FROM {self._table} WHERE asked > 0 ORDER BY asked DESC"
        return [key for (key,) in self._database.rows(sql)]

    def texts(self, keys: Sequence[str]) -> list[Row]:
        """Return the rows of `keys` that still wait, in this order."""
        rows = self._database.rows(
            f"""
            SELECT given.value, label, CASE label
                WHEN '' THEN (SELECT embedded_text(above, lead, text, tail) FROM chunks WHERE chunks.key = given.value)
                ELSE (SELECT text FROM labels WHERE labels.key = given.value) END
            FROM json_each(?) AS given JOIN {self._table} ON {self._table}.key = given.value ORDER BY given.key
            """,
            (json.dumps(list(keys)),),
        )
        return [row for row in rows if row[2] is not None]


def compact(vector: bytes) -> bytes:
    """
    Return a vector of float32, little endian, as it is stored: only its direction, 12 bits a number.

    The largest number is 2,047 or -2,047. With multilingual-e5-small a cosine differs by 0.00002 (root mean square), a
    hundredth of the distance between two neighbours in a top ten. With 8 bits it would be 0.0004, and every second top
    ten would change its order.
    """
    numbers = np.frombuffer(vector, dtype="<f4")
    whole = np.rint(numbers * (_MOST / (np.abs(numbers).max(initial=0.0) or 1.0))).astype(np.int16) + (_MOST + 1)
    first, second = whole[0::2], np.zeros(-(-len(whole) // 2), np.int16)
    second[: len(whole) // 2] = whole[1::2]
    stored = np.stack([first & 0xFF, first >> 8 | (second & 0xF) << 4, second >> 4], axis=1).astype(np.uint8)
    return stored.tobytes()[: -(-len(whole) * 3 // 2)]


def restored(stored: Sequence[bytes]) -> list[bytes]:
    """Return stored vectors as unit vectors of float32, little endian, each as wide as it was."""
    if len({len(vector) for vector in stored}) > 1:
        return [restored([vector])[0] for vector in stored]
    if not stored:
        return []
    width = width_of(len(stored[0]))
    filled = b"".join(vector.ljust(-(-width // 2) * 3, b"\0") for vector in stored)
    low, middle, high = np.frombuffer(filled, np.uint8).reshape(len(stored), -1, 3).astype(np.int16).transpose(2, 0, 1)
    whole = np.stack([low | (middle & 0xF) << 8, middle >> 4 | high << 4], axis=2).reshape(len(stored), -1)
    rows = (whole[:, :width] - (_MOST + 1)).astype("<f4")
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
    return [row.tobytes() for row in rows]


def width_of(size: int) -> int:
    """Return how many numbers a stored vector of `size` bytes has."""
    return size * 2 // 3
