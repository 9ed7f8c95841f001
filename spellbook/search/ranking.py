"""Ranking: rerank, adjust scores in shares that add up, put successors first, choose the hits. It writes nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from spellbook.index.catalog.rows import NO_TEXT, StoredChunk
from spellbook.index.catalog.usage import Use
from spellbook.index.filters import instant, validity
from spellbook.index.privacy import is_session, lapsed
from spellbook.models.base import Reranker
from spellbook.notes import dialogue
from spellbook.notes.labels import CHECKPOINT
from spellbook.search import weights
from spellbook.search.related import Superseded, is_superseded
from spellbook.search.scores import Candidate, outcome
from spellbook.system.errors import EmbeddingError
from spellbook.text import terms
from spellbook.text.quoting import counted

if TYPE_CHECKING:
    from spellbook.search.candidates import Gathering

_DAY = 86_400.0
_RERANK_SECONDS = 2.0
"""Patience with a reranker."""
_RERANK_LETTERS = 2_000
"""Letters of a chunk that a reranker is given."""


def rerank(fused: Sequence[Candidate], question: str, reranker: Reranker, reasons: list[str]) -> None:
    """Move the first candidates' scores towards those of the reranker; if it fails, `reasons` get the error."""
    fused = sorted(fused, key=lambda candidate: candidate.order)
    first = fused[: weights.RERANKED]
    texts = [f"{one.chunk.title}\n{one.chunk.heading}\n{one.chunk.text}"[:_RERANK_LETTERS] for one in first]
    try:
        scores = reranker.rerank(question, texts, _RERANK_SECONDS) if texts else []
    except EmbeddingError as error:
        reasons.append(f"not reranked: {error}")
        return
    for one, value in zip(fused, scores, strict=False):
        one.add(f"reranked {value:.2f} by {reranker.name}", weights.RERANK_WEIGHT * (value - one.score))
    least = min((one.score for one in fused[: len(scores)]), default=0.0)
    for one in fused[len(scores) :]:
        one.add(f"not seen by {reranker.name}", min(0.0, least - one.score))


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


def lower(candidates: Sequence[Candidate], inflected: Collection[int]) -> None:
    """Put the chunks `inflected`, by number, below those that have the words as they were asked for."""
    share = (
        min([1.0001, *(one.score for one in candidates if one.keyword and one.chunk.number not in inflected)]) - 0.0001
    )
    for candidate in candidates:
        if candidate.chunk.number in inflected:
            candidate.add("with another particle", (share - 1) * candidate.score, even_nothing=True)


def lower_titles(candidates: Sequence[Candidate], alike: float) -> None:
    """Put notes without text below texts whose score by words is at least `alike` of theirs; they lose at any rate."""
    for stub in candidates:
        if stub.chunk.key == NO_TEXT:
            least = alike * stub.keyword.score if stub.keyword else 1.0
            above = [
                one.score
                for one in candidates
                if one.chunk.key != NO_TEXT and one.keyword and one.keyword.score >= least
            ]
            most = min([(1 - weights.NO_TEXT_LOSS) * stub.score, *(score - 0.0001 for score in above)])
            stub.add("it has no text but a title", most - stub.score)


def lower_listings(candidates: Sequence[Candidate]) -> None:
    """Put listings, `index.md` and `log.md`, below the notes of their folders that match nearly as well."""
    for listing in [one for one in candidates if one.is_listing]:
        folder, least = listing.chunk.path[: listing.chunk.path.rfind("/") + 1], weights.LISTED * listing.score
        others = (one for one in candidates if one.chunk.path.startswith(folder) and not one.is_listing)
        above = [one.score for one in others if one.score >= least]
        listing.add("a listing of its folder", min([0.0, *(score - 0.0001 - listing.score for score in above)]))


