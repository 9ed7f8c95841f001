"""
The catalog: files, notes, chunks, words and vectors in one SQLite file; the only SQL.

It is derived from the vault and safe to delete. Processes share it: each change is one `BEGIN IMMEDIATE` transaction
that raises the generation, and nothing slow happens inside one.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from spellbook.index.catalog.conditions import OF_GUIDES, in_sql, select, unmatched
from spellbook.index.catalog.links import Links
from spellbook.index.catalog.notes import Notes
from spellbook.index.catalog.rows import FUNCTIONS as OF_TEXTS
from spellbook.index.catalog.rows import (
    CountedNote,
    ListedNote,
    StoredChunk,
    Tables,
    Topic,
    list_of,
    mapping_of,
)
from spellbook.index.catalog.second_encoder import Second
from spellbook.index.catalog.tables import FORM, WEIGHTS, build
from spellbook.index.catalog.upkeep import Upkeep
from spellbook.index.catalog.usage import Sessions, Usage
from spellbook.index.catalog.vectors import Vectors, Waiting
from spellbook.index.filters import NO_GUIDES, Condition, bound, day_of, instant, moment, path_glob, spelled
from spellbook.models.base import label_key
from spellbook.notes.where_links_lead import key
from spellbook.system.sqlite import Database

FILE = "catalog.db"

FUNCTIONS: Mapping[str, tuple[int, Callable[..., Any]]] = {
    "path_glob": (2, path_glob),
    "instant": (1, instant),
    "bound": (2, bound),
    "moment": (3, moment),
    "label_key": (3, label_key),
    **OF_TEXTS,
}
"""Functions that the catalog adds to SQL, each with the number of its arguments."""

FIRST = 100
"""Chunks of a note that stand for the whole: its first ones, so that a very long note is read as quickly as others."""


class Catalog(Tables):
    """The SQLite side of an index; open it with `Catalog.open`."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.file, self._matches = database.file, database.matches
        self.sessions = Sessions(database)
        self.usage = Usage(database)
        self.links = Links(database)
        self.notes = Notes(database)
        self.close, self.free_bytes = database.close, database.free_bytes
        self.reading = database.reading
        """A context in which all reads see one state of the catalog."""
        self.counts = self._meta.counts
        self.unmatched = partial(unmatched, database)
        self.vectors = Vectors(database)
        self.waiting = Waiting(database, "pending")
        self.labels = Labels(database)
        self.second = Second(database)
        self.upkeep = Upkeep(database)

    @classmethod
    def open(cls, state: Path) -> Catalog:
        """Open the catalog of a state folder, made or built anew if need be. Raises StorageError."""
        catalog = cls(Database(state / FILE, FORM, build, FUNCTIONS))
        catalog._database.connection()
        return catalog

    @property
    def version(self) -> tuple[str, int]:
        """The name that tells this catalog from one begun anew, and the number of the last change of a note."""
        [(last,)] = self._rows("SELECT coalesce(max(seq), 0) FROM changes")
        return str(self._meta.get("catalog") or ""), int(last)

    # -- its own state

    @property
    def generation(self) -> int:
        """The number of changes committed so far."""
        return int(self._meta.get("generation") or 0)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the embedder that the chunks' vector keys are of, "" before the first."""
        return self._meta.fingerprint

    def set_read(self) -> None:
        """Record a scan of the whole vault."""
        if not self.is_read:
            with self._database.transaction() as connection:
                self._meta.put(connection, "read_as", FORM)

    @property
    def is_read(self) -> bool:
        """Whether the whole vault was scanned since the catalog has this form: else notes may be missing in it."""
        return bool(self._meta.get("read_as") == FORM)

    def keys(self, conditions: Sequence[Condition]) -> list[str]:
        """Return the distinct vector keys of the chunks that meet `conditions`."""
        sql = "SELECT DISTINCT key FROM chunks JOIN notes USING (note) WHERE key IS NOT NULL AND {where}"
        return [key for (key,) in self._select(sql, conditions, chunks=True)]

    def match(
        self, expression: str, conditions: Sequence[Condition], limit: int, also: Sequence[int] = ()
    ) -> list[tuple[int, float]]:
        """Return numbers and bm25 (larger is better) of the `limit` best chunks that match, then of those of `also`."""
        others = [condition for condition in conditions if condition != NO_GUIDES]
        where, values = in_sql(self._database, others, chunks=True)
        join = "JOIN chunks ON chunk = words.rowid JOIN notes USING (note)" if others else ""
        if len(others) < len(conditions):
            # Guides have few chunks. To join each matching row with its note takes as long as bm25 does.
            where += f" AND words.rowid NOT IN ({OF_GUIDES})"
        # One query for both: finding the matching rows is what takes the time.
        first = "words.rowid IN (SELECT value FROM json_each(:also)) DESC," if also else ""
        rows = self._matches(
            f"""
            SELECT words.rowid, -{_BM25} AS score FROM words {join} WHERE words MATCH :expression AND {where}
            ORDER BY {first} score * (1 - 0.8 * (words.rowid IN {_OF_STUBS})) DESC, words.rowid LIMIT :limit
            """,
            {**values, "expression": expression, "limit": limit + len(also), "also": json.dumps(also)},
        )
        rows.sort(key=lambda row: (-row[1], row[0]))
        wanted = set(also)
        return rows[:limit] + [row for row in rows[limit:] if row[0] in wanted]

    def match_among(self, expression: str, numbers: Sequence[int]) -> list[tuple[int, float]]:
        """Return the same as `match`, for the chunks `numbers` only."""
        # Without `+`, SQLite would run the whole match, with its idf, once for each rowid.
        sql = f"SELECT rowid, -{_BM25} FROM words WHERE words MATCH ? AND +rowid IN (SELECT value FROM json_each(?))"
        return self._matches(sql, (expression, json.dumps(list(numbers))))

    def numbers(self, expression: str, most: int = -1) -> array[int]:
        """Return the numbers of the chunks that match an FTS5 expression, in order, the first `most`."""
        # As one value: a word may be in thousands of chunks, and a row of its own for each takes twice as long.
        sql = "SELECT group_concat(rowid) FROM (SELECT rowid FROM words WHERE words MATCH ? LIMIT ?)"
        listed = self._matches(sql, (expression, most))[0][0]
        return array("q", map(int, listed.split(",") if listed else ()))

    def frequency(self, expression: str, guides: int = 0, count: int | None = None) -> int:
        """Return how many chunks match, `count` if that is known; 0 if those of guides alone do, `guides` in all."""
        if count is None:
            count = int(self._matches("SELECT count(*) FROM words WHERE words MATCH ?", (expression,))[0][0])
        return count if not 0 < count <= guides or self.match(expression, (NO_GUIDES,), 1) else 0

    def guides(self) -> int:
        """Return the number of the chunks of guides; see `NO_GUIDES`."""
        return int(self._rows(f"SELECT count(*) FROM ({OF_GUIDES})", ())[0][0])

    def by_key(self, keys: Sequence[str], conditions: Sequence[Condition], key: str = "key") -> list[StoredChunk]:
        """Return the chunks with one of `keys`, or of the hashes of folded texts (`same`), that meet `conditions`."""
        # As one value, the statement is the same for all keys, and SQLite can cache it.
        where = f"{key} IN (SELECT value FROM json_each(:keys))"
        tables = "chunks CROSS JOIN notes"  # SQLite starts with the chunks, not with the notes of a condition
        return self._find(where, conditions, tables, chunks=True, keys=json.dumps(list(keys)))

    def by_number(self, numbers: Sequence[int]) -> list[StoredChunk]:
        """Return chunks by their numbers, in no order."""
        return self._find("chunk IN (SELECT value FROM json_each(:numbers))", numbers=json.dumps(list(numbers)))

    def note(self, id: str) -> list[StoredChunk]:
        """Return all chunks, in order, of the note with this id, or else this path, also without `.md`; or none."""
        return self._find("notes.id = :id", id=id) or self.at(id) or self.at(f"{id}.md")

    def at(self, path: str, first: int = 0, last: int = 2**62) -> list[StoredChunk]:
        """Return the chunks from `first` to `last`, in order, of the note at `path`; none if there is no such note."""
        where = "notes.path = :path AND ordinal BETWEEN :first AND :last"
        return self._find(where, path=path, first=first, last=last)

    def topic(self, topic: str, category: str | None = None, conditions: Sequence[Condition] = ()) -> list[StoredChunk]:
        """Return all chunks of a topic, of its notes that meet `conditions`, in reading order."""
        where = "notes.topic = :topic AND (:category IS NULL OR notes.category = :category)"
        return self._find(where, conditions, topic=topic, category=category)

    def paths(self, conditions: Sequence[Condition]) -> list[str]:
        """Return the paths of the notes that meet `conditions`."""
        return [path for (path,) in self._select("SELECT path FROM notes WHERE {where} ORDER BY path", conditions)]

    def list_notes(self, conditions: Sequence[Condition], folder: str | None = None) -> list[ListedNote]:
        """Return the notes that meet `conditions`, by path; with a `folder`, "" or `a/b/`, those right in it."""
        inside = "substr(path, 1, length(:folder)) = :folder AND instr(substr(path, length(:folder) + 1), '/') = 0"
        sql = f"SELECT path, id, title, category, topic FROM notes WHERE (:folder IS NULL OR {inside}) AND {{where}}"
        return [ListedNote(*row) for row in self._select(f"{sql} ORDER BY path", conditions, folder=folder)]

    def newest(self, conditions: Sequence[Condition], limit: int, offset: int) -> tuple[list[StoredChunk], int]:
        """Return the first chunks of `limit` notes after `offset`, newest first, and how many meet `conditions`."""
        sql = """
            SELECT note, path FROM notes WHERE {where}
            ORDER BY moment(created, updated, mtime_ns) DESC, id DESC LIMIT :limit OFFSET :offset
        """
        with self.reading():
            [(total,)] = self._select("SELECT count(*) FROM notes WHERE {where}", conditions)
            rows = self._select(sql, conditions, limit=limit, offset=offset)
            notes = ",".join(str(note) for note, _ in rows)
            first = {chunk.path: chunk for chunk in self._find(f"note IN ({notes}) AND ordinal = 0")}
        return [first[path] for _, path in rows], total

    def commonest(self, key: str, conditions: Sequence[Condition], most: int) -> list[tuple[str, int]]:
        """Return the `most` commonest values of a frontmatter key, spelled as a note does, with counts of notes."""
        sql = """
            SELECT value, count(*), max(meta) FROM fields JOIN notes USING (note)
            WHERE fields.key = :field AND {where} GROUP BY value ORDER BY count(*) DESC, value LIMIT :most
        """
        rows = self._select(sql, conditions, field=key, most=most)
        return [(spelled(value, json.loads(meta).get(key)), count) for value, count, meta in rows]

    def among(self, paths: Collection[str], conditions: Sequence[Condition]) -> set[str]:
        """Return those of `paths` whose notes meet `conditions`."""
        sql = "SELECT path FROM notes WHERE path IN (SELECT value FROM json_each(:paths)) AND {where}"
        return {path for (path,) in self._select(sql, conditions, paths=json.dumps(list(paths)))}

    def where_is(self, path: str) -> str | None:
        """Return the id of the note at `path`."""
        return next((id for (id,) in self._rows("SELECT id FROM notes WHERE path = ?", (path,))), None)

    def topics(self, conditions: Sequence[Condition] = ()) -> list[Topic]:
        """Return every topic, largest first within its category."""
        rows = self._select(
            """
            SELECT category, topic, count(DISTINCT note), count(*), max(coalesce(updated, created, '')), max(mtime_ns),
                   json_group_array(DISTINCT title), json_group_array(DISTINCT keywords),
                   min(note IN (SELECT note FROM fields WHERE key = 'trust' AND value = 'untrusted'))
            FROM chunks JOIN notes USING (note) WHERE {where} GROUP BY category, topic
            ORDER BY category, count(*) DESC, topic
            """,
            conditions,
        )
        found = []
        for category, topic, notes, chunks, updated, mtime_ns, titles, listed, is_outside in rows:
            keywords = dict.fromkeys(word for each in json.loads(listed) for word in json.loads(each))
            texts = updated or day_of(mtime_ns), tuple(json.loads(titles)), tuple(keywords)
            found.append(Topic(category, topic, notes, chunks, *texts, bool(is_outside)))
        return found

    def by_category(self) -> dict[str, int]:
        """Return the number of chunks of each category."""
        return dict(self._rows("SELECT category, count(*) FROM chunks JOIN notes USING (note) GROUP BY 1 ORDER BY 1"))

    def topic_counts(self, conditions: Sequence[Condition] = ()) -> list[tuple[str, str, int]]:
        """Return category, topic and number of notes of every topic, the largest first; much cheaper than `topics`."""
        sql = "SELECT category, topic, count(*) FROM notes WHERE {where} GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2"
        return self._select(sql, conditions)

    def counted(self, conditions: Sequence[Condition]) -> list[CountedNote]:
        """Return the notes that meet `conditions` with their category, time, chunks, and chunks that lack no vector."""
        rows = self._select(
            """
            SELECT category, moment(created, updated, mtime_ns), count(*),
                   count(*) - count(chunks.key) + count(vectors.key)  -- a title alone has no key, and needs no vector
            FROM notes JOIN chunks USING (note) LEFT JOIN vectors USING (key) WHERE {where} GROUP BY note
            """,
            conditions,
        )
        return [CountedNote(*row) for row in rows]

    def openings(self, category: str, topic: str, conditions: Sequence[Condition] = ()) -> Iterator[list[StoredChunk]]:
        """Yield the first chunks of a topic's first notes: its namesake, index and README, then by their paths."""
        sql = """
            SELECT note FROM notes WHERE category = :category AND topic = :topic AND {where}
            ORDER BY name NOT IN (:name, 'index', 'readme'), path LIMIT 20
        """
        for (note,) in self._select(sql, conditions, category=category, topic=topic, name=key(topic)):
            yield self._find("note = :note AND ordinal < 3", note=note)

    def sizes(self) -> dict[str, int]:
        """Return figures for `status`: bytes on disk, vectors of texts stored and in use; labels are not counted."""
        sql = """
            SELECT (SELECT count(*) FROM vectors WHERE key NOT IN (SELECT key FROM labels)),
                   (SELECT count(*) FROM vectors WHERE key IN (SELECT key FROM chunks))"""
        [(stored, used)] = self._rows(sql)
        return {"bytes": self.disk_bytes(), "vectors": stored, "vectors_in_use": used}

    def disk_bytes(self) -> int:
        """Return how many bytes the catalog takes on disk."""
        return sum(part.stat().st_size for part in self.file.parent.glob(f"{FILE}*") if part.is_file())

    def average_bytes(self) -> int:
        """Return the mean size of a note's file."""
        return int(self._rows("SELECT coalesce(avg(size), 0) FROM files")[0][0])

    def _select(self, sql: str, conditions: Sequence[Condition], chunks: bool = False, **values: object) -> list[Any]:
        return select(self._database, sql, conditions, chunks, **values)

    def _find(
        self,
        where: str,
        conditions: Sequence[Condition] = (),
        tables: str = "chunks JOIN notes",
        *,
        chunks: bool = False,
        **values: object,
    ) -> list[StoredChunk]:
        """Return chunks that meet `conditions` and `where`."""
        rows = self._select(
            f"""
            SELECT chunk, notes.id || suffix, path, line, end_line, title, heading, text, coalesce(key, ''), topic,
                   category, importance, created, updated, mtime_ns, ordinal, keywords, tags, meta, lead, tail
            FROM {tables} USING (note) WHERE {where} AND {{where}}
            """,
            conditions,
            chunks,
            **values,
        )
        rows.sort(key=itemgetter(2, 15))  # by path and ordinal; SQLite would copy the texts while sorting
        return [
            StoredChunk._make((*row[:16], list_of(row[16]), list_of(row[17]), mapping_of(row[18]), *row[19:]))
            for row in rows
        ]


