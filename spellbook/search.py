"""
Search: filters, two legs, fusion, adjustment, packing; and the reasons for every hit.

Filters cut before the legs run. Scores are absolute, so that a share of the
score can be named for each leg and each adjustment, and their sum is the score.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from spellbook import terms
from spellbook.catalog import Counts, Found
from spellbook.errors import EmbeddingError, InvalidInput
from spellbook.filters import Condition, Filter, conditions
from spellbook.index import Index
from spellbook.models import score
from spellbook.vectors import Matrix, Row, Unavailable

if TYPE_CHECKING:
    from spellbook.models.base import Vectors

Mode = Literal["semantic", "keyword", "both"]

SEMANTIC, KEYWORD = 0.7, 0.3
"""Weights of the legs in `both`: best of nine question sets; see tests/benchmarks/README.md."""

MOST_QUERY = 20_000
MOST_HITS = 100
MOST_KEYWORDS = 200
_POOL = 50
_FILTERED_MOST = 5_000
_IMPORTANCE = 0.04
_PINNED = 0.05
_POINTER_TOKENS = 40


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that was found: where it stands, its score in 0..1, its text as far as the budget goes, and why."""

    id: str
    path: str
    line: int
    title: str
    heading: str
    score: float
    text: str
    why: Mapping[str, Any]
    topic: str
    category: str
    keywords: tuple[str, ...]
    tags: tuple[str, ...]
    importance: str | float
    created: str | None
    updated: str | None
    source: str | None = field(default=None, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the hit as the command line's JSON shows it."""
        shown = {name.name: getattr(self, name.name) for name in fields(self) if name.compare}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in shown.items()}


@dataclass(frozen=True, slots=True)
class State:
    """The index that answered; `reason` says what was missing if `degraded`."""

    generation: int
    notes: int
    chunks: int
    pending: int
    degraded: bool = False
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the index block of an answer."""
        names = ("generation", "notes", "chunks", "pending", "degraded")
        return {name: getattr(self, name) for name in names} | ({"reason": self.reason} if self.reason else {})


@dataclass(frozen=True, slots=True)
class Answer:
    """What a search gives: hits, best first, and the state of the index that gave them."""

    query: str
    hits: tuple[Hit, ...]
    index: State

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as the command line's JSON shows it."""
        return {"query": self.query, "hits": [hit.as_dict() for hit in self.hits], "index": self.index.as_dict()}


@dataclass(frozen=True, slots=True)
class Question:
    """
    What is asked, checked.

    `keywords` are phrases to match instead of the words of `text`; `limit` is
    1 to 100, `min_score` in 0..1, `max_tokens` of the answer's texts.
    """

    text: str
    mode: Mode = "both"
    keywords: tuple[str, ...] = ()
    match_all: bool = False
    limit: int = 5
    filter: Filter | None = None
    min_score: float = 0.0
    max_tokens: int = 2_000

    def __post_init__(self) -> None:
        if not (self.text.strip() or any(word.strip() for word in self.keywords)):
            raise InvalidInput("There is nothing to search for.", "Give a question or some words.")
        letters = max(len(self.text), sum(map(len, self.keywords)))
        if letters > MOST_QUERY:
            raise InvalidInput(
                f"The query has {letters:,} letters; {MOST_QUERY:,} are the most.", "Ask with a sentence, or the words that matter."
            )
        if len(self.keywords) > MOST_KEYWORDS:
            raise InvalidInput(f"There are {len(self.keywords)} keywords; {MOST_KEYWORDS} are the most.", "Give the words that matter.")
        if not 1 <= self.limit <= MOST_HITS:
            raise InvalidInput(f"The limit {self.limit} makes no sense.", f"Ask for 1 to {MOST_HITS} hits.")
        if not 0 <= self.min_score <= 1:
            raise InvalidInput(f"The least score {self.min_score} makes no sense.", "Scores are from 0 to 1.")
        if self.max_tokens < 50:
            raise InvalidInput(f"{self.max_tokens} tokens hold no answer.", "Allow at least 50.")


@dataclass(frozen=True, slots=True)
class _Leg:
    """
    What one leg says of a chunk: its rank from 1 (0 outside the leg's own best) and its score in 0..1.

    `beyond` is what a score of 1 does not show: how far above it the leg would go.
    """

    rank: int
    score: float
    beyond: float = 0.0


