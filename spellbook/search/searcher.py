"""
Search: filter, retrieve by meaning and by words, fuse, rerank, adjust, choose, pack.

Filters cut before retrieval. Scores are absolute: each leg and each adjustment has a share, and the shares add up to
the score.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.filters import DATES, Condition, Unmatched, as_of_moment, conditions, without_guides
from spellbook.index.loaded import LoadedIndex
from spellbook.index.opened import Index
from spellbook.models.base import Vectors, score
from spellbook.notes.labels import CHECKPOINT
from spellbook.search import packing, presentation, ranking, related, weights
from spellbook.search.candidates import Gathering, QueryText, Writing
from spellbook.search.question import Answer, Question, State, state
from spellbook.search.ranking import Hit, hit_of
from spellbook.search.scores import Candidate, Mode, fuse
from spellbook.search.words import words_in
from spellbook.system.errors import EmbeddingError
from spellbook.system.lazy import lazy
from spellbook.text import terms

if TYPE_CHECKING:
    from spellbook.search import when
else:
    (when,) = lazy("spellbook.search", "when")  # whose patterns take longer to compile than a search by words

_EMBED_NEXT = 20
"""Candidates by words whose vectors, if missing, are embedded next."""
_MOST_ALIKE = 20
"""Chunks of a note that are compared with other notes, or with a question that its predecessor answers."""

_REMEMBERED = 256
"""Questions whose vectors are cached."""
_HIDING = frozenset({"scope", "privacy_scope"})
"""Keys of a filter that limit what somebody may see, rather than search."""
_RERANK_SECONDS = 2.0
"""Patience with a reranker."""
_RERANK_LETTERS = 2_000
"""Letters of a chunk that a reranker is given."""


class Searcher:
    """Answers questions from an index; keeps vectors and recent questions' vectors in memory. Safe for many threads."""

    def __init__(self, index: Index, clock: Callable[[], float] = time.time) -> None:
        self._index, self._clock = index, clock
        self._catalog = index.catalog
        self.loaded = LoadedIndex(index)
        self._guard = threading.Lock()
        self._vectors: OrderedDict[str, QueryText] = OrderedDict()
        self.used = time.monotonic()
        """When it was last used (monotonic clock, seconds)."""
        self.warm: set[bool] = set()
        """Whether questions by words, and others, were asked before: the first of a kind has to load something."""

    def ask(self, question: Question) -> Answer:
        """Answer a question. Raises InvalidInput for an invalid filter."""
        ranked = self.rank(question)
        passed = hits(question, ranked)
        notes = Counter(hit.chunk.path for hit in passed)
        # The question's own words come last: their weights count, for excerpts. Without any, all of its words do.
        words = sorted(ranked.words, key=lambda word: word in ranked.first.words.words)
        parts = ((part, word) for word in words if word.chunks for part in (*word.same, word.part))
        by_word = {part.text.casefold(): word.weight for part, word in parts}
        weigh = packing.by_words(by_word or dict.fromkeys(terms.terms(question.text), 1.0))
        best = ranking.choose(passed, question.limit, question.per_note, few=question.has_few_sessions)
        chosen = self._complete(ranked, passed, best)
        shown = packing.pack(chosen, question.max_tokens, weigh, explain=question.explain)
        if ranked.counts.pending:
            self._catalog.waiting.ask_for(one.chunk.key for one in ranked.candidates[:_EMBED_NEXT] if one.keyword)
        near = [] if shown else self._with_words(ranked, [hit_of(one) for one in nearly(question, ranked)])
        return Answer(
            question.text,
            shown,
            self.state(ranked),
            closest=packing.passages(near, question.max_tokens, weigh),
            unmatched=self.unmatched(question, paths=not shown),
            found=sum(min(count, question.per_note or count) for count in notes.values()),
            is_cached=None if ranked.first.text.vector is None else ranked.is_cached,
            also=question.also,
        )

    def state(self, ranked: Gathering) -> State:
        """Return the state of the index that gave these candidates."""
        reason = "; ".join(dict.fromkeys(ranked.reasons))
        return state(self._index, ranked.counts, reason)

    def unmatched(self, question: Question, *, paths: bool = True) -> tuple[Unmatched, ...]:
        """Return the values of a question's filter that no note has."""
        if not question.filter:
            return ()
        return self._catalog.unmatched(conditions(question.filter), self._index.visible, paths=paths)

    def rank(self, question: Question, wanted: Sequence[int] = ()) -> Gathering:
        """Return all candidates, ranked; the chunks `wanted`, by number, are among them. Raises InvalidInput."""
        self.used, now, as_of = time.monotonic(), self._clock(), question.as_of
        at = as_of_moment(as_of, now) if as_of else now
        filter = conditions(question.filter)
        # A filter by privacy hides notes as the scope does.
        hiding = (*self._index.visible, *(condition for condition in filter if condition.key in _HIDING))
        holding = [related.holding(self._index, hiding, at)] if as_of else []
        limits = (*filter, *without_guides(filter), *self._index.visible, *holding)
        reasons: list[str] = []
        is_dated = as_of or any(key.strip().rstrip("!") in DATES for key in question.filter or ())
        time_named = None
        if question.mode != "keyword" and not is_dated:
            time_named = when.read(question.text, dt.datetime.fromtimestamp(now).date())
        dated = time_named.condition if time_named and not time_named.newest else Condition("when", low=at, high=at)
        low, high = dated.low or 0.0, dated.high or now
        meant = time_named.rest if time_named else question.text  # words of time are looked for as words alone
        is_cached = meant in self._vectors
        texts = [self._read(question.text, meant, question.mode, reasons)]
        texts += [self._read(text, text, question.mode, reasons) for text in question.also]

        with self._catalog.reading():
            found = Gathering(self.loaded, question, texts, limits, reasons, time_named, is_cached=is_cached)
            found.gather(wanted)
            paths = {one.chunk.path for one in found.candidates}
            later = related.superseded(self._index, paths, hiding, at)
            superseded = related.superseded(self._index, paths, hiding, high) if high < at else later
            found.add(self._successors(question, found, superseded))
            notes = (one.chunk.note for one in found.candidates)
            uses = self._catalog.usage.of(notes) if self._index.config.count_use else {}
        ranked = fuse(found.candidates, question.mode, by_words_only=found.first.text.vector is None)
        self._rerank(question, ranked, reasons)
        ranking.adjust(ranked, self._index.config.half_lives, uses, now)
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
            best = self.loaded.nearest.chunks(vector, limits, limit, [])
        scored = [(chunk, score(cosine, self._index.embedder.scale)) for chunks, cosine in best for chunk in chunks]
        return sorted(scored, key=lambda pair: (-pair[1], pair[0].id))[:limit]

    def alike(
        self, path: str, limits: Sequence[Condition], limit: int, least: float
    ) -> list[tuple[StoredChunk, float]]:
        """Return the best chunk of each other note within `limits` that is near to a chunk of the note at `path`."""
        chunks = self._catalog.at(path)[:_MOST_ALIKE]
        keys = [chunk.key for chunk in chunks]
        best: dict[str, tuple[StoredChunk, float]] = {}
        for vector in self.loaded.nearest.vectors(keys, len(keys)).values():
            for chunk, value in self.near(vector, limit + len(chunks), limits):
                if chunk.path != path and value >= max(least, best.get(chunk.path, (chunk, 0.0))[1]):
                    best[chunk.path] = (chunk, value)
        return sorted(best.values(), key=lambda pair: -pair[1])[:limit]

    # -- the stages

    def _read(self, text: str, meant: str, mode: Mode, reasons: list[str]) -> QueryText:
        """Return a text with the vectors of `meant`; without them for words alone, or if the model fails."""
        if mode == "keyword":
            return QueryText(text)
        with self._guard:
            if known := self._vectors.get(meant):
                self._vectors.move_to_end(meant)
                return known._replace(text=text)
        try:
            vector = self._index.embedder.embed_query(meant)
            self._index.fits(len(vector))
        except EmbeddingError as error:
            reasons.append(f"searched by words only: {error}")
            return QueryText(text)
        made = QueryText(text, vector)
        second = self._index.second
        if second is not None and Writing(meant).is_read:
            try:
                made = QueryText(text, vector, second.vectors([meant], query=True)[0])
            except EmbeddingError:  # the embedder answers alone; whoever embeds says why
                return made
        with self._guard:
            self._vectors[meant] = made
            while len(self._vectors) > _REMEMBERED:
                self._vectors.popitem(last=False)
        return made

    def cached(self) -> dict[str, int]:
        """Return the questions whose vectors are cached, with the bytes of each."""
        with self._guard:
            return {text: read.vector.nbytes for text, read in self._vectors.items() if read.vector is not None}

    def forget(self, texts: Iterable[str]) -> int:
        """Drop the vectors of these questions; return how many were cached."""
        with self._guard:
            return sum(self._vectors.pop(text, None) is not None for text in texts)

    def _successors(
        self, question: Question, found: Gathering, superseded: Mapping[str, related.Superseded]
    ) -> list[int]:
        """
        Return the chunks, by number, of living successors that are no candidates; none for words alone.

        They supersede one of the first notes of each leg, as many as are asked for, that is no checkpoint.
        """
        if question.mode == "keyword" or not superseded:
            return []
        living: dict[str, set[str]] = {}
        for path, known in superseded.items():  # what supersedes comes first
            living[path] = {one for by in known.above for one in living.get(by, {by})}
        wanted: set[str] = set()
        for each in found.candidates:
            is_first = any(leg and 0 < leg.rank <= question.limit for leg in (each.semantic, each.keyword))
            if is_first and each.chunk.category != CHECKPOINT:
                wanted |= living.get(each.chunk.path, set())
        wanted.difference_update(each.chunk.path for each in found.candidates)
        keys = [chunk.key for path in wanted for chunk in self._catalog.at(path)[:_MOST_ALIKE]]
        return [chunk.number for chunk in self._catalog.by_key(keys, found.limits) if chunk.path in wanted]

    def _rerank(self, question: Question, fused: Sequence[Candidate], reasons: list[str]) -> None:
        """Move the first candidates' scores towards those of the reranker, if there is one; the others stay behind."""
        reranker = self._index.reranker
        if reranker is None or question.mode == "keyword" or not fused:
            return
        fused = sorted(fused, key=lambda candidate: candidate.order)
        first = fused[: weights.RERANKED]
        texts = [f"{one.chunk.title}\n{one.chunk.heading}\n{one.chunk.text}"[:_RERANK_LETTERS] for one in first]
        try:
            scores = reranker.rerank(question.text, texts, _RERANK_SECONDS)
        except EmbeddingError as error:
            reasons.append(f"not reranked: {error}")
            return
        for one, value in zip(fused, scores, strict=False):
            one.add(f"reranked {value:.2f} by {reranker.name}", weights.RERANK_WEIGHT * (value - one.score))
        least = min((one.score for one in fused[: len(scores)]), default=0.0)
        for one in fused[len(scores) :]:
            one.add(f"not seen by {reranker.name}", min(0.0, least - one.score))

    def _complete(self, ranked: Gathering, passed: Sequence[Candidate], chosen: Sequence[Candidate]) -> list[Hit]:
        """Return the chosen as hits with their words, backlinks, and what else passed of their notes."""
        if not chosen:
            return []
        numbers = [one.chunk.number for one in chosen]
        further: dict[str, list[StoredChunk]] = defaultdict(list)
        for one in passed:
            if one.chunk.number not in numbers:
                further[one.chunk.path].append(one.chunk)
        with self._catalog.reading():
            linked = related.counts(self._catalog.links, {one.chunk.path for one in chosen})
            found = [
                replace(
                    hit_of(one),
                    backlinks=linked[one.chunk.path],
                    further=tuple(further.pop(one.chunk.path, ())),
                    neighbours=related.neighbours(self._catalog, one.chunk, numbers),
                )
                for one in chosen
            ]
            return self._with_words(ranked, found)

    def _with_words(self, ranked: Gathering, found: Sequence[Hit]) -> list[Hit]:
        """Return hits that say which words of the question their chunks have, the first of a note its properties."""
        words = words_in(self.loaded, ranked.words, [hit.chunk.number for hit in found])
        own = {hit.path: presentation.properties(hit.chunk) for hit in found}
        return [
            replace(hit, why={**hit.why, "words": rows}, properties=own.pop(hit.path, ""))
            for hit, rows in zip(found, words, strict=True)
        ]


