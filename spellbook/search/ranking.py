"""
Ranking: fuse the two legs into one score, adjust it, and choose the hits. Every share of a score has a name.

Scores are absolute: they do not depend on other candidates, except where an
adjustment says so. The shares of a hit add up to its score. Pure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from spellbook.index.catalog.schema import StoredChunk
from spellbook.index.catalog.usage import Use
from spellbook.index.filters import fold, instant
from spellbook.search import weights
from spellbook.search.presentation import FOREIGN, SESSION, is_session
from spellbook.search.related import Superseded
from spellbook.search.text_scores import NO_PARTS, Leg, Match, Parts, Share
from spellbook.text.quoting import counted

T = TypeVar("T")
Mode = Literal["semantic", "keyword", "both"]

_BACKWARDS = {letter: 0x10FFFF - letter for letter in range(128)}
"""Inverts the digits of an ISO date, so that newer dates sort first."""

_DAY = 86_400.0


class _OfChunk(Generic[T]):
    """An attribute that a hit takes from its chunk under the same name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, hit: Hit, owner: type) -> T:
        value: T = getattr(hit.chunk, self._name)
        return value


@dataclass(frozen=True, slots=True)
class Hit:
    """
    A chunk that was found, its score in 0..1, and why: the shares of its legs and adjustments.

    `text` is what an answer shows of the chunk, "" where it has no room for it. `backlinks` counts the notes that link
    to its note. On the first hit of a note, `further` are chunks of it that would be hits too and are not listed, best
    first, and `properties` its own properties on one line. `neighbours` are those that `related.neighbours` returns.
    """

    chunk: StoredChunk
    score: float
    why: Mapping[str, Any]
    text: str
    backlinks: int = 0
    further: tuple[StoredChunk, ...] = ()
    properties: str = ""
    neighbours: dict[str, dict[str, str]] = field(default_factory=dict)

    id = _OfChunk[str]()
    path = _OfChunk[str]()
    line = _OfChunk[int]()
    title = _OfChunk[str]()
    heading = _OfChunk[str]()
    topic = _OfChunk[str]()
    category = _OfChunk[str]()
    keywords = _OfChunk[tuple[str, ...]]()
    tags = _OfChunk[tuple[str, ...]]()
    created = _OfChunk[str | None]()
    updated = _OfChunk[str | None]()
    hash = _OfChunk[str]()
    source = _OfChunk[str]()

    @property
    def importance(self) -> str | float:
        """The importance as its note says it, "medium" if it does not."""
        level = self.chunk.meta.get("importance")
        return level if isinstance(level, str | int | float) and not isinstance(level, bool) else "medium"

    @property
    def outcome(self) -> str:
        """How what its note decided turned out; see `outcome`."""
        return outcome(self.chunk)

    def as_dict(self) -> dict[str, Any]:
        """Return the hit as the command line's JSON shows it."""
        values = {name: getattr(self, name) for name in _SHOWN} | self.neighbours
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


_SHOWN = (
    *("id", "path", "line", "title", "heading", "score", "text", "why", "topic", "category"),
    *("keywords", "tags", "importance", "created", "updated", "hash", "backlinks", "properties"),
)
"""The names of a hit in JSON."""