class Searcher:
    """Runs questions against an index; keeps vectors and recent query vectors in memory, for any number of threads."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._matrix = Matrix(index.embedder.dim)
        self._guard = threading.Lock()
        self._asked: OrderedDict[str, Vectors] = OrderedDict()

    def ask(self, question: Question) -> Answer:
        """Answer a question. Raises InvalidInput for a filter that makes no sense."""
        limits = conditions(question.filter)
        reasons: list[str] = []
        vector: Vectors | None = None
        if question.mode != "keyword":
            try:
                vector = self._embedded(question.text)
            except EmbeddingError as error:
                reasons.append(f"searched by words only: {error}")
        catalog = self._index.catalog
        with catalog.reading():
            if vector is not None and catalog.fingerprint != self._index.embedder.fingerprint:
                vector = None
                reasons.append("searched by words only: another process indexes this vault with another embedder")
            semantic = self._semantic(vector, limits, question, reasons) if vector is not None else {}
            by_words = question.mode != "semantic" or vector is None
            keyword = self._keyword(question, limits, [found.chunk for found, _ in semantic.values()]) if by_words else {}
            found = {number: chunk for number, (chunk, _) in semantic.items()}
            found |= {chunk.chunk: chunk for chunk in catalog.by_number([n for n in keyword if n not in found])}
            cosines = self._scores_of(vector, [c for n, c in found.items() if n not in semantic]) if vector is not None else {}
            counts = catalog.counts()
        legs = {number: (semantic[number][1] if number in semantic else cosines.get(number), keyword.get(number)) for number in found}
        weights = _weights(question.mode, vector is not None)
        weighed = [(_weighed(found[n], *pair, weights), pair[1].beyond if pair[1] else 0.0) for n, pair in legs.items()]
        ranked = [hit for hit, _ in sorted(weighed, key=_order)]
        # A word that most chunks hold is worth nothing beside a rare one, yet whoever asks for it finds it.
        best = [hit for hit in ranked if hit.score >= question.min_score and (hit.score > 0 or question.mode == "keyword")]
        return Answer(question.text, pack(best[: question.limit], _words(question), question.max_tokens), _state(counts, reasons))

    def near(self, vector: Vectors, limit: int = 5) -> list[tuple[Found, float]]:
        """Return the chunks nearest to a passage's vector with their scores."""
        with self._index.catalog.reading():
            if self._index.catalog.fingerprint != self._index.embedder.fingerprint:
                return []  # nothing there can be compared with it
            best = self._nearest(vector, None, limit, [])
            scores = {key: score(cosine, self._index.embedder.scale) for key, cosine in best}
            found = self._index.catalog.by_key([key for key, _ in best])
        return sorted(((each, scores[each.key]) for each in found), key=lambda pair: (-pair[1], pair[0].id))[:limit]

    def _embedded(self, text: str) -> Vectors:
        with self._guard:
            if text in self._asked:
                self._asked.move_to_end(text)
                return self._asked[text]
        vector = self._index.embedder.embed_query(text)
        with self._guard:
            self._asked[text] = vector
            while len(self._asked) > 256:
                self._asked.popitem(last=False)
        return vector

    # -- the legs

    def _semantic(
        self, vector: Vectors, limits: Sequence[Condition], question: Question, reasons: list[str]
    ) -> dict[int, tuple[Found, _Leg]]:
        wanted = max(_POOL, question.limit * 4)
        keys = self._index.catalog.keys(limits) if limits else None
        best = self._nearest(vector, keys, wanted, reasons)
        chunks: dict[str, list[Found]] = {}
        for found in self._index.catalog.by_key([key for key, _ in best], limits):
            chunks.setdefault(found.key, []).append(found)
        result: dict[int, tuple[Found, _Leg]] = {}
        for key, cosine in best:
            leg = _Leg(len(result) + 1, score(cosine, self._index.embedder.scale))
            result |= {found.chunk: (found, leg) for found in chunks.get(key, ())}
        return result

    def _scores_of(self, vector: Vectors, chunks: Iterable[Found]) -> dict[int, _Leg]:
        """Semantic scores of chunks that only the words found."""
        import numpy as np

        listed = list(chunks)
        blobs = self._index.catalog.vectors([chunk.key for chunk in listed])
        return {
            chunk.chunk: _Leg(0, score(float(np.frombuffer(blobs[chunk.key], dtype="<f4") @ vector), self._index.embedder.scale))
            for chunk in listed
            if chunk.key in blobs
        }

    def _nearest(self, vector: Vectors, keys: Sequence[str] | None, wanted: int, reasons: list[str]) -> list[tuple[str, float]]:
        """Return the nearest keys in use: exactly where that is as fast, else from Chroma and, exactly, what it has not seen."""
        catalog = self._index.catalog
        in_use = catalog.counts().chunks
        if in_use <= self._index.config.exact_most:
            with self._guard:
                if len(self._matrix) > 2 * in_use + 1_000:
                    self._matrix.clear()
                self._matrix.add(catalog.vectors_since(self._matrix.seq))
                return self._live(self._matrix, vector, keys, wanted)
        if keys is not None and len(keys) <= _FILTERED_MOST:
            return self._exact(vector, keys, wanted)
        try:
            tail = catalog.changes(self._index.chroma.seq)
            near = self._index.chroma.nearest(vector, wanted * (4 if keys is None else 20))
            live = self._index.catalog.in_use([key for key, _ in near])
            allowed = live if keys is None else live.intersection(keys)
            near = [pair for pair in near if pair[0] in allowed]
            unseen = [key for key, _ in tail]
            recent = self._exact(vector, unseen if keys is None else list(set(unseen).intersection(keys)), wanted)
            merged = dict(sorted({**dict(near), **dict(recent)}.items(), key=lambda pair: -pair[1]))
            if len(merged) >= wanted:
                return list(merged.items())[:wanted]
        except Unavailable as error:
            reasons.append(f"searched without Chroma, exactly and more slowly: {error}")
        return self._exact(vector, keys, wanted)

    def _live(self, matrix: Matrix, vector: Vectors, keys: Sequence[str] | None, wanted: int) -> list[tuple[str, float]]:
        """Nearest in `matrix` without the rows that no chunk uses any more."""
        asked = wanted
        while True:
            near = matrix.nearest(vector, asked, keys)
            if keys is not None:
                return near
            live = self._index.catalog.in_use([key for key, _ in near])
            result = [pair for pair in near if pair[0] in live]
            if len(result) >= wanted or len(near) < asked:
                return result[:wanted]
            asked *= 4

    def _exact(self, vector: Vectors, keys: Sequence[str] | None, wanted: int) -> list[tuple[str, float]]:
        """Exact search over stored vectors, a block at a time, so that memory does not grow with the vault."""
        catalog = self._index.catalog
        listed = list(keys) if keys is not None else [key for key, _ in catalog.changes(0)]
        best: list[tuple[str, float]] = []
        for start in range(0, len(listed), 10_000):
            block = Matrix(self._index.embedder.dim)
            rows: list[Row] = [(key, blob, 0) for key, blob in catalog.vectors(listed[start : start + 10_000]).items()]
            block.add(rows)
            best = sorted([*best, *block.nearest(vector, wanted)], key=lambda pair: -pair[1])[:wanted]
        return best

    def _keyword(self, question: Question, limits: Sequence[Condition], also: Sequence[int]) -> dict[int, _Leg]:
        """Chunks by bm25 over the sum of the terms' idf, in 0..1; chunks `also` get their score whatever their rank."""
        catalog = self._index.catalog
        if question.keywords:
            parts = [part for word in question.keywords if (part := terms.phrase(word))]
        else:
            parts = [f'"{term}"' for term in terms.terms(question.text)]
        if not parts:
            return {}
        expression = (" AND " if question.match_all else " OR ").join(parts)
        rows = catalog.match(expression, limits, max(_POOL, question.limit * 4))
        if not rows:
            return {}
        total = catalog.counts().chunks
        most = sum(_idf(total, catalog.frequency(part)) for part in parts)
        ranked = {number: rank for rank, (number, _) in enumerate(rows, 1)}
        missing = [number for number in also if number not in ranked]
        rows = [*rows, *catalog.match_among(expression, missing)] if missing else rows
        shares = [(number, bm25 / most) for number, bm25 in rows]
        return {number: _Leg(ranked.get(number, 0), min(1.0, share), max(0.0, round(share - 1, 4))) for number, share in shares}


