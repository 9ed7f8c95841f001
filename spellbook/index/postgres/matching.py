"""
What the engine of published vaults finds by words: the same chunks and scores as the catalog's full-text index.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from operator import mul

from spellbook.index.catalog.schema import Counts
from spellbook.index.filters import NO_GUIDES, Condition
from spellbook.index.postgres import words
from spellbook.index.postgres.publish import NUMBERS, own
from spellbook.index.postgres.reader import OF_NOTE, PublishedRows, afterwards
from spellbook.text.expressions import AllOf, AnyOf, Expression, Phrase, Without, alternatives, phrases
from spellbook.text.terms import idf

POOL = 200
"""Chunks at least that are scored by the places of their words, after the sparse vectors chose them."""

_OWN_MOST = 16
"""Vaults up to which the index of words is asked for their own words too; above, joining those takes longer."""

_COUNTED = 5_000
"""Up to so many chunks, those that have one of several words are counted; above, the words' own counts tell enough."""

MANY = 5_000
"""Where a question's words find more chunks than this, its rare words, which find fewer, are tried alone first."""

SCORED = 20_000
"""
Chunks that are scored for the words of a question, about: they take some .1 s. Where its words find more, rare ones
choose the chunks; where all are common, those that have most of them at once, or a sample of all chunks.
"""

