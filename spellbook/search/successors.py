"""
Successors: what supersedes a note stands right above it, and comes along where the old one is asked for.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping, Sequence

from spellbook.index import lookup
from spellbook.index.catalog.schema import StoredChunk
from spellbook.index.filters import as_of_moment, validity
from spellbook.index.opened import Index
from spellbook.notes.decisions import CHECKPOINT
from spellbook.search import related, weights
from spellbook.search.ranking import Candidate, is_superseded
from spellbook.search.related import Superseded
from spellbook.system.errors import MemoryNotFound
from spellbook.text.quoting import exact


def missing(candidates: Sequence[Candidate], superseded: Mapping[str, Superseded], limit: int) -> set[str]:
    """
    Return the living successors of the `limit` first notes of each leg, without those that are candidates.

    The successors of a checkpoint are left out: if one is about the same work, the question finds it.
    """
    living: dict[str, set[str]] = {}
    for path, known in superseded.items():  # what supersedes comes first
        living[path] = {one for by in known.above for one in living.get(by, {by})}
    wanted: set[str] = set()
    for candidate in candidates:
        is_first = any(leg and 0 < leg.rank <= limit for leg in (candidate.semantic, candidate.keyword))
        if is_first and candidate.chunk.category != CHECKPOINT:
            wanted |= living.get(candidate.chunk.path, set())
    return wanted.difference(candidate.chunk.path for candidate in candidates)


def supersede(
    candidates: Sequence[Candidate], superseded: Mapping[str, Superseded], during: Sequence[float]
) -> list[Candidate]:
    """
    Put what supersedes a note right above it, and return the best first, as `candidates` are.

    `superseded` maps paths of notes, those that supersede before those that they do. A successor that scores less is
    lifted to its predecessor's score; what is superseded loses no more than puts it below. A note that says itself that
    it holds at no time `during` the one that is asked about, or only that it is superseded, or whose successor is
    hidden, loses a share of its score. With `during` empty all are known to hold, whatever they say.
    """
    of_note: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        of_note.setdefault(candidate.chunk.path, []).append(candidate)
    best = {path: max(there, key=lambda one: one.score) for path, there in of_note.items()}
    above: dict[str, list[str]] = {}
    for path, known in superseded.items():
        above[path] = [one for by in sorted(known.above) for one in ([by] if by in best else above.get(by, ()))]
    others = set()
    for path in reversed(above):
        for by in above[path] if path in best else ():
            old, new = best[path], best[by]
            if _is_other_work(old, new):
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


def _is_other_work(old: Candidate, new: Candidate) -> bool:
    """Return whether two checkpoints are about other work: one in 30 supersedes one that is."""
    categories = {old.chunk.category, new.chunk.category}
    return categories == {CHECKPOINT} and new.score < weights.OTHER_WORK * old.score


def among(candidates: Sequence[Candidate], chosen: Sequence[Candidate]) -> list[Candidate]:
    """Return those of `candidates`, best first, that are `chosen` or stand above one that is, as what supersedes it."""
    replacing = [one for one in candidates if one.replaces]
    if not replacing:
        return [*chosen]
    kept, paths = {one.chunk.number for one in chosen}, {one.chunk.path for one in chosen}
    for candidate in reversed(replacing):
        if candidate.replaces & paths:
            kept.add(candidate.chunk.number)
            paths.add(candidate.chunk.path)
    return [one for one in candidates if one.chunk.number in kept]


def standing(index: Index, chunks: Collection[StoredChunk]) -> dict[str, dict[str, str]]:
    """
    Return which notes of these chunks are superseded, by path, and by what: its path, id and title.

    Nothing is said of one that is hidden, or that the note itself does not name.
    """
    superseded = related.superseded(index, {chunk.path for chunk in chunks}, index.visible)
    marked: dict[str, dict[str, str]] = {}
    for chunk in chunks:
        if (known := superseded.get(chunk.path)) or is_superseded(chunk):
            by = known.by if known else None
            marked[chunk.path] = dict(zip(("path", "id", "title"), by or (), strict=False))
    return marked


def named(index: Index, id: str, as_of: str) -> list[StoredChunk]:
    """Return what `lookup.named` does; `as_of` a date, the note of its chain that held. Raises MemoryNotFound."""
    chunks = lookup.named(index, id)[0]
    if not as_of:
        return chunks
    notes = related.chain(index, chunks[0].path)
    now = related.holding(index, index.visible, as_of_moment(as_of, time.time()))
    there = index.catalog.among([each.path for each in notes], [now])
    if not there:
        listed = "; ".join(f"{exact(each.id)} {each.why[0]}" for each in dict.fromkeys((notes[0], notes[-1])))
        raise MemoryNotFound(f"Nothing of this held on {as_of}.", f"Over time: {listed}.")
    return chunks if chunks[0].path in there else index.catalog.at([n.path for n in notes if n.path in there][-1])