def _idf(total: int, frequency: int) -> float:
    # As FTS5's bm25 has it, its floor included.
    return max(1e-6, math.log((total - frequency + 0.5) / (frequency + 0.5)))


def _weights(mode: Mode, has_vector: bool) -> tuple[float, float]:
    if mode == "keyword" or not has_vector:
        return 0.0, 1.0
    return (1.0, 0.0) if mode == "semantic" else (SEMANTIC, KEYWORD)


def _weighed(found: Found, semantic: _Leg | None, keyword: _Leg | None, weights: tuple[float, float]) -> Hit:
    """Fuse and adjust: return the hit with its score and the shares that add up to it."""
    why: dict[str, Any] = {}
    total = 0.0
    for name, leg, weight in (("semantic", semantic, weights[0]), ("keyword", keyword, weights[1])):
        if leg is not None and weight:
            share = round(weight * leg.score, 4)
            why[name] = {"rank": leg.rank or None, "score": round(leg.score, 4), "share": share}
            total += share
    adjustments = []
    if total > 0:
        for reason, share in _adjustments(found):
            share = round(min(1.0, max(0.0, total + share)) - total, 4)
            if share:
                adjustments.append({"reason": reason, "share": share})
                total += share
    why["adjustments"] = adjustments
    given = found.meta.get("importance")
    source = found.meta.get("source")
    return Hit(
        id=found.id,
        path=found.path,
        line=found.line,
        title=found.title,
        heading=found.heading,
        score=round(total, 4),
        text=found.text,
        why=why,
        topic=found.topic,
        category=found.category,
        keywords=found.keywords,
        tags=found.tags,
        importance=given if isinstance(given, str | int | float) and not isinstance(given, bool) else "medium",
        created=found.created,
        updated=found.updated,
        source=str(source) if source else None,
    )


