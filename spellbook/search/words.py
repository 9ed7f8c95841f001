"""
Words: the index's terms for a question's words, the chunks that have them, and their scores.

The index has words as they are written. All rules for matching are here, so that a better rule needs no new index. Each
word is asked for in the most exact form that the vault has. Scores are bm25 over the sum of the words' idf, 0..1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

from spellbook.index.filters import Condition
from spellbook.index.question_cache import LoadedIndex
from spellbook.search import synonyms, weights
from spellbook.search.scores import Leg
from spellbook.system.lazy import np, regex
from spellbook.text import korean, terms
from spellbook.text.terms import STOP_WORDS, AnyOf, Expression, Phrase

_MOST_PARTS = 64
"""Phrases that a question is asked by, at most."""
_MOST_ALIKE = 8
"""Words of a question whose synonyms are looked for, at most."""
_MOST_RUN = 16
"""Pairs of letters from which on a run of Hangul is no word."""
_LONGEST_NAME = 64
"""Letters of a name with marks such as `C++`, at most."""
_SHORTEST_PREFIX = 5
"""Letters that a prefix in place of a stem has at least."""
_PREFIX = 2 / 3
"""Share of a word's letters that its prefix has."""

# Bounded, so that an opening quote without a closing one stays cheap.
_QUOTED = regex(
    r"(?<![^\s(\[{,:;])(?:\"([^\"]{1,300})\"|“([^”]{1,300})”|„([^“”]{1,300})[“”]|«([^»]{1,300})»)(?!\w)"
    r"|「([^」]{1,300})」|『([^』]{1,300})』"
)
_BLANK = regex(r"[\s'’]+")
_HANGUL = regex(f"[{terms.HANGUL}]+")
_AROUND = regex(f"^[`'\"(\\[{{<]+|[`'\",;:!?)\\]}}>{terms.HANGUL}{terms.HAN_KANA}]+$")
_EMOJI = regex("u[0-9a-f]{4,5}")
_VERSION = regex(r"[vV](\d+)$")
_VIETNAMESE = regex("[ơưƠƯ\u1ea0-\u1ef9]")


class Term(NamedTuple):
    """
    One word or name: its `forms`, the most exact first, each one or more phrases; `same` are the synonyms of `word`.
    """

    forms: tuple[tuple[Phrase, ...], ...]
    word: str = ""
    same: tuple[Phrase, ...] = ()


class QueryWord(NamedTuple):
    """
    A word or phrase of a question, the number of chunks that contain it, and its weight (the idf of bm25).

    `same` are its synonyms. If the vault has only these, `part` is the first of them, and `word` the word in the
    question.
    """

    part: Phrase
    chunks: int
    weight: float
    same: tuple[Phrase, ...] = ()
    word: str = ""

    @property
    def text(self) -> str:
        """It as people read it, a phrase in quotes, the beginning of a word with a star."""
        return str(self.part)

    @property
    def expression(self) -> Expression:
        """Return the expression that finds the word or a synonym."""
        return AnyOf((self.part, *self.same)) if self.same else self.part

    def as_dict(self) -> dict[str, Any]:
        """Return it as the command line's JSON shows it."""
        return {"text": self.text, "chunks": self.chunks, "weight": self.weight, "same": tuple(map(str, self.same))}


