"""
Search: filter, retrieve by meaning and by words, fuse, rerank, adjust, choose, pack.

Filters cut before retrieval. Scores are absolute: each leg and each adjustment has a share, and the shares add up to
the score.
"""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.filters import DATES, Condition, as_of_moment, without_guides
from spellbook.index.loaded import LoadedIndex
from spellbook.index.nearest import Reasons
from spellbook.index.opened import Index
from spellbook.models.base import Vectors, score
from spellbook.search import packing, ranking, related, weights
from spellbook.search.candidates import MOST_ALIKE, Gathering, QueryTexts
from spellbook.search.question import Answer, Question, state
from spellbook.search.scores import fuse
from spellbook.system.lazy import lazy
from spellbook.text import terms

if TYPE_CHECKING:
    from spellbook.search import when
else:
    (when,) = lazy("spellbook.search", "when")  # whose patterns take longer to compile than a search by words

_EMBED_NEXT = 20
"""Candidates by words whose vectors, if missing, are embedded next."""
_HIDING = frozenset({"scope", "privacy_scope"})
"""Keys of a filter that limit what somebody may see, rather than search."""


class Searcher:
    """Answers questions from an index; keeps vectors and recent questions' vectors in memory. Safe for many threads."""

    def __init__(self, index: Index, clock: Callable[[], float] = time.time) -> None:
        self._index, self._clock = index, clock
        self._catalog = index.catalog
        self.loaded, self.texts = LoadedIndex(index), QueryTexts(index)
        self.used = time.monotonic()
        """When it was last used (monotonic clock, seconds)."""
        self.warm: set[bool] = set()
        """Whether questions by words, and others, were asked before: the first of a kind has to load something."""

    def ask(self, question: Question) -> Answer:
        """Answer a question. Raises InvalidInput for a date of `as_of` that is none."""
        ranked = self.rank(question)
        passed = ranking.hits(ranked)
        best = ranking.choose(passed, question.limit, question.per_note, few=question.has_few_sessions)
        notes = Counter(hit.chunk.path for hit in passed)
        # The question's own words come last: their weights count, for excerpts. Without any, all of its words do.
        words = sorted((*ranked.first.words.stems, *ranked.words), key=lambda word: word in ranked.first.words.words)
        parts = ((part, word) for word in words if word.chunks for part in (*word.same, word.part))
        by_word = {part.text.casefold(): word.weight for part, word in parts}
        weigh = packing.by_words(by_word or dict.fromkeys(terms.terms(question.text), 1.0))
        chosen = packing.completed(self.loaded, ranked, passed, best)
        shown = packing.pack(chosen, question.max_tokens, weigh, explain=question.explain)
        if ranked.counts.pending:
            self._catalog.waiting.ask_for(one.chunk.key for one in ranked.candidates[:_EMBED_NEXT] if one.keyword)
        near = [] if shown else ranking.nearly(ranked)
        closest = packing.completed(self.loaded, ranked, near, near)
        return Answer(
            question.text,
            shown,
            state(self._index, ranked.counts, ranked.reason),
            closest=packing.closest(closest, question.max_tokens, weigh, explain=question.explain),
            unmatched=self._catalog.unmatched(question.conditions, self._index.visible, paths=not shown),
            found=sum(min(count, question.per_note or count) for count in notes.values()),
            is_cached=None if ranked.first.text.vector is None else ranked.is_cached,
            also=question.also,
        )

    def rank(self, question: Question, wanted: Sequence[int] = ()) -> Gathering:
        """Return all candidates, ranked; the chunks `wanted`, by number, are among them. Raises InvalidInput."""
        self.used, now, as_of = time.monotonic(), self._clock(), question.as_of
        at = as_of_moment(as_of, now) if as_of else now
        filter, visible = question.conditions, self._index.visible
        # A filter by privacy hides notes as the scope does.
        hiding = (*visible, *(condition for condition in filter if condition.key in _HIDING))
        holding = [related.holding(self._index, hiding, at)] if as_of else []
        limits = (*filter, *without_guides(filter), *visible, *holding)
        is_dated = as_of or any(condition.key in DATES for condition in filter)
        time_named = None
        if question.mode != "keyword" and not is_dated:
            time_named = when.read(question.text, dt.datetime.fromtimestamp(now).date())
        dated = time_named.condition if time_named and not time_named.newest else Condition("when", low=at, high=at)
        low, high = dated.low or 0.0, dated.high or now
        reasons = Reasons()
        texts, is_cached = self.texts.read(question, time_named, reasons)

        with self._catalog.reading():
            found = Gathering(self.loaded, question, texts, limits, reasons, time_named, is_cached=is_cached)
            found.gather(wanted)
            paths = {one.chunk.path for one in found.candidates}
            later = related.superseded(self._index, paths, hiding, at)
            superseded = related.superseded(self._index, paths, hiding, high) if high < at else later
            found.add_successors(superseded)
            notes = (one.chunk.note for one in found.candidates)
            uses = self._catalog.usage.of(notes) if self._index.config.count_use else {}
        ranked = fuse(found.candidates, question.mode, by_words_only=found.first.text.vector is None)
        if self._index.reranker is not None and question.mode != "keyword":
            ranking.rerank(ranked, question.text, self._index.reranker, reasons)
        ranking.adjust(ranked, self._index.config.half_lives, uses, now)
        if question.mode != "keyword":
            ranking.lift_speakers(ranked, question.text)
        ranking.lower(ranked, found.first.words.inflected)
        ranking.lower_titles(ranked, 0.0 if question.mode == "keyword" else weights.AS_MANY_WORDS)
        ranking.lower_listings(ranked)
        if time_named:
            when.prefer(ranked, time_named, later, now)
        ranked = ranking.supersede(ranked, superseded, () if as_of else (low, high))
        for one in ranked if later is not superseded else ():  # superseded since: it says so, and keeps its place
            one.superseded = one.superseded or (later.get(one.chunk.path) if one.chunk.path not in superseded else None)
        found.candidates = ranked
        return found

    def near(
        self, vector: Vectors, limit: int = 5, limits: Sequence[Condition] = ()
    ) -> list[tuple[StoredChunk, float]]:
        """Return the chunks within `limits` nearest to a passage's unit vector with their scores, best first."""
        self.used = time.monotonic()
        with self._catalog.reading():
            if self._catalog.fingerprint != self._index.embedder.fingerprint:
                return []  # its vectors are of another model
            limits = (*limits, *without_guides(limits), *self._index.visible)
            best = self.loaded.nearest.chunks(vector, limits, limit, Reasons())
        scored = [(chunk, score(cosine, self._index.embedder.scale)) for chunks, cosine in best for chunk in chunks]
        return sorted(scored, key=lambda pair: (-pair[1], pair[0].id))[:limit]

    def alike(
        self, path: str, limits: Sequence[Condition], limit: int, least: float
    ) -> list[tuple[StoredChunk, float]]:
        """Return the best chunk of each other note within `limits` that is near to a chunk of the note at `path`."""
        chunks = self._catalog.at(path)[:MOST_ALIKE]
        keys = [chunk.key for chunk in chunks]
        best: dict[str, tuple[StoredChunk, float]] = {}
        for vector in self.loaded.nearest.vectors(keys, len(keys)).values():
            for chunk, value in self.near(vector, limit + len(chunks), limits):
                if chunk.path != path and value >= max(least, best.get(chunk.path, (chunk, 0.0))[1]):
                    best[chunk.path] = (chunk, value)
        return sorted(best.values(), key=lambda pair: -pair[1])[:limit]
