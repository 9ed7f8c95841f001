"""
Search: filter, retrieve by meaning and by words, fuse, rerank, adjust, choose, pack.

Filters cut before retrieval. Scores are absolute: each leg and each adjustment has a share, and the shares add up to
the score.
"""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.catalog.usage import Use
from spellbook.index.filters import DATES, Condition, as_of_moment, without_guides
from spellbook.index.nearest import Reasons
from spellbook.index.opened import Index
from spellbook.index.question_cache import LoadedIndex
from spellbook.models.base import Vectors, score
from spellbook.search import choice, packing, ranking, related, time_in_question, weights
from spellbook.search.candidates import MOST_ALIKE, Gathering, QueryTexts, gather
from spellbook.search.question import Answer, Question, state
from spellbook.search.scores import Candidate, fuse
from spellbook.text import terms

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
        passed = choice.hits(ranked)
        best = choice.choose(passed, question.limit, question.per_note, few=question.has_few_sessions)
        notes = Counter(hit.chunk.path for hit in passed)
        # The question's own words come last: their weights count, for excerpts. Without any, all of its words do.
        words = sorted((*ranked.first.words.stems, *ranked.words), key=lambda word: word in ranked.first.words.words)
        by_word = {
            part.text.casefold(): word.weight for word in words if word.chunks for part in (*word.same, word.part)
        }
        weigh = packing.by_words(by_word or dict.fromkeys(terms.terms(question.text), 1.0))
        near = [] if best else choice.nearly(ranked)
        hits = packing.completed(self.loaded, ranked, passed or near, best or near)
        if ranked.counts.pending:
            self._catalog.waiting.ask_for(one.chunk.key for one in ranked.candidates[:_EMBED_NEXT] if one.keyword)
        return Answer(
            question.text,
            packing.pack(hits, question.max_tokens, weigh, explain=question.explain) if best else (),
            state(self._index, ranked.counts, ranked.reason),
            closest=packing.closest(hits, question.max_tokens, weigh, explain=question.explain) if near else (),
            unmatched=self._catalog.unmatched(question.conditions, self._index.visible, paths=not best),
            found=sum(min(count, question.per_note or count) for count in notes.values()),
            is_cached=None if ranked.first.text.vector is None else ranked.first.text.is_cached,
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
        time_named = _time_in(question, now)
        dated = time_named.condition if time_named and not time_named.newest else Condition("when", low=at, high=at)
        during = dated.low or 0.0, dated.high or now
        reasons = Reasons()
        texts = self.texts.read(question, time_named, reasons)

        with self._catalog.reading():
            found = gather(self.loaded, question, texts, limits, reasons, time_named, wanted)
            paths = {one.chunk.path for one in found.candidates}
            later = related.superseded(self._index, paths, hiding, at)
            superseded = related.superseded(self._index, paths, hiding, during[1]) if during[1] < at else later
            found = found.with_successors(superseded, self._catalog)
            notes = (one.chunk.note for one in found.candidates)
            uses = self._catalog.usage.of(notes) if self._index.config.count_use else {}
        ranked = self._scored(found, uses, now)
        if time_named:
            ranked = time_in_question.prefer(ranked, time_named, later, now)
        ranked = ranking.supersede(ranked, superseded, () if as_of else during, later)
        return replace(found, candidates=ranked)

    def _scored(self, found: Gathering, uses: Mapping[str, Use], now: float) -> list[Candidate]:
        """Return the candidates with their scores, but for words of time and successors."""
        question, index, words = found.question, self._index, found.first.words
        by_words = question.mode == "keyword"
        ranked = fuse(found.candidates, question.mode, by_words_only=found.first.text.vector is None)
        if index.reranker is not None and not by_words:
            ranked = ranking.rerank(ranked, question.text, index.reranker, found.reasons)
        ranked = ranking.adjust(ranked, index.config.half_lives, uses, now)
        if not by_words:
            ranked = ranking.weigh_turns(ranked, question.text)
        ranked = ranking.lower(ranked, words.inflected)
        ranked = ranking.lower_titles(ranked, 0.0 if by_words else weights.AS_MANY_WORDS)
        return ranking.lower_listings(ranked)

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


def _time_in(question: Question, now: float) -> time_in_question.When | None:
    """Return the time that a question names, unless it is by words alone or has dates of its own."""
    is_dated = question.as_of or any(condition.key in DATES for condition in question.conditions)
    if question.mode == "keyword" or is_dated:
        return None
    return time_in_question.read(question.text, dt.datetime.fromtimestamp(now).date())
