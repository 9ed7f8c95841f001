"""The choice of hits among ranked candidates: by the evidence that an answer needs, and by what hits say again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from spellbook.index.catalog.rows import NO_TEXT, StoredChunk
from spellbook.index.privacy import is_session
from spellbook.notes import dialogue
from spellbook.search import weights
from spellbook.search.candidates import Gathering
from spellbook.search.scores import STEP, Candidate


def hits(ranked: Gathering) -> list[Candidate]:
    """Return the candidates that may be hits."""
    candidates, question = ranked.candidates, ranked.question
    by_words = question.mode == "keyword"
    if ranked.first.words.quotes or by_words:
        candidates = [one for one in candidates if one.keyword]
    if question.min_score is not None:
        return _at_least(question.min_score, candidates, by_words or bool(question.conditions))
    if by_words:
        return [*candidates]
    # Nothing may be of the time that is asked for, and a wrong guess must hide nothing.
    reason = ranked.time.reason if ranked.time and ranked.time.is_all else ""
    if dated := [one for one in candidates if one.has(reason)]:
        return dated
    # Words alone cannot tell what is related to a question.
    if ranked.first.text.vector is None:
        return [one for one in candidates if one.score > 0]
    return _with_successors(candidates, convincing(candidates, compared(ranked)))


def _at_least(low: float, candidates: Sequence[Candidate], is_asked: bool) -> list[Candidate]:
    """Return the candidates with a score, or that were found and whose words or filter were asked for."""
    # A word that most chunks contain is worth nothing, yet asking for it alone must find it.
    least = max(low, 0.0 if is_asked else STEP)
    return [one for one in candidates if one.score >= least and (one.score or one.semantic or one.keyword)]


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

    def priced(candidate: Candidate) -> Candidate:
        chunk = candidate.chunk
        further = places[unit(chunk)] - weights.FREE_PLACES + 1
        if further > 0:
            cost = min(weights.MOST_CROWDED, weights.CROWDED * further)
            candidate = candidate.plus(f"chunk {further + weights.FREE_PLACES} of its note here", -cost)
        if chunk.key in texts and chunk.key != NO_TEXT:
            candidate = candidate.plus(f"repeats {texts[chunk.key]}", -weights.REPEATED)
        return candidate

    while left and len(chosen) < limit:
        sessions = sum(is_session(one.chunk.meta) for one in chosen)
        is_full = few and len(chosen) < weights.FIRST_HITS and sessions >= weights.MOST_SESSIONS
        near: list[Candidate] = []
        for one in (one for one in left if not (is_full and is_session(one.chunk.meta))):
            near.append(priced(one))
            if near[-1] is one:  # those without a cost are in order: the best is the first of them, or before it
                break
        if not near:
            break
        best = max(near, key=lambda one: one.score)
        path = best.chunk.path
        chosen.append(best)
        places[unit(best.chunk)] += 1
        hits[path] += 1
        texts.setdefault(best.chunk.key, path)
        is_done = hits[path] == per_note
        left = [one for one in left if one.chunk is not best.chunk and not (is_done and one.chunk.path == path)]
    return chosen
