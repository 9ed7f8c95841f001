"""Ranking: adjust scores of candidates in shares that add up, put successors first, choose the hits. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.catalog.usage import Use
from spellbook.index.filters import fold, instant, validity
from spellbook.index.privacy import is_session
from spellbook.notes.labels import CHECKPOINT
from spellbook.search import weights
from spellbook.search.related import Superseded, is_superseded
from spellbook.search.scores import Candidate
from spellbook.text.quoting import counted

T = TypeVar("T")

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

    `text` is the shown text of the chunk, "" where an answer has no room for it. `backlinks` counts the notes that link
    to its note. On the first hit of a note, `further` are its other chunks that would be hits, best first, and
    `properties` its own properties on one line. `neighbours` are those that `related.neighbours` returns.
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
        """The importance as its note spells it, "medium" without one."""
        level = self.chunk.meta.get("importance")
        return level if isinstance(level, str | int | float) and not isinstance(level, bool) else "medium"

    @property
    def outcome(self) -> str:
        """The outcome of its note's decision; see `outcome`."""
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


def hit_of(candidate: Candidate) -> Hit:
    """Return a candidate as a hit with its whole text."""
    chunk = candidate.chunk
    why = {**candidate.legs, "adjustments": candidate.adjustments}
    if by_text := candidate.by_text:
        why["texts"] = [{"text": text, "score": score} for text, score in by_text.items()]
    if candidate.superseded or is_superseded(chunk):
        by = candidate.superseded.by if candidate.superseded else None
        why["superseded_by"] = dict(zip(("path", "id", "title"), by or (), strict=False))
    return Hit(chunk, candidate.score, why, chunk.text)


def adjust(
    candidates: Sequence[Candidate], half_lives: Mapping[str, float], uses: Mapping[str, Use], now: float
) -> None:
    """
    Adjust the scores by importance, outcome, pins, use and age.

    `half_lives` are days by type or category, and override those of `weights`. `uses` are by note id. `now` is in
    seconds since 1970. Only a note with a date in its frontmatter ages, counted from its last use: file times change
    with every clone of the vault.
    """
    of_types = {**weights.HALF_LIVES_OF_TYPES, **half_lives, "": 0.0}
    of_categories = {**weights.HALF_LIVES, **half_lives}
    for candidate in candidates:
        chunk, base = candidate.chunk, candidate.score
        if not base:
            continue
        use, session = uses.get(chunk.note), is_session(chunk.meta)
        is_pinned = chunk.meta.get("pinned") is True and not session
        if chunk.importance != 0.5:
            candidate.add(f"importance {chunk.importance:g}", weights.IMPORTANCE * (chunk.importance - 0.5))
        if result := outcome(chunk):
            candidate.add(f"outcome {result}", weights.OUTCOMES[result], even_nothing=True)
        if use is not None:
            fresh = 0.5 ** (max(0.0, now - use.last) / _DAY / weights.FORGOTTEN_DAYS)
            opened = min(weights.MOST_OPENED, weights.OPENED * math.log2(1 + use.times))
            candidate.add("opened before", opened * fresh)
        if is_pinned:
            candidate.add("pinned", weights.PINNED)
        if session:
            candidate.add(weights.SESSION, -weights.SESSION_LOSS * base)
        # A half-life in days: by type, of several by the first, else by category. A session ages like a working memory.
        kind = "working" if session else chunk.meta.get("type")
        kind = next(iter(kind), "") if isinstance(kind, list) else kind
        by_type = of_types.get(kind.strip().casefold()) if isinstance(kind, str) else None
        life = math.inf if is_pinned else by_type or of_categories.get(chunk.category, of_categories[""])
        written = math.inf if life == math.inf else instant(chunk.updated or chunk.created)
        if written is not None and written < now:
            days = (now - (max(written, min(now, use.last)) if use else written)) / _DAY
            candidate.add(f"{counted(round(days), 'day')} old", -weights.FADED * base * (1 - 0.5 ** (days / life)))