@dataclass(slots=True)
class Candidate:
    """
    A chunk that may become a hit; `score` is the sum of the shares of `legs` and `adjustments`.

    `matches` say what each text of the question has to do with it, the question itself first. `superseded` says what
    supersedes its note, if anything does, and `replaces` has the paths of what its note supersedes. `fused` are the
    weights of its legs. `changes` are the adjustments; most are never shown, so their reasons may be made when they are
    read. `last` is the end of `order`, once it was asked for.
    """

    chunk: StoredChunk
    matches: Sequence[Match]
    score: float = 0.0
    fused: tuple[float, float] = (0.0, 0.0)
    changes: tuple[tuple[str | Callable[[], str], float], ...] = ()
    superseded: Superseded | None = None
    replaces: frozenset[str] = frozenset()
    last: tuple[str, str] | None = None

    @property
    def semantic(self) -> Leg | None:
        """What the question itself has to do with it by meaning."""
        return self.matches[0].semantic

    @property
    def keyword(self) -> Leg | None:
        """What the question itself has to do with it by words."""
        return self.matches[0].keyword

    @property
    def legs(self) -> dict[str, dict[str, Any]]:
        """Return the legs as an answer shows them: rank, score, share, and the parts that add up to the share."""
        legs = zip(("semantic", "keyword"), _legs(self.best()), self.fused, strict=True)
        return {name: Share(leg, parts, weight).as_dict() for name, (leg, parts), weight in legs if parts[0]}

    def scored(self) -> list[Scored]:
        """Return the scores by each text."""
        return [_scored(match, *self.fused) for match in self.matches]

    def best(self) -> list[Scored]:
        """Return the scores that count: of several texts the best ones."""
        scored = self.scored()
        return scored if len(scored) == 1 else sorted(scored, key=lambda one: -one.score)[: weights.JOINED]

    @property
    def by_text(self) -> dict[str, float]:
        """The score by each text of a question of several."""
        return {one.match.text: round(one.score, 4) for one in self.scored()} if len(self.matches) > 1 else {}

    @property
    def adjustments(self) -> list[dict[str, Any]]:
        """Return the adjustments as an answer shows them."""
        said = [(reason if isinstance(reason, str) else reason(), share) for reason, share in self.changes]
        return [{"reason": reason, "share": share} for reason, share in said]

    def add(self, reason: str | Callable[[], str], share: float, *, even_nothing: bool = False) -> None:
        """Add `share` to the score, within 0..1, and record the reason unless it adds nothing."""
        whole = self.score + share
        share = round((0.0 if whole < 0 else 1.0 if whole > 1 else whole) - self.score, 4)
        if share or even_nothing:
            self.changes = (*self.changes, (reason, share))
            self.score = round(self.score + share, 4)

    def evidence(self) -> float:
        """Return the evidence, 0..1, that it answers; of several texts the mean of the best two. See `Match`."""
        if len(self.matches) == 1:
            return self.matches[0].evidence()
        return _mean(sorted((match.evidence() for match in self.matches), reverse=True)[: weights.JOINED])

    @property
    def order(self) -> tuple[float, float, float, str, str]:
        """Sort key: best first, and newest first among equals."""
        first = self.matches[0]
        if self.last is None:
            newest = (self.chunk.updated or self.chunk.created or "").translate(_BACKWARDS) or "\U0010ffff"
            self.last = newest, self.chunk.id
        # Titles lift equal notes to 1 together. The last digits of a cosine say nothing.
        text = round(first.semantic.score, 4) if first.semantic else 0.0
        return -self.score, -first.keyword.beyond if first.keyword else 0.0, -text, *self.last

    def hit(self) -> Hit:
        """Return it as a hit with its whole text."""
        why = {**self.legs, "adjustments": self.adjustments}
        if by_text := self.by_text:
            why["texts"] = [{"text": text, "score": score} for text, score in by_text.items()]
        if self.superseded or is_superseded(self.chunk):
            by = self.superseded.by if self.superseded else None
            why["superseded_by"] = dict(zip(("path", "id", "title"), by or (), strict=False))
        return Hit(self.chunk, self.score, why, self.chunk.text)


def fuse(candidates: Iterable[Candidate], mode: Mode, *, by_words_only: bool = False) -> list[Candidate]:
    """
    Score each candidate by the weighted sum of its legs, with credit for another language; return them as they come.

    Of several texts the best two count, by the mean of their scores.
    """
    legs = {"semantic": (1.0, 0.0), "keyword": (0.0, 1.0), "both": (weights.SEMANTIC, weights.KEYWORD)}[mode]
    semantic, keyword = (0.0, 1.0) if by_words_only else legs
    fused = list(candidates)
    for candidate in fused:
        candidate.fused = semantic, keyword
        best = candidate.best()
        if len(best) == 1:
            _, credit, _, _, _, by_meaning, by_words = best[0]
        else:
            credit = _mean([one.credit for one in best])
            by_meaning, by_words = (sum(values) for _, (_, values) in _legs(best))
        candidate.score = round(round(semantic * by_meaning, 4) + round(keyword * by_words, 4), 4)
        if credit:
            candidate.add(FOREIGN, credit)
    return fused


class Scored(NamedTuple):
    """A text's score of a chunk; in it, the credit for another language, parts and sums."""

    score: float
    credit: float
    match: Match
    meaning: Parts
    words: Parts
    by_meaning: float
    by_words: float


def _scored(match: Match, semantic: float, keyword: float) -> Scored:
    meaning, words = match.meaning() if semantic else NO_PARTS, match.words() if keyword else NO_PARTS
    by_meaning, by_words = sum(meaning[1]), sum(words[1])
    credit = 0.0
    if semantic and keyword and match.foreign and meaning[0]:
        # The estimated score by words, if the chunk were in the question's language.
        credit = keyword * max(0.0, match.foreign * weights.CREDITED * by_meaning - by_words)
    score = semantic * by_meaning + keyword * by_words + credit
    return Scored(score, credit, match, meaning, words, by_meaning, by_words)