_OF_STUBS = "(SELECT chunk FROM chunks WHERE key IS NULL)"
"""
Chunks without text. A title alone has up to 2.2 times the idf of a word, and thousands of them make the usual length
small. With a fifth of it they leave room for texts that have the word once. By hand.
"""
_BM25 = f"bm25(words, {', '.join(map(str, WEIGHTS))})"


class Labels(Tables):
    """The table `labels` in a catalog's database; `Notes` writes it together with a note's chunks."""

    def keys(self) -> list[str]:
        """Return the vector keys of all labels, each once."""
        return [key for (key,) in self._database.rows("SELECT DISTINCT key FROM labels")]

    def all(self) -> list[tuple[str, str]]:
        """Return kind and text of all labels, each pair once."""
        return self._database.rows("SELECT DISTINCT kind, text FROM labels")

    def of(self, paths: Iterable[str]) -> list[tuple[str, str, str]]:
        """Return path, kind and vector key of the labels of the notes at `paths`."""
        return self._database.rows(
            """
            SELECT path, labels.kind, key FROM notes CROSS JOIN labels USING (note)
            WHERE path IN (SELECT value FROM json_each(?))
            """,
            (json.dumps(list(paths)),),
        )

    def notes(self, keys: Sequence[str], conditions: Sequence[Condition] = ()) -> list[tuple[str, str]]:
        """Return vector key and path of the notes that have a label with one of `keys` and meet `conditions`."""
        return select(
            self._database,
            """
            SELECT labels.key, path FROM labels CROSS JOIN notes USING (note)
            WHERE labels.key IN (SELECT value FROM json_each(:keys)) AND {where} ORDER BY path
            """,
            conditions,
            keys=json.dumps(list(keys)),
        )

    def chunks(
        self, paths: Sequence[str], most: int = FIRST, limits: Sequence[Condition] = ()
    ) -> list[tuple[str, int, str]]:
        """Return path, number and vector key ("" if it says nothing) of the first chunks of each note, in order."""
        return select(
            self._database,
            """
            SELECT path, chunk, coalesce(key, '') FROM notes CROSS JOIN chunks USING (note)
            WHERE path IN (SELECT value FROM json_each(:paths)) AND ordinal < :most AND {where} ORDER BY note, ordinal
            """,
            limits,
            chunks=True,
            paths=json.dumps(list(paths)),
            most=most,
        )

    def count(self) -> int:
        """Return how many labels there are."""
        return int(self._database.rows("SELECT count(*) FROM labels")[0][0])