class Query(NamedTuple):
    """
    A query of the index by words: any or `all` of `terms`, and always every phrase of `required`.

    If the vault has a quoted phrase nowhere, such as a film's title in another language, `instead` is asked for, if the
    question has more than quotes.
    """

    terms: tuple[Term, ...] = ()
    required: tuple[Phrase, ...] = ()
    all: bool = False
    instead: tuple[Term, ...] = ()

    def chosen(self, frequency: Callable[[Expression], int], total: int, most: int = _MOST_PARTS) -> Chosen:
        """Choose each term's first form found in `total` chunks, at most 64 phrases; ask for the `most` rarest."""
        count = cache(frequency)
        required, wanted = self.required, self.terms
        if self.instead and not all(map(count, required)):
            required, wanted = (), self.instead
        parts: dict[Phrase, None] = dict.fromkeys(required)
        alike: list[WordSynonyms] = []
        for term in wanted:
            if len(parts) >= _MOST_PARTS:
                break
            form = next((form for form in term.forms if all(map(count, form))), None)
            # A chunk must contain what is quoted, and a synonym is not.
            if not required and len(alike) < _MOST_ALIKE and (same := tuple(filter(count, term.same))):
                form = form or ()
                alike.append(WordSynonyms(term.word, form, same, count(AnyOf(same))))
            parts |= dict.fromkeys(term.forms[-1] if form is None else form)
        listed = list(parts)[:_MOST_PARTS]
        same_of = {part: each.same for each in alike for part in each.parts}

        def word(part: Phrase, chunks: int, same: tuple[Phrase, ...], of: str = "") -> QueryWord:
            return QueryWord(part, chunks, terms.idf(total, chunks), same, of)

        words = [word(part, count(part), same_of.get(part, ())) for part in (*required, *listed)]
        # What the vault has by synonyms only.
        words += [word(each.same[0], each.chunks, each.same[1:], each.word) for each in alike if not each.parts]
        if len(listed) > most:
            listed = sorted(listed, key=lambda part: count(part) or math.inf)[:most]
        return Chosen(self._expression(listed, required), tuple(words), bool(required), tuple(alike))

    def _expression(self, parts: Sequence[Phrase], required: Sequence[Phrase]) -> Expression | None:
        """Return the expression of any, or all, of the parts, and of all that is required; None without a part."""
        if not parts:
            return None
        found = AnyOf(tuple(parts), self.all)
        return AnyOf((*required, found), all=True) if required else found


class WordSynonyms(NamedTuple):
    """The synonyms of one `word` that the vault has, in `chunks` chunks; `parts` is the word itself, if it has that."""

    word: str
    parts: tuple[Phrase, ...]
    same: tuple[Phrase, ...]
    chunks: int

    @property
    def text(self) -> str:
        """Return it as people read it: `레디스 = redis`."""
        return f"{self.word} = {', '.join(terms.readable(phrase.text) for phrase in self.same)}"


class Chosen(NamedTuple):
    """An expression (None for nothing), its words, and their synonyms. If it `quotes`, a hit must match."""

    expression: Expression | None
    words: tuple[QueryWord, ...]
    quotes: bool = False
    alike: tuple[WordSynonyms, ...] = ()


