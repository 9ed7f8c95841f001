"""Links of notes as written, and where files were moved; `files.Files` decides where a link leads."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from spellbook.index.catalog.rows import LinkRow, Tables
from spellbook.notes.relations import SUPERSEDES
from spellbook.notes.where_links_lead import key

LABELS = ("tags", "keywords", "entities")
"""Keys of `fields` that relate two notes with an equal value: `search/related.py` weighs them."""

_STEPS = 5
"""Steps, from a note to the note that supersedes it, that are followed. By hand: a chain of such notes may be long."""

_MOST_BETWEEN = 20
"""Most notes read beside the given ones and their successors. By hand: each takes some 20 µs."""


class Linked(NamedTuple):
    """A link, and the note that contains it."""

    source: str
    link: LinkRow


class Superseding(NamedTuple):
    """A note that supersedes another, by the link in it; its date, and when it says that it begins, since 1970."""

    path: str
    id: str
    title: str
    when: float
    begins: float | None
    link: LinkRow


class Links(Tables):
    """The links and moves in a catalog's database; without `names`, a method returns all."""

    # -- kept by the catalog, inside its transactions

    @staticmethod
    def add(connection: sqlite3.Connection, notes: Iterable[tuple[int, Sequence[LinkRow]]]) -> None:
        """Store the links of notes that have none yet, in order."""
        rows = ((note, i, *link) for note, links in notes for i, link in enumerate(links))
        connection.executemany("INSERT INTO links VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def leaving(self, paths: Sequence[str]) -> list[tuple[str, str, str, str | None]]:
        """Return path, id, content's hash and declared id of notes that are about to be removed."""
        return self._database.rows(
            """
            SELECT path, id, sha256, declared FROM files JOIN notes USING (path)
            WHERE path IN (SELECT value FROM json_each(?)) AND size > 0
            """,
            (json.dumps(paths),),
        )

    @staticmethod
    def record_moves(connection: sqlite3.Connection, left: Sequence[tuple[str, str, str, str | None]]) -> None:
        """Record where removed notes are now: where their id is, else their content. Use counts follow."""
        if not left:
            return
        sql = "SELECT sha256, path FROM files WHERE sha256 IN (SELECT value FROM json_each(?))"
        same = dict(connection.execute(sql, (json.dumps([sha256 for _, _, sha256, _ in left]),)))
        for path, id, sha256, declared in left:
            sql = "SELECT path FROM notes WHERE declared = ? ORDER BY id = declared DESC"
            row = connection.execute(sql, (declared,)).fetchone()
            new = row[0] if row else same.get(sha256)
            if new is None:
                continue
            # What was moved to the former path before is at the new one now.
            connection.execute("UPDATE moves SET new = ? WHERE new = ?", (new, path))
            sql = "INSERT OR REPLACE INTO moves (old, new, at, name) VALUES (?, ?, ?, ?)"
            connection.execute(sql, (path, new, time.time(), key(path)))
            if not declared:
                sql = "UPDATE OR IGNORE uses SET note = (SELECT id FROM notes WHERE path = ?) WHERE note = ?"
                connection.execute(sql, (new, id))

    # -- queries

    def of(self, path: str) -> list[LinkRow]:
        """Return the links of the note at `path`, in order."""
        return [each.link for each in self._find("path = :value", path)]

    def to(self, names: Iterable[str] | None = None, *, lines: bool = True) -> list[Linked]:
        """Return the links with one of `names`; without `lines`, each target of a note once, without fragment."""
        where = "1" if names is None else "links.name IN (SELECT value FROM json_each(:value))"
        return self._find(where, json.dumps(list(names or ())), lines=lines)

    def _find(self, where: str, value: object, *, lines: bool = True) -> list[Linked]:
        columns = "fragment, markdown, line" if lines else "'', markdown, 0"
        rows = self._database.rows(
            f"""
            SELECT {"" if lines else "DISTINCT"} path, links.name, target, {columns}, relation
            FROM links JOIN notes USING (note) WHERE {where} ORDER BY path {", ordinal" if lines else ""}
            """,
            {"value": value},
        )
        return [
            Linked(path, LinkRow(name, target, fragment, bool(is_markdown), line, relation))
            for path, name, target, fragment, is_markdown, line, relation in rows
        ]

    def superseding(self, paths: Collection[str] | None) -> list[Superseding]:
        """Return possible successors of the notes at `paths`, or of any, and for some steps theirs; `Files` decides."""
        if not self._database.rows(f"SELECT 1 FROM links WHERE relation = '{SUPERSEDES}' LIMIT 1"):
            return []
        rows = self._database.rows(
            f"""
            WITH RECURSIVE above (path, note, ordinal, name, step) AS (
                SELECT path, note, -1, name, 0 FROM notes WHERE path IN (SELECT value FROM json_each(:paths))
                UNION
                SELECT notes.path, links.note, links.ordinal, notes.name, step + 1
                FROM above CROSS JOIN links ON relation = '{SUPERSEDES}' AND links.name IN (
                    SELECT above.name
                    UNION ALL SELECT value FROM fields WHERE note = above.note AND key IN ('id', 'aliases')
                    UNION ALL SELECT moves.name FROM moves WHERE new = above.path
                ) CROSS JOIN notes ON notes.note = links.note
                WHERE step < {_STEPS} LIMIT :most
            )
            SELECT DISTINCT notes.path, id, title, coalesce(instant(created), instant(updated), mtime_ns / 1e9),
                coalesce(bound(json_extract(meta, '$.valid_from'), 0), instant(created)), links.name, target, markdown
            FROM {"links" if paths is None else "above CROSS JOIN links USING (note, ordinal)"}
            CROSS JOIN notes USING (note) WHERE relation = '{SUPERSEDES}'
            """,
            {"paths": json.dumps(list(paths or ())), "most": 2 * len(paths or ()) + _MOST_BETWEEN},
        )
        return [
            Superseding(path, id, title, when, begins, LinkRow(name, target, "", bool(markdown), 0, SUPERSEDES))
            for path, id, title, when, begins, name, target, markdown in rows
        ]

    def named(self, names: Iterable[str]) -> list[str]:
        """Return the paths of the notes that have one of these names."""
        rows = self._database.rows(
            "SELECT path FROM notes WHERE name IN (SELECT value FROM json_each(?))", (json.dumps(list(names)),)
        )
        return [path for (path,) in rows]

    def aliases(self, names: Iterable[str] | None = None) -> dict[str, str]:
        """Return the aliases among `names`, folded, with the path of their note, the shortest of several."""
        return self._paths("key = 'aliases'", names)

    def ids(self, names: Iterable[str] | None = None) -> dict[str, str]:
        """Return the ids among `names` that notes declare, folded, with the paths of these notes."""
        return self._paths("key = 'id' AND id = declared", names)

    def _paths(self, where: str, names: Iterable[str] | None) -> dict[str, str]:
        limit = "" if names is None else "AND value IN (SELECT value FROM json_each(:names))"
        rows = self._database.rows(
            f"""
            SELECT value, path FROM fields JOIN notes USING (note) WHERE {where} {limit}
            ORDER BY length(path) DESC, path DESC
            """,
            {"names": json.dumps(list(names or ()))},
        )
        return dict(rows)

    def names_of(self, paths: Collection[str]) -> set[str]:
        """Return the names by which links may find some notes: of their files, now and before, aliases, and ids."""
        rows = self._database.rows(
            """
            SELECT value FROM fields WHERE key IN ('aliases', 'id')
            AND note IN (SELECT note FROM notes WHERE path IN (SELECT value FROM json_each(:paths)))
            UNION ALL SELECT name FROM moves WHERE new IN (SELECT value FROM json_each(:paths))
            """,
            {"paths": json.dumps(list(paths))},
        )
        return {*map(key, paths), *(name for (name,) in rows)}

    def titles(self, paths: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return the ids and titles of notes by their paths."""
        sql = "SELECT path, id, title FROM notes WHERE path IN (SELECT value FROM json_each(?))"
        return {path: (id, title) for path, id, title in self._database.rows(sql, (json.dumps(list(paths)),))}

    def having(self, keys: Iterable[str], values: Iterable[str]) -> list[tuple[str, str, str]]:
        """Return the notes that have one of these values, folded, under one of the keys, as (path, key, value)."""
        return self._fields("value IN (SELECT value FROM json_each(?))", keys, values)

    def fields(self, paths: Iterable[str], keys: Sequence[str]) -> list[tuple[str, str, str]]:
        """Return the values, folded, of notes under these keys of their frontmatter, as (path, key, value)."""
        return self._fields("ordinal < 0 AND path IN (SELECT value FROM json_each(?))", keys, paths)

    def _fields(self, where: str, keys: Iterable[str], listed: Iterable[str]) -> list[tuple[str, str, str]]:
        where = f"key IN (SELECT value FROM json_each(?)) AND {where}"
        sql = f"SELECT path, key, value FROM fields JOIN notes USING (note) WHERE {where}"
        return self._database.rows(sql, (json.dumps(list(keys)), json.dumps(list(listed))))

    def called(self) -> list[tuple[str, str]]:
        """Return all notes by path, each with its title, the name of its file, and its aliases, folded."""
        return self._database.rows(
            """
            SELECT path, value FROM fields JOIN notes USING (note) WHERE key IN ('title', 'aliases') AND ordinal < 0
            UNION SELECT path, name FROM notes
            """
        )

    def labels(self, path: str) -> dict[str, int]:
        """Return the tags, keywords and entities of a note, folded, and how many notes have each."""
        rows = self._database.rows(
            f"""
            SELECT value, count(DISTINCT note) FROM fields WHERE key IN {LABELS} AND value IN
            (SELECT value FROM fields JOIN notes USING (note) WHERE path = ? AND key IN {LABELS}) GROUP BY value
            """,
            (path,),
        )
        return dict(rows)

    def moved(self, names: Iterable[str] | None = None) -> dict[str, str]:
        """Return the current paths of notes by their former paths, of those with one of `names`."""
        limit = "" if names is None else "WHERE name IN (SELECT value FROM json_each(:names))"
        rows = self._database.rows(
            f"""
            WITH RECURSIVE went (old, new) AS (
                SELECT old, new FROM moves {limit}
                UNION
                SELECT went.old, moves.new FROM went JOIN moves ON moves.old = went.new
                WHERE went.new NOT IN (SELECT path FROM notes)
            )
            SELECT went.old, path FROM went JOIN notes ON path = went.new
            """,
            {"names": json.dumps(list(names or ()))},
        )
        return dict(rows)
