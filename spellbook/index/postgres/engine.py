"""
The engine that answers from published vaults: one or several, with one ranking. It only reads.

Whatever a reader may not see is cut in every statement, counts of words included, so that nothing tells of it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from spellbook.index.catalog.labels import FIRST
from spellbook.index.catalog.schema import Counts, StoredChunk
from spellbook.index.catalog.usage import Use
from spellbook.index.engine import Near
from spellbook.index.filters import Condition, Unmatched, alike
from spellbook.index.postgres import words
from spellbook.index.postgres.database import Database, literal
from spellbook.index.postgres.links import Links
from spellbook.index.postgres.publish import own
from spellbook.index.postgres.reader import OF_NOTE, Reader
from spellbook.index.vectors.about import EACH, NEAR, About
from spellbook.text.expressions import Expression, Phrase, Without, phrases

if TYPE_CHECKING:
    from spellbook.models.base import Bytes, Vectors

_EXACT_MOST = 20_000
"""Chunks up to which search by meaning is exact: 13,000 take 16 ms, and the index is for what is larger."""

_POOL = 200
"""Chunks at least that are scored by the places of their words, after the sparse vectors chose them."""

_COMPARED = 1_000
"""Values that a misspelt one is compared with."""


class Postgres:
    """
    See `engine.Engine` for each method. `names` are the vaults to read, all that are there if it is empty.

    With several, ids and paths begin with the vault's name and a slash. `sees` is team or public for a reader that
    sees only such notes, "" for all. `only` are the vaults that the reader may see, None for all; others do not exist.
    """

    def __init__(
        self, database: Database, names: Sequence[str] = (), sees: str = "", only: Collection[str] | None = None
    ) -> None:
        self._read = Reader(database, names, sees, only)
        self._links = Links(self._read)

    # -- what it reads from

    @property
    def reader(self) -> Reader:
        """What its statements are run by."""
        return self._read

    @property
    def links(self) -> Links:
        return self._links

    def reading(self) -> AbstractContextManager[None]:
        return self._read.reading()

    @property
    def fingerprint(self) -> str:
        found = {each.fingerprint for each in self._read.vaults}
        return found.pop() if len(found) == 1 else ""

    @property
    def second_fingerprint(self) -> str:
        rows = self._read.rows("SELECT DISTINCT second FROM vaults WHERE vault = ANY(%(vaults)s)")
        return str(rows[0][0]) if len(rows) == 1 else ""

    def counts(self) -> Counts:
        names = "sum(generation), sum(notes), sum(chunks), sum(pending), sum(second_pending)"
        [row] = self._read.rows(f"SELECT {names} FROM vaults WHERE vault = ANY(%(vaults)s)")
        counts = Counts(*(int(each or 0) for each in row))
        if not self._read.sees:
            return counts
        [[notes]] = self._read.rows("SELECT count(*) FROM notes WHERE vault = ANY(%(vaults)s) AND {seen}")
        [[chunks, pending]] = self._read.rows(
            f"SELECT count(*), count(*) FILTER (WHERE vector IS NULL) FROM {OF_NOTE} "
            "WHERE vault = ANY(%(vaults)s) AND {seen}"
        )
        return Counts(counts.generation, notes, chunks, pending, 0)

    # -- by words

    def frequencies(self, phrases: Sequence[Phrase], unprompted: bool) -> Callable[[Expression], int]:
        def asked(part: Expression) -> Expression:
            return Without("questions", part) if unprompted else part

        with self._read.reading():
            known = dict(zip(phrases, self._count([asked(each) for each in phrases]), strict=True))

        def count(part: Expression) -> int:
            found = known.get(part) if isinstance(part, Phrase) else None
            return self._count([asked(part)])[0] if found is None else found

        return count

    def _count(self, expressions: Sequence[Expression]) -> list[int]:
        """Return how many chunks each expression finds; within one `reading` each is asked once."""
        known: dict[str, int] = self._read.frequencies
        queries = [words.tsquery(each) for each in expressions]
        missing = [each for each in dict.fromkeys(queries) if each and each not in known]
        if missing:
            rows = self._read.rows(
                """
                SELECT (SELECT count(*) FROM chunks WHERE vault = ANY(%(vaults)s)
                    AND chunks.words @@ (part::tsquery && %(own)s::tsquery) {of_seen})
                FROM unnest(%(parts)s::text[]) WITH ORDINALITY AS each (part, n) ORDER BY n
                """,
                parts=missing,
                own=self._own(),
            )
            known |= dict(zip(missing, (row[0] for row in rows), strict=True))
        return [known.get(each, 0) for each in queries]

    def _own(self) -> str:
        return " | ".join(f"'{own(each.number)}'" for each in self._read.vaults)

    def match(
        self, expression: Expression, limits: Sequence[Condition], limit: int, also: Sequence[int] = ()
    ) -> list[tuple[int, float]]:
        with self._read.reading():
            query, sought = words.tsquery(expression), self._sought(expression)
            if not query or not sought:
                return []
            bag: dict[int, float] = {}
            parts: list[tuple[str, float]] = []
            for each, asked in sought:
                for token in each.tokens:
                    number = words.number_of(token)
                    bag[number] = bag.get(number, 0.0) + each.idf / len(each.tokens)
                if len(each.tokens) > 1 or each.is_prefix:
                    # A sparse vector knows neither order nor beginnings: whether the phrase is there counts beside it.
                    parts.append((words.tsquery(asked), each.idf))
            where, values = self._read.where(limits)
            rows = self._read.rows(
                f"""
                SELECT chunk FROM {OF_NOTE} WHERE vault = ANY(%(vaults)s)
                    AND words @@ (%(query)s::tsquery && %(own)s::tsquery) AND {where}
                ORDER BY chunk = ANY(%(also)s::bigint[]) DESC, -(bag <#> %(bag)s::sparsevec) + coalesce((
                    SELECT sum(idf) FILTER (WHERE words @@ part::tsquery)
                    FROM unnest(%(parts)s::text[], %(idfs)s::float8[]) AS each (part, idf)), 0) DESC, chunk
                LIMIT %(most)s
                """,
                **values,
                query=query,
                own=self._own(),
                bag=words.sparse(bag or {1: 1e-9}),
                also=list(also),
                parts=[part for part, _ in parts],
                idfs=[idf for _, idf in parts],
                most=max(_POOL, 2 * limit) + len(also),
            )
            scored = self._scored([each for each, _ in sought], [number for (number,) in rows])
        wanted = set(also)
        ranked = sorted(scored, key=lambda row: (-row[1], row[0]))
        return ranked[:limit] + [row for row in ranked[limit:] if row[0] in wanted]

    def match_among(self, expression: Expression, numbers: Sequence[int]) -> list[tuple[int, float]]:
        query = words.tsquery(expression)
        if not query or not numbers:
            return []
        with self._read.reading():
            found = self._read.rows(
                f"""
                SELECT chunk FROM {OF_NOTE} WHERE vault = ANY(%(vaults)s) AND chunk = ANY(%(numbers)s)
                AND words @@ %(query)s::tsquery AND {{seen}}
                """,
                numbers=list(numbers),
                query=query,
            )
            return self._scored([each for each, _ in self._sought(expression)], [number for (number,) in found])

    def _sought(self, expression: Expression) -> list[tuple[words.Sought, Expression]]:
        """Return the phrases of an expression with their idf, as bm25 scores them."""
        listed = [(phrase, Without(column, phrase) if column else phrase) for phrase, column in phrases(expression)]
        total = self.counts().chunks
        counts = self._count([asked for _, asked in listed])
        return [
            (words.Sought(tokens, phrase.is_prefix, letters, _idf(total, count)), asked)
            for (phrase, asked), count in zip(listed, counts, strict=True)
            if count and (tokens := words.tokens(phrase))
            for letters in [words.OUT_OF_QUESTIONS if isinstance(asked, Without) else words.LETTERS]
        ]

    def _scored(self, sought: Sequence[words.Sought], numbers: Sequence[int]) -> list[tuple[int, float]]:
        """Return chunks with their bm25, by the places of the words."""
        if not numbers:
            return []
        whole = {token for each in sought for token in each.tokens}
        begun = [each.tokens[-1] for each in sought if each.is_prefix]
        rows = self._read.rows(
            """
            SELECT chunk, length, lexeme, positions, weights FROM chunks
            LEFT JOIN LATERAL (
                SELECT * FROM unnest(words) WHERE lexeme = ANY(%(whole)s) OR EXISTS (
                    SELECT 1 FROM unnest(%(begun)s::text[]) AS begun (first) WHERE starts_with(lexeme, first))
            ) AS word ON true
            WHERE vault = ANY(%(vaults)s) AND chunk = ANY(%(numbers)s)
            """,
            whole=list(whole),
            begun=begun,
            numbers=list(numbers),
        )
        places: dict[int, dict[str, dict[int, str]]] = defaultdict(dict)
        lengths: dict[int, int] = {}
        for chunk, length, lexeme, positions, letters in rows:
            lengths[chunk] = length
            if lexeme is not None:
                places[chunk][lexeme] = dict(zip(positions or (), letters or (), strict=True))
        if self._read.sees:  # the sums of a vault tell of all its notes
            mean = "SELECT avg(length)::float8 FROM chunks WHERE vault = ANY(%(vaults)s) {of_seen}"
        else:
            mean = """
                SELECT sum(tokens)::float8 / greatest(sum(chunks), 1) FROM vaults WHERE vault = ANY(%(vaults)s)
                """
        [[average]] = self._read.rows(mean)
        return [
            (number, sum(each.bm25(places[number], lengths[number], average) for each in sought))
            for number in numbers
            if number in lengths
        ]

    def holding(self, expressions: Sequence[Expression], notes: Sequence[tuple[int, int]]) -> list[list[bool]]:
        found = [[False] * len(notes) for _ in expressions]
        queries = [words.tsquery(each) for each in expressions]
        asked = [i for i, each in enumerate(queries) if each]
        if asked and notes:
            rows = self._read.rows(
                """
                SELECT DISTINCT part.i, note.n FROM unnest(%(first)s::bigint[], %(last)s::bigint[])
                    WITH ORDINALITY AS note (first, last, n)
                JOIN chunks ON vault = ANY(%(vaults)s) AND chunk BETWEEN note.first AND note.last
                JOIN unnest(%(i)s::int[], %(parts)s::text[]) AS part (i, query) ON words @@ part.query::tsquery
                """,
                first=[first for first, _ in notes],
                last=[last for _, last in notes],
                i=asked,
                parts=[queries[i] for i in asked],
            )
            for i, n in rows:
                found[i][n - 1] = True
        return found

    # -- by meaning

    def nearest(self, vector: Vectors, limits: Sequence[Condition], wanted: int, reasons: list[str]) -> Near:
        asked = wanted
        while True:
            near = self._near("chunks", "chunk, chunks.key", vector, limits, asked)
            keys = dict.fromkeys(key for _, key, _ in near)
            if len(keys) >= wanted or len(near) < asked:
                break
            asked *= 2
        cosines: dict[str, float] = {}
        for _, key, cosine in near:
            cosines.setdefault(key, cosine)
        best = list(cosines)[:wanted]
        chunks: dict[str, list[StoredChunk]] = defaultdict(list)
        where, values = self._read.where(limits)
        for each in self._read.found(f"chunks.key = ANY(%(keys)s) AND {where}", keys=best, **values):
            chunks[each.key].append(each)
        return [(tuple(chunks[key]), cosines[key]) for key in best if key in chunks]

    def standing_in(self, vector: Bytes, limits: Sequence[Condition], wanted: int) -> list[int]:
        # What is not embedded yet is found here by its words; it is embedded where the files are.
        return []

    def named(self, vector: Vectors, limits: Sequence[Condition]) -> list[int]:
        near = self._near("labels", "labels.note, labels.key", vector, limits, NEAR * 4)
        notes = list(dict.fromkeys(note for note, _, _ in near))[:NEAR]
        rows = self._read.rows(
            """
            SELECT note, chunk, -(vector <#> %(vector)s::halfvec) FROM chunks
            WHERE vault = ANY(%(vaults)s) AND note = ANY(%(notes)s) AND ordinal < %(first)s
            """,
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
        sql = f"""
            SELECT {columns}, -({{near}}) FROM {table} JOIN notes USING (vault, note)
            WHERE vault = ANY(%(vaults)s) AND vector_dims({table}.vector) = {width} AND {where}
            ORDER BY ({{near}}) {{exactly}} LIMIT %(wanted)s
            """
        given = {**values, "vector": literal(vector.tolist()), "wanted": wanted}
        total = sum(each.chunks for each in self._read.vaults)
        with self._read.reading():
            if total > _EXACT_MOST:
                self._read.database.rows(
                    "SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true),"
                    f" set_config('hnsw.ef_search', '{min(1_000, max(100, 2 * wanted))}', true),"
                    " set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true)"
                )
                rows = self._read.rows(sql.replace("{near}", near).replace("{exactly}", ""), **given)
                self._read.database.rows(
                    "SELECT set_config('enable_sort', 'on', true), set_config('enable_bitmapscan', 'on', true)"
                )
                if len(rows) >= wanted:
                    return sorted(rows, key=lambda row: -row[2])
            # The index gave up before it had enough, or there is no need of it. What is added keeps it out.
            return self._read.rows(sql.replace("{near}", near).replace("{exactly}", "+ 0"), **given)

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

    def about(self, vector: Vectors | None, chunks: Iterable[StoredChunk]) -> dict[str, About]:
        paths = {chunk.path for chunk in chunks}
        asked = None if vector is None else literal(vector.tolist())
        with self._read.reading():
            notes = self._read.notes_at(paths)
            rows = self._read.rows(
                """
                SELECT note, min(chunk), max(chunk), -(l2_normalize(avg(vector)) <#> %(vector)s::halfvec) FROM chunks
                WHERE vault = ANY(%(vaults)s) AND note = ANY(%(notes)s) AND ordinal < %(first)s GROUP BY note
                """,
                vector=asked,
                notes=list(notes),
                first=FIRST,
            )
            named = self._read.rows(
                """
                SELECT note, kind, key, -(vector <#> %(vector)s::halfvec) FROM labels
                WHERE vault = ANY(%(vaults)s) AND note = ANY(%(notes)s)
                """,
                vector=asked,
                notes=list(notes),
            )
        labels: dict[int, list[tuple[str, str, float | None]]] = defaultdict(list)
        for note, kind, key, cosine in named:
            labels[note].append((kind, key, cosine))
        if vector is None:
            return {notes[note]: About(first, last) for note, first, last, _ in rows}
        return {notes[note]: About(first, last, whole, tuple(labels[note])) for note, first, last, whole in rows}

    def vectors(self, keys: Iterable[str]) -> dict[str, Vectors]:
        import numpy as np

        rows = self._read.rows(
            "SELECT DISTINCT ON (key) key, vector::real[] FROM chunks"
            " WHERE vault = ANY(%(vaults)s) AND key = ANY(%(keys)s) AND vector IS NOT NULL {of_seen}",
            keys=list(keys),
        )
        found: dict[str, Vectors] = {}
        for key, numbers in rows:
            vector = np.array(numbers, dtype=np.float32)
            found[key] = vector / np.float32(np.linalg.norm(vector) or 1.0)
        return found

    def seconds(self, keys: Iterable[str]) -> dict[str, bytes]:
        one = "SELECT key, second FROM {0} WHERE vault = ANY(%(vaults)s) AND key = ANY(%(keys)s) AND second IS NOT NULL"
        sql = " UNION ".join(f"{one.format(table)} {{of_seen}}" for table in ("chunks", "labels"))
        rows = self._read.rows(sql, keys=list(keys))
        return {key: bytes(blob) for key, blob in rows}

    # -- rows

    def by_number(self, numbers: Sequence[int]) -> list[StoredChunk]:
        return self._read.found("chunk = ANY(%(numbers)s)", numbers=list(numbers)) if numbers else []

    def at(self, path: str) -> list[StoredChunk]:
        notes = list(self._read.notes_at([path]))
        return self._read.found("notes.note = ANY(%(notes)s)", notes=notes) if notes else []

    def note(self, id: str) -> list[StoredChunk]:
        """Return all chunks, in order, of the note with this id, or else at this path, also without `.md`; or none."""
        for number, [named] in self._read.by_vault([id]).items():
            rows = self._read.rows(
                "SELECT note FROM notes WHERE vault = ANY(%(vaults)s) AND md5(id) = md5(%(id)s) AND {seen}",
                vaults=[number],
                id=named,
            )
            if rows:
                return self._read.found("notes.note = %(note)s", note=rows[0][0])
        return self.at(id) or self.at(f"{id}.md")

    def meant(self, id: str) -> list[StoredChunk]:
        """Return the chunks of `id`: all of a note for its id or path, one for a chunk's id; none if unknown."""
        if found := self.note(id):
            return found
        for end in (i for i in range(len(id) - 1, 0, -1) if id[i] == "#"):
            if found := [each for each in self.note(id[:end]) if each.suffix == id[end:]]:
                return found
        return []

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
        self, asked: Sequence[Condition], visible: Sequence[Condition], *, paths: bool = True
    ) -> tuple[Unmatched, ...]:
        found = []
        for condition in asked:
            for value in condition.values if paths or condition.key != "path" else ():
                one = Condition(condition.key, (value,))
                where, values = self._read.where((one, *visible))
                sql = f"SELECT 1 FROM notes WHERE vault = ANY(%(vaults)s) AND {where} LIMIT 1"
                if not self._read.rows(sql, **values):
                    found.append(Unmatched(condition.key, value, self._suggested(one, visible)))
        return tuple(found)

    def _suggested(self, missing: Condition, visible: Sequence[Condition]) -> tuple[str, ...]:
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


def _idf(total: int, frequency: int) -> float:
    # As FTS5's bm25 computes it, with its lower bound.
    return max(1e-6, math.log((total - frequency + 0.5) / (frequency + 0.5)))
