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
from typing import TYPE_CHECKING

from spellbook.errors import EmbeddingError
from spellbook.index.catalog.schema import StoredChunk
from spellbook.index.catalog.usage import Use
from spellbook.index.engine import Source
from spellbook.index.filters import DATES, Condition, Unmatched, conditions, without_guides
from spellbook.models.base import score
from spellbook.search import packing, ranking, related, retrieve, synonyms, translations, weights, when
from spellbook.search.question import Answer, Question, Ranked, State, state
from spellbook.search.ranking import Candidate, Hit
from spellbook.text import terms

if TYPE_CHECKING:
    from spellbook.models.base import Bytes, Vectors

_EMBED_NEXT = 20
"""Candidates by words whose vectors, if missing, are embedded next."""
_MOST_ALIKE = 20
"""Chunks of a note that are compared with other notes."""

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
        return Answer(question.text, shown, self.state(ranked), closest, unmatched, found, is_cached=is_cached)

    def state(self, ranked: Ranked) -> State:
        """Return the state of the index that gave these candidates."""
        reason = "; ".join(dict.fromkeys(ranked.reasons))
        return state(self._index, ranked.counts, self.engine.second_fingerprint, reason)

    def unmatched(self, question: Question, *, paths: bool = True) -> tuple[Unmatched, ...]:
        """Return the values of a question's filter that no note has."""
        if not question.filter:
            return ()
        return self.engine.unmatched(conditions(question.filter), self._index.visible, paths=paths)

    def rank(self, question: Question, also: Sequence[int] = ()) -> Ranked:
        """
        Filter, retrieve, fuse, rerank and adjust; return all candidates, best first.

        The chunks `also`, by number, are among them whatever their score. Raises InvalidInput for a filter that makes
        no sense.
        """
        self.used = time.monotonic()
        asked = conditions(question.filter)
        limits = (*asked, *without_guides(asked), *self._index.visible)
        reasons: list[str] = []
        asked_for = self._time(question)
        if asked_for:
            question = replace(question, text=asked_for.rest)
        with self._guard:
            is_cached = question.text in self._asked
        vector = self._question_vector(question, reasons)
        is_read = vector is not None and retrieve.Written.of(question.text).is_read
        second = self._second_vector(question.text) if is_read else None
        with self.engine.reading():
            found = self._retrieve(question, vector, second, limits, also, reasons, asked_for)
            uses = self._uses(found.candidates)
            superseded = self._superseded(found.candidates, asked)
        fused = ranking.fuse(found.candidates, question.mode, by_words_only=found.vector is None)
        self._rerank(question, fused, reasons)
        ranked = ranking.adjust(fused, self._index.config.half_lives, uses, self._clock())
        dated = when.prefer(ranked, asked_for) if asked_for else ranked
        candidates = ranking.supersede(dated, superseded)
        found = replace(found, candidates=candidates, alike=self._alike(candidates), is_cached=is_cached)
        return replace(found, when=asked_for.reason, is_time_all=asked_for.is_all) if asked_for else found

    def near(
        self, vector: Vectors, limit: int = 5, limits: Sequence[Condition] = ()
    ) -> list[tuple[StoredChunk, float]]:
        """Return the chunks within `limits` nearest to a passage's unit vector with their scores, best first."""
        self.used = time.monotonic()
        with self.engine.reading():
            if self.engine.fingerprint != self._index.embedder.fingerprint:
                return []  # its vectors are of another model
            best = self.engine.nearest(vector, (*limits, *self._index.visible), limit, [])
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

    def _question_vector(self, question: Question, reasons: list[str]) -> Vectors | None:
        """Return the question's vector, None if it is asked by words alone or cannot be embedded."""
        if question.mode == "keyword":
            return None
        try:
            return self._embedded(question.text)
        except EmbeddingError as error:
            reasons.append(f"searched by words only: {error}")
            return None

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

    def _retrieve(
        self,
        question: Question,
        vector: Vectors | None,
        second: Bytes | None,
        limits: Sequence[Condition],
        also: Sequence[int],
        reasons: list[str],
        asked_for: when.When | None = None,
    ) -> Ranked:
        """Return the candidates by meaning and by words, in no order and without a score."""
        engine, embedder = self.engine, self._index.embedder
        counts = engine.counts()
        if vector is not None and engine.fingerprint != embedder.fingerprint:
            vector = None
            reasons.append("searched by words only: another process indexes this vault with another embedder")
        semantic: dict[int, tuple[StoredChunk, ranking.Leg]] = {}
        if vector is not None:
            semantic = retrieve.by_meaning(engine, vector, embedder.scale, limits, question.limit, reasons)
            if asked_for and not asked_for.newest:
                # The notes of a week may be few among very many that are nearer.
                then = (*limits, asked_for.condition)
                dated = retrieve.by_meaning(engine, vector, embedder.scale, then, question.limit, reasons)
                semantic = {
                    **{number: (chunk, replace(leg, rank=0)) for number, (chunk, leg) in dated.items()},
                    **semantic,
                }
        by_words = question.mode != "semantic" or vector is None
        titled = [] if vector is None else engine.named(vector, limits)
        if self._index.second is None or engine.second_fingerprint != self._index.second.fingerprint:
            second = None  # its vectors are another encoder's, if there are any
        if second is not None and counts.pending:
            titled += retrieve.standing_in(engine, second, limits, question.limit)
        words = retrieve.Words({}, ())
        if by_words:
            config = self._index.config
            # The words of a vault may name hidden notes: a limited token has Spellbook's own.
            table = synonyms.of(config.state if config.sees else config.beside or config.vault)
            words = retrieve.by_words(engine, question, limits, counts.chunks, [*semantic, *titled], also, table)
        chunks = {number: chunk for number, (chunk, _) in semantic.items()}
        others = engine.by_number([number for number in {*words.legs, *titled, *also} if number not in chunks])
        scores = {number: leg for number, (_, leg) in semantic.items()}
        if vector is not None:
            scores |= retrieve.scores_by_meaning(engine, vector, embedder.scale, others)
        # With one leg alone no credit is given for another language.
        written = retrieve.Written.of(question.text) if by_words and vector is not None else retrieve.ANY_LANGUAGE
        chunks |= {chunk.number: chunk for chunk in others}
        notes: Mapping[str, ranking.OfNote] = {}
        helped: Mapping[str, float] = {}
        if question.mode != "keyword":  # which asks for chunks with these words
            about = engine.about(vector, chunks.values())
            if second is not None and self._index.second is not None:
                labels = (key for note in about.values() for _, key, _ in note.labels)
                keys = (*(chunk.key for chunk in chunks.values()), *labels)
                helped = retrieve.by_second(engine, second, self._index.second.scale, keys)
            scale = () if vector is None else embedder.scale  # a service that is down may not have one yet
            notes = retrieve.of_notes(engine, words, about, scale, helped, unprompted=question.unprompted)
        candidates = []
        for number, chunk in chunks.items():
            word = words.legs.get(number)
            foreign = written.foreign(chunk, word.score if word else 0.0)
            note = notes.get(chunk.path, ranking.NOTHING)
            second_score = helped.get(chunk.key)
            if second_score is not None and not retrieve.is_read(chunk):
                second_score = None
            candidates.append(Candidate(chunk, scores.get(number), word, foreign, note, second_score))
        return Ranked(candidates, counts, reasons, words.asked, words.known if by_words else None, vector, words.quotes)

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
    # A filter asks for all that it leaves, best first; and words alone cannot tell what is related to a question.
    if (question.filter and not question.only_related) or found.vector is None:
        return [each for each in candidates if each.score > 0]
    return ranking.related(candidates, found.expected, found.counts.chunks)


def nearly(question: Question, found: Ranked) -> list[Candidate]:
    """Return the best candidate of the few closest notes, unless the question sets a least score or quotes."""
    if question.min_score is not None or found.quotes:
        return []
    best: dict[str, Candidate] = {}
    for each in found.candidates:
        # The evidence of a text that is not embedded yet comes from words alone and may exceed its score.
        if min(each.score, each.evidence(found.expected)) >= weights.NEAR:
            best.setdefault(each.chunk.path, each)
    near = translations.merged([*best.values()], question.text, found.alike)
    return ranking.choose(near, min(weights.CLOSEST, question.limit))


def _weights(question: Question, found: Ranked) -> dict[str, float]:
    """Return the weights of the question's words for excerpts: the words asked for, else all of its words."""
    asked = {
        part.text.casefold(): word.weight for word in found.words if word.chunks for part in (*word.same, word.part)
    }
    return asked or dict.fromkeys(terms.terms(question.text), 1.0)
