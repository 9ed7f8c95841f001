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


def merged(candidates: Sequence[Candidate], text: str, alike: Alike) -> list[Candidate]:
    """
    Return the candidates of a question `text` without chunks that a better one translates, best first.

    Of two, the one in the question's language is kept, with the other's score, unless it is far behind; else the better
    one is.
    """
    asked = languages.written_in(text)
    families = languages.families(each.chunk.path for each in candidates).values()
    members = {path: number for number, family in enumerate(families) for path in family}
    marks = {path: mark for family in families for path, mark in family.items()}
    kept: dict[int, list[Candidate]] = {}

    def spoken(each: Candidate) -> str:
        return marks[each.chunk.path] or languages.written_in(each.chunk.text)

    def fits(each: Candidate) -> bool:
        return bool(asked) and not languages.differ(asked, spoken(each))

    for each in candidates:
        if each.chunk.path not in members:
            continue
        others = kept.setdefault(members[each.chunk.path], [])
        twin = next(
            (
                other
                for other in others
                if other.chunk.path != each.chunk.path
                and languages.differ(spoken(other), spoken(each))
                and alike(other, each) >= weights.SAYS_THE_SAME
            ),
            None,
        )
        if twin is None:
            others.append(each)
            continue
        shown, left = twin, each
        if fits(each) and not fits(twin) and each.score >= twin.score - weights.IN_ITS_LANGUAGE:
            shown, left = each, twin
            each.add("in the question's language", twin.score - each.score)
            others[others.index(twin)] = each
        left.instead = shown.chunk.path
        shown.translations = {
            **left.translations,
            left.chunk.path: spoken(left).rpartition(":")[2],
            **shown.translations,
        }
    return sorted((each for each in candidates if not each.instead), key=lambda each: each.order)