def _legs(best: Sequence[Scored]) -> list[tuple[Leg | None, Parts]]:
    """Return the legs by meaning and by words of the best texts, with the means of their parts."""
    by_meaning = [(one.match.semantic, one.meaning) for one in best]
    by_words = [(one.match.keyword, one.words) for one in best]
    return [of_texts[0] if len(best) == 1 else _mean_parts(of_texts) for of_texts in (by_meaning, by_words)]


def _mean_parts(of_texts: Sequence[tuple[Leg | None, Parts]]) -> tuple[Leg | None, Parts]:
    """Return the best leg of several texts, and the mean of each part."""
    known = [dict(zip(*parts, strict=True)) for _, parts in of_texts]
    names = tuple(dict.fromkeys(name for parts in known for name in parts))
    leg = min((leg for leg, _ in of_texts if leg), key=lambda leg: leg.rank or math.inf, default=None)
    return leg, (names, tuple(_mean([parts.get(name, 0.0) for parts in known]) for name in names))


def _mean(numbers: Sequence[float]) -> float:
    """Return the mean of numbers."""
    return sum(numbers) / len(numbers)


def rerank(candidates: Sequence[Candidate], scores: Sequence[float], name: str) -> None:
    """Move the first candidates' scores towards a reranker's `scores`, 0..1; the others stay behind them."""
    for candidate, score in zip(candidates, scores, strict=False):
        candidate.add(f"reranked {score:.2f} by {name}", weights.RERANK_WEIGHT * (score - candidate.score))
    least = min((candidate.score for candidate in candidates[: len(scores)]), default=0.0)
    for candidate in candidates[len(scores) :]:
        candidate.add(f"not seen by {name}", min(0.0, least - candidate.score))


class Lives(NamedTuple):
    """Half-lives in days, by category ("" for all others) and by a note's type, which goes before it."""

    of_categories: Mapping[str, float]
    of_types: Mapping[str, float]

    @classmethod
    def of(cls, half_lives: Mapping[str, float]) -> Lives:
        """Return those of `weights`, overridden by the settings'. A category of the name of a type is no type."""
        types = {**weights.HALF_LIVES_OF_TYPES, **half_lives, "": 0.0}
        return cls({**weights.HALF_LIVES, **half_lives}, types)


def age(chunk: StoredChunk, lives: Lives, use: Use | None, now: float) -> tuple[float, float] | None:
    """
    Return the days since a note was written or last used, and the share of its recency that is left.

    None for a note that does not age: one without a date, of the future, pinned, or with a half-life without end.
    """
    session = is_session(chunk)  # which ages like a working memory, pinned or not
    written, kind = instant(chunk.updated or chunk.created), "working" if session else chunk.meta.get("type")
    if isinstance(kind, list):
        kind = next(iter(kind), "")  # the first of several
    by_type = lives.of_types.get(kind.strip().casefold()) if isinstance(kind, str) else None
    life = by_type or lives.of_categories.get(chunk.category, lives.of_categories[""])
    if written is None or written >= now or life == math.inf or (chunk.meta.get("pinned") is True and not session):
        return None
    days = (now - (max(written, min(now, use.last)) if use else written)) / _DAY
    return days, 0.5 ** (days / life)


def adjust(
    candidates: Sequence[Candidate], half_lives: Mapping[str, float], uses: Mapping[str, Use], now: float
) -> list[Candidate]:
    """
    Adjust by importance, outcome, pins, use and age; return the best first.

    `half_lives` are days by type or category, and override those of `weights`. A note's `type` goes before its
    category. `uses` are by note id. `now` is in seconds since 1970. Only a note with a date in its frontmatter ages,
    counted from its last use: file times change with every clone of the vault.
    """
    lives = Lives.of(half_lives)
    of_note: dict[str, tuple[list[_Adjustment], tuple[float, float] | None]] = {}
    for candidate in candidates:
        chunk, base = candidate.chunk, candidate.score
        if not base:
            continue
        if (known := of_note.get(chunk.path)) is None:
            known = of_note[chunk.path] = _changes(chunk, lives, uses.get(chunk.note), now)
        changes, aged = known
        for reason, share, even_nothing in changes:
            candidate.add(reason, share, even_nothing=even_nothing)
        if is_session(chunk):
            candidate.add(SESSION, -weights.SESSION_LOSS * base)
        if aged:
            days, left = aged
            candidate.add(partial(_old, days), -weights.FADED * base * (1 - left))
    return sorted(candidates, key=lambda candidate: candidate.order)


class _Adjustment(NamedTuple):
    """What is added to a score and why; the reason is told of a share of 0 if `even_nothing`."""

    reason: str
    share: float
    even_nothing: bool = False


