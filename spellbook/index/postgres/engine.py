"""
The engine that answers from published vaults: one or several, with one ranking. It only reads.

Whatever a reader may not see is cut in every statement, counts of words included, so that nothing tells of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from spellbook.index import scopes
from spellbook.index.catalog.labels import FIRST
from spellbook.index.catalog.schema import StoredChunk
from spellbook.index.catalog.usage import Use
from spellbook.index.filters import Condition, Unmatched, alike
from spellbook.index.opened import Index
from spellbook.index.postgres.database import PostgresDatabase, literal
from spellbook.index.postgres.links import PublishedLinks
from spellbook.index.postgres.matching import Matching
from spellbook.index.postgres.reader import PublishedRows, afterwards
from spellbook.index.vectors.about import EACH, NEAR, NoteCosines
from spellbook.index.vectors.nearest import Texts
from spellbook.models.base import Bytes, Embedder, Reranker, SecondEncoder, Vectors
from spellbook.settings.config import Config
from spellbook.system.lazy import np

EXACT_MOST = 20_000
"""Chunks up to which search by meaning is exact: 13,000 take 16 ms, and the index is for what is larger."""

_COMPARED = 1_000
"""Values that a misspelt one is compared with."""


class Postgres(Matching):
    """
    See `engine.Engine` for each method. `names` are the vaults to read, all that are there if it is empty.

    With several, ids and paths begin with the vault's name and a slash. `sees` is team or public for a reader that
    sees only such notes, "" for all. `only` are the vaults that the reader may see, None for all; others do not exist.
    """

    def __init__(
        self, database: PostgresDatabase, names: Sequence[str] = (), sees: str = "", only: Collection[str] | None = None
    ) -> None:
        super().__init__(PublishedRows(database, names, sees, only))
        self._links = PublishedLinks(self._read)

    # -- what it reads from

    @property
    def reader(self) -> PublishedRows:
        """What its statements are run by."""
        return self._read

    @property
    def links(self) -> PublishedLinks:
        return self._links

    def reading(self) -> AbstractContextManager[None]:
        return self._read.reading()

    @property
    def fingerprint(self) -> str:
        fingerprints = {each.fingerprint for each in self._read.vaults}
        return fingerprints.pop() if len(fingerprints) == 1 else ""

    @property
    def second_fingerprint(self) -> str:
        rows = self._read.rows("SELECT DISTINCT second FROM vaults WHERE vault = ANY(%(vaults)s)")
        return str(rows[0][0]) if len(rows) == 1 else ""

    # -- by meaning

    def nearest(self, vector: Vectors, limits: Sequence[Condition], wanted: int, reasons: list[str]) -> Texts:
        most = wanted
        while True:
            near = self._near("chunks", "chunk, chunks.key", vector, limits, most)
            if len({key for _, key, _ in near}) >= wanted or len(near) < most:
                break
            most *= 2
        cosines: dict[str, float] = {}
        for _, key, cosine in near:
            cosines.setdefault(key, cosine)
        best = list(cosines)[:wanted]
        chunks: dict[str, list[StoredChunk]] = defaultdict(list)
        where, values = self._read.where(limits)
        for chunk in self._read.chunks(f"chunks.key = ANY(%(keys)s) AND {where}", keys=best, **values):
            chunks[chunk.key].append(chunk)
        return [(tuple(chunks[key]), cosines[key]) for key in best if key in chunks]

    def standing_in(self, vector: Bytes, limits: Sequence[Condition], wanted: int) -> list[int]:
        # What is not embedded yet is found here by its words; it is embedded where the files are.
        return []

    def named(self, vector: Vectors, limits: Sequence[Condition]) -> list[int]:
        near = self._near("labels", "labels.note, labels.key", vector, limits, NEAR * 4)
        notes = list(dict.fromkeys(note for note, _, _ in near))[:NEAR]
        if not notes:
            return []
        rows = self._read.rows(
            """
            SELECT note, chunk, -(vector <#> %(vector)s::halfvec) FROM chunks
            WHERE vault = ANY(%(vaults)s) AND note = ANY(%(notes)s) AND ordinal < %(first)s AND key <> ''
            """,
            vaults=self._read.vaults_of(notes),
            vector=literal(vector.tolist()),
            notes=notes,
            first=FIRST,
        )
        best: dict[int, list[tuple[float, int]]] = {note: [] for note in notes}
        for note, number, cosine in rows:
            best[note].append((-(cosine if cosine is not None else -1.0), number))
        return [number for some in best.values() for _, number in sorted(some)[:EACH]]

    def _near(
        self, table: str, columns: str, vector: Vectors, limits: Sequence[Condition], wanted: int
    ) -> list[tuple[int, str, float]]:
        """Return the `wanted` nearest rows of a table, each with its cosine: exactly, or by the HNSW index."""
        where, values = self._read.where(limits)
        width = len(vector)
        near = f"{table}.vector::halfvec({width}) <#> %(vector)s::halfvec({width})"
        of_vaults = f"vault = ANY(%(vaults)s) AND vector_dims({table}.vector) = {width}"
        source = self._read.source(where).replace("chunks", table)
        values |= {"vector": literal(vector.tolist()), "wanted": wanted}
        total = sum(each.chunks for each in self._read.vaults)
        with self._read.reading():
            if total > EXACT_MOST and not self._leaves_few(limits):
                self._read.database.rows(
                    "SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true),"
                    f" set_config('hnsw.ef_search', '{min(1_000, max(100, 2 * wanted))}', true),"
                    " set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true)"
                )
                # The filter stands outside, so that its notes are looked up once, not for each partition.
                ordered = (
                    f"(SELECT *, {near} AS near FROM {table} WHERE {of_vaults} ORDER BY {near} OFFSET 0) AS {table}"
                )
                rows = self._read.rows(
                    f"""
                    SELECT {columns}, -near FROM {source.replace(table, ordered, 1)} WHERE {afterwards(where)}
                    ORDER BY near LIMIT %(wanted)s
                    """,
                    **values,
                )
                self._read.database.rows(
                    "SELECT set_config('enable_sort', 'on', true), set_config('enable_bitmapscan', 'on', true)"
                )
                if len(rows) >= wanted:
                    return sorted(rows, key=lambda row: -row[2])
            # The index gave up before it had enough, or there is no need of it. What is added keeps it out.
            return self._read.rows(
                f"""
                SELECT {columns}, -({near}) FROM {source} WHERE {of_vaults} AND {where}
                ORDER BY ({near}) + 0 LIMIT %(wanted)s
                """,
                **values,
            )

    def cosines(self, vector: Vectors, keys: Iterable[str]) -> dict[str, float]:
        return dict(
            self._read.rows(
                """
                SELECT DISTINCT ON (key) key, -(vector <#> %(vector)s::halfvec) FROM chunks
                WHERE vault = ANY(%(vaults)s) AND key = ANY(%(keys)s) AND vector IS NOT NULL {of_seen}
                """,
                vector=literal(vector.tolist()),
                keys=list(keys),
            )
        )

    def about(self, vector: Vectors | None, chunks: Iterable[StoredChunk]) -> dict[str, NoteCosines]:
        paths = {chunk.path for chunk in chunks}
        question = None if vector is None else literal(vector.tolist())
        with self._read.reading():
            notes = self._read.notes_at(paths)
            rows = self._read.rows(
                """
                SELECT note, min(chunk), max(chunk), -(l2_normalize(avg(vector)) <#> %(vector)s::halfvec) FROM chunks
                WHERE vault = ANY(%(vaults)s) AND note = ANY(%(notes)s) AND ordinal < %(first)s GROUP BY note
                """,
                vaults=self._read.vaults_of(notes),
                vector=question,
                notes=list(notes),
                first=FIRST,
            )
            named = self._read.rows(
                """
                SELECT note, kind, key, -(vector <#> %(vector)s::halfvec) FROM labels
                WHERE vault = ANY(%(vaults)s) AND note = ANY(%(notes)s)
                """,
                vaults=self._read.vaults_of(notes),
                vector=question,
                notes=list(notes),
            )
        labels: dict[int, list[tuple[str, str, float | None]]] = defaultdict(list)
        for note, kind, key, cosine in named:
            labels[note].append((kind, key, cosine))
        if vector is None:
            return {notes[note]: NoteCosines(first, last) for note, first, last, _ in rows}
        return {notes[note]: NoteCosines(first, last, whole, tuple(labels[note])) for note, first, last, whole in rows}

    def vectors(self, keys: Iterable[str]) -> dict[str, Vectors]:
        rows = self._read.rows(
            "SELECT DISTINCT ON (key) key, vector::real[] FROM chunks"
            " WHERE vault = ANY(%(vaults)s) AND key = ANY(%(keys)s) AND vector IS NOT NULL {of_seen}",
            keys=list(keys),
        )
        vectors: dict[str, Vectors] = {}
        for key, numbers in rows:
            vector = np.array(numbers, dtype=np.float32)
            vectors[key] = vector / np.float32(np.linalg.norm(vector) or 1.0)
        return vectors

    def seconds(self, keys: Iterable[str]) -> dict[str, bytes]:
        one = "SELECT key, second FROM {0} WHERE vault = ANY(%(vaults)s) AND key = ANY(%(keys)s) AND second IS NOT NULL"
        sql = " UNION ".join(f"{one.format(table)} {{of_seen}}" for table in ("chunks", "labels"))
        rows = self._read.rows(sql, keys=list(keys))
        return {key: bytes(blob) for key, blob in rows}

    # -- rows

    def by_number(self, numbers: Sequence[int]) -> list[StoredChunk]:
        vaults = self._read.vaults_of(numbers)
        return self._read.chunks("chunk = ANY(%(numbers)s)", vaults=vaults, numbers=list(numbers)) if vaults else []

    def at(self, path: str) -> list[StoredChunk]:
        notes = list(self._read.notes_at([path]))
        vaults = self._read.vaults_of(notes)
        return self._read.chunks("notes.note = ANY(%(notes)s)", vaults=vaults, notes=notes) if vaults else []

    def note(self, id: str) -> list[StoredChunk]:
        """Return all chunks, in order, of the note with this id, or else at this path, also without `.md`; or none."""
        for number, [named] in self._read.by_vault([id]).items():
            rows = self._read.rows(
                "SELECT note FROM notes WHERE vault = ANY(%(vaults)s) AND md5(id) = md5(%(id)s) AND {seen}",
                vaults=[number],
                id=named,
            )
            if rows:
                return self._read.chunks("notes.note = %(note)s", note=rows[0][0])
        return self.at(id) or self.at(f"{id}.md")

    def among(self, paths: Collection[str], conditions: Sequence[Condition]) -> set[str]:
        where, values = self._read.where(conditions)
        notes = self._read.notes_at(paths)
        rows = self._read.rows(
            f"SELECT note FROM notes WHERE vault = ANY(%(vaults)s) AND note = ANY(%(notes)s) AND {where}",
            notes=list(notes),
            **values,
        )
        return {notes[note] for (note,) in rows}

    def unmatched(
        self, wanted: Sequence[Condition], visible: Sequence[Condition], *, paths: bool = True
    ) -> tuple[Unmatched, ...]:
        missing = []
        for condition in wanted:
            for value in condition.values if paths or condition.key != "path" else ():
                one = Condition(condition.key, (value,))
                where, values = self._read.where((one, *visible))
                sql = f"SELECT 1 FROM notes WHERE vault = ANY(%(vaults)s) AND {where} LIMIT 1"
                if not self._read.rows(sql, **values):
                    missing.append(Unmatched(condition.key, value, self._nearest_values(one, visible)))
        return tuple(missing)

    def _nearest_values(self, missing: Condition, visible: Sequence[Condition]) -> tuple[str, ...]:
        if missing.key == "path":
            return ()
        where, values = self._read.where(visible)
        rows = self._read.rows(
            f"""
            SELECT DISTINCT value FROM fields JOIN notes USING (vault, note)
            WHERE vault = ANY(%(vaults)s) AND md5(key) = md5(%(key)s) AND {where} ORDER BY value LIMIT {_COMPARED}
            """,
            key=missing.key,
            **values,
        )
        return alike(missing.values[0], [value for (value,) in rows if value])

    # -- what only the machine with the files knows

    def uses(self, notes: Iterable[str]) -> Mapping[str, Use]:
        return {}

    def tokens(self, numbers: Sequence[int], tokeniser: str) -> dict[int, int]:
        return {}

    def embed_next(self, keys: Iterable[str]) -> None:
        return None


@dataclass(frozen=True, slots=True)
class PublishedSource:
    """
    Vaults that were published to a database; see `engine.Source`.

    `names` are those to read, all if it is empty. `sees` is team or public for a reader that sees only such notes, and
    `only` are the vaults that it may see, None for all.
    """

    config: Config
    database: PostgresDatabase
    embedder: Embedder
    second: SecondEncoder | None = None
    reranker: Reranker | None = None
    names: tuple[str, ...] = ()
    sees: str = ""
    only: tuple[str, ...] | None = None
    whole: Index | None = None

    @property
    def visible(self) -> tuple[Condition, ...]:
        """What limits searches to the scope."""
        return scopes.visible(self.config.scope)

    def engine(self) -> Postgres:
        """Return what answers questions from these vaults."""
        return Postgres(self.database, self.names, self.sees, self.only)

    def fits(self, width: int) -> None:
        """Do nothing: vectors of another width have another fingerprint, which is compared before them."""