class Words:
    """
    Result of a query: `legs` by chunk number. Of more than `most_words` words the rarest are looked for.

    Where too few chunks match, a query of `stems` adds the chunks `inflected`: they have a word with another particle.
    """

    def __init__(
        self,
        loaded: LoadedIndex,
        query: Query,
        total: int,
        guides: int = 0,
        most_words: int = _MOST_PARTS,
        stems: Query | None = None,
    ) -> None:
        """`total` is the number of chunks, `guides` of those of guides that are left out."""
        chosen = query.chosen(loaded.frequencies(guides), total, most_words)
        self._catalog, self._total, self._alike = loaded.catalog, total, chosen.alike
        self._of_stems = (loaded, stems, total, guides) if stems else None
        self._expression = str(chosen.expression or "")
        self.words, self.quotes = chosen.words, chosen.quotes
        self.legs: dict[int, Leg] = {}
        self._asked: set[int] = set()
        self.stems: tuple[QueryWord, ...] = ()
        self.inflected: set[int] = set()

    @property
    def known(self) -> float:
        """The share, 0..1 by weight, of the words that the vault has."""
        return sum(word.weight for word in self.words if word.chunks) / (sum(word.weight for word in self.words) or 1.0)

    def find(self, limits: Sequence[Condition], near: Sequence[int], wanted: int) -> list[int]:
        """Look for the `wanted` best chunks, and score the chunks `near` whatever their rank; return all of them."""
        asked, catalog = self._expression, self._catalog
        matched = dict(catalog.match(asked, limits, wanted, near)) if asked else {}
        scores, same = self._with_synonyms(matched, [*dict.fromkeys((*near, *matched))], limits, wanted)
        if asked and (new := scores.keys() - matched.keys()):
            # Chunks that only a synonym led to may have words of the question, too.
            for number, bm25 in catalog.match_among(asked, [*new]):
                scores[number] += bm25
        best = sorted(scores, key=lambda number: (-scores[number], number))
        ranks = {number: rank for rank, number in enumerate(best[:wanted], 1)}
        self.legs = {**self._legs(scores, same, ranks), **self.legs}
        if self._of_stems and len(scores) < wanted:
            others = Words(*self._of_stems)
            others.find(limits, near, wanted)
            self.stems = others.words
            self.inflected |= others.legs.keys() - self.legs.keys()
            self.legs = {number: leg._replace(rank=0) for number, leg in others.legs.items()} | self.legs
        self._asked |= {*near, *self.legs}
        return [*scores, *self.inflected]

    def score(self, numbers: Iterable[int]) -> None:
        """Score these chunks, too."""
        if others := [number for number in numbers if number not in self._asked]:
            matched = dict(self._catalog.match_among(self._expression, others)) if self._expression else {}
            self.legs |= self._legs(*self._with_synonyms(matched, others), {})

    def _with_synonyms(
        self, matched: Mapping[int, float], listed: Sequence[int], limits: Sequence[Condition] = (), most_new: int = 0
    ) -> tuple[dict[int, float], dict[int, tuple[str, ...]]]:
        """Return the scores `matched` with synonyms' in `listed` and `most_new` other chunks, and the synonyms."""
        scores, same = dict(matched), dict[int, tuple[str, ...]]()
        for alike in self._alike:
            idf = terms.idf(self._total, alike.chunks)
            own = sum(word.weight for word in self.words if word.part in alike.parts)
            # A rare synonym is worth no more than the word that was asked for, a common one no more than itself.
            weight = weights.SYNONYM * (min(own, idf) if alike.parts else idf)
            # To rank all chunks with a common synonym takes long, and finds little: it counts for what is there anyway.
            if most_new and alike.chunks <= weights.RARE_SYNONYM:
                found = self._catalog.match(str(AnyOf(alike.same)), limits, most_new, listed)
            else:
                found = self._catalog.match_among(str(AnyOf(alike.same)), listed)
            for number, bm25 in found:
                scores[number] = scores.get(number, 0.0) + weight * min(1.0, bm25 / idf)
                same[number] = (*same.get(number, ()), alike.text)
        return scores, same

    def _legs(
        self, scores: Mapping[int, float], same: Mapping[int, tuple[str, ...]], ranks: Mapping[int, int]
    ) -> dict[int, Leg]:
        most, legs = sum(word.weight for word in self.words), {}
        for number, found in scores.items():
            share = found / most if most else 0.0
            score, beyond = (share, 0.0) if share <= 1 else (1.0, round(share - 1, 4))
            legs[number] = Leg(ranks.get(number, 0), score, beyond, same.get(number, ()))
        return legs

    def shares(self, loaded: LoadedIndex, notes: Mapping[str, tuple[int, int]]) -> dict[str, float]:
        """Return the share, 0..1 by weight, of the words that each note has; its first and last chunk are given."""
        rare = [word for word in dict.fromkeys(self.words) if word.chunks <= weights.MOST_COMMON]
        most = sum(word.weight for word in rare)
        if not most or not notes:
            return {}
        there = [word for word in rare if word.chunks]
        sums = np.zeros(len(notes))
        held = loaded.holding([word.expression for word in there], [*notes.values()])
        for word, has in zip(there, held, strict=True):
            sums += np.array(has) * word.weight
        return dict(zip(notes, (sums / most).tolist(), strict=True))


def words_in(loaded: LoadedIndex, words: Iterable[QueryWord], numbers: Sequence[int]) -> list[list[list[str]]]:
    """Return a question's words in each chunk, with their synonyms there, as people write them; no common words."""
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


def parse(text: str, table: synonyms.Table = synonyms.NONE) -> Query:
    """
    Parse a question: its words without stop words, and its quoted phrases, which a hit must contain.

    Quotes are "…", “…”, „…“, «…», 「…」 and 『…』. A minus is a part of a flag
    and excludes nothing. Words that `table` has come with their synonyms.
    """
    spans = [next(filter(None, match.groups())) for match in _QUOTED.finditer(text)]
    required = tuple(dict.fromkeys(filter(None, map(terms.phrase, spans))))
    words = list(_terms(_QUOTED.sub(" ", text)))
    content = _with_synonyms([(word, term) for word, term in words if word not in STOP_WORDS], table)
    kept = content or ([] if required else [term for _, term in words])
    instead: Iterable[Term] = ()
    if kept and required:
        unquoted = _QUOTED.sub(lambda match: f" {next(filter(None, match.groups()))} ", text)
        instead = dict.fromkeys(term for word, term in _terms(unquoted) if word not in STOP_WORDS)
    return Query(tuple(dict.fromkeys(kept)), required, instead=tuple(instead))


