"""
Published vaults as a catalog that is only read, so that lists, topics and neighbours are told as of a vault with files.

What a server counts for itself (calls, errors) stays in its own catalog on this machine, which has no notes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

from spellbook.index.catalog.catalog import Catalog
from spellbook.index.catalog.schema import Counts, ListedNote, StoredChunk, Topic, topic_of
from spellbook.index.filters import Condition, Unmatched, spelled
from spellbook.index.postgres.conditions import clean
from spellbook.index.postgres.engine import Postgres
from spellbook.notes import frontmatter
from spellbook.notes.note import Stamp
from spellbook.system.errors import MemoryNotFound
from spellbook.vault.journal import Journal
from spellbook.vault.shown import Shown

_OF = "notes.vault = ANY(%(vaults)s)"
_CHUNKS = "(SELECT count(*) FROM chunks WHERE chunks.vault = notes.vault AND chunks.note = notes.note)"
_OUTSIDE = """EXISTS (SELECT 1 FROM fields WHERE fields.vault = notes.vault AND fields.note = notes.note
    AND fields.key = 'trust' AND fields.value = 'untrusted')"""
_COLUMNS = {"id": "notes.id", "topic": "notes.topic", "category": "notes.category"}


class PublishedCatalog(Catalog):
    """See `Catalog` for each method. `local` is the catalog of this server, which has no notes."""

    def __init__(self, local: Catalog, engine: Postgres) -> None:
        super().__init__(local._database)
        self._engine, self._read = engine, engine.reader
        self.links = engine.links

    def close(self) -> None:
        """Do nothing: the catalog of this server is closed by itself."""

    def reading(self) -> AbstractContextManager[None]:
        return self._engine.reading()

    @property
    def generation(self) -> int:
        # A batch of notes or vectors is seen before the vault's own generation is.
        marks = "sum(1000000007 * vault + generation + notes_seq + vectors_seq + second_seq)"
        [[number]] = self._read.rows(f"SELECT {marks} FROM vaults WHERE vault = ANY(%(vaults)s)")
        return int(number or 0)

    @property
    def fingerprint(self) -> str:
        return self._engine.fingerprint

    def counts(self) -> Counts:
        return self._engine.counts()

    # -- chunks

    def by_number(self, numbers: Sequence[int]) -> list[StoredChunk]:
        return self._engine.by_number(numbers)

    def by_key(self, keys: Sequence[str], conditions: Sequence[Condition] = ()) -> list[StoredChunk]:
        where, values = self._read.where(conditions)
        return self._chunks(f"chunks.key = ANY(%(keys)s) AND {where}", {**values, "keys": list(keys)})

    def by_fold(self, same: Sequence[str], conditions: Sequence[Condition] = ()) -> list[StoredChunk]:
        # Hashes of folded texts are not published; equal texts are found by their vectors.
        return []

    def note(self, id: str) -> list[StoredChunk]:
        return self._engine.note(id)

    def at(self, path: str) -> list[StoredChunk]:
        return self._engine.at(path)

    def topic(self, topic: str, category: str | None = None, conditions: Sequence[Condition] = ()) -> list[StoredChunk]:
        where, values = self._read.where(conditions)
        where = (
            f"coalesce(topic, '') = %(topic)s AND (%(of)s::text IS NULL OR coalesce(category, '') = %(of)s) AND {where}"
        )
        of = None if category is None else clean(category)
        return self._chunks(where, {**values, "topic": clean(topic), "of": of})

    def opening(self, category: str, topic: str, conditions: Sequence[Condition] = ()) -> list[StoredChunk]:
        where, values = self._read.where(conditions)
        rows = self._read.rows(
            f"""
            SELECT notes.note FROM notes WHERE {_OF} AND coalesce(category, '') = %(category)s
            AND coalesce(topic, '') = %(topic)s AND {where}
            ORDER BY lower(right(path, length(%(file)s))) <> lower(%(file)s) AND lower(path) NOT LIKE '%%/index.md'
                AND lower(path) NOT LIKE '%%/readme.md', path COLLATE "C", vault LIMIT 1
            """,
            **values,
            category=clean(category),
            topic=clean(topic),
            file=f"/{clean(topic)}.md",
        )
        return self._chunks("notes.note = %(note)s AND ordinal < 3", {"note": rows[0][0]}) if rows else []

    def _chunks(self, where: str, values: Any) -> list[StoredChunk]:
        return sorted(self._read.chunks(where, **values), key=lambda chunk: (chunk.path, chunk.ordinal))

    # -- notes

    def paths(self, conditions: Sequence[Condition]) -> list[str]:
        where, values = self._read.where(conditions)
        rows = self._read.rows(f"SELECT note, path FROM notes WHERE {_OF} AND {where}", **values)
        return sorted(self._read.shown(*row) for row in rows)

    def list_notes(self, conditions: Sequence[Condition], folder: str | None = None) -> list[ListedNote]:
        where, values = self._read.where(conditions)
        rows = self._read.rows(
            f"""
            SELECT note, path, id, coalesce(title, ''), coalesce(category, ''), coalesce(topic, '') FROM notes
            WHERE {_OF} AND (%(folder)s::text IS NULL OR (starts_with(path, %(folder)s)
            AND position('/' IN substr(path, length(%(folder)s) + 1)) = 0)) AND {where} ORDER BY path COLLATE "C"
            """,
            **values,
            folder=None if folder is None else clean(folder),
        )
        named = ((self._read.shown(note, path), self._read.shown(note, id), rest) for note, path, id, *rest in rows)
        return [ListedNote(path, id, *rest) for path, id, rest in named]

    def newest(self, conditions: Sequence[Condition], limit: int, offset: int) -> tuple[list[StoredChunk], int]:
        with self.reading():
            where, values = self._read.where(conditions)
            [[total]] = self._read.rows(f"SELECT count(*) FROM notes WHERE {_OF} AND {where}", **values)
            rows = self._read.rows(
                f"""
                SELECT note, path FROM notes WHERE {_OF} AND {where}
                ORDER BY moment DESC NULLS LAST, notes.id COLLATE "C" DESC, vault LIMIT %(most)s OFFSET %(after)s
                """,
                **values,
                most=limit,
                after=offset,
            )
            notes = {"notes": [note for note, _ in rows]}
            first = {chunk.path: chunk for chunk in self._chunks("notes.note = ANY(%(notes)s) AND ordinal = 0", notes)}
            paths = [self._read.shown(*row) for row in rows]
        return [first[path] for path in paths if path in first], total

    def heads(self, ids: Collection[str], conditions: Sequence[Condition] = ()) -> list[StoredChunk]:
        first = [chunks[0] for id in ids if (chunks := self.note(id))]
        met = self.among({chunk.path for chunk in first}, conditions)
        return sorted((chunk for chunk in first if chunk.path in met), key=lambda chunk: chunk.path)

    def commonest(self, key: str, conditions: Sequence[Condition], most: int) -> list[tuple[str, int]]:
        where, values = self._read.where(conditions)
        rows = self._read.rows(
            f"""
            SELECT value, count(*), max(meta) FROM fields JOIN notes USING (vault, note)
            WHERE {_OF} AND md5(fields.key) = md5(%(field)s) AND fields.key = %(field)s AND {where}
            GROUP BY value ORDER BY count(*) DESC, value COLLATE "C" LIMIT %(most)s
            """,
            **values,
            field=clean(key),
            most=most,
        )
        return [(spelled(value, json.loads(meta or "{}").get(key)), count) for value, count, meta in rows]

    def unmatched(
        self, wanted: Sequence[Condition], visible: Sequence[Condition], *, paths: bool = True
    ) -> tuple[Unmatched, ...]:
        return self._engine.unmatched(wanted, visible, paths=paths)

    def among(self, paths: Collection[str], conditions: Sequence[Condition]) -> set[str]:
        return self._engine.among(paths, conditions)

    def where_is(self, path: str) -> str | None:
        return next((each.note for each in self.at(path)), None)

    def starting(self, column: str, prefix: str, conditions: Sequence[Condition], limit: int) -> list[str]:
        if column not in _COLUMNS:
            raise ValueError(column)
        where, values = self._read.where(conditions)
        name, listed = _COLUMNS[column], self._read.vaults
        begun: list[tuple[str, str, list[int]]] = [("", prefix, [vault.number for vault in listed])]
        if column == "id" and len(listed) > 1:  # an id begins with the name of its vault
            heads = [(f"{vault.name}/", [vault.number]) for vault in listed]
            begun = [
                (h, prefix[len(h) :], number) for h, number in heads if h.startswith(prefix) or prefix.startswith(h)
            ]
        names: set[str] = set()
        for head, rest, numbers in begun:
            rows = self._read.rows(
                f"""
                SELECT DISTINCT {name} COLLATE "C" FROM notes WHERE {_OF} AND {name} <> ''
                AND lower(left({name}, %(length)s)) = lower(%(prefix)s) AND {where} ORDER BY 1 LIMIT %(most)s
                """,
                **values,
                vaults=numbers,
                prefix=clean(rest),
                length=len(rest),
                most=limit,
            )
            names |= {head + value for (value,) in rows}
        return sorted(names)[:limit]

    def topics(self, conditions: Sequence[Condition] = ()) -> list[Topic]:
        where, values = self._read.where(conditions)
        rows = self._read.rows(
            f"""
            SELECT category, topic, count(*), sum(chunks)::bigint, max(day), max(mtime_ns),
                array_agg(DISTINCT title COLLATE "C"), array_agg(DISTINCT keywords COLLATE "C"), bool_and(is_outside)
            FROM (SELECT coalesce(category, '') AS category, coalesce(topic, '') AS topic, {_CHUNKS} AS chunks,
                coalesce(updated, created, '') COLLATE "C" AS day, mtime_ns, coalesce(title, '') AS title,
                coalesce(keywords, '[]') AS keywords, {_OUTSIDE} AS is_outside FROM notes WHERE {_OF} AND {where}
            ) AS each WHERE chunks > 0 GROUP BY category, topic
            """,
            **values,
        )
        return sorted(map(topic_of, rows), key=lambda topic: (topic.category, -topic.chunks, topic.topic))

    def by_category(self) -> dict[str, int]:
        counts = Counter[str]()
        for topic in self.topics():
            counts[topic.category] += topic.chunks
        return dict(counts)

    def topic_counts(self, conditions: Sequence[Condition] = ()) -> list[tuple[str, str, int]]:
        where, values = self._read.where(conditions)
        names = "coalesce(category, '') COLLATE \"C\", coalesce(topic, '') COLLATE \"C\""
        sql = f"SELECT {names}, count(*) FROM notes WHERE {_OF} AND {where} GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2"
        return self._read.rows(sql, **values)

    def named(self, name: str, conditions: Sequence[Condition] = ()) -> list[str]:
        where, values = self._read.where(conditions)
        rows = self._read.rows(
            f"""
            SELECT note, path FROM notes WHERE {_OF} AND {where}
            AND (lower(path) = %(name)s OR lower(right(path, length(%(name)s) + 1)) = '/' || %(name)s)
            """,
            **values,
            name=name,
        )
        return sorted(self._read.shown(*row) for row in rows)

    def average_bytes(self) -> int:
        sql = """
            SELECT coalesce(avg(size), 0)::bigint FROM (SELECT sum(octet_length(text)) AS size FROM chunks
            WHERE vault = ANY(%(vaults)s) {of_seen} GROUP BY vault, note) AS each
            """
        return int(self._read.rows(sql)[0][0])


class PublishedVault(Shown):
    """The notes of published vaults as files that can be read alone: their frontmatter, and their text in its lines."""

    def __init__(self, catalog: PublishedCatalog, journal: Journal) -> None:
        super().__init__(catalog.file.parent, catalog.file.parent, dict, lambda path, data: True)
        self._catalog, self.journal = catalog, journal

    @property
    def attachments(self) -> None:
        """None: pictures are not published."""

    def read(self, path: str) -> tuple[bytes, Stamp]:
        """Return a note as its chunks say it, on the lines of its file. Raises MemoryNotFound."""
        chunks = self._catalog.at(path)
        if not chunks:
            raise self._gone(path)
        data = composed(chunks).encode("utf-8", "replace")
        return data, Stamp(len(data), chunks[0].mtime_ns, 0)

    def _gone(self, path: str) -> MemoryNotFound:
        return MemoryNotFound(f"There is no note {path[:200]!r}.", "Search for it, or list topics.")


def composed(chunks: Sequence[StoredChunk]) -> str:
    """Return the Markdown of a note, of which all chunks are given in order; each begins on the line of its file."""
    head = [f"{frontmatter.dump(str(key))}: {frontmatter.dump(value)}" for key, value in chunks[0].meta.items()]
    lines = ["---", *head, "---"] if head and len(head) + 2 < chunks[0].line else []
    for chunk in chunks:
        text = chunk.text.splitlines()
        if len(lines) >= chunk.line and lines and chunk.ordinal:  # the second part of a long line
            lines[-1] = f"{lines[-1]} {text[0]}" if text else lines[-1]
            text = text[1:]
        else:
            lines += [""] * (chunk.line - 1 - len(lines))
        lines += text
    return "\n".join([*lines, ""])
