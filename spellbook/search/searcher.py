"""
Search: filters, two legs, fusion, adjustment, packing; and the reasons for every hit.

Filters cut before the legs run. Scores are absolute, so that a share of the
score can be named for each leg and each adjustment, and their sum is the score.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from spellbook.errors import EmbeddingError, InvalidInput
from spellbook.index.catalog.schema import Counts, Found
from spellbook.index.filters import Condition, Filter, Unmatched, conditions
from spellbook.index.opened import Index
from spellbook.index.vectors.nearest import Nearest
from spellbook.models.base import score
from spellbook.search import fts_query, packing, ranking, related
from spellbook.search.ranking import Candidate, Hit, Leg, Mode
from spellbook.system import processes
from spellbook.text import languages, terms

if TYPE_CHECKING:
    from spellbook.models.base import Vectors

VERBS: Mapping[str, Mode] = MappingProxyType({"search": "both", "memorize": "semantic", "find": "keyword"})
"""What people call the ways to search."""

MOST_QUERY = 20_000
MOST_HITS = 100
MOST_KEYWORDS = 200
_POOL = 50
_NEXT = 20
"""Candidates whose vectors, if they have none yet, are made next."""
_SAMPLED, _EACH = 800, 4
_REMEMBERED = 4_000
"""Samples whose scripts are remembered: what was near once is near again."""
_COUNTED = 2_000
"""Texts whose tokens are remembered: what was a hit once is one again."""
_PRESENT = 3.0
_ITS_WORDS = 0.5
_PERHAPS = 3
_RERANKED = 20
_RERANK_SECONDS = 2.0
_RERANK_LETTERS = 2_000


@dataclass(frozen=True, slots=True)
class State:
    """The index that answered; `reason` says what was missing if `degraded`, `embedding` that a process is at what is pending."""

    generation: int
    notes: int
    chunks: int
    pending: int
    degraded: bool = False
    reason: str = ""
    embedding: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the index block of an answer."""
        names = ("generation", "notes", "chunks", "pending", "degraded", *(name for name in ("reason", "embedding") if getattr(self, name)))
        return {name: getattr(self, name) for name in names}


def state(index: Index, counts: Counts, reason: str = "") -> State:
    """Return the state of an index with these counts, `degraded` if there is a reason."""
    embedding = counts.pending > 0 and processes.is_embedding(index.config.state)
    return State(counts.generation, counts.notes, counts.chunks, counts.pending, bool(reason), reason, embedding)


