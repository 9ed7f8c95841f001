"""
Translations of one note are one entry among the hits, in the question's language; the others are named beside it.

Paths tell which notes may be translations of each other (`languages.families`), and vectors, which of their chunks say
the same: two notes may also have the same name in two languages and each say what the other does not. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spellbook.search import weights
from spellbook.search.ranking import Candidate
from spellbook.text import languages

Alike = Callable[[Candidate, Candidate], float]
"""How alike two chunks are by meaning: 0..1, 0 if one of them has no vector."""


def merge(candidates: Sequence[Candidate], text: str, alike: Alike) -> list[Candidate]:
    """
    Return the candidates of a question `text` without chunks that a better one translates, best first.

    Of two, the one in the question's language is kept, with the other's score, unless it is far behind; else the better
    one is.
    """
    families = languages.families({one.chunk.path: None for one in candidates}).values()
    if not families:
        return [one for one in candidates if not one.instead]
    language = languages.written_in(text)
    members = {path: number for number, family in enumerate(families) for path in family}
    marks = {path: mark for family in families for path, mark in family.items()}
    kept: dict[int, list[Candidate]] = {}

    def language_of(candidate: Candidate) -> str:
        return marks[candidate.chunk.path] or languages.written_in(candidate.chunk.text)

    def fits(candidate: Candidate) -> bool:
        return bool(language) and not languages.differ(language, language_of(candidate))

    def translates(one: Candidate, other: Candidate) -> bool:
        return (
            one.chunk.path != other.chunk.path
            and languages.differ(language_of(one), language_of(other))
            and alike(one, other) >= weights.SAYS_THE_SAME
        )

    is_merged = False
    for candidate in candidates:
        if candidate.chunk.path not in members:
            continue
        others = kept.setdefault(members[candidate.chunk.path], [])
        twin = next((other for other in others if translates(other, candidate)), None)
        if twin is None:
            others.append(candidate)
            continue
        is_merged = True
        shown, left = twin, candidate
        if fits(candidate) and not fits(twin) and candidate.score >= twin.score - weights.IN_ITS_LANGUAGE:
            shown, left = candidate, twin
            candidate.add("in the question's language", twin.score - candidate.score)
            others[others.index(twin)] = candidate
        left.instead = shown.chunk.path
        code = language_of(left).rpartition(":")[2]
        shown.translations = {**left.translations, left.chunk.path: code, **shown.translations}
    left_over = [one for one in candidates if not one.instead]
    return sorted(left_over, key=lambda one: one.order) if is_merged else left_over