def hits(question: Question, ranked: Gathering) -> list[Candidate]:
    """Return the candidates that may be hits."""
    candidates, by_words = ranked.candidates, question.mode == "keyword"
    if ranked.first.words.quotes or by_words:
        candidates = [one for one in candidates if one.keyword]
    if (least := question.min_score) is not None:
        # A word that most chunks contain is worth nothing, yet asking for it alone must find it.
        is_asked = by_words or question.filter
        high = [one for one in candidates if one.score >= least]
        return [one for one in high if one.score > 0 or (is_asked and (one.semantic or one.keyword))]
    if by_words:
        return candidates
    if ranked.time and ranked.time.is_all:
        dated = [one for one in candidates if any(reason == ranked.time.reason for reason, _ in one.changes)]
        if dated:  # else nothing is of that time, and a wrong guess must hide nothing
            return dated
    # Words alone cannot tell what is related to a question.
    if ranked.first.text.vector is None:
        return [one for one in candidates if one.score > 0]
    return ranking.among(candidates, ranking.related(candidates, compared(question, ranked)))


def compared(question: Question, ranked: Gathering) -> int:
    """Return the number of chunks that the best one was chosen from: the candidates, if a filter leaves few."""
    count, is_narrowed = len(ranked.candidates), question.filter or question.as_of
    return count if is_narrowed and count < weights.POOL else ranked.counts.chunks - ranked.guides


def nearly(question: Question, ranked: Gathering) -> list[Candidate]:
    """Return the best candidate of the few closest notes, unless the question sets a least score or quotes."""
    if question.min_score is not None or ranked.first.words.quotes:
        return []
    best: dict[str, Candidate] = {}
    for candidate in ranked.candidates:
        # The evidence of a text that is not embedded yet comes from words alone and may exceed its score.
        if candidate.score and min(candidate.score, candidate.evidence()) >= question.near:
            best.setdefault(candidate.chunk.path, candidate)
    return ranking.choose([*best.values()], min(weights.CLOSEST, question.limit), few=question.has_few_sessions)