@dataclass(frozen=True, slots=True)
class Answer:
    """
    What a search gives: hits, best first, and the state of the index that gave them.

    Where nothing is sure to have to do with the question there are no hits,
    and `perhaps` names what comes nearest, if that is not far: who asks may know better.
    `unmatched` are values of the filter that no note has.
    """

    query: str
    hits: tuple[Hit, ...]
    index: State
    perhaps: tuple[Hit, ...] = ()
    unmatched: tuple[Unmatched, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as the command line's JSON shows it."""
        shown = {"query": self.query, "hits": [hit.as_dict() for hit in self.hits], "index": self.index.as_dict()}
        if self.perhaps:
            named = ("id", "path", "line", "title", "heading", "score")
            shown["perhaps"] = [{name: getattr(hit, name) for name in named} for hit in self.perhaps]
        if self.unmatched:
            shown["unmatched"] = [each.as_dict() for each in self.unmatched]
        return shown


@dataclass(frozen=True, slots=True)
class Question:
    """
    What is asked, checked.

    `keywords` are phrases to match instead of the words of `text`; `limit` is
    1 to 100; `max_tokens` of the whole answer. `min_score` in 0..1 is the least
    score of a hit; without it, and without a filter, hits are what has to do
    with the question, see `ranking.related`. `unprompted` leaves out what notes
    name as questions: they find themselves by them.
    """

    text: str
    mode: Mode = "both"
    keywords: tuple[str, ...] = ()
    match_all: bool = False
    limit: int = 5
    filter: Filter | None = None
    min_score: float | None = None
    max_tokens: int = 2_000
    unprompted: bool = False

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
        if self.min_score is not None and not 0 <= self.min_score <= 1:
            raise InvalidInput(f"The least score {self.min_score} makes no sense.", "Scores are from 0 to 1.")
        if self.max_tokens < 50:
            raise InvalidInput(f"{self.max_tokens} tokens hold no answer.", "Allow at least 50.")


class Options(TypedDict, total=False):
    """What `search`, `memorize`, `find` and `why` take by keyword; the fields of `Question` say what each means."""

    limit: int
    filter: Filter | None
    min_score: float | None
    max_tokens: int


def question(verb: str, query: str | Sequence[str], match: str = "any", **options: Unpack[Options]) -> Question:
    """Return the question of a verb: for `find`, `query` is one phrase or several. Raises InvalidInput."""
    if verb not in VERBS:
        raise InvalidInput(f"There is no search {verb!r:.80}.", f"It is {', '.join(VERBS)}.")
    if match not in {"any", "all"}:
        raise InvalidInput(f"match={match!r:.80} makes no sense.", "It is any or all.")
    words = (query,) if isinstance(query, str) else tuple(query)
    keywords = words if verb == "find" else ()
    return Question(" ".join(words), VERBS[verb], keywords, match == "all", **options)


@dataclass(frozen=True, slots=True)
class Word:
    """Something asked for in the full-text index: in how many chunks it is, and its weight, the idf of bm25."""

    text: str
    chunks: int
    weight: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """
    What a question found, before hits are chosen from it: candidates, best first, and what they are judged by.

    `words` were asked for; `expected` is the share of them that the vault
    knows, None if none were, and if it `quotes`, what does not hold them is no
    hit; `vector` is the question's, None if it has none.
    """

    candidates: list[Candidate]
    counts: Counts
    reasons: list[str]
    words: tuple[Word, ...]
    expected: float | None
    vector: Vectors | None
    quotes: bool


@dataclass(frozen=True, slots=True)
class _Words:
    """What the leg by words says: of chunks, and of the words asked for, some of which the question may quote."""

    legs: Mapping[int, Leg]
    asked: tuple[Word, ...]
    quotes: bool = False

    @property
    def known(self) -> float:
        """The share of what was asked for that is in the vault at all, by weight."""
        return sum(word.weight for word in self.asked if word.chunks) / (sum(word.weight for word in self.asked) or 1.0)


class Searcher:
    """Runs questions against an index; keeps vectors and recent query vectors in memory, for any number of threads."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._nearest = Nearest(index)
        self._guard = threading.Lock()
        self._asked: OrderedDict[str, Vectors] = OrderedDict()
        self._count = lru_cache(maxsize=_COUNTED)(index.embedder.count_tokens)
        self.used = time.monotonic()
        """When it was last asked, by the monotonic clock."""

    def ask(self, question: Question) -> Answer:
        """Answer a question. Raises InvalidInput for a filter that makes no sense."""
        found = self.rank(question)
        if found.counts.pending:
            self._index.catalog.waiting.ask_for(each.found.key for each in found.candidates[:_NEXT] if each.keyword)
        chosen = ranking.choose(hits(question, found), question.limit)
        weigh = packing.by_words(_weights(question, found))
        linked = related.counts(self._index, {each.found.path for each in chosen})
        tokens = self._index.catalog.counted.of([each.found.chunk for each in chosen], self._index.embedder.tokeniser)
        shown = [replace(each.hit(), backlinks=linked[each.found.path], tokens=tokens.get(each.found.chunk)) for each in chosen]
        texts = packing.pack(shown, question.max_tokens, self._count, weigh)
        near = [] if shown else [each.hit() for each in nearly(question, found)]
        perhaps = packing.names(near, question.max_tokens, self._count)
        return Answer(question.text, texts, self.state(found), perhaps, self.unmatched(question, paths=not shown))

    def state(self, found: Ranked) -> State:
        """Return the state of the index that gave these."""
        return state(self._index, found.counts, "; ".join(dict.fromkeys(found.reasons)))

    def unmatched(self, question: Question, *, paths: bool = True) -> tuple[Unmatched, ...]:
        """Return the values of a question's filter that no note has."""
        return self._index.catalog.unmatched(conditions(question.filter), self._index.visible, paths=paths) if question.filter else ()

    def rank(self, question: Question, also: Sequence[int] = ()) -> Ranked:
        """Run the legs, fuse, rerank and adjust; best first, chunks `also` among them whatever they are worth."""
        self.used = time.monotonic()
        limits = (*conditions(question.filter), *self._index.visible)
        reasons: list[str] = []
        vector: Vectors | None = None
        if question.mode != "keyword":
            try:
                vector = self._embedded(question.text)
            except EmbeddingError as error:
                reasons.append(f"searched by words only: {error}")
        catalog = self._index.catalog
        with catalog.reading():
            counts = catalog.counts()
            if vector is not None and catalog.fingerprint != self._index.embedder.fingerprint:
                vector = None
                reasons.append("searched by words only: another process indexes this vault with another embedder")
            semantic = self._semantic(vector, limits, question, reasons) if vector is not None else {}
            by_words = question.mode != "semantic" or vector is None
            words = self._keyword(question, limits, counts, [*semantic], also) if by_words else _Words({}, ())
            keyword = words.legs
            found = {number: chunk for number, (chunk, _) in semantic.items()}
            found |= {chunk.chunk: chunk for chunk in catalog.by_number([n for n in (*keyword, *also) if n not in found])}
            cosines = self._scores_of(vector, [c for n, c in found.items() if n not in semantic]) if vector is not None else {}
            uses = catalog.usage.of(each.note for each in found.values()) if self._index.config.count_use else {}
        # Where one leg runs alone, it does not matter what the other could not have found.
        written = _Written.of(question.text) if by_words and vector is not None else _Written({}, "")
        legs = []
        for number, chunk in found.items():
            by_meaning, by_word = semantic[number][1] if number in semantic else cosines.get(number), keyword.get(number)
            legs.append(Candidate(chunk, by_meaning, by_word, written.foreign(chunk, by_word.score if by_word else 0.0)))
        fused = ranking.fuse(legs, question.mode, by_words_only=vector is None)
        self._rerank(question, fused, reasons)
        ranked = ranking.adjust(fused, self._index.config.half_lives, uses, time.time())
        return Ranked(ranked, counts, reasons, words.asked, words.known if by_words else None, vector, words.quotes)

    def _rerank(self, question: Question, fused: Sequence[Candidate], reasons: list[str]) -> None:
        reranker = self._index.reranker
        if reranker is None or question.mode == "keyword" or not fused:
            return
        first = fused[:_RERANKED]
        texts = [f"{each.found.title}\n{each.found.heading}\n{each.found.text}"[:_RERANK_LETTERS] for each in first]
        try:
            ranking.reranked(fused, reranker.rerank(question.text, texts, _RERANK_SECONDS), reranker.name)
        except EmbeddingError as error:
            reasons.append(f"not reranked: {error}")

    def near(self, vector: Vectors, limit: int = 5) -> list[tuple[Found, float]]:
        """Return the chunks nearest to a passage's vector with their scores."""
        self.used = time.monotonic()
        with self._index.catalog.reading():
            if self._index.catalog.fingerprint != self._index.embedder.fingerprint:
                return []  # nothing there can be compared with it
            best = self._nearest.chunks(vector, self._index.visible, limit, [])
        scored = [(each, score(cosine, self._index.embedder.scale)) for chunks, cosine in best for each in chunks]
        return sorted(scored, key=lambda pair: (-pair[1], pair[0].id))[:limit]

    def _embedded(self, text: str) -> Vectors:
        with self._guard:
            if text in self._asked:
                self._asked.move_to_end(text)
                return self._asked[text]
        vector = self._index.embedder.embed_query(text)
        self._index.fits(len(vector))
        with self._guard:
            self._asked[text] = vector
            while len(self._asked) > 256:
                self._asked.popitem(last=False)
        return vector

    # -- the legs

    def _semantic(
        self, vector: Vectors, limits: Sequence[Condition], question: Question, reasons: list[str]
    ) -> dict[int, tuple[Found, Leg]]:
        wanted = max(_POOL, question.limit * 4)
        result: dict[int, tuple[Found, Leg]] = {}
        for chunks, cosine in self._nearest.chunks(vector, limits, wanted, reasons):
            leg = Leg(len(result) + 1, score(cosine, self._index.embedder.scale))
            result |= {found.chunk: (found, leg) for found in chunks}
        return result

    def _scores_of(self, vector: Vectors, chunks: Iterable[Found]) -> dict[int, Leg]:
        """Semantic scores of chunks that only the words found."""
        listed = list(chunks)
        cosines = self._nearest.cosines(vector, [chunk.key for chunk in listed])
        scale = self._index.embedder.scale
        return {chunk.chunk: Leg(0, score(cosines[chunk.key], scale)) for chunk in listed if chunk.key in cosines}

    def _keyword(self, question: Question, limits: Sequence[Condition], counts: Counts, near: Sequence[int], also: Sequence[int]) -> _Words:
        """Chunks by bm25 over the sum of the terms' idf, in 0..1; those `near`, and `also` others, get their score whatever their rank."""
        catalog = self._index.catalog
        phrases = fts_query.phrases(question.keywords, all=question.match_all)
        form = fts_query.unprompted if question.unprompted else str
        query = phrases if question.keywords else fts_query.parse(question.text)
        chosen = query.chosen(lambda part: catalog.frequency(form(part)))
        asked = [Word(part, count, _idf(counts.chunks, count)) for part, count in zip(chosen.parts, chosen.frequencies, strict=True)]
        expression = form(chosen.expression) if chosen.expression else ""
        wanted = max(_POOL, question.limit * 4)
        rows = catalog.match(expression, limits, wanted, near) if expression else []
        most = sum(word.weight for word in asked)
        ranked = {number: rank for rank, (number, _) in enumerate(rows[:wanted], 1)}
        missing = {*also}.difference(number for number, _ in rows) if expression else ()
        rows += catalog.match_among(expression, [*missing]) if missing else []
        shares = [(number, bm25 / most) for number, bm25 in rows]
        legs = {number: Leg(ranked.get(number, 0), min(1.0, share), max(0.0, round(share - 1, 4))) for number, share in shares}
        return _Words(legs, tuple(asked), chosen.quotes)


def _idf(total: int, frequency: int) -> float:
    # As FTS5's bm25 has it, its floor included.
    return max(1e-6, math.log((total - frequency + 0.5) / (frequency + 0.5)))


@dataclass(frozen=True, slots=True)
class _Written:
    """What a question is written in: the shares of its scripts, and its language where a script is that of several."""

    scripts: Mapping[str, float]
    language: str

    @classmethod
    def of(cls, text: str) -> _Written:
        """Tell it of a question."""
        return cls(terms.scripts(text), languages.language(text))

    def foreign(self, chunk: Found, words: float) -> float:
        """Return how far, 0..1, `chunk` is in other scripts, or another language; `words` of the question in it speak against that."""
        if not self.scripts:
            return 0.0
        has = _scripts(f"{chunk.title} {chunk.heading} {chunk.text[:_SAMPLED]}"[::_EACH])
        foreign = 1 - sum([min(share, _PRESENT * has.get(script, 0.0)) for script, share in self.scripts.items()])
        if self.language and foreign < 1 and words < _ITS_WORDS and languages.language(chunk.text) not in {"", self.language}:
            return 1.0
        return foreign


@lru_cache(maxsize=_REMEMBERED)
def _scripts(sample: str) -> Mapping[str, float]:
    return MappingProxyType(terms.scripts(sample))


def hits(question: Question, found: Ranked) -> list[Candidate]:
    """Return the candidates that are hits at all."""
    candidates = [each for each in found.candidates if each.keyword] if found.quotes or question.mode == "keyword" else found.candidates
    if question.min_score is not None:
        # A word that most chunks hold is worth nothing beside a rare one, yet whoever asks for it finds it.
        least = question.min_score
        return [each for each in candidates if each.score >= least and (each.score > 0 or question.mode == "keyword")]
    if question.mode == "keyword":
        return candidates
    # Who names a drawer wants to see what is in it, best first; and words alone cannot tell what has to do with a question.
    if question.filter or found.vector is None:
        return [each for each in candidates if each.score > 0]
    return ranking.related(candidates, found.expected, found.counts.chunks)


def nearly(question: Question, found: Ranked) -> list[Candidate]:
    """Return the few candidates that come nearest to being hits, of a question that itself says neither how near nor in which words."""
    if question.min_score is not None or found.quotes:
        return []
    # By its words alone a text that is not embedded yet seems surer than its score says.
    near = [each for each in found.candidates if min(each.score, each.evidence(found.expected)) >= ranking.WEAK]
    return ranking.choose(near, min(_PERHAPS, question.limit))


def _weights(question: Question, found: Ranked) -> dict[str, float]:
    """Return what a sentence is worth to a question by its words: those asked for, else all of it."""
    asked = {word.text.strip('"*').casefold(): word.weight for word in found.words if word.chunks}
    return asked or dict.fromkeys(terms.terms(question.text), 1.0)