def lift_speakers(candidates: Sequence[Candidate], question: str) -> None:
    """Lift the turns of a conversation whose speaker the `question` names."""
    asked = set(terms.terms(question)) - terms.STOP_WORDS
    for candidate in candidates:
        if not dialogue.is_conversation(candidate.chunk.meta):
            continue
        name = dialogue.speaker(candidate.chunk.heading)
        if not asked.isdisjoint(terms.terms(name)):
            candidate.add(f"the question names {name}", weights.SPOKEN)


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
        if gone := lapsed(candidate.chunk.meta, during[0]):
            candidate.add(gone, -weights.LAPSED * candidate.score)
        elif is_lapsed or (candidate.chunk.path not in superseded and is_superseded(candidate.chunk)):
            candidate.add(words if is_lapsed else "superseded", -weights.SUPERSEDED * candidate.score)
    for path, known in superseded.items():
        bound = min((best[by].score - 0.0001 for by in above[path]), default=math.inf)
        for candidate in of_note.get(path, ()) if path not in others else ():
            candidate.superseded = known
            least = math.inf if known.by else (1 - weights.SUPERSEDED) * candidate.score
            less = min(0.0, min(bound, least) - candidate.score)
            candidate.add(f"superseded by {known.by[0]}" if known.by else "superseded", less)
    return sorted(candidates, key=lambda candidate: candidate.order)


# -- the choice


def hits(ranked: Gathering) -> list[Candidate]:
    """Return the candidates that may be hits."""
    candidates, question = ranked.candidates, ranked.question
    by_words = question.mode == "keyword"
    if ranked.first.words.quotes or by_words:
        candidates = [one for one in candidates if one.keyword]
    if (low := question.min_score) is not None:
        # A word that most chunks contain is worth nothing, yet asking for it alone must find it.
        is_asked = by_words or question.conditions
        high = [one for one in candidates if one.score >= low]
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
    return _with_successors(candidates, convincing(candidates, compared(ranked)))


def compared(ranked: Gathering) -> int:
    """Return the number of chunks that the best one was chosen from: the candidates, if a filter leaves few."""
    count, is_narrowed = len(ranked.candidates), ranked.question.conditions or ranked.question.as_of
    return count if is_narrowed and count < weights.POOL else ranked.counts.chunks - ranked.guides


def nearly(ranked: Gathering) -> list[Candidate]:
    """
    Return the best candidate of the few closest notes; none, unless one of them is close.

    A question with a least score or quotes has none.
    """
    question, chunks = ranked.question, compared(ranked)
    if question.min_score is not None or ranked.first.words.quotes:
        return []
    share = min(weights.MOST_CLOSE, weights.CLOSE + weights.CLOSE_TENFOLD * math.log10(max(1, chunks)))
    best: dict[str, Candidate] = {}
    for candidate in ranked.candidates:
        if candidate.score and candidate.evidence() >= weights.CLOSE * least(chunks):
            best.setdefault(candidate.chunk.path, candidate)
    chosen = choose([*best.values()], min(weights.CLOSEST, question.limit), few=question.has_few_sessions)
    return chosen if any(one.evidence() >= share * least(chunks) for one in chosen) else []


def _with_successors(candidates: Sequence[Candidate], chosen: Sequence[Candidate]) -> list[Candidate]:
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


def least(chunks: int) -> float:
    """Return the evidence that the best of so many `chunks` needs: with more of them, one is nearer by chance."""
    tens = math.log10(max(1, chunks))
    return min(weights.FEW + weights.FEW_TENFOLD * tens, weights.MANY + weights.MANY_TENFOLD * tens)


def convincing(candidates: Sequence[Candidate], chunks: int) -> list[Candidate]:
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
    takes another note's place only if it is better even so. In a conversation each turn counts as a note: an answer
    may stand in several, and no title tells them apart.
    """
    left = list(candidates)
    chosen: list[Candidate] = []
    places: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    texts: dict[str, str] = {}

    def unit(chunk: StoredChunk) -> str:
        turn = chunk.id.rpartition("#")[2].partition("~")[0] if dialogue.is_conversation(chunk.meta) else ""
        return f"{chunk.path}#{turn}"

    def costs(chunk: StoredChunk) -> list[tuple[str, float]]:
        further = places[unit(chunk)] - weights.FREE_PLACES + 1
        cost = min(weights.MOST_CROWDED, weights.CROWDED * further)
        crowded = [(f"chunk {further + weights.FREE_PLACES} of its note here", -cost)] if further > 0 else []
        twin = texts.get(chunk.key) if chunk.key != NO_TEXT else None
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
        places[unit(candidate.chunk)] += 1
        hits[path] += 1
        texts.setdefault(candidate.chunk.key, path)
        chosen.append(candidate)
        if hits[path] == per_note:
            left = [other for other in left if other.chunk.path != path]
    return chosen
