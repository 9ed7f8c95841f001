"""
Reading published vaults: which there are, one state of them, and statements over the notes that may be seen.
"""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from spellbook.index import privacy
from spellbook.index.catalog.schema import StoredChunk
from spellbook.index.filters import NO_GUIDES, Condition
from spellbook.index.postgres import conditions
from spellbook.index.postgres.conditions import clean, in_sql
from spellbook.index.postgres.database import PostgresDatabase
from spellbook.index.postgres.publish import NUMBERS
from spellbook.system.errors import VaultNotFound

_CHUNK = """chunks.chunk, notes.id || suffix, path, line, end_line, title, heading, text, chunks.key,
    coalesce(topic, ''), coalesce(category, ''), importance, created, updated, mtime_ns, ordinal, keywords, tags, meta,
    lead, tail"""
OF_NOTE = "chunks JOIN notes USING (vault, note)"
_OF_SEEN = (
    "AND (vault, note) IN (SELECT notes.vault, notes.note FROM notes WHERE notes.vault = ANY(%(vaults)s) AND {seen})"
)


@dataclass(frozen=True, slots=True)
class VaultRow:
    """A published vault: its number, name, embedder, and the seconds since 1970 when it was last published."""

    number: int
    name: str
    embedder: str
    fingerprint: str
    notes: int
    chunks: int
    published: float
    generation: int


def vaults(database: PostgresDatabase, names: Sequence[str] = ()) -> list[VaultRow]:
    """Return the published vaults, or those of `names`. Raises StorageError, VaultNotFound."""
    database.expect()
    rows = database.rows(
        """
        SELECT vault, name, embedder, fingerprint, notes, chunks, extract(epoch FROM published)::float8, generation
        FROM vaults WHERE is_live ORDER BY name
        """
    )
    published = {row[1]: VaultRow(*row) for row in rows}
    for name in names:
        if name not in published:
            raise VaultNotFound(
                f"The database answers, but no vault {name[:100]!r} is published there.",
                f"There are {', '.join(list(published)[:20]) or 'none'}.",
            )
    return [published[name] for name in dict.fromkeys(names or published)]


def afterwards(where: str) -> str:
    """Return a condition on rows as one that is looked at when they are found, and finds none of them itself."""
    return f"coalesce(({where}), false)"


