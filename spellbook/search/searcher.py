"""
Search: filter, retrieve by meaning and by words, fuse, rerank, adjust, choose, pack.

Filters cut before retrieval. Scores are absolute, so that each leg and each
adjustment has a share in them, and the shares add up to the score.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache

from spellbook.index.catalog.schema import NO_TEXT, StoredChunk
from spellbook.index.catalog.usage import Use
from spellbook.index.engine import Source
from spellbook.index.filters import DATES, Condition, Unmatched, conditions, without_guides
from spellbook.models.base import Bytes, Vectors, score
from spellbook.search import candidates, packing, ranking, related, retrieve, successors, translations, weights, when
from spellbook.search.candidates import QueryText
from spellbook.search.question import Answer, Question, Ranked, State, state
from spellbook.search.ranking import Candidate, Hit
from spellbook.system.errors import EmbeddingError
from spellbook.text import terms

_EMBED_NEXT = 20
"""Candidates by words whose vectors, if missing, are embedded next."""
_MOST_ALIKE = 20
"""Chunks of a note that are compared with other notes, or with a question that its predecessor answers."""

_REMEMBERED = 256
"""Questions whose vectors are cached."""
_COUNTED = 2_000
"""Texts whose number of tokens is cached."""
_HIDING = frozenset({"scope", "privacy_scope"})
"""Keys of a filter that say what somebody may see, not what they look for."""
_RERANK_SECONDS = 2.0
_RERANK_LETTERS = 2_000


class Searcher:
    """Answers questions from an index; keeps vectors and recent questions' vectors in memory. Safe for many threads."""

    def __init__(self, index: Source, clock: Callable[[], float] = time.time) -> None:
        self._index, self._clock = index, clock
        self.engine = index.engine()
        self._guard = threading.Lock()
        self._asked: OrderedDict[str, Vectors] = OrderedDict()
        self._seconds: dict[str, Bytes] = {}
        self._count = lru_cache(maxsize=_COUNTED)(index.embedder.count_tokens)
        self.used = time.monotonic()
        """When it was last used (monotonic clock, seconds)."""
        self.warm: set[bool] = set()
        """Whether questions by words, and others, were asked before: the first of a kind has to load something."""

    def ask(self, question: Question) -> Answer:
        """Answer a question. Raises InvalidInput for a filter that makes no sense."""
        ranked = self.rank(question)
        passed = hits(question, ranked)
        notes = Counter(each.chunk.path for each in passed)
        found = sum(min(count, question.per_note or count) for count in notes.values())
        shown = self._pack(question, ranked, ranking.choose(passed, question.limit, question.per_note))
        self._embed_next(ranked)
        near = [] if shown else [each.hit() for each in nearly(question, ranked)]
        closest = packing.passages(near, question.max_tokens, self._count, packing.by_words(_weights(question, ranked)))
        unmatched = self.unmatched(question, paths=not shown)
        is_cached = None if ranked.vector is None else ranked.is_cached
        return Answer(
            question.text, shown, self.state(ranked), closest, unmatched, found, is_cached=is_cached, also=question.also
        )

    def state(self, ranked: Ranked) -> State:
        """Return the state of the index that gave these candidates."""
        reason = "; ".join(dict.fromkeys(ranked.reasons))
        return state(self._index, ranked.counts, self.engine.second_fingerprint, reason)

    def unmatched(self, question: Question, *, paths: bool = True) -> tuple[Unmatched, ...]:
        """Return the values of a question's filter that no note has."""
        if not question.filter:
            return ()
        return self.engine.unmatched(conditions(question.filter), self._index.visible, paths=paths)

    def rank(self, question: Question, wanted: Sequence[int] = ()) -> Ranked:
        """
        Filter, retrieve, fuse, rerank and adjust; return all candidates, best first.

        The chunks `wanted`, by number, are among them whatever their score. Raises InvalidInput for a filter that makes
        no sense.
        """
        self.used = time.monotonic()
        asked = conditions(question.filter)
        limits = (*asked, *without_guides(asked), *self._index.visible)
        reasons: list[str] = []
        asked_for = self._time(question)
        meant = asked_for.rest if asked_for else question.text  # words of time are looked for as words alone
        with self._guard:
            is_cached = meant in self._asked
        texts = [self._read(question.text, meant, question.mode, reasons)]
        texts += [self._read(text, text, question.mode, reasons) for text in question.also]

        def gather(numbers: Sequence[int]) -> Ranked:
            return candidates.gather(self.engine, self._index, question, texts, limits, numbers, reasons, asked_for)

        with self.engine.reading():
            found = gather(wanted)
            superseded = self._superseded(found.candidates, asked)
            if living := self._successors(question, found.candidates, superseded, limits):
                found = gather((*wanted, *living))
            uses = self._uses(found.candidates)
        fused = ranking.fuse(found.candidates, question.mode, by_words_only=found.vector is None)
        self._rerank(question, fused, reasons)
        ranked = ranking.adjust(fused, self._index.config.half_lives, uses, self._clock())
        dated = when.prefer(ranked, asked_for) if asked_for else ranked
        final = successors.supersede(dated, superseded)
        found = replace(found, candidates=final, alike=self._alike(final), is_cached=is_cached)
        return replace(found, when=asked_for.reason, is_time_all=asked_for.is_all) if asked_for else found

    def near(
        self, vector: Vectors, limit: int = 5, limits: Sequence[Condition] = ()
    ) -> list[tuple[StoredChunk, float]]:
        """Return the chunks within `limits` nearest to a passage's unit vector with their scores, best first."""
        self.used = time.monotonic()
        with self.engine.reading():
            if self.engine.fingerprint != self._index.embedder.fingerprint:
                return []  # its vectors are of another model
            best = self.engine.nearest(vector, (*limits, *without_guides(limits), *self._index.visible), limit, [])
        scored = [(each, score(cosine, self._index.embedder.scale)) for chunks, cosine in best for each in chunks]
        return sorted(scored, key=lambda pair: (-pair[1], pair[0].id))[:limit]

    def alike(
        self, path: str, limits: Sequence[Condition], limit: int, least: float
    ) -> list[tuple[StoredChunk, float]]:
        """Return the best chunk of each other note within `limits` that is near to a chunk of the note at `path`."""
        chunks = self.engine.at(path)[:_MOST_ALIKE]
        best: dict[str, tuple[StoredChunk, float]] = {}
        for vector in self.engine.vectors([each.key for each in chunks]).values():
            for chunk, value in self.near(vector, limit + len(chunks), limits):
                if chunk.path != path and value >= max(least, best.get(chunk.path, (chunk, 0.0))[1]):
                    best[chunk.path] = (chunk, value)
        return sorted(best.values(), key=lambda pair: -pair[1])[:limit]

    # -- the stages

    def _time(self, question: Question) -> when.When | None:
        """Return what a question says of time; words to be found as they are, or a filter by date, say it all."""
        if question.mode == "keyword" or any(key.strip().rstrip("!") in DATES for key in question.filter or ()):
            return None
        return when.read(question.text, dt.datetime.fromtimestamp(self._clock()).date())

    def _read(self, text: str, meant: str, mode: ranking.Mode, reasons: list[str]) -> QueryText:
        """Return a text with the vectors of what is meant; without them if it is asked by words, or the model fails."""
        if mode == "keyword":
            return QueryText(text)
        try:
            vector = self._embedded(meant)
        except EmbeddingError as error:
            reasons.append(f"searched by words only: {error}")
            return QueryText(text)
        return QueryText(text, vector, self._second_vector(meant) if retrieve.TextScripts.of(meant).is_read else None)

    def _embedded(self, text: str) -> Vectors:
        with self._guard:
            if text in self._asked:
                self._asked.move_to_end(text)
                return self._asked[text]
        vector = self._index.embedder.embed_query(text)
        self._index.fits(len(vector))
        with self._guard:
            self._asked[text] = vector
            while len(self._asked) > _REMEMBERED:
                self._asked.popitem(last=False)
        return vector

    def cached(self) -> dict[str, int]:
        """Return the questions whose vectors are cached, with the bytes of each."""
        with self._guard:
            return {text: vector.nbytes for text, vector in self._asked.items()}

    def forget(self, texts: Iterable[str]) -> int:
        """Drop the vectors of these questions; return how many were cached."""
        with self._guard:
            return sum(self._asked.pop(text, None) is not None for text in texts)

    def _second_vector(self, text: str) -> Bytes | None:
        """Return the question's vector by the second encoder, int8; None if there is none or it fails."""
        if self._index.second is None:
            return None
        with self._guard:
            if text in self._seconds:
                return self._seconds[text]
        try:
            vector: Bytes = self._index.second.vectors([text], query=True)[0]
        except EmbeddingError:  # the embedder answers alone; whoever embeds says why
            return None
        with self._guard:
            self._seconds[text] = vector
            while len(self._seconds) > _REMEMBERED:
                del self._seconds[next(iter(self._seconds))]
        return vector

    def _alike(self, candidates: Sequence[Candidate]) -> Callable[[Candidate, Candidate], float]:
        """Return what tells how alike two of the candidates are; their vectors are read when it is first asked."""

        @cache
        def vectors() -> dict[str, Vectors]:
            return self.engine.vectors({each.chunk.key for each in candidates})

        def alike(one: Candidate, other: Candidate) -> float:
            a, b = (vectors().get(each.chunk.key) for each in (one, other))
            return 0.0 if a is None or b is None else score(float(a @ b), self._index.embedder.scale)

        return alike

    def _uses(self, candidates: Sequence[Candidate]) -> Mapping[str, Use]:
        """Return how often the candidates' notes were opened, by note id."""
        if not self._index.config.count_use:
            return {}
        return self.engine.uses(each.chunk.note for each in candidates)

    def _superseded(
        self, candidates: Sequence[Candidate], asked: Sequence[Condition]
    ) -> Mapping[str, related.Superseded]:
        """Return what supersedes the candidates' notes; a filter by privacy hides notes as the scope does."""
        hiding = (*self._index.visible, *(each for each in asked if each.key in _HIDING))
        return related.superseded_in(self.engine, self._index.whole, {each.chunk.path for each in candidates}, hiding)

    def _successors(
        self,
        question: Question,
        candidates: Sequence[Candidate],
        superseded: Mapping[str, related.Superseded],
        limits: Sequence[Condition],
    ) -> list[int]:
        """
        Return the chunks, by number, of the notes within `limits` that are missing as successors.

        Words asked for alone bring nothing along.
        """
        if question.mode == "keyword":
            return []
        wanted = successors.missing(candidates, superseded, question.limit)
        shown = self.engine.among(wanted, limits) if wanted else set()
        chunks = (chunk for path in sorted(shown) for chunk in self.engine.at(path)[:_MOST_ALIKE])
        return [chunk.number for chunk in chunks if chunk.key != NO_TEXT]

    def _rerank(self, question: Question, fused: Sequence[Candidate], reasons: list[str]) -> None:
        """Let the reranker, if there is one, judge the first candidates."""
        reranker = self._index.reranker
        if reranker is None or question.mode == "keyword" or not fused:
            return
        first = fused[: weights.RERANKED]
        texts = [f"{each.chunk.title}\n{each.chunk.heading}\n{each.chunk.text}"[:_RERANK_LETTERS] for each in first]
        try:
            ranking.reranked(fused, reranker.rerank(question.text, texts, _RERANK_SECONDS), reranker.name)
        except EmbeddingError as error:
            reasons.append(f"not reranked: {error}")

    def _pack(self, question: Question, ranked: Ranked, chosen: Sequence[Candidate]) -> tuple[Hit, ...]:
        """Return the chosen as hits whose texts are within the question's budget of tokens."""
        linked = related.counts(self.engine.links, {each.chunk.path for each in chosen})
        tokens = self.engine.tokens([each.chunk.number for each in chosen], self._index.embedder.tokeniser)
        shown = [
            replace(each.hit(), backlinks=linked[each.chunk.path], tokens=tokens.get(each.chunk.number))
            for each in chosen
        ]
        return packing.pack(shown, question.max_tokens, self._count, packing.by_words(_weights(question, ranked)))

    def _embed_next(self, ranked: Ranked) -> None:
        """Have the best candidates that still lack a vector embedded next."""
        if ranked.counts.pending:
            self.engine.embed_next(each.chunk.key for each in ranked.candidates[:_EMBED_NEXT] if each.keyword)