def outcome(chunk: StoredChunk) -> str:
    """Return the outcome of a note's decision: a key of weights.OUTCOMES, "" for none."""
    declared = chunk.meta.get("outcome")
    result = "" if declared is None else fold(declared)
    return result if result in weights.OUTCOMES else ""


# -- what supersedes a note


def supersede(
    candidates: Sequence[Candidate], superseded: Mapping[str, Superseded], during: Sequence[float]
) -> list[Candidate]:
    """
    Put the successors of a note right above it, and return the candidates, best first.

    `superseded` maps paths of notes, successors first. A successor with a lower score is lifted to its predecessor's
    score; the predecessor loses just enough to stand below. A note loses a share of its score if it does not hold
    `during` the time of the question, says itself that it is superseded, or has a hidden successor. With `during` empty
    all are known to hold.
    """
    of_note: dict[str, list[Candidate]] = {}
    for candidate in candidates if superseded else ():
        of_note.setdefault(candidate.chunk.path, []).append(candidate)
    best = {path: min(there, key=lambda one: one.order) for path, there in of_note.items()}
    above: dict[str, list[str]] = {}
    for path, known in superseded.items():
        above[path] = [one for by in sorted(known.above) for one in ([by] if by in best else above.get(by, ()))]
    others = set()
    for path in reversed(above):
        for by in above[path] if path in best else ():
            old, new = best[path], best[by]
            # Of two checkpoints one may be about other work: one in 30 supersedes one that is.
            are_checkpoints = {old.chunk.category, new.chunk.category} == {CHECKPOINT}
            if are_checkpoints and new.score < weights.OTHER_WORK * old.score:
                others.add(path)
            else:
                new.replaces |= {path}
                new.add(f"supersedes {path}", max(0.0, old.score - new.score))
    for candidate in candidates if during else ():
        first, last, words = validity(candidate.chunk.meta)
        is_lapsed = last < during[0] or during[1] < first
        if is_lapsed or (candidate.chunk.path not in superseded and is_superseded(candidate.chunk)):
            candidate.add(words if is_lapsed else "superseded", -weights.SUPERSEDED * candidate.score)
    for path, known in superseded.items():
        bound = min((best[by].score - 0.0001 for by in above[path]), default=math.inf)
        for candidate in of_note.get(path, ()) if path not in others else ():
            candidate.superseded = known
            least = math.inf if known.by else (1 - weights.SUPERSEDED) * candidate.score
            less = min(0.0, min(bound, least) - candidate.score)
            candidate.add(f"superseded by {known.by[0]}" if known.by else "superseded", less)
    return sorted(candidates, key=lambda candidate: candidate.order)


def among(candidates: Sequence[Candidate], chosen: Sequence[Candidate]) -> list[Candidate]:
    """Return the chosen candidates and the candidates that supersede one of them, best first."""
    replacing = [one for one in candidates if one.replaces]
    if not replacing:
        return [*chosen]
    kept, paths = {one.chunk.number for one in chosen}, {one.chunk.path for one in chosen}
    for candidate in reversed(replacing):
        if candidate.replaces & paths:
            kept.add(candidate.chunk.number)
            paths.add(candidate.chunk.path)
    return [one for one in candidates if one.chunk.number in kept]


# -- the choice


def least(chunks: int) -> float:
    """Return the evidence that the best of so many `chunks` needs: with more of them, one is nearer by chance."""
    tens = math.log10(max(1, chunks))
    return min(weights.FEW + weights.FEW_TENFOLD * tens, weights.MANY + weights.MANY_TENFOLD * tens)


def related(candidates: Sequence[Candidate], chunks: int) -> list[Candidate]:
    """Return candidates near the best, or with enough evidence; none, unless one of them has enough."""
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

    With `few`, at most two of the first five are from captured sessions; the others wait until five are chosen. From
    its second chunk on, a note loses score for each further place, and so does a text that repeats a chosen one. Either
    takes another note's place only if it is better even so.
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
        sessions = sum(is_session(one.chunk.meta) for one in chosen)
        is_full = len(chosen) < weights.FIRST_HITS and sessions >= weights.MOST_SESSIONS
        for i, candidate in enumerate(left):
            if few and is_full and is_session(candidate.chunk.meta):
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