def _with_synonyms(words: Sequence[tuple[str, Term]], table: synonyms.Table) -> list[Term]:
    """Return the terms with the synonyms of their words, but for those that the question names itself."""
    if not table:
        return [term for _, term in words]
    alike = [synonyms.same(table, word) for word, _ in words]
    named = {word for word, _ in alike}
    return [
        term._replace(word=word, same=tuple(terms.phrase(other) for other in same if other not in named))
        for (_, term), (word, same) in zip(words, alike, strict=True)
    ]


def phrases(listed: Iterable[str], *, needs_all: bool = False, form: Callable[[str], Phrase] = terms.phrase) -> Query:
    """Return a query for any of these texts, or one that `needs_all`, each as the phrase that `form` makes of it."""
    parts = dict.fromkeys(filter(None, map(form, listed)))
    return Query(tuple(Term(((part,),)) for part in parts), all=needs_all)


def stem_phrase(text: str) -> Phrase:
    """Return the phrase of a text without the Korean particle or ending of its last word."""
    *before, last = terms.runs(text) or [""]
    if not _HANGUL.fullmatch(last):
        return terms.phrase(text)
    is_particle = before and not terms.DENSE.match(before[-1]) and last in korean.PARTICLES  # as in `React를`
    return terms.phrase(text[: text.rfind(last)] if is_particle else " ".join([*before, korean.stem(last)]))


def _terms(text: str) -> Iterator[tuple[str, Term]]:
    """Yield each word of `text`, lower-cased, with its term."""
    compounds = [(compound, terms.runs(compound)) for compound in _BLANK.split(text)]
    is_english = all(run.isascii() or terms.DENSE.match(run) for _, runs in compounds for run in runs)
    is_vietnamese = bool(_VIETNAMESE.search(text))
    last = ""
    for compound, runs in compounds:
        if len(compound) <= _LONGEST_NAME and (marked := terms.marked_name(_AROUND.sub("", compound))):
            yield marked, Term(((terms.in_a_row(marked),), tuple(map(terms.in_a_row, runs))))
            continue
        latin = [run for run in runs if not terms.DENSE.match(run)]
        yield from _of_compound(compound, runs, latin, is_english)
        if is_vietnamese:  # which writes syllables apart; two together are more specific than each
            for before, run in pairwise([last, *latin]):
                if before:
                    yield f"{before} {run}", Term(((terms.in_a_row(before, run),),))
            last = latin[-1] if latin else last


def _of_compound(compound: str, runs: list[str], latin: list[str], is_english: bool) -> Iterator[tuple[str, Term]]:
    """Yield a name of several words as one, and its words with their terms; `latin` are those with blanks between."""
    if len(latin) > 1 and runs[: len(latin)] == latin:
        first = _VERSION.match(latin[0])  # of `snake_case`, a path or a version
        forms = [latin, [first[1], *latin[1:]]] if first else [latin]
        yield compound.lower(), Term(tuple((terms.in_a_row(*form[:_MOST_PARTS]),) for form in forms))
        # Single numbers and letters of a version or a path mean nothing alone.
        runs = [run for run in runs if len(run) > 2 or run not in latin]
    for before, run in pairwise(["", *runs]):
        if not terms.DENSE.match(run):
            yield run.lower(), _word_term(run, is_english)
        elif not (run in korean.PARTICLES and before in latin):  # else the particle of that word, as in `React를`
            yield run, _run_term(run)


def _word_term(word: str, is_english: bool) -> Term:
    exact = (terms.in_a_row(word),)
    parts = terms.humps(word)
    if len(parts) > 1:
        return Term((exact, (terms.in_a_row(*parts),), tuple(map(terms.in_a_row, parts))))
    if _EMOJI.fullmatch(word):
        return Term((exact, ()))
    if len(word) <= _SHORTEST_PREFIX or word.isdigit():
        return Term((exact,))
    # Prefixes stand in for stems where the index has no stemmer. In English they do harm: `compose` is no `component`.
    prefix = (Phrase((word[: max(_SHORTEST_PREFIX, math.ceil(len(word) * _PREFIX))],), True),)
    return Term((exact, prefix) if is_english else (prefix, exact))


def _run_term(run: str) -> Term:
    is_hangul = bool(_HANGUL.fullmatch(run))
    pairs = terms.words(korean.stem(run) if is_hangul else run)
    apart = tuple(map(terms.in_a_row, pairs))
    # A whole Korean word counts once, however many pairs it has; Chinese and Thai runs are sentences.
    return Term(((terms.in_a_row(*pairs),), apart) if is_hangul and 1 < len(pairs) < _MOST_RUN else (apart,))