def _changes(
    chunk: StoredChunk, lives: Lives, use: Use | None, now: float
) -> tuple[list[_Adjustment], tuple[float, float] | None]:
    """Return what a note adds to its chunks' scores, and its age."""
    changes = []
    if chunk.importance != 0.5:
        share = weights.IMPORTANCE * (chunk.importance - 0.5)
        changes.append(_Adjustment(f"importance {chunk.importance:g}", share))
    if result := outcome(chunk):
        changes.append(_Adjustment(f"outcome {result}", weights.OUTCOMES[result], True))
    if use is not None:
        fresh = 0.5 ** (max(0.0, now - use.last) / _DAY / weights.FORGOTTEN_DAYS)
        opened = min(weights.MOST_OPENED, weights.OPENED * math.log2(1 + use.count))
        changes.append(_Adjustment("opened before", opened * fresh))
    if chunk.meta.get("pinned") is True and not is_session(chunk):
        changes.append(_Adjustment("pinned", weights.PINNED))
    return changes, age(chunk, lives, use, now)


def _old(days: float) -> str:
    return f"{counted(round(days), 'day')} old"


def is_superseded(chunk: StoredChunk) -> bool:
    """Say whether a chunk's note itself says that it is superseded."""
    status = chunk.meta.get("status")
    return bool(chunk.meta.get("superseded_by")) or (status is not None and fold(status) == "superseded")


def outcome(chunk: StoredChunk) -> str:
    """Return how what a chunk's note decided turned out: a key of weights.OUTCOMES, "" if it does not say."""
    said = chunk.meta.get("outcome")
    result = "" if said is None else fold(said)
    return result if result in weights.OUTCOMES else ""


def least(chunks: int) -> float:
    """
    Return the evidence that the best of so many `chunks` needs for there to be any hits.

    With more chunks, the nearest one is nearer by chance. This bound lets through about the same share of
    questions off topic for every size of vault.
    """
    tens = math.log10(max(1, chunks))
    return min(weights.FEW + weights.FEW_TENFOLD * tens, weights.MANY + weights.MANY_TENFOLD * tens)


def related(candidates: Sequence[Candidate], chunks: int) -> list[Candidate]:
    """
    Return the candidates that are related to the question; none, unless one of them has enough evidence.

    One without enough of its own is left out if its score is far below the best.
    """
    enough = least(chunks)
    evidence = [(candidate, candidate.evidence()) for candidate in candidates]
    weak = [(one, found) for one, found in evidence if found >= min(weights.WEAK, enough)]
    if max((found for _, found in weak), default=0.0) < enough:
        return []
    near = weights.FAR_BELOW * max(one.score for one, _ in weak)
    return [one for one, found in weak if found >= enough or one.score >= near]


def choose(candidates: Sequence[Candidate], limit: int, per_note: int = 0, few: bool = True) -> list[Candidate]:
    """
    Choose up to `limit` of `candidates`, best first, and up to `per_note` of one note; 0 is no bound.

    If sessions shall be `few`, at most two of the first five are from captured sessions; the others wait until five are
    chosen. From its second chunk on, a note loses score for each further place. A text that repeats a chosen one loses
    score too. Either takes another note's place only if it is better even so.
    """
    left = list(candidates)
    chosen: list[Candidate] = []
    places: Counter[str] = Counter()
    texts: dict[str, str] = {}

    def costs(chunk: StoredChunk) -> list[tuple[str, float]]:
        further = places[chunk.path] - weights.FREE_PLACES + 1
        cost = min(weights.MOST_CROWDED, weights.CROWDED * further)
        crowded = [(f"chunk {further + weights.FREE_PLACES} of its note here", -cost)] if further > 0 else []
        twin = texts.get(chunk.key)
        return crowded + ([(f"repeats {twin}", -weights.REPEATED)] if twin is not None else [])

    while left and len(chosen) < limit:
        # Candidates without a cost are in order: the best is the first of them, or one with a cost before it.
        best, paid = -1, -1.0
        is_full = len(chosen) < weights.FIRST_HITS and sum(map(is_session, chosen)) >= weights.MOST_SESSIONS
        for i, candidate in enumerate(left):
            if few and is_full and is_session(candidate):
                continue
            cost = costs(candidate.chunk)
            worth = max(0.0, candidate.score + sum(share for _, share in cost))
            if worth > paid:
                best, paid = i, worth
            if not cost:
                break
        if best < 0:
            break
        candidate = left.pop(best)
        path = candidate.chunk.path
        for reason, share in costs(candidate.chunk):
            candidate.add(reason, share)
        places[path] += 1
        texts.setdefault(candidate.chunk.key, path)
        chosen.append(candidate)
        if places[path] == per_note:
            left = [other for other in left if other.chunk.path != path]
    return chosen
