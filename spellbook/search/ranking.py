"""
Ranking: rerank, adjust scores in shares that add up, put successors first.

Candidates are values: each step returns others, and changes none.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from types import MappingProxyType

from spellbook.index.catalog.rows import NO_TEXT, StoredChunk
from spellbook.index.catalog.usage import Use
from spellbook.index.filters import instant, validity
from spellbook.index.privacy import is_session, lapsed
from spellbook.models.base import Reranker
from spellbook.notes import dialogue
from spellbook.notes.frontmatter import IMPORTANCE
from spellbook.notes.labels import CHECKPOINT
from spellbook.search import weights
from spellbook.search.related import Superseded, is_superseded
from spellbook.search.scores import STEP, Candidate, outcome
from spellbook.system.errors import EmbeddingError
from spellbook.text import terms
from spellbook.text.quoting import counted

_DAY = 86_400.0


def rerank(fused: Sequence[Candidate], question: str, reranker: Reranker, reasons: list[str]) -> list[Candidate]:
    """
    Return candidates, best first, with the scores of the first ones moved towards those of the reranker.

    If it fails, `reasons` get the error.
    """
    fused = sorted(fused, key=lambda candidate: candidate.order)
    texts = [
        f"{one.chunk.title}\n{one.chunk.heading}\n{one.chunk.text}"[: weights.RERANK_LETTERS]
        for one in fused[: weights.RERANKED]
    ]
    try:
        scores = reranker.rerank(question, texts, weights.RERANK_SECONDS) if texts else []
    except EmbeddingError as error:
        reasons.append(f"not reranked: {error}")
        return fused
    seen = [
        one.plus(f"reranked {value:.2f} by {reranker.name}", weights.RERANK_WEIGHT * (value - one.score))
        for one, value in zip(fused, scores, strict=False)
    ]
    least = min((one.score for one in seen), default=0.0)
    rest = fused[len(seen) :]
    return [*seen, *(one.plus(f"not seen by {reranker.name}", min(0.0, least - one.score)) for one in rest)]


def adjust(
    candidates: Sequence[Candidate], half_lives: Mapping[str, float], uses: Mapping[str, Use], now: float
) -> list[Candidate]:
    """
    Return the candidates with scores adjusted by importance, outcome, pins, use and age.

    `half_lives` are days by type or category, and override those of `weights`. `uses` are by note id. `now` is in
    seconds since 1970. Only a note with a date in its frontmatter ages, counted from its last use: file times change
    with every clone of the vault.
    """
    lives = ({**weights.HALF_LIVES_OF_TYPES, **half_lives}, {**weights.HALF_LIVES, **half_lives})
    return [_adjusted(one, lives, uses.get(one.chunk.note), now) if one.score else one for one in candidates]


_Lives = tuple[Mapping[str, float], Mapping[str, float]]
"""Half-lives in days by type, and by category."""


def _adjusted(candidate: Candidate, lives: _Lives, use: Use | None, now: float) -> Candidate:
    chunk, base = candidate.chunk, candidate.score
    session = is_session(chunk.meta)
    is_pinned = chunk.meta.get("pinned") is True and not session
    if chunk.importance != IMPORTANCE:
        gain = weights.IMPORTANCE * (chunk.importance - IMPORTANCE)
        candidate = candidate.plus(f"importance {chunk.importance:g}", gain)
    if result := outcome(chunk):
        candidate = candidate.plus(f"outcome {result}", weights.OUTCOMES[result], even_nothing=True)
    if use is not None:
        fresh = 0.5 ** (max(0.0, now - use.last) / _DAY / weights.FORGOTTEN_DAYS)
        opened = min(weights.MOST_OPENED, weights.OPENED * math.log2(1 + use.times))
        candidate = candidate.plus("opened before", opened * fresh)
    if is_pinned:
        return candidate.plus("pinned", weights.PINNED)  # it does not age
    if session:
        candidate = candidate.plus(weights.SESSION, -weights.SESSION_LOSS * base)
    life = _half_life(chunk, lives)
    written = instant(chunk.updated or chunk.created) if life < math.inf else None
    if written is None or written >= now:
        return candidate
    days = (now - (max(written, min(now, use.last)) if use else written)) / _DAY
    return candidate.plus(f"{counted(round(days), 'day')} old", -weights.FADED * base * (1 - 0.5 ** (days / life)))


def _half_life(chunk: StoredChunk, lives: _Lives) -> float:
    """Return days by a note's type, of several by the first, else by category. A session ages like a working memory."""
    of_types, of_categories = lives
    kind = "working" if is_session(chunk.meta) else chunk.meta.get("type")
    kind = next(iter(kind), "") if isinstance(kind, list) else kind
    name = kind.strip().casefold() if isinstance(kind, str) else ""
    return (name and of_types.get(name)) or of_categories.get(chunk.category, of_categories[""])


def lower(candidates: Sequence[Candidate], inflected: Collection[int]) -> list[Candidate]:
    """Return the candidates, the chunks `inflected`, by number, below those that have the words as they were asked."""
    exact = [one.score for one in candidates if one.keyword and one.chunk.number not in inflected]
    share = min([1 + STEP, *exact]) - STEP
    return [
        one.plus("with another particle", (share - 1) * one.score, even_nothing=True)
        if one.chunk.number in inflected
        else one
        for one in candidates
    ]


