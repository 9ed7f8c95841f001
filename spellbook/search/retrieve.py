"""
Retrieval: the candidates of a question, by meaning (cosine of embeddings) and by words (bm25 of the full-text index).

Each function is given the engine of an open index and only reads. Scores are absolute, in 0..1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from spellbook.index.catalog.schema import QUESTION, TITLE, StoredChunk
from spellbook.index.engine import Engine
from spellbook.index.filters import Condition
from spellbook.index.vectors.about import About
from spellbook.models.base import Scale, score, unit
from spellbook.search import fts_query, synonyms, weights
from spellbook.search.question import Question, Word
from spellbook.search.ranking import Leg, OfNote, of_both
from spellbook.text import languages, terms
from spellbook.text.expressions import Expression, Phrase

if TYPE_CHECKING:
    from spellbook.models.base import Bytes, Vectors

_SAMPLED, _EACH = 800, 4
"""A chunk's scripts are told from every 4th letter of its first 800: chosen by hand, for speed."""
_SCRIPTS = frozenset(("latin", "hangul", "han", "thai", "arabic", "cyrillic"))
_LANGUAGES = frozenset(
    ("", *["ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh"])
)
"""
What the second encoder knows; "" is a script's only language. Asked in others, or of texts in others, it takes .02
nDCG@10 from a vault of twelve languages.
"""
_REMEMBERED = 4_000
"""Samples whose scripts are cached: the same chunks come up again."""


def _as_it_is(expression: Expression) -> Expression:
    return expression


@dataclass(frozen=True, slots=True)
class Words:
    """
    What retrieval by words found: a leg by chunk number, and the words that were asked for.

    `form` makes an expression of a word as it was asked for.
    """

    legs: Mapping[int, Leg]
    asked: tuple[Word, ...]
    quotes: bool = False
    form: Callable[[Expression], Expression] = _as_it_is

    @property
    def known(self) -> float:
        """The share, 0..1 by weight, of the words asked for that the vault has."""
        return sum(word.weight for word in self.asked if word.chunks) / (sum(word.weight for word in self.asked) or 1.0)


def by_meaning(
    engine: Engine, vector: Vectors, scale: Scale, limits: Sequence[Condition], limit: int, reasons: list[str]
) -> dict[int, tuple[StoredChunk, Leg]]:
    """Return the chunks nearest to a question's unit vector, by number, best first; see `Engine.nearest`."""
    result: dict[int, tuple[StoredChunk, Leg]] = {}
    for chunks, cosine in engine.nearest(vector, limits, _wanted(limit), reasons):
        leg = Leg(len(result) + 1, score(cosine, scale))
        result |= {found.number: (found, leg) for found in chunks}
    return result


def standing_in(engine: Engine, asked: Bytes, limits: Sequence[Condition], limit: int) -> list[int]:
    """Return the numbers of the chunks that are nearest by the second encoder, of those the embedder has not read."""
    return engine.standing_in(asked, limits, _wanted(limit))


def scores_by_meaning(engine: Engine, vector: Vectors, scale: Scale, chunks: Iterable[StoredChunk]) -> dict[int, Leg]:
    """Return the semantic scores of chunks that only the words found, by number."""
    listed = list(chunks)
    cosines = engine.cosines(vector, [chunk.key for chunk in listed])
    return {chunk.number: Leg(0, score(cosines[chunk.key], scale)) for chunk in listed if chunk.key in cosines}


def by_words(
    engine: Engine,
    question: Question,
    limits: Sequence[Condition],
    total: int,
    near: Sequence[int],
    also: Sequence[int],
    table: synonyms.Table,
) -> Words:
    """
    Return the chunks that match the question's words, with bm25 over the sum of the words' idf as score, 0..1.

    `total` is the number of chunks. Chunks `near` by meaning, and `also` others, get their score whatever their rank.
    Words that `table` has are asked for by their synonyms as well.
    """
    phrases = fts_query.phrases(question.keywords, all=question.match_all)
    form = fts_query.unprompted if question.unprompted else _as_it_is
    query = phrases if question.keywords else fts_query.parse(question.text, table)
    chosen = query.chosen(engine.frequencies(query.phrases, question.unprompted))
    asked = _asked(chosen, total)
    most = sum(word.weight for word in asked)
    expression = form(chosen.expression) if chosen.expression else None
    wanted = _wanted(question.limit)
    scores = dict(engine.match(expression, limits, wanted, near)) if expression else {}
    added: dict[int, float] = {}
    same: dict[int, tuple[str, ...]] = {}
    for each in chosen.alike:
        idf = _idf(total, each.chunks)
        own = sum(word.weight for word in asked if word.part in each.parts)
        # A rare synonym is worth no more than the word that was asked for, a common one no more than itself.
        weight = weights.SYNONYM * (min(own, idf) if each.parts else idf)
        listed = [*dict.fromkeys((*near, *also, *scores))]
        # To rank all chunks with a common synonym takes long, and finds little: it counts for what is found anyway.
        for number, bm25 in (
            engine.match(form(each.expression), limits, wanted, listed)
            if each.chunks <= weights.RARE_SYNONYM
            else engine.match_among(form(each.expression), listed)
        ):
            added[number] = added.get(number, 0.0) + weight * min(1.0, bm25 / idf)
            same[number] = (*same.get(number, ()), each.said)
    known = {*scores, *added}
    missing = {*also, *added}.difference(scores) if expression else ()
    scores |= dict(engine.match_among(expression, [*missing])) if expression and missing else {}
    for number, score_added in added.items():
        scores[number] = scores.get(number, 0.0) + score_added
    best = sorted(known, key=lambda number: (-scores[number], number))[:wanted]
    ranked = {number: rank for rank, number in enumerate(best, 1)}
    legs = {
        number: Leg(
            ranked.get(number, 0),
            min(1.0, value / most),
            max(0.0, round(value / most - 1, 4)),
            same.get(number, ()),
        )
        for number, value in scores.items()
    }
    return Words(legs, asked, chosen.quotes, form)


