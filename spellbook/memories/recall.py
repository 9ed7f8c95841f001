"""
What is surely related to a prompt, by words and titles alone: no model and no vector is loaded. It only reads.

A process that answers one prompt and ends has no time to load a model. So nothing is better here than a guess: a note
must share several rare words with the prompt, or the prompt must contain all words of its title.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spellbook.index.catalog.schema import StoredChunk
from spellbook.index.filters import NO_GUIDES
from spellbook.index.opened import Index
from spellbook.memories.briefing import HEAD
from spellbook.search import fts_query, related
from spellbook.search.presentation import is_outside
from spellbook.search.question import question
from spellbook.text import terms
from spellbook.text.expressions import AnyOf, Phrase
from spellbook.text.quoting import exact, flat, quoted, shortened

MOST = 3
"""Most passages for a prompt."""

_MOST_LETTERS = 400
_MOST_READ = 4_000
"""Letters of a prompt that are read; a longer one is a pasted text rather than a question."""

_BLANK_LINE = re.compile(r"\n[ \t]*\n")
_HEADING = re.compile(r"^(#+ [^\n]*)\n\s*\n", re.M)
_MOST_WORDS = 24
_CANDIDATES = 12
_RARE, _FEW = 0.005, 5
"""A word is rare in half a per cent of the chunks at most, or in 5 of them. By hand."""

_COVERED, _LEAST = 0.5, 2
"""Share by weight of the prompt's words that a passage has at least, and its least rare words. By hand."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of a note that is surely related to a prompt; `words` are what they share."""

    chunk: StoredChunk
    text: str
    words: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return {
            "id": self.chunk.id,
            "title": self.chunk.title,
            "path": self.chunk.path,
            "text": self.text,
            "words": list(self.words),
        }


@dataclass(frozen=True, slots=True)
class _PromptWord:
    """A word of a prompt as the catalog is asked for it, how many chunks have it, and its idf."""

    expression: Phrase
    chunks: int
    weight: float

    @property
    def said(self) -> str:
        return terms.readable(self.expression.text).casefold()


def recall(index: Index, prompt: str, also: str | Sequence[str] = ()) -> tuple[Passage, ...]:
    """
    Return at most three passages of as many notes, best first; none if nothing is sure.

    What the further texts `also` find comes after what the prompt does. Raises InvalidInput for wrong texts, and
    StorageError.
    """
    texts = [prompt]
    if also:
        texts += question("search", prompt[:_MOST_READ], also=also).also
    best: dict[str, Passage] = {}
    for text in texts:
        for passage in _of_text(index, text):
            best.setdefault(passage.chunk.path, passage)
    return tuple(best.values())[:MOST]


def _of_text(index: Index, prompt: str) -> tuple[Passage, ...]:
    catalog = index.catalog
    # Quotes in a prompt are no demand that a note must hold them.
    plain = re.sub('["“”„«»「」『』\ud800-\udfff]', " ", prompt[:_MOST_READ])
    with catalog.reading():
        total, guides = catalog.counts().chunks, catalog.guides()
        words = _words(plain, total, lambda part: catalog.frequency(str(part), guides))
        rare = sorted((each for each in words if 0 < each.chunks <= max(_FEW, _RARE * total)), key=lambda w: w.chunks)
        rare = rare[:_MOST_WORDS]
        if not rare:
            return ()
        limits = (NO_GUIDES, *index.visible)
        found = catalog.match(str(AnyOf(tuple(each.expression for each in rare))), limits, _CANDIDATES)
        scores = dict(found)
        has: dict[int, list[_PromptWord]] = {number: [] for number in scores}
        for word in rare:
            for number, _ in catalog.match_among(str(word.expression), list(scores)):
                has[number].append(word)
        chunks = [each for each in catalog.by_number(list(scores)) if not is_outside(each)]
        old = related.superseded(index, {each.path for each in chunks}, index.visible)
    # A word that the vault lacks weighs as much as the rarest that it has, not more: a polite one says nothing.
    heaviest = max(each.weight for each in rare)
    asked = sum(min(each.weight, heaviest) for each in words)
    said = _content(plain)
    best: dict[str, StoredChunk] = {}
    for chunk in sorted(chunks, key=lambda each: (-scores[each.number], each.number)):
        covered = sum(each.weight for each in has[chunk.number])
        several = sum(len(each.said) > 1 for each in has[chunk.number]) >= _LEAST
        is_sure = several and covered >= _COVERED * asked
        is_current = chunk.path not in old and chunk.meta.get("status") not in {"superseded", "archived"}
        if is_current and (is_sure or _is_titled(chunk.title, said, has[chunk.number])):
            best.setdefault(chunk.path, chunk)
    listed = [*best.values()][:MOST]
    return tuple(
        Passage(each, _passage(each.text, has[each.number]), tuple(word.said for word in has[each.number]))
        for each in listed
    )


def text(passages: tuple[Passage, ...]) -> str:
    """Return passages as text to stand before a prompt, "" if there are none."""
    lines = [
        line
        for each in passages
        for line in (f"- {flat(each.chunk.title)} id: {exact(each.chunk.id)}", quoted(each.text))
    ]
    return "\n".join([HEAD, "Related to this prompt:", *lines]) if lines else ""


def _words(prompt: str, total: int, frequency: Callable[[Phrase], int]) -> list[_PromptWord]:
    """Return the prompt's words without stop words, each in the most exact form that is one expression of the index."""
    words: dict[Phrase, _PromptWord] = {}
    for term in fts_query.parse(prompt).terms:
        forms = [form[0] for form in term.forms if len(form) == 1]
        if not forms:
            continue
        counts: Mapping[Phrase, int] = {form: frequency(form) for form in forms}
        chosen = next((form for form in forms if counts[form]), forms[0])
        count = counts[chosen]
        words[chosen] = _PromptWord(chosen, count, math.log(1 + (total - count + 0.5) / (count + 0.5)))
        if len(words) >= 2 * _MOST_WORDS:
            break
    return [*words.values()]


def _content(text: str) -> set[Phrase]:
    """Return the words of a text as expressions of the index, without stop words."""
    return {form for term in fts_query.parse(text).terms for (form, *rest) in term.forms if not rest}


def _is_titled(title: str, said: set[Phrase], shared: list[_PromptWord]) -> bool:
    """Say whether a prompt has all words of a title, two at least, of which one is rare."""
    wanted = [{form for (form, *rest) in term.forms if not rest} for term in fts_query.parse(title).terms]
    return (
        len(wanted) >= _LEAST
        and all(each & said for each in wanted)
        and any(word.expression in each for each in wanted for word in shared)
    )


def _passage(text: str, words: list[_PromptWord]) -> str:
    """Return the paragraph that has most of the words, rather prose than code, cut to 400 letters."""
    parts = [part.strip() for part in _BLANK_LINE.split(_HEADING.sub(r"\1\n", text.strip()))]
    best = max(parts, key=lambda part: sum(word.said in part.casefold() for word in words) - 0.5 * ("```" in part))
    return shortened(best, _MOST_LETTERS)