def lower_titles(candidates: Sequence[Candidate], alike: float) -> list[Candidate]:
    """
    Return the candidates, notes without text below texts whose score by words is at least `alike` of theirs.

    They lose at any rate.
    """
    texts = [one for one in candidates if one.chunk.key != NO_TEXT and one.keyword]

    def lowered(stub: Candidate) -> Candidate:
        least = alike * stub.keyword.score if stub.keyword else 1.0
        above = (one.score for one in texts if one.keyword and one.keyword.score >= least)
        return stub.below("it has no text but a title", (1 - weights.NO_TEXT_LOSS) * stub.score, above)

    return [lowered(one) if one.chunk.key == NO_TEXT else one for one in candidates]


def lower_listings(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates, listings as `index.md` below the notes of their folders that match nearly as well."""
    notes = [one for one in candidates if not one.is_listing]
    if len(notes) == len(candidates):
        return notes

    def lowered(listing: Candidate) -> Candidate:
        folder, least = listing.chunk.path[: listing.chunk.path.rfind("/") + 1], weights.LISTED * listing.score
        above = (one.score for one in notes if one.score >= least and one.chunk.path.startswith(folder))
        return listing.below("a listing of its folder", listing.score, above)

    return [lowered(one) if one.is_listing else one for one in candidates]


def weigh_turns(candidates: Sequence[Candidate], question: str) -> list[Candidate]:
    """
    Return the candidates, turns of a conversation by who speaks: with a gain if the `question` names the speaker.

    An assistant's answers lose: where a person's own words match as well, these are what is to be remembered.
    """
    asked = set(terms.terms(question)) - terms.STOP_WORDS

    def weighed(candidate: Candidate) -> Candidate:
        heading = candidate.chunk.heading
        if not dialogue.is_conversation(candidate.chunk.meta):
            return candidate
        name = dialogue.speaker(heading)
        if not asked.isdisjoint(terms.terms(name)):
            return candidate.plus(f"the question names {name}", weights.SPOKEN)
        if dialogue.is_answer(heading):
            return candidate.plus("an assistant's answer", -weights.SESSION_LOSS * candidate.score)
        return candidate

    return [*map(weighed, candidates)]


# -- what supersedes a note


_Notes = dict[str, list[Candidate]]
"""Candidates by the paths of their notes, the best of each first."""


def supersede(
    candidates: Sequence[Candidate],
    superseded: Mapping[str, Superseded],
    during: Sequence[float],
    later: Mapping[str, Superseded] = MappingProxyType({}),
) -> list[Candidate]:
    """
    Return the candidates, best first, the successors of a note right above it.

    `superseded` maps paths of notes, successors first. A successor with a lower score is lifted to its predecessor's
    score; the predecessor loses just enough to stand below. A note loses a share of its score if it does not hold
    `during` the time of the question, says itself that it is superseded, or has a hidden successor. With `during` empty
    all are known to hold. A note that is superseded only `later` says so, and keeps its place.
    """
    notes: _Notes = defaultdict(list)
    if superseded:
        candidates = sorted(candidates, key=lambda one: one.order)
    for candidate in candidates:
        notes[candidate.chunk.path].append(candidate)
    above: dict[str, list[str]] = {}
    for path, known in superseded.items():
        above[path] = [one for by in sorted(known.above) for one in ([by] if by in notes else above.get(by, ()))]
    others = _lift_successors(notes, above)
    if during:
        for path, there in notes.items():
            notes[path] = [_unless_holding(one, path in superseded, during) for one in there]
    for path, known in superseded.items():
        if path in notes and path not in others:
            successors = [notes[by][0].score for by in above[path]]
            notes[path] = [_below_successors(one, known, successors) for one in notes[path]]
    for path in (later.keys() - superseded.keys()) & notes.keys():
        notes[path] = [one._replace(superseded=later[path]) for one in notes[path]]
    return sorted(chain(*notes.values()), key=lambda one: one.order)


def _lift_successors(notes: _Notes, above: dict[str, list[str]]) -> set[str]:
    """Lift the best candidates of successors in `notes`; return the checkpoints whose next one is of other work."""
    others = set()
    for path in (each for each in reversed(above) if each in notes):
        for by in above[path]:
            old, new = notes[path][0], notes[by][0]
            # Of two checkpoints one may be about other work: one in 30 supersedes one that is.
            are_checkpoints = {old.chunk.category, new.chunk.category} == {CHECKPOINT}
            if are_checkpoints and new.score < weights.OTHER_WORK * old.score:
                others.add(path)
            else:
                new = new._replace(replaces=new.replaces | {path})
                notes[by][0] = new.plus(f"supersedes {path}", max(0.0, old.score - new.score))
    return others


def _unless_holding(candidate: Candidate, is_known: bool, during: Sequence[float]) -> Candidate:
    """Return a candidate, with less score if its note did not hold `during` a time; `is_known` to be superseded."""
    first, last, words = validity(candidate.chunk.meta)
    if gone := lapsed(candidate.chunk.meta, during[0]):
        return candidate.plus(gone, -weights.LAPSED * candidate.score)
    if last < during[0] or during[1] < first:
        return candidate.plus(words, -weights.SUPERSEDED * candidate.score)
    if not is_known and is_superseded(candidate.chunk):
        return candidate.plus("superseded", -weights.SUPERSEDED * candidate.score)
    return candidate


def _below_successors(candidate: Candidate, known: Superseded, scores: Sequence[float]) -> Candidate:
    """Return a candidate of a superseded note below the `scores` of its successors."""
    candidate = candidate._replace(superseded=known)
    if known.by:
        return candidate.below(f"superseded by {known.by[0]}", candidate.score, scores)
    return candidate.below("superseded", (1 - weights.SUPERSEDED) * candidate.score, scores)
