"""
From a question to what an index is asked for: its content words, and the phrases it quotes.

The index has words as they are written. All rules for matching are here, so
that a better rule needs no new index. Each word is asked for in the most exact
form that the vault has. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from spellbook.search import synonyms
from spellbook.text import korean, terms
from spellbook.text.expressions import AllOf, AnyOf, Expression, Phrase
from spellbook.text.stop_words import STOP_WORDS

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
_QUOTED = re.compile(
    r"(?<![^\s(\[{,:;])(?:\"([^\"]{1,300})\"|“([^”]{1,300})”|„([^“”]{1,300})[“”]|«([^»]{1,300})»)(?!\w)"
    r"|「([^」]{1,300})」|『([^』]{1,300})』"
)
_BLANK = re.compile(r"[\s'’]+")
_HANGUL = re.compile(f"[{terms.HANGUL}]+")
_BY_PAIRS = re.compile(f"[{terms.HANGUL}{terms.HAN_KANA}{terms.THAI}]")
_AROUND = re.compile(f"^[`'\"(\\[{{<]+|[`'\",;:!?)\\]}}>{terms.HANGUL}{terms.HAN_KANA}]+$")
_EMOJI = re.compile("u[0-9a-f]{4,5}")
_VERSION = re.compile(r"[vV](\d+)$")
_VIETNAMESE = re.compile("[ơưƠƯ\u1ea0-\u1ef9]")


@dataclass(frozen=True, slots=True)
class Term:
    """
    One word or name: its `forms`, the most exact first, each one or more phrases.

    `same` are its synonyms, and `word` is what they are synonyms of.
    """

    forms: tuple[tuple[Phrase, ...], ...]
    word: str = ""
    same: tuple[Phrase, ...] = ()


@dataclass(frozen=True, slots=True)
class Query:
    """
    What to ask the index for: any or `all` of `terms`, and always every phrase of `required`.

    If the vault has a quoted phrase nowhere, such as a film's title in another language, `instead` is asked for, if
    the question has more than quotes.
    """

    terms: tuple[Term, ...]
    required: tuple[Phrase, ...] = ()
    all: bool = False
    instead: tuple[Term, ...] = ()

    def chosen(self, frequency: Callable[[Expression], int], most: int = _MOST_PARTS) -> Chosen:
        """
        Choose each term's first form that `frequency` finds in any chunk, or its last; at most 64 phrases.

        The expression has the `most` rarest of them.
        """
        counts: dict[Expression, int] = {}

        def count(part: Expression) -> int:
            if part not in counts:
                counts[part] = frequency(part)
            return counts[part]

        is_nowhere = bool(self.instead) and not all(map(count, self.required))
        required = () if is_nowhere else self.required
        parts: dict[Phrase, None] = dict.fromkeys(required)
        alike: list[WordSynonyms] = []
        for term in self.instead if is_nowhere else self.terms:
            if len(parts) >= _MOST_PARTS:
                break
            form = next((form for form in term.forms if all(map(count, form))), None)
            # A chunk must contain what is quoted, and a synonym is not.
            if not required and len(alike) < _MOST_ALIKE and (same := tuple(filter(count, term.same))):
                form = form or ()
                alike.append(WordSynonyms(term.word, form, same, AnyOf(same), count(AnyOf(same))))
            parts |= dict.fromkeys(term.forms[-1] if form is None else form)
        listed = list(parts)[:_MOST_PARTS]
        all_parts = (*required, *listed)
        expression: Expression | None = None
        if listed:
            if len(listed) > most:
                listed = sorted(listed, key=lambda part: count(part) or math.inf)[:most]
            expression = AllOf(tuple(listed)) if self.all else AnyOf(tuple(listed))
            if required:
                expression = AllOf((*required, expression))
        return Chosen(expression, all_parts, tuple(map(count, all_parts)), bool(required), tuple(alike))


@dataclass(frozen=True, slots=True)
class WordSynonyms:
    """
    The synonyms of one `word` that the vault has: each of `same`, and all of them as one `expression`, which so many
    `chunks` match. `parts` is the word as it is asked for; nothing, if the vault does not have it.
    """

    word: str
    parts: tuple[Phrase, ...]
    same: tuple[Phrase, ...]
    expression: Expression
    chunks: int

    @property
    def text(self) -> str:
        """Return it as people read it: `레디스 = redis`."""
        return f"{self.word} = {', '.join(terms.readable(phrase.text) for phrase in self.same)}"


@dataclass(frozen=True, slots=True)
class Chosen:
    """
    An expression (None if there is nothing to ask for), its phrases, and the number of chunks that contain each.

    If it `quotes`, a chunk that does not match is no hit, whatever its meaning. `alike` are synonyms; they are not in
    the expression.
    """

    expression: Expression | None
    parts: tuple[Phrase, ...]
    frequencies: tuple[int, ...]
    quotes: bool = False
    alike: tuple[WordSynonyms, ...] = ()


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
        replace(term, word=word, same=tuple(terms.phrase(other) for other in same if other not in named))
        for (_, term), (word, same) in zip(words, alike, strict=True)
    ]


def phrases(listed: Iterable[str], *, all: bool = False) -> Query:
    """Return a query for any, or `all`, of these texts, each as a phrase."""
    parts = dict.fromkeys(filter(None, map(terms.phrase, listed)))
    return Query(tuple(Term(((part,),)) for part in parts), all=all)


def _terms(text: str) -> Iterator[tuple[str, Term]]:
    """Yield each word of `text`, lower-cased, with its term."""
    compounds = [(compound, terms.runs(compound)) for compound in _BLANK.split(text)]
    is_english = all(run.isascii() or _BY_PAIRS.match(run) for _, runs in compounds for run in runs)
    is_vietnamese = bool(_VIETNAMESE.search(text))
    last = ""
    for compound, runs in compounds:
        if len(compound) <= _LONGEST_NAME and (marked := terms.marked_name(_AROUND.sub("", compound))):
            yield marked, Term(((terms.in_a_row(marked),), tuple(map(terms.in_a_row, runs))))
            runs = []
        latin = [run for run in runs if not _BY_PAIRS.match(run)]
        if len(latin) > 1 and runs[: len(latin)] == latin:
            yield compound.lower(), _compound_term(latin)
            # Single numbers and letters of a version or a path mean nothing alone.
            runs = [run for run in runs if len(run) > 2 or run not in latin]
        for i, run in enumerate(runs):
            if not _BY_PAIRS.match(run):
                yield run.lower(), _word_term(run, is_english)
            elif not (
                i and run in korean.PARTICLES and runs[i - 1] in latin
            ):  # else it is the particle of that word, as in `React를`
                yield run, _run_term(run)
        for run in latin if is_vietnamese else ():
            if last:
                # Vietnamese writes syllables apart; two together are more specific than each.
                yield f"{last} {run}", Term(((terms.in_a_row(last, run),),))
            last = run


def _compound_term(words: Sequence[str]) -> Term:
    """Return the term of a name of several words: `snake_case`, a path or a version."""
    first = _VERSION.match(words[0])
    forms = [words, [first[1], *words[1:]]] if first else [words]
    return Term(tuple((terms.in_a_row(*form[:_MOST_PARTS]),) for form in forms))


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