SAMPLED = 2_000
"""Chunks with common words of which it is counted how many have them in a row."""

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
        notes = self._read.guides()
        sql = "SELECT count(*) FROM chunks WHERE vault = ANY(%(vaults)s) AND note = ANY(%(notes)s)"
        return int(self._read.rows(sql, notes=notes)[0][0]) if notes else 0

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
        Return the counts of queries that those of words tell, which publishing wrote down; others are to be counted.

        Where one of several words is enough, and many chunks have one, the count is what it would be if chunks had them
        independently of one another. Of words in a row that are common, a sample tells how often they are in a row.
        """
        ranges = {span for part in queries.values() for phrase, _ in phrases(part) for span in words.spans(phrase)}
        rows = self._read.rows(
            """
            SELECT first, last, sum(chunks)::bigint
            FROM unnest(%(firsts)s::text[], %(lasts)s::text[]) AS each (first, last)
            JOIN frequencies ON vault = ANY(%(vaults)s) AND word BETWEEN first AND last GROUP BY first, last, word
            """,
            firsts=[first for first, _ in ranges],
            lasts=[last for _, last in ranges],
        )
        counts: dict[tuple[str, str], list[int]] = defaultdict(list)
        for first, last, chunks in rows:
            counts[first, last].append(chunks)
        total = sum(each.chunks for each in self._read.vaults)

        def of_any(some: Sequence[int], least: int) -> int | None:
            if len(some) < 2 or sum(some) <= least:
                return None if len(some) > 1 else sum(some)
            return round(total * (1 - math.prod(1 - min(count, total) / total for count in some)))

        def of(part: Expression) -> int | None:
            match part:
                case Phrase():
                    listed = words.spans(part)
                    if len(listed) < 2:
                        return of_any([count for span in listed for count in counts[span]], _COUNTED)
                    rarest = min(sum(counts[span]) for span in listed)
                    return self._in_a_row(part, rarest) if rarest > SCORED else None if rarest else 0
                case Without():
                    found = of(part.part)
                    return None if found and found <= SCORED else found
                case AnyOf():
                    some = [of(each) for each in part.parts]
                    known = [count for count in some if count is not None]
                    return of_any(known, SCORED) if len(known) == len(some) or sum(known) > SCORED else None
                case AllOf():
                    return None

        told = {query: of(part) for query, part in queries.items()}
        return {query: count for query, count in told.items() if count is not None}

    def _in_a_row(self, phrase: Phrase, rarest: int) -> int:
        """Return about how many chunks have common words in a row, of which the rarest is in so many."""
        *before, last = phrase.words
        together = AllOf((*(Phrase((word,)) for word in before), Phrase((last,), phrase.is_prefix)))
        [[found, in_a_row]] = self._read.rows(
            f"""
            SELECT count(*), count(*) FILTER (WHERE words @@ %(phrase)s::tsquery) FROM (
                SELECT words FROM chunks WHERE vault = ANY(%(vaults)s) AND words @@ {self._own("%(together)s")}
                LIMIT {SAMPLED}) AS found
            """,
            phrase=words.tsquery(phrase),
            together=words.tsquery(together),
        )
        return int(in_a_row) if found < SAMPLED else max(1, round(rarest * in_a_row / found))

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
            best = self._best(expression, sought, limits, limit)
            wanted = set(self._of(also, query, limits))
            numbers = list(dict.fromkeys([*(number for number, _ in best), *wanted]))
            scored = self._score([phrase for phrase, _ in sought], numbers)
        ranked = sorted(scored, key=lambda row: (-row[1], row[0]))
        return ranked[:limit] + [row for row in ranked[limit:] if row[0] in wanted]

    def _best(
        self, expression: Expression, sought: Sequence[_SoughtPart], limits: Sequence[Condition], limit: int
    ) -> list[tuple[int, float]]:
        """
        Return the best chunks that an expression finds, `limit` at least, with their scores by sparse vectors.

        Where any of its words will do, and they find many chunks, the rare ones are tried first. What scores higher by
        them than the others can give a chunk is best whether or not the others are looked up: the rule of MaxScore
        (Turtle and Flood, 1995). Where too many chunks would be scored, the others do not find what has none of the
        rare ones, unless these find too little.
        """
        most = max(POOL, 2 * limit)
        counts = {part: count for part in (alternatives(expression) or (expression,)) if (count := self._at_most(part))}
        found = sum(counts.values())
        if found <= MANY:
            return self._pool(expression, sought, limits, most)
        total = self.counts().chunks
        is_bounded = min(found, total) > SCORED and not self._leaves_few(limits)
        rare = _rarest(counts, SCORED if is_bounded else MANY)
        best = self._pool(AnyOf(tuple(rare)), sought, limits, most) if rare else []
        # A phrase counts as words in the bag, and as a phrase.
        others = sum(phrase.idf * (words.K1 + 2) for phrase, part in sought if part not in rare)
        if len(best) == most and best[-1][1] >= others:
            return best
        if not is_bounded:
            return self._pool(
                expression, sought, limits, most, is_bounded=found <= SCORED and not self._leaves_few(limits)
            )
        common = {part: count for part, count in counts.items() if part not in rare}
        for together, expected in _together(common, total, most):
            if len(best) < limit:
                sampled = self._pool(together, sought, limits, most, is_sample=expected > SCORED)
                best = sorted({**dict(best), **dict(sampled)}.items(), key=lambda row: (-row[1], row[0]))[:most]
        # A filter never loses rows.
        return best if len(best) >= limit else self._pool(expression, sought, limits, most, is_bounded=False)

    def _at_most(self, expression: Expression) -> int:
        """Return how many chunks an expression finds, or a number that it does not exceed."""
        match expression:
            case Phrase():
                return self._count([expression])[0]
            case Without():
                return self._at_most(expression.part)
            case AnyOf():
                return sum(map(self._at_most, expression.parts))
            case AllOf():
                return min(map(self._at_most, expression.parts))

    def _leaves_few(self, limits: Sequence[Condition]) -> bool:
        """Return whether so few chunks meet `limits` that all of them may be compared."""
        known, key = self._read.frequencies, f"limits {limits}"
        if key not in known:
            where, values = self._read.where(limits)
            met = f"SELECT FROM {self._read.source(where)} WHERE vault = ANY(%(vaults)s) AND {where} LIMIT {MANY + 1}"
            [[known[key]]] = self._read.rows(f"SELECT count(*) FROM ({met}) AS met", **values)
        return known[key] <= MANY

    def _pool(
        self,
        expression: Expression,
        sought: Sequence[_SoughtPart],
        limits: Sequence[Condition],
        most: int,
        *,
        is_sample: bool = False,
        is_bounded: bool = True,
    ) -> list[tuple[int, float]]:
        """
        Return the best chunks that an expression finds, with their scores by sparse vectors.

        With `is_bounded`, the best of as many of them as `SCORED` says at most. With `is_sample`, the best of those
        among so many chunks, which are the latest of each vault, in proportion to its size.
        """
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
        source, values = self._read.source(where), {**values, "query": words.tsquery(expression)}
        if is_sample:
            # Where not all may be seen, shares are equal: the sizes of vaults tell of all notes.
            size = "1" if self._read.sees else "chunks"
            chunks = f"""
                (SELECT vault AS number, ceil({SCORED} * {size} / sum({size}) OVER ())::bigint AS share
                    FROM vaults WHERE vault = ANY(%(vaults)s)) AS of_vault,
                LATERAL (
                    SELECT * FROM chunks WHERE vault = number {{of_seen}} ORDER BY chunk DESC LIMIT share) AS chunks
                """
            where = f"words @@ %(query)s::tsquery AND {afterwards(where)}"
        else:
            matching = f"vault = ANY(%(vaults)s) AND words @@ {self._own('%(query)s')}"
            # Words choose, whatever the planner takes a filter for.
            chunks = (
                f"(SELECT * FROM chunks WHERE {matching} {{of_seen}} LIMIT {SCORED}) AS chunks"
                if is_bounded
                else "chunks"
            )
            where = afterwards(where) if is_bounded else f"{matching} AND {where}"
        of_parts = """
            coalesce((SELECT sum(idf) FILTER (WHERE words @@ part::tsquery)
            FROM unnest(%(parts)s::text[], %(idfs)s::float8[]) AS each (part, idf)), 0)
            """
        return self._read.rows(
            f"""
            SELECT chunk, -(bag <#> %(bag)s::sparsevec) {"+" + of_parts if parts else ""} AS score
            FROM {source.replace("chunks", chunks, 1)} WHERE {where} ORDER BY score DESC, chunk LIMIT %(most)s
            """,
            **values,
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
            SELECT chunk FROM {self._read.source(where)}
            WHERE vault = ANY(%(vaults)s) AND chunk = ANY(%(numbers)s)
            AND words @@ %(query)s::tsquery AND {where}
            """,
            **values,
            vaults=self._read.vaults_of(numbers),
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
                SELECT * FROM unnest(words) WHERE lexeme = ANY(%(whole)s) OR lexeme ^@ ANY(%(begun)s::text[])
            ) AS word ON true
            WHERE vault = ANY(%(vaults)s) AND chunk = ANY(%(numbers)s)
            """,
            whole=list(whole),
            begun=begun,
            vaults=self._read.vaults_of(numbers),
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
                SELECT DISTINCT part.i, note.n FROM unnest(%(numbers)s::int[], %(first)s::bigint[], %(last)s::bigint[])
                    WITH ORDINALITY AS note (number, first, last, n)
                CROSS JOIN LATERAL (  -- by note, else the planner may read all chunks with a common word
                    SELECT words FROM chunks WHERE vault = number AND vault = ANY(%(vaults)s)
                    AND chunk BETWEEN note.first AND note.last OFFSET 0) AS chunk
                JOIN unnest(%(i)s::int[], %(parts)s::text[]::tsquery[]) AS part (i, query) ON chunk.words @@ part.query
                """,
                vaults=self._read.vaults_of(first for first, _ in notes),
                numbers=[first // NUMBERS for first, _ in notes],
                first=[first for first, _ in notes],
                last=[last for _, last in notes],
                i=list(queries),
                parts=list(queries.values()),
            )
            for i, n in rows:
                held[i][n - 1] = True
        return held


def _rarest(counts: Mapping[Expression, int], most: int) -> list[Expression]:
    """Return the rarest of some words, as many as find `most` chunks at most between them."""
    rare, total = [], 0
    for part, count in sorted(counts.items(), key=lambda pair: pair[1]):
        total += count
        if total <= most:
            rare.append(part)
    return rare


def _together(counts: Mapping[Expression, int], total: int, most: int) -> list[tuple[Expression, float]]:
    """
    Return as many of some common words, all at once, as may find `most` of `total` chunks; and the rarest alone.

    Each comes with how many chunks it would find if chunks had the words independently of one another.
    """
    listed = sorted(counts, key=counts.__getitem__)
    expected = [share * total for share in accumulate((counts[part] / total for part in listed), mul)]
    several = sum(count >= most for count in expected)
    alone = [(part, float(counts[part])) for part in listed[:1]]
    return [(AllOf(tuple(listed[:several])), expected[several - 1]), *alone] if several > 1 else alone
