"""
What the engine of published vaults finds by words: the same chunks and scores as the catalog's full-text index.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from spellbook.index.catalog.schema import Counts
from spellbook.index.filters import NO_GUIDES, Condition
from spellbook.index.postgres import conditions, words
from spellbook.index.postgres.publish import own
from spellbook.index.postgres.reader import OF_NOTE, PublishedRows
from spellbook.text.expressions import AnyOf, Expression, Phrase, Without, phrases
from spellbook.text.terms import idf

POOL = 200
"""Chunks at least that are scored by the places of their words, after the sparse vectors chose them."""

_OWN_MOST = 16
"""Vaults up to which the index of words is asked for their own words too; above, joining those takes longer."""

_COUNTED = 5_000
"""Up to so many chunks, those that have one of several words are counted; above, the words' own counts tell enough."""

MANY = (5_000, 100_000)
"""Where a question's words find more chunks than this, its rare words, which find fewer, are tried alone first."""

_SoughtPart = tuple[words.Sought, Expression]
"""A phrase of a question to be scored, and the part of the question that it is."""


class Matching:
    """See `engine.Engine` for each method."""

    def __init__(self, read: PublishedRows) -> None:
        self._read = read

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

    def guides(self) -> int:
        guides, values = conditions.in_sql([replace(NO_GUIDES, negated=False)], set)
        sql = f"SELECT count(*) FROM {OF_NOTE} WHERE notes.vault = ANY(%(vaults)s) AND {guides} AND {{seen}}"
        return int(self._read.rows(sql, **values)[0][0])

    def frequencies(self, phrases: Sequence[Phrase], unprompted: bool, guides: int = 0) -> Callable[[Expression], int]:
        def leave_out_questions(part: Expression) -> Expression:
            return Without("questions", part) if unprompted else part

        with self._read.reading():
            known = dict(zip(phrases, self._count([leave_out_questions(phrase) for phrase in phrases]), strict=True))

        def count(part: Expression) -> int:
            number = known.get(part) if isinstance(part, Phrase) else None
            if number is None:
                [number] = self._count([leave_out_questions(part)])
            return number if not 0 < number <= guides or self.match(leave_out_questions(part), (NO_GUIDES,), 1) else 0

        return count

    def _count(self, expressions: Sequence[Expression]) -> list[int]:
        """Return how many chunks each expression finds; within one `reading` each is asked once."""
        known: dict[str, int] = self._read.frequencies
        queries = [words.tsquery(each) for each in expressions]
        missing = {each: part for each, part in zip(queries, expressions, strict=True) if each and each not in known}
        if missing and not self._read.sees:
            known |= self._published_counts(missing)
        if rest := [each for each in missing if each not in known]:
            rows = self._read.rows(
                f"""
                SELECT (SELECT count(*) FROM chunks WHERE vault = ANY(%(vaults)s)
                    AND chunks.words @@ {self._own("part")} {{of_seen}})
                FROM unnest(%(parts)s::text[]) WITH ORDINALITY AS each (part, n) ORDER BY n
                """,
                parts=rest,
            )
            known |= dict(zip(rest, (row[0] for row in rows), strict=True))
        return [known.get(each, 0) for each in queries]

    def _published_counts(self, queries: Mapping[str, Expression]) -> dict[str, int]:
        """
        Return the counts that publishing wrote down, of queries for one word or for words that begin alike.

        Where several words begin alike and many chunks have one, the count is what it would be if chunks had them
        independently of one another; where few have, the query is left out, to be counted.
        """
        ranges = {query: words.span(part) for query, part in queries.items()}
        rows = self._read.rows(
            """
            SELECT first, last, sum(chunks)::bigint
            FROM unnest(%(firsts)s::text[], %(lasts)s::text[]) AS each (first, last)
            JOIN frequencies ON vault = ANY(%(vaults)s) AND word BETWEEN first AND last GROUP BY first, last, word
            """,
            firsts=[span[0] for span in ranges.values() if span],
            lasts=[span[1] for span in ranges.values() if span],
        )
        counts: dict[tuple[str, str], list[int]] = defaultdict(list)
        for first, last, chunks in rows:
            counts[first, last].append(chunks)
        total = sum(each.chunks for each in self._read.vaults)
        published = {}
        for query, span in ranges.items():
            of_words = counts[span] if span else []
            if span and len(of_words) < 2:
                published[query] = sum(of_words)
            elif sum(of_words) > _COUNTED:
                without = math.prod(1 - min(count, total) / total for count in of_words)
                published[query] = round(total * (1 - without))
        return published

    def _own(self, query: str) -> str:
        """Return SQL for a query that the index of words answers from the chunks of few vaults alone."""
        if len(self._read.vaults) > _OWN_MOST:
            return f"{query}::tsquery"
        owned = " | ".join(f"''{own(each.number)}''" for each in self._read.vaults)
        return f"({query}::tsquery && '{owned}'::tsquery)"

    def match(
        self, expression: Expression, limits: Sequence[Condition], limit: int, also: Sequence[int] = ()
    ) -> list[tuple[int, float]]:
        with self._read.reading():
            query, sought = words.tsquery(expression), self._sought(expression)
            if not query or not sought:
                return []
            pool = max(POOL, 2 * limit)
            best: list[tuple[int, float]] = []
            for rare, bound in self._rare(expression, sought):
                best = self._pool(rare, sought, limits, pool)
                if len(best) == pool and best[-1][1] >= bound:
                    break
            else:
                best = self._pool(query, sought, limits, pool)
            wanted = set(self._of(also, query, limits))
            numbers = list(dict.fromkeys([*(number for number, _ in best), *wanted]))
            scored = self._score([phrase for phrase, _ in sought], numbers)
        ranked = sorted(scored, key=lambda row: (-row[1], row[0]))
        return ranked[:limit] + [row for row in ranked[limit:] if row[0] in wanted]

    def _rare(self, expression: Expression, sought: Sequence[_SoughtPart]) -> Iterator[tuple[str, float]]:
        """
        Yield rare phrases of a question as a query, more and more, and the most that the others can give a chunk.

        What scores higher than that by the rare ones is best whether or not the others are looked up: the rule of
        MaxScore (Turtle and Flood, 1995). Nothing is yielded where all phrases together find few chunks.
        """
        if not (isinstance(expression, AnyOf) and all(isinstance(part, Phrase) for part in expression.parts)):
            return
        idfs: dict[Expression, float] = defaultdict(float)
        for phrase, part in sought:
            idfs[part] += phrase.idf * (words.K1 + 2)  # as a word in the bag, and as a phrase
        counts = sorted(zip(self._count(list(idfs)), idfs, strict=True), key=lambda pair: pair[0])
        for most in MANY:
            total, rare = 0, []
            for count, part in counts:
                total += count
                if total <= most:
                    rare.append(part)
            if total <= most:
                return
            if rare:
                yield words.tsquery(AnyOf(tuple(rare))), sum(idfs.values()) - sum(idfs[part] for part in rare)

    def _pool(
        self, query: str, sought: Sequence[_SoughtPart], limits: Sequence[Condition], most: int
    ) -> list[tuple[int, float]]:
        """Return the best chunks that `query` finds, with their scores by sparse vectors."""
        bag: dict[int, float] = {}
        parts: list[tuple[str, float]] = []
        for phrase, part in sought:
            for token in phrase.tokens:
                number = words.number_of(token)
                bag[number] = bag.get(number, 0.0) + phrase.idf / len(phrase.tokens)
            if len(phrase.tokens) > 1 or phrase.is_prefix:
                # A sparse vector knows neither order nor beginnings: whether the phrase is there counts beside it.
                parts.append((words.tsquery(part), phrase.idf))
        where, values = self._read.where(limits)
        return self._read.rows(
            f"""
            SELECT chunk, -(bag <#> %(bag)s::sparsevec) + coalesce((
                SELECT sum(idf) FILTER (WHERE words @@ part::tsquery)
                FROM unnest(%(parts)s::text[], %(idfs)s::float8[]) AS each (part, idf)), 0) AS score
            FROM {OF_NOTE} WHERE vault = ANY(%(vaults)s) AND words @@ {self._own("%(query)s")} AND {where}
            ORDER BY score DESC, chunk LIMIT %(most)s
            """,
            **values,
            query=query,
            bag=words.sparse(bag or {1: 1e-9}),
            parts=[part for part, _ in parts],
            idfs=[idf for _, idf in parts],
            most=most,
        )

    def _of(self, numbers: Sequence[int], query: str, limits: Sequence[Condition] = ()) -> list[int]:
        """Return which of these chunks `query` finds."""
        if not query or not numbers:
            return []
        where, values = self._read.where(limits)
        rows = self._read.rows(
            f"""
            SELECT chunk FROM {OF_NOTE} WHERE vault = ANY(%(vaults)s) AND chunk = ANY(%(numbers)s)
            AND words @@ %(query)s::tsquery AND {where}
            """,
            **values,
            numbers=list(numbers),
            query=query,
        )
        return [number for (number,) in rows]

    def match_among(self, expression: Expression, numbers: Sequence[int]) -> list[tuple[int, float]]:
        with self._read.reading():
            matching = self._of(numbers, words.tsquery(expression))
            return self._score([phrase for phrase, _ in self._sought(expression)], matching) if matching else []

    def _sought(self, expression: Expression) -> list[_SoughtPart]:
        """Return the phrases of an expression with their idf, as bm25 scores them."""
        listed = [(phrase, Without(column, phrase) if column else phrase) for phrase, column in phrases(expression)]
        total = self.counts().chunks
        counts = self._count([part for _, part in listed])
        return [
            (words.Sought(tokens, phrase.is_prefix, letters, idf(total, count)), part)
            for (phrase, part), count in zip(listed, counts, strict=True)
            if count and (tokens := words.tokens(phrase))
            for letters in [words.OUT_OF_QUESTIONS if isinstance(part, Without) else words.LETTERS]
        ]

    def _score(self, sought: Sequence[words.Sought], numbers: Sequence[int]) -> list[tuple[int, float]]:
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
        held = [[False] * len(notes) for _ in expressions]
        queries = {i: query for i, part in enumerate(expressions) if (query := words.tsquery(part))}
        if queries and notes:
            rows = self._read.rows(
                """
                SELECT DISTINCT part.i, note.n FROM unnest(%(first)s::bigint[], %(last)s::bigint[])
                    WITH ORDINALITY AS note (first, last, n)
                JOIN chunks ON vault = ANY(%(vaults)s) AND chunk BETWEEN note.first AND note.last
                JOIN unnest(%(i)s::int[], %(parts)s::text[]) AS part (i, query) ON words @@ part.query::tsquery
                """,
                first=[first for first, _ in notes],
                last=[last for _, last in notes],
                i=list(queries),
                parts=list(queries.values()),
            )
            for i, n in rows:
                held[i][n - 1] = True
        return held