def _adjustments(found: Found) -> Iterable[tuple[str, float]]:
    if found.importance != 0.5:
        yield f"importance {found.importance:g}", _IMPORTANCE * (found.importance - 0.5)
    if found.meta.get("pinned") is True:
        yield "pinned", _PINNED


def _order(weighed: tuple[Hit, float]) -> tuple[float, float, str, str]:
    hit, beyond = weighed
    # Newest first among equals: dates in ISO sort backwards by their inverted digits.
    newest = "".join(chr(0x10FFFF - ord(letter)) for letter in hit.updated or hit.created or "") or "\U0010ffff"
    return -hit.score, -beyond, newest, hit.id


def _words(question: Question) -> list[str]:
    return terms.terms(" ".join((question.text, *question.keywords)))


def _state(counts: Counts, reasons: Sequence[str]) -> State:
    return State(counts.generation, counts.notes, counts.chunks, counts.pending, bool(reasons), "; ".join(dict.fromkeys(reasons)))


# -- packing


def pack(hits: Sequence[Hit], words: Sequence[str], max_tokens: int) -> tuple[Hit, ...]:
    """
    Return `hits` with texts that together are within `max_tokens` (estimated).

    The best are whole, a long one is its best excerpt, and what no longer fits
    is a pointer: no text, but an id to read it by. `why["text"]` says which.
    """
    left = max_tokens
    packed = []
    for i, hit in enumerate(hits):
        # However many pointers follow, the best have half of the budget.
        reserved = min(_POINTER_TOKENS * (len(hits) - i - 1), max_tokens // 2)
        text = hit.text.strip()
        size = terms.estimate_tokens(text)
        room = left - reserved - _POINTER_TOKENS
        if size <= room:
            form = "whole"
        elif room >= 48:
            text, form = excerpt(text, words, room), "excerpt"
        else:
            text, form = "", "pointer"
        left -= _POINTER_TOKENS + terms.estimate_tokens(text)
        packed.append(replace(hit, text=text, why={**hit.why, "text": form, "tokens": size}))
    return tuple(packed)


def excerpt(text: str, words: Sequence[str], max_tokens: int) -> str:
    """Return the run of lines of `text` that holds most of `words`, within `max_tokens`; cut ends are marked with `…`."""
    source = text.split("\n")
    sizes = [terms.estimate_tokens(line) + 1 for line in source]
    worth = [sum(word in terms.index_form(line).casefold() for word in words) for line in source]
    best, best_worth, last, size = (0, 0), -1, 0, 0
    for first in range(len(source)):
        while last < len(source) and size + sizes[last] <= max_tokens - 4:
            size += sizes[last]
            last += 1
        if last > first and sum(worth[first:last]) > best_worth:
            best, best_worth = (first, last), sum(worth[first:last])
        if last > first:
            size -= sizes[first]
        else:
            last, size = first + 1, 0
    first, last = best
    chosen = "\n".join(source[first:last]).strip() or _letters(text, max_tokens - 4)
    return ("… " if first else "") + chosen + (" …" if last < len(source) or len(chosen) < len(text) else "")


def _letters(text: str, max_tokens: int) -> str:
    """The beginning of a single long line."""
    cut = len(text)
    while cut > 16 and terms.estimate_tokens(text[:cut]) > max_tokens:
        cut = cut * 3 // 4
    return text[:cut].rstrip()