class PublishedRows:
    """Reads the vaults `names`, all that are there if it is empty; `sees` and `only` are as in `engine.Postgres`."""

    def __init__(
        self, database: PostgresDatabase, names: Sequence[str], sees: str, only: Collection[str] | None = None
    ) -> None:
        self.database, self._names, self.sees = database, tuple(names), sees
        self._only = None if only is None else frozenset(only)
        self._local = threading.local()

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self.database.reading():
            outermost = not hasattr(self._local, "vaults")
            if outermost:
                self._local.vaults = self._read_vaults()
                self._local.frequencies, self._local.guides = {}, None
            try:
                yield
            finally:
                if outermost:
                    del self._local.vaults, self._local.frequencies, self._local.guides

    @property
    def frequencies(self) -> dict[str, int]:
        """What was counted since `reading` was entered, by query; forgotten with it."""
        counts: dict[str, int] = getattr(self._local, "frequencies", {})
        return counts

    @property
    def vaults(self) -> list[VaultRow]:
        """The vaults that are read."""
        vaults: list[VaultRow] | None = getattr(self._local, "vaults", None)
        return self._read_vaults() if vaults is None else vaults

    def _read_vaults(self) -> list[VaultRow]:
        if self._only is None:
            return vaults(self.database, self._names)
        # Without names, since an error would list all vaults. One that may not be seen counts as not published.
        there = vaults(self.database)
        return [vault for vault in there if vault.name in self._only and vault.name in (self._names or self._only)]

    def rows(self, sql: str, **values: object) -> list[Any]:
        """
        Run a statement over the notes that may be seen.

        It has `{seen}` where that is said of `notes`, `{of_seen}` of rows that belong to a note.
        """
        seen, shown = conditions.only(privacy.KEY, sorted(privacy.SHOWN[self.sees])) if self.sees else ("true", {})
        numbers = values.pop("vaults", None) or [vault.number for vault in self.vaults]
        sql = sql.replace("{of_seen}", _OF_SEEN if self.sees else "").replace("{seen}", seen)
        return self.database.rows(sql, {**values, **shown, "vaults": numbers})

    def notes_at(self, paths: Iterable[str]) -> dict[int, str]:
        """Return the paths, as they are shown, of the notes at `paths`, by the numbers of the notes."""
        inside = [(number, path) for number, listed in self.by_vault(paths).items() for path in listed]
        if not inside:
            return {}
        rows = self.rows(
            """
            SELECT found.* FROM unnest(%(numbers)s::int[], %(paths)s::text[]) AS each (number, path),
            LATERAL (  -- by the index, else the planner may read all notes
                SELECT note, notes.path FROM notes WHERE vault = number AND vault = ANY(%(vaults)s)
                AND md5(notes.path) = md5(each.path) AND {seen} OFFSET 0) AS found
            """,
            vaults=list({number for number, _ in inside}),
            numbers=[number for number, _ in inside],
            paths=[path for _, path in inside],
        )
        return {note: self.shown(note, path) for note, path in rows}

    def where(self, limits: Sequence[Condition]) -> tuple[str, dict[str, object]]:
        """Return SQL for the notes that meet `limits` and may be seen, with its values."""

        def keys() -> set[str]:
            of_notes = "FROM fields JOIN notes USING (vault, note) WHERE vault = ANY(%(vaults)s) AND {seen}"
            return {key for (key,) in self.rows(f"SELECT DISTINCT key {of_notes}")}

        listed = self.vaults
        names = {vault.number: vault.name for vault in listed} if len(listed) > 1 else {}
        where, values = in_sql([limit for limit in limits if limit != NO_GUIDES], keys, names)
        if NO_GUIDES in limits and (guides := self.guides()):
            where, values = f"{where} AND note <> ALL(%(guides)s)", {**values, "guides": guides}
        return f"({where}) AND {{seen}}", values

    def guides(self) -> list[int]:
        """Return the numbers of the guides, which are few; within one `reading` they are asked for once."""
        guides: list[int] | None = getattr(self._local, "guides", None)
        if guides is None:
            which, values = in_sql([replace(NO_GUIDES, negated=False)], set)
            rows = self.rows(f"SELECT note FROM notes WHERE vault = ANY(%(vaults)s) AND {which} AND {{seen}}", **values)
            guides = [note for (note,) in rows]
            if hasattr(self._local, "guides"):
                self._local.guides = guides
        return guides

    def source(self, where: str) -> str:
        """Return what the chunks that `where` limits are read from: their notes, too, if it is said of these."""
        return OF_NOTE if self.sees or "notes." in where else "chunks"

    def vaults_of(self, numbers: Iterable[int]) -> list[int]:
        """Return the vaults that are read and have notes or chunks of these numbers: the others need no look."""
        among = {number // NUMBERS for number in numbers}
        return [vault.number for vault in self.vaults if vault.number in among]

    def chunks(self, where: str, **values: object) -> list[StoredChunk]:
        """Return the chunks of notes that may be seen, in order within each note."""
        seen = "" if "{seen}" in where else " AND {seen}"
        rows = self.rows(
            f"SELECT {_CHUNK} FROM {OF_NOTE} WHERE vault = ANY(%(vaults)s) AND {where}{seen} ORDER BY path, ordinal",
            **values,
        )
        chunks = []
        for row in rows:
            labels = tuple(json.loads(row[16] or "[]")), tuple(json.loads(row[17] or "[]"))
            meta = MappingProxyType(json.loads(row[18] or "{}"))
            names = self.shown(row[0], row[1]), self.shown(row[0], row[2])
            chunks.append(StoredChunk._make((row[0], *names, *row[3:16], *labels, meta, *row[19:])))
        return chunks

    def shown(self, number: int, name: str) -> str:
        """Return an id or a path of the vault that `number` (of a note or a chunk) is of, as a reader sees it."""
        listed = self.vaults
        if len(listed) == 1:
            return name
        vault = next((vault.name for vault in listed if vault.number == number // NUMBERS), "")
        return f"{vault}/{name}"

    def by_vault(self, names: Iterable[str]) -> dict[int, list[str]]:
        """Return ids or paths, as they are shown, by the numbers of their vaults, as they are there."""
        listed = self.vaults
        inside: dict[int, list[str]] = defaultdict(list)
        for name in names:
            for vault in listed:
                prefix = f"{vault.name}/" if len(listed) > 1 else ""
                if name.startswith(prefix):
                    inside[vault.number].append(clean(name.removeprefix(prefix)))
        return inside
