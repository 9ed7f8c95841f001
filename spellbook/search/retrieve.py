"""
Retrieval: the candidates of a question, by meaning (cosine of embeddings) and by words (bm25 of the full-text index).

Each function only reads. Scores are absolute, in 0..1.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from spellbook.index.catalog.schema import QUESTION, TITLE, StoredChunk
from spellbook.index.filters import Condition
from spellbook.index.loaded import LoadedIndex
from spellbook.index.vectors.about import NoteCosines
from spellbook.index.vectors.nearest import Nearest
from spellbook.models.base import Bytes, Scale, Vectors, score, unit
from spellbook.search import fts_query, synonyms, weights
from spellbook.search.question import QueryWord, Question
from spellbook.search.text_scores import Leg, OfNote, joined
from spellbook.system.lazy import np
from spellbook.text import languages, terms

_SAMPLED = 800
"""Letters of a chunk that its scripts are told from. By hand, for speed."""
_STEP = 4
"""A long sample is read in steps of so many letters. By hand, for speed."""
_NAME = re.compile(r"(?<=[\w,] )[A-Z]\w*")
_CERTAIN = 1.5
"""Weight of words from which on a chunk is in their language, names aside: "to Los Angeles" is not Spanish. By hand."""
_SCRIPTS = {"latin", "hangul", "han", "thai", "arabic", "cyrillic"}
_LANGUAGES = {"", "ar", "de", "en", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "th", "tr", "zh"}
"""
What the second encoder knows; "" is a script's only language. Asked in others, or of texts in others, it takes .02
nDCG@10 from a vault of twelve languages.
"""
_LATIN = {"latin": 1.0}
"""The scripts of most texts."""
_REMEMBERED = 1_000
"""Chunks whose scripts and language are kept, 300 to 600 bytes each: then their texts need not be looked at again."""


@dataclass(frozen=True, slots=True)
class Words:
    """
    What retrieval by words found: a leg by chunk number, and the words that were looked for.

    `more` gives the legs of other chunks.
    """

    legs: dict[int, Leg]
    words: tuple[QueryWord, ...]
    quotes: bool = False
    more: Callable[[Sequence[int]], dict[int, Leg]] = lambda numbers: {}

    @property
    def known(self) -> float:
        """The share, 0..1 by weight, of the words that the vault has."""
        return sum(word.weight for word in self.words if word.chunks) / (sum(word.weight for word in self.words) or 1.0)


def by_meaning(
    nearest: Nearest, vector: Vectors, scale: Scale, limits: Sequence[Condition], wanted: int, reasons: list[str]
) -> dict[int, tuple[StoredChunk, Leg]]:
    """Return the `wanted` chunks nearest to a unit vector, by number, best first; see `Nearest.chunks`."""
    result: dict[int, tuple[StoredChunk, Leg]] = {}
    for chunks, cosine in nearest.chunks(vector, limits, wanted, reasons):
        leg = Leg(len(result) + 1, score(cosine, scale))
        result |= {chunk.number: (chunk, leg) for chunk in chunks}
    return result


def scores_by_meaning(nearest: Nearest, vector: Vectors, scale: Scale, chunks: Iterable[StoredChunk]) -> dict[int, Leg]:
    """Return the semantic scores of chunks that only the words found, by number."""
    listed = list(chunks)
    cosines = nearest.cosines(vector, [chunk.key for chunk in listed])
    return {chunk.number: Leg(0, score(cosines[chunk.key], scale)) for chunk in listed if chunk.key in cosines}


def by_words(
    loaded: LoadedIndex,
    question: Question,
    limits: Sequence[Condition],
    total: int,
    guides: int,
    near: Sequence[int],
    wanted: int,
    table: synonyms.Table,
    most_words: int,
) -> Words:
    """
    Return the chunks that match the question's words, with bm25 over the sum of the words' idf as score, 0..1.

    `total` is the number of chunks, `guides` of those of guides that are left out. The `wanted` best are looked for;
    the chunks `near` get their score whatever their rank. Words that `table` has are asked for by their synonyms as
    well. Of more than `most_words` the rarest count.
    """
    if question.keywords:
        query = fts_query.phrases(question.keywords, all=question.match_all)
    else:
        query = fts_query.parse(question.text, table)
    chosen = query.chosen(loaded.frequencies(guides), most_words)
    words = _weigh(chosen, total)
    most = sum(word.weight for word in words)
    expression = chosen.expression
    same: dict[int, tuple[str, ...]] = {}

    def with_synonyms(scores: dict[int, float], listed: Sequence[int], most_new: int) -> dict[int, float]:
        """Add what synonyms are worth to `scores`, also of the chunks `listed`, and of `most_new` others."""
        scores = dict(scores)
        for alike in chosen.alike:
            idf = terms.idf(total, alike.chunks)
            own = sum(word.weight for word in words if word.part in alike.parts)
            # A rare synonym is worth no more than the word that was asked for, a common one no more than itself.
            weight = weights.SYNONYM * (min(own, idf) if alike.parts else idf)
            # To rank all chunks with a common synonym takes long, and finds little: it counts for what is there anyway.
            if most_new and alike.chunks <= weights.RARE_SYNONYM:
                found = loaded.catalog.match(str(alike.expression), limits, most_new, listed)
            else:
                found = loaded.catalog.match_among(str(alike.expression), listed)
            for number, bm25 in found:
                scores[number] = scores.get(number, 0.0) + weight * min(1.0, bm25 / idf)
                same[number] = (*same.get(number, ()), alike.text)
        return scores

    def legs(scores: Mapping[int, float], ranks: Mapping[int, int]) -> dict[int, Leg]:
        result = {}
        for number, found in scores.items():
            share = found / most if most else 0.0
            score, beyond = (share, 0.0) if share <= 1 else (1.0, round(share - 1, 4))
            result[number] = Leg(ranks.get(number, 0), score, beyond, same.get(number, ()))
        return result

    def more(numbers: Sequence[int]) -> dict[int, Leg]:
        if not numbers:
            return {}
        matched = dict(loaded.catalog.match_among(str(expression), numbers)) if expression else {}
        return legs(with_synonyms(matched, numbers, 0), {})

    matched = dict(loaded.catalog.match(str(expression), limits, wanted, near)) if expression else {}
    scores = with_synonyms(matched, [*dict.fromkeys((*near, *matched))], wanted)
    if expression and (new := scores.keys() - matched.keys()):
        # Chunks that only a synonym led to may have words of the question, too.
        for number, bm25 in loaded.catalog.match_among(str(expression), [*new]):
            scores[number] += bm25
    best = sorted(scores, key=lambda number: (-scores[number], number))[:wanted]
    return Words(legs(scores, {number: rank for rank, number in enumerate(best, 1)}), words, chosen.quotes, more)


def _weigh(chosen: fts_query.Chosen, total: int) -> tuple[QueryWord, ...]:
    """Return the words to look for with their idf among `total` chunks; what the vault lacks, by its synonyms."""
    same = {part: alike.same for alike in chosen.alike for part in alike.parts}
    words = [
        QueryWord(part, count, terms.idf(total, count), same.get(part, ()))
        for part, count in zip(chosen.parts, chosen.frequencies, strict=True)
    ]
    others = (alike for alike in chosen.alike if not alike.parts)
    return (
        *words,
        *(QueryWord(one.same[0], one.chunks, terms.idf(total, one.chunks), one.same[1:], one.word) for one in others),
    )


def words_in(loaded: LoadedIndex, words: Iterable[QueryWord], numbers: Sequence[int]) -> list[list[list[str]]]:
    """
    Return which of a question's words each chunk has, as people write them, in the order of `numbers`.

    A word is a row, followed by those of its synonyms that are there. What is in most chunks is left out.
    """
    rare = [word for word in dict.fromkeys(words) if 0 < word.chunks <= weights.MOST_COMMON]
    phrases = list(dict.fromkeys(phrase for word in rare for phrase in (word.part, *word.same)))
    held = dict(zip(phrases, loaded.holding(phrases, [(number, number) for number in numbers]), strict=True))
    listed: list[list[list[str]]] = []
    for i in range(len(numbers)):
        rows: list[list[str]] = []
        for word in rare:
            there = [terms.readable(phrase.text) for phrase in (word.part, *word.same) if held[phrase][i]]
            name = word.word or terms.readable(word.part.text)
            if not there:
                continue
            others = [other for other in there if other != name]
            if rows and len(name) == 2 and not name.isascii() and rows[-1][0].endswith(name[0]):
                # Two pairs of a word that the vault has nowhere as a whole.
                rows[-1] = [rows[-1][0] + name[1], *dict.fromkeys((*rows[-1][1:], *others))]
            else:
                rows.append([name, *others])
        listed.append(rows)
    return listed


def of_notes(
    loaded: LoadedIndex,
    words: Words,
    about: Mapping[str, NoteCosines],
    scale: Scale,
    by_second: Mapping[str, float],
) -> dict[str, OfNote]:
    """
    Return the scores of whole notes, by path: by meaning on an embedder's scale and `by_second`, and by `words`.

    The score by words is the share, by weight, of the words asked for that the note contains.
    """
    shares = _share_of_words(loaded, words, about)
    notes = {}
    for path, note in about.items():
        labels: dict[str, float] = {}
        for kind, key, cosine in note.labels:
            first = None if cosine is None else score(cosine, scale)
            value = joined(first, by_second.get(key), weights.SCORE.first, weights.UNKNOWN_LABEL_COST)
            if value is not None and value >= labels.get(kind, 0.0):
                labels[kind] = value
        is_several = note.last > note.first  # else the chunk itself is the whole note
        whole = score(note.whole, scale) if note.whole is not None and is_several else None
        notes[path] = OfNote(labels.get(TITLE), labels.get(QUESTION), whole, shares.get(path))
    return notes


def scores_by_second(vector: Bytes, scale: Scale, rows: Mapping[str, bytes]) -> dict[str, float]:
    """Return the scores of a question's vector with `rows`, by key; all vectors are the second encoder's (int8)."""
    if not rows:
        return {}
    block = np.frombuffer(b"".join(rows.values()), np.int8).reshape(len(rows), -1)
    cosines = (unit(block) @ unit(vector)).tolist()
    return {key: score(cosine, scale) for key, cosine in zip(rows, cosines, strict=True)}


def _share_of_words(loaded: LoadedIndex, words: Words, about: Mapping[str, NoteCosines]) -> dict[str, float]:
    rare = [word for word in dict.fromkeys(words.words) if word.chunks <= weights.MOST_COMMON]
    most = sum(word.weight for word in rare)
    if not most or not about:
        return {}
    there = [word for word in rare if word.chunks]
    notes = [(note.first, note.last) for note in about.values()]
    sums = np.zeros(len(about))
    for word, has in zip(there, loaded.holding([word.expression for word in there], notes), strict=True):
        sums += np.array(has) * word.weight
    return dict(zip(about, (sums / most).tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class TextScripts:
    """The scripts that a text is written in, with their shares, and its language if several have its script."""

    scripts: Mapping[str, float]
    language: str

    @classmethod
    def of(cls, text: str) -> TextScripts:
        """Return the scripts and the language of a question."""
        return cls(terms.scripts(text), languages.language(text))

    def foreign(self, chunk: StoredChunk, written: ChunkScripts, words: float) -> float:
        """Return how much, 0..1, of a chunk is in another script or language; `words` is its score by words."""
        own = written.scripts
        if not (self.scripts and own):  # without letters nothing is sure
            return 0.0
        foreign = 1 - sum([min(share, weights.PRESENT * own.get(name, 0.0)) for name, share in self.scripts.items()])
        is_open = self.language and foreign < 1 and words < weights.ITS_WORDS
        return 1.0 if is_open and written.language(chunk) not in {"", self.language} else foreign

    @property
    def is_read(self) -> bool:
        """Whether the second encoder knows its scripts and its language."""
        return _is_known(self.scripts) and self.language in _LANGUAGES


ANY_LANGUAGE = TextScripts({}, "")
"""Finds no chunk foreign."""


class ChunkScripts:
    """The scripts that a chunk is written in, with their shares, and its language, told where it matters."""

    __slots__ = ("_is_ascii", "_language", "key", "scripts")

    def __init__(self, chunk: StoredChunk) -> None:
        text = chunk.text
        sample = f"{chunk.title} {chunk.heading} {text[:_SAMPLED]}"
        scripts = terms.scripts(sample[:: _STEP if len(sample) > _SAMPLED // _STEP else 1])
        self.key, self.scripts = chunk.key, _LATIN if scripts == _LATIN else scripts
        self._is_ascii = text.isascii()
        self._language: str | None = None

    def language(self, chunk: StoredChunk) -> str:
        """Return the language of the chunk, if several have its script."""
        if self._language is None:
            self._language = languages.language(_NAME.sub("", chunk.text[:_SAMPLED]), _CERTAIN)
        return self._language

    def is_read(self, chunk: StoredChunk) -> bool:
        """Return whether the second encoder knows its scripts and its language."""
        return self._is_ascii or (_is_known(self.scripts) and self.language(chunk) in _LANGUAGES)


def _is_known(scripts: Mapping[str, float]) -> bool:
    """Return whether the second encoder knows the main one of some scripts."""
    return max(scripts, key=lambda script: scripts[script], default="latin") in _SCRIPTS


class ScriptsCache:
    """How chunks are written; the last that were looked at are kept."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, ChunkScripts] = OrderedDict()

    def of(self, chunk: StoredChunk) -> ChunkScripts:
        """Return the scripts of a chunk, told from a sample of it and of its headings, and its language."""
        known = self._kept.get(chunk.number)
        # A catalog that is begun anew gives the same numbers to other texts.
        if known is None or known.key != chunk.key:
            if len(self._kept) >= _REMEMBERED:
                self._kept.popitem(last=False)
            known = self._kept[chunk.number] = ChunkScripts(chunk)
        return known