def hits(question: Question, found: Ranked) -> list[Candidate]:
    """Return the candidates that may be hits; of a note's translations one is left, but for words asked for alone."""
    may = _sure(question, found)
    return may if question.mode == "keyword" else translations.merged(may, question.text, found.alike)


def _sure(question: Question, found: Ranked) -> list[Candidate]:
    candidates = (
        [each for each in found.candidates if each.keyword]
        if found.quotes or question.mode == "keyword"
        else found.candidates
    )
    if question.min_score is not None:
        # A word that most chunks contain is worth nothing, yet asking for it alone must find it.
        least = question.min_score
        return [each for each in candidates if each.score >= least and (each.score > 0 or question.mode == "keyword")]
    if question.mode == "keyword":
        return candidates
    if found.is_time_all:
        then = [each for each in candidates if any(one["reason"] == found.when for one in each.adjustments)]
        if then:  # else nothing is of that time, and a wrong guess must hide nothing
            return then
    # Words alone cannot tell what is related to a question.
    if found.vector is None:
        return [each for each in candidates if each.score > 0]
    sure = ranking.related(candidates, compared(question, found))
    return successors.among(candidates, sure)


def compared(question: Question, found: Ranked) -> int:
    """Return among how many chunks the best candidate was found: where a filter leaves few, all are candidates."""
    count = len(found.candidates)
    return count if question.filter and count < weights.POOL else found.counts.chunks - found.guides


def nearly(question: Question, found: Ranked) -> list[Candidate]:
    """Return the best candidate of the few closest notes, unless the question sets a least score or quotes."""
    if question.min_score is not None or found.quotes:
        return []
    best: dict[str, Candidate] = {}
    for each in found.candidates:
        # The evidence of a text that is not embedded yet comes from words alone and may exceed its score.
        if min(each.score, each.evidence()) >= weights.NEAR:
            best.setdefault(each.chunk.path, each)
    near = translations.merged([*best.values()], question.text, found.alike)
    return ranking.choose(near, min(weights.CLOSEST, question.limit))


def _weights(question: Question, found: Ranked) -> dict[str, float]:
    """Return the weights of the question's words for excerpts: the words asked for, else all of its words."""
    words = (*found.further, *found.words)
    asked = {part.text.casefold(): word.weight for word in words if word.chunks for part in (*word.same, word.part)}
    return asked or dict.fromkeys(terms.terms(question.text), 1.0)