def _asked(chosen: fts_query.Chosen, total: int) -> tuple[Word, ...]:
    """Return what is asked for with its idf among `total` chunks; a word that the vault lacks, by its synonyms."""
    same: dict[Phrase, tuple[Phrase, ...]] = {part: each.same for each in chosen.alike for part in each.parts}
    return (
        *(
            Word(part, count, _idf(total, count), same.get(part, ()))
            for part, count in zip(chosen.parts, chosen.frequencies, strict=True)
        ),
        *(
            Word(each.same[0], each.chunks, _idf(total, each.chunks), each.same[1:])
            for each in chosen.alike
            if not each.parts
        ),
    )


def of_notes(
    engine: Engine,
    words: Words,
    about: Mapping[str, About],
    scale: Scale,
    second: Mapping[str, float],
    *,
    unprompted: bool,
) -> dict[str, OfNote]:
    """
    Return the scores of whole notes, by path: by meaning on an embedder's scale, and by `words`.

    `second` are scores by the second encoder, by key. The score by words is the share, by weight, of the words asked
    for that the note contains. With `unprompted`, the questions that a note names do not count.
    """
    shares = _share_of_words(engine, words, about)
    found = {}
    for path, each in about.items():
        labels: dict[str, float] = {}
        for kind, key, cosine in each.labels:
            first = None if cosine is None else score(cosine, scale)
            value = of_both(first, second.get(key))
            if value is not None:
                labels[kind] = max(value, labels.get(kind, 0.0))
        question = None if unprompted else labels.get(QUESTION)
        whole = None if each.whole is None else score(each.whole, scale)
        found[path] = OfNote(labels.get(TITLE), question, whole, shares.get(path))
    return found


def by_second(engine: Engine, asked: Bytes, scale: Scale, keys: Iterable[str]) -> dict[str, float]:
    """Return the scores by the second encoder of those of `keys` that it has read; `asked` is its question, int8."""
    import numpy as np

    rows = engine.seconds(list(dict.fromkeys(keys)))
    if not rows:
        return {}
    block = np.frombuffer(b"".join(rows.values()), np.int8).reshape(len(rows), -1)
    return {key: score(cosine, scale) for key, cosine in zip(rows, (unit(block) @ unit(asked)).tolist(), strict=True)}


def _share_of_words(engine: Engine, words: Words, about: Mapping[str, About]) -> dict[str, float]:
    import numpy as np

    asked = [word for word in dict.fromkeys(words.asked) if word.chunks <= weights.MOST_COMMON]
    most = sum(word.weight for word in asked)
    if not most or not about:
        return {}
    there = [word for word in asked if word.chunks]
    notes = [(each.first, each.last) for each in about.values()]
    found = np.zeros(len(about))
    for word, has in zip(there, engine.holding([words.form(each.expression) for each in there], notes), strict=True):
        found += np.array(has) * word.weight
    return dict(zip(about, (found / most).tolist(), strict=True))


def _wanted(limit: int) -> int:
    """Return how many candidates a leg gives for so many hits."""
    return max(weights.POOL, limit * weights.CANDIDATES_A_HIT)


def _idf(total: int, frequency: int) -> float:
    # As FTS5's bm25 computes it, with its lower bound.
    return max(1e-6, math.log((total - frequency + 0.5) / (frequency + 0.5)))


@dataclass(frozen=True, slots=True)
class Written:
    """The scripts that a question is written in, with their shares, and its language where a script has several."""

    scripts: Mapping[str, float]
    language: str

    @classmethod
    def of(cls, text: str) -> Written:
        """Return the scripts and the language of a question."""
        return cls(terms.scripts(text), languages.language(text))

    def foreign(self, chunk: StoredChunk, words: float) -> float:
        """Return how much, 0..1, of `chunk` is in another script or language; `words` is its score by words."""
        if not self.scripts:
            return 0.0
        has = _scripts_of(chunk)
        foreign = 1 - sum(
            [min(share, weights.PRESENT * has.get(script, 0.0)) for script, share in self.scripts.items()]
        )
        if (
            self.language
            and foreign < 1
            and words < weights.ITS_WORDS
            and languages.language(chunk.text) not in {"", self.language}
        ):
            return 1.0
        return foreign

    @property
    def is_read(self) -> bool:
        """Whether the second encoder knows the question's language."""
        return _is_read(self.scripts) and self.language in _LANGUAGES


def is_read(chunk: StoredChunk) -> bool:
    """Return whether the second encoder knows the script and the language of `chunk`."""
    return chunk.text.isascii() or (_is_read(_scripts_of(chunk)) and languages.language(chunk.text) in _LANGUAGES)


def _is_read(scripts: Mapping[str, float]) -> bool:
    return max(scripts, key=lambda script: scripts[script], default="latin") in _SCRIPTS


def _scripts_of(chunk: StoredChunk) -> Mapping[str, float]:
    return _scripts(f"{chunk.title} {chunk.heading} {chunk.text[:_SAMPLED]}"[::_EACH])


ANY_LANGUAGE = Written({}, "")
"""Finds no chunk foreign."""


@lru_cache(maxsize=_REMEMBERED)
def _scripts(sample: str) -> Mapping[str, float]:
    return MappingProxyType(terms.scripts(sample))
