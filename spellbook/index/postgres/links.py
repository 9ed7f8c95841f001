"""
The links of a published vault: `catalog.links.Links` says what each method returns.

Of several vaults at once no links are read: a name in one could mean a note of another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from spellbook.index.catalog.links import LABELS, MOST_BETWEEN, STEPS, Linked, Links, Superseding, linked
from spellbook.index.catalog.schema import LinkRow
from spellbook.index.postgres.conditions import clean
from spellbook.index.postgres.reader import PublishedRows
from spellbook.notes.links import key
from spellbook.notes.relations import SUPERSEDES

_AT = "md5(path) = ANY(SELECT md5(each) FROM unnest(%(paths)s::text[]) AS each)"
_NAMED = "md5({0}) = ANY(SELECT md5(each) FROM unnest(%(names)s::text[]) AS each)"


class PublishedLinks(Links):
    """The links in the database that is read."""

    def __init__(self, read: PublishedRows) -> None:
        self._read = read

    def _rows(self, sql: str, **lists: Iterable[str]) -> list[Any]:
        values = {name: list(map(clean, texts)) for name, texts in lists.items()}
        if len(self._read.vaults) != 1 or not all(values.values()):
            return []
        return self._read.rows(sql.replace("{own}", "notes.vault = ANY(%(vaults)s) AND {seen}"), **values)

    def superseding(self, paths: Collection[str]) -> list[Superseding]:
        most = 2 * len(paths) + MOST_BETWEEN
        rows = self._rows(
            f"""
            WITH RECURSIVE above (path, vault, note, ordinal, name, step) AS (
                SELECT path, vault, note, -1, name, 0 FROM notes WHERE {{own}} AND {_AT}
                UNION
                SELECT notes.path, notes.vault, notes.note, links.ordinal, notes.name, step + 1
                FROM above JOIN links ON links.vault = above.vault AND relation = '{SUPERSEDES}' AND links.name IN (
                    SELECT above.name
                    UNION ALL SELECT value FROM fields WHERE fields.vault = above.vault AND fields.note = above.note
                        AND fields.key IN ('id', 'aliases')
                    UNION ALL SELECT moves.name FROM moves WHERE moves.vault = above.vault AND new = above.path
                ) JOIN notes ON notes.vault = links.vault AND notes.note = links.note
                WHERE step < {STEPS}
            )
            SELECT DISTINCT notes.path, notes.id, notes.title, coalesce(created_at, updated_at, mtime_ns / 1e9)::float8,
                links.name, target, is_markdown
            FROM (SELECT * FROM above LIMIT {most}) AS above JOIN links USING (vault, note, ordinal)
            JOIN notes USING (vault, note) WHERE {{own}}
            """,
            paths=paths,
        )
        return [
            Superseding(path, id, title, float(when), LinkRow(name, target, "", bool(markdown), 0, SUPERSEDES))
            for path, id, title, when, name, target, markdown in rows
        ]

    def of(self, path: str) -> list[LinkRow]:
        return [each.link for each in self._find(_AT, paths=[path])]

    def titles(self, paths: Iterable[str]) -> dict[str, tuple[str, str]]:
        rows = self._rows(f"SELECT path, id, coalesce(title, '') FROM notes WHERE {{own}} AND {_AT}", paths=paths)
        return {path: (id, title) for path, id, title in rows}

    def fields(self, paths: Iterable[str], keys: Sequence[str]) -> list[tuple[str, str, str]]:
        return self._rows(
            f"""
            SELECT path, fields.key, value FROM fields JOIN notes USING (vault, note)
            WHERE {{own}} AND fields.key = ANY(%(keys)s) AND {_AT}
            """,
            paths=paths,
            keys=keys,
        )

    def labels(self, path: str) -> dict[str, int]:
        rows = self._rows(
            f"""
            SELECT value, count(DISTINCT note) FROM fields JOIN notes USING (vault, note)
            WHERE {{own}} AND fields.key IN {LABELS} AND value IN (
                SELECT value FROM fields JOIN notes USING (vault, note)
                WHERE {{own}} AND {_AT} AND fields.key IN {LABELS}) GROUP BY value
            """,
            paths=[path],
        )
        return dict(rows)

    def labelled(self, values: Iterable[str]) -> list[tuple[str, str]]:
        return self._rows(
            f"""
            SELECT DISTINCT path, value FROM fields JOIN notes USING (vault, note)
            WHERE {{own}} AND fields.key IN {LABELS} AND {_NAMED.format("value")}
            """,
            names=values,
        )

    def once_to(self, names: Iterable[str]) -> list[Linked]:
        rows = self._rows(
            f"""
            SELECT DISTINCT path, links.name, target, '', is_markdown, 0, relation
            FROM links JOIN notes USING (vault, note)
            WHERE {{own}} AND {_NAMED.format("links.name")} ORDER BY path
            """,
            names=names,
        )
        return [linked(*row) for row in rows]

    def to(self, names: Iterable[str]) -> list[Linked]:
        return self._find(_NAMED.format("links.name"), names=names)

    def _find(self, where: str, **lists: Iterable[str]) -> list[Linked]:
        rows = self._rows(
            f"""
            SELECT path, links.name, target, fragment, is_markdown, line, relation
            FROM links JOIN notes USING (vault, note) WHERE {{own}} AND {where} ORDER BY path, ordinal
            """,
            **lists,
        )
        return [linked(*row) for row in rows]

    def names_of(self, paths: Collection[str]) -> set[str]:
        rows = self._rows(
            f"""
            SELECT value FROM fields JOIN notes USING (vault, note)
            WHERE {{own}} AND fields.key IN ('aliases', 'id') AND {_AT}
            UNION ALL SELECT name FROM moves WHERE vault = ANY(%(vaults)s) AND new = ANY(%(paths)s)
            """,
            paths=paths,
        )
        return {*map(key, paths), *(name for (name,) in rows)}

    def named(self, names: Iterable[str]) -> list[str]:
        rows = self._rows(f"SELECT path FROM notes WHERE {{own}} AND {_NAMED.format('name')}", names=names)
        return [path for (path,) in rows]

    def aliases(self, names: Iterable[str]) -> dict[str, str]:
        rows = self._rows(
            f"""
            SELECT value, path FROM fields JOIN notes USING (vault, note)
            WHERE {{own}} AND fields.key = 'aliases' AND md5(fields.key) = md5('aliases')
            AND {_NAMED.format("value")} ORDER BY length(path) DESC, path DESC
            """,
            names=names,
        )
        return dict(rows)

    def ids(self, names: Iterable[str]) -> dict[str, str]:
        rows = self._rows(
            f"""
            SELECT value, path FROM fields JOIN notes USING (vault, note)
            WHERE {{own}} AND md5(fields.key) = md5('id') AND id = declared AND {_NAMED.format("value")}
            """,
            names=names,
        )
        return dict(rows)

    def went(self, names: Iterable[str]) -> dict[str, str]:
        rows = self._rows(
            """
            WITH RECURSIVE went (old, new) AS (
                SELECT old, new FROM moves WHERE vault = ANY(%(vaults)s) AND name = ANY(%(names)s)
                UNION
                SELECT went.old, moves.new FROM went JOIN moves ON moves.old = went.new
                WHERE moves.vault = ANY(%(vaults)s)
            )
            SELECT went.old, path FROM went JOIN notes ON path = went.new WHERE {own}
            """,
            names=names,
        )
        return dict(rows)
