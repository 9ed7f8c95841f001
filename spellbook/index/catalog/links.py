"""
What notes link to, as written, and where files went; where a link leads is for `links.Files` to say.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spellbook.index.catalog.schema import LinkRow
from spellbook.system.sqlite import Database

_LABELS = "('tags', 'keywords', 'entities')"
"""The keys of `fields`, as SQL, whose values relate two notes that share one: `search/related.py` weighs them."""

_CHAIN = 20
"""Most successive moves of one file that are followed. By hand; it also ends a circle of moves."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """A file that is about to be removed from the catalog: its content's hash, and the id that it declared."""

    path: str
    id: str
    sha256: str
    declared: str | None


@dataclass(frozen=True, slots=True)
class Linked:
    """A link, and the note that contains it."""

    source: str
    link: LinkRow


class Links:
    """The links and moves in a catalog's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # -- kept by the catalog, inside its transactions

    @staticmethod
    def add(connection: sqlite3.Connection, notes: Iterable[tuple[int, Sequence[LinkRow]]]) -> None:
        """Store the links of notes that have none yet, in order."""
        rows = (
            (note, i, link.name, link.target, link.fragment, link.is_markdown, link.line)
            for note, links in notes
            for i, link in enumerate(links)
        )
        connection.executemany("INSERT INTO links VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def leaving(self, paths: Sequence[str]) -> list[Leaving]:
        """Return what the catalog knows of notes that are about to be removed."""
        rows = self._database.rows(
            """
            SELECT path, id, sha256, declared FROM files JOIN notes USING (path)
            WHERE path IN (SELECT value FROM json_each(?)) AND size > 0
            """,
            (json.dumps(paths),),
        )
        return [Leaving(*row) for row in rows]

    @staticmethod
    def moved(connection: sqlite3.Connection, left: Sequence[Leaving]) -> None:
        """Record where removed notes are now: where their id is, else their content. Use counts follow."""
        if not left:
            return
        asked = json.dumps([each.sha256 for each in left])
        same = dict(
            connection.execute(
                "SELECT sha256, path FROM files WHERE sha256 IN (SELECT value FROM json_each(?))", (asked,)
            )
        )
        for each in left:
            row = connection.execute(
                "SELECT path FROM notes WHERE declared = ? ORDER BY id = declared DESC", (each.declared,)
            ).fetchone()
            new = row[0] if row else same.get(each.sha256)
            if new is None:
                continue
            connection.execute("INSERT OR REPLACE INTO moves VALUES (?, ?, ?)", (each.path, new, time.time()))
            if not each.declared:
                connection.execute(
                    "UPDATE OR IGNORE uses SET note = (SELECT id FROM notes WHERE path = ?) WHERE note = ?",
                    (new, each.id),
                )

    # -- queries

    def of(self, path: str) -> list[LinkRow]:
        """Return the links of the note at `path`, in order."""
        return [linked.link for linked in self._linked("path = :value", path)]

    def to(self, names: Iterable[str]) -> list[Linked]:
        """Return the links whose name is one of `names`, by the paths of their notes."""
        return self._linked("links.name IN (SELECT value FROM json_each(:value))", json.dumps(list(names)))

    def once_to(self, names: Iterable[str]) -> list[Linked]:
        """Return the same as `to`, with each target of a note once, without lines and fragments."""
        rows = self._database.rows(
            """
            SELECT DISTINCT path, links.name, target, markdown FROM links JOIN notes USING (note)
            WHERE links.name IN (SELECT value FROM json_each(?)) ORDER BY path
            """,
            (json.dumps(list(names)),),
        )
        return [Linked(path, LinkRow(name, target, "", bool(markdown), 0)) for path, name, target, markdown in rows]

    def all(self) -> list[Linked]:
        """Return every link."""
        return self._linked("1", None)

    def _linked(self, where: str, value: object) -> list[Linked]:
        rows = self._database.rows(
            f"""
            SELECT path, links.name, target, fragment, markdown, line FROM links JOIN notes USING (note)
            WHERE {where} ORDER BY path, ordinal
            """,
            {"value": value},
        )
        return [
            Linked(path, LinkRow(name, target, fragment, bool(markdown), line))
            for path, name, target, fragment, markdown, line in rows
        ]

    def named(self, names: Iterable[str]) -> list[str]:
        """Return the paths of the notes that have one of these names."""
        rows = self._database.rows(
            "SELECT path FROM notes WHERE name IN (SELECT value FROM json_each(?))", (json.dumps(list(names)),)
        )
        return [path for (path,) in rows]

    def aliases(self, names: Iterable[str] | None = None) -> dict[str, str]:
        """Return aliases, folded, with their note's path, the shortest of several; those of `names`, or all."""
        limit = "" if names is None else "AND value IN (SELECT value FROM json_each(:names))"
        rows = self._database.rows(
            f"""
            SELECT value, path FROM fields JOIN notes USING (note) WHERE key = 'aliases' {limit}
            ORDER BY length(path) DESC, path DESC
            """,
            {"names": json.dumps(list(names or ()))},
        )
        return dict(rows)

    def aliases_of(self, paths: Iterable[str]) -> list[str]:
        """Return the aliases of some notes, folded."""
        rows = self._database.rows(
            """
            SELECT value FROM fields WHERE key = 'aliases'
            AND note IN (SELECT note FROM notes WHERE path IN (SELECT value FROM json_each(?)))
            """,
            (json.dumps(list(paths)),),
        )
        return [name for (name,) in rows]

    def titles(self, paths: Iterable[str]) -> dict[str, tuple[str, str]]:
        """Return the ids and titles of notes by their paths."""
        sql = "SELECT path, id, title FROM notes WHERE path IN (SELECT value FROM json_each(?))"
        return {path: (id, title) for path, id, title in self._database.rows(sql, (json.dumps(list(paths)),))}

    def labels(self, path: str) -> dict[str, int]:
        """Return the tags, keywords and entities of a note, folded, and how many notes have each."""
        rows = self._database.rows(
            f"""
            SELECT value, count(DISTINCT note) FROM fields WHERE key IN {_LABELS} AND value IN
            (SELECT value FROM fields JOIN notes USING (note) WHERE path = ? AND key IN {_LABELS}) GROUP BY value
            """,
            (path,),
        )
        return dict(rows)

    def labelled(self, values: Iterable[str]) -> list[tuple[str, str]]:
        """Return the paths of the notes that have one of these labels, with the label."""
        return self._database.rows(
            f"""
            SELECT DISTINCT path, value FROM fields JOIN notes USING (note)
            WHERE key IN {_LABELS} AND value IN (SELECT value FROM json_each(?))
            """,
            (json.dumps(list(values)),),
        )

    def titled(self) -> list[tuple[str, str]]:
        """Return the path and the title of every note."""
        return self._database.rows("SELECT path, title FROM notes")

    def went(self) -> dict[str, str]:
        """Return the current paths of notes by their former paths."""
        steps = dict(self._database.rows("SELECT old, new FROM moves"))
        there = {path for path, _ in self.titled()}
        found: dict[str, str] = {}
        for old in steps:
            path = steps[old]
            for _ in range(_CHAIN):
                if path in there or path not in steps:
                    break
                path = steps[path]
            if path in there:
                found[old] = path
        return found
