"""
Passages of notes for a prompt, which an agent gets without being asked.

Found by words and titles alone, without model or vectors. A process that answers one prompt has no time to load a
model, and no answer is better than a guess. So a note must share several rare words with the prompt, or the prompt
must contain all words of its title. Notes whose text comes from outside are left out, as in a briefing.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spellbook.index import privacy
from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.filters import NO_GUIDES, validity
from spellbook.index.opened import Index
from spellbook.memories.session_briefing import HEAD
from spellbook.search import related
from spellbook.search.question import question
from spellbook.search.words import QueryWord, parse
from spellbook.system.lazy import regex
from spellbook.text import terms
from spellbook.text.quoting import exact, flat, quoted, shortened

MOST = 3
"""Most passages for a prompt."""

_MOST_OF_PASSAGE = 400
"""Letters of a passage."""
_MOST_OF_PROMPT = 4_000
"""Letters of a prompt that are read; a longer one is a pasted text rather than a question."""

_BLANK_LINE = regex(r"\r?\n[ \t]*\r?\n")
_HEADING = regex(r"^(#+ [^\n]*)\n\s*\n", re.M)
_MOST_WORDS = 24
"""Rare words of a prompt that are looked for."""
_CANDIDATES = 12
"""Chunks that are compared."""
_RARE = 0.005
"""Share of the chunks that may have a rare word. By hand."""
_FEW = 5
"""Chunks that may have a rare word in any vault. By hand."""
_COVERED = 0.5
"""Share by weight of the prompt's words that a passage has at least. By hand."""
_LEAST = 2
"""Rare words that a passage has at least, and words of a title. By hand."""


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


def recall(index: Index, prompt: str, also: str | Sequence[str] = ()) -> tuple[Passage, ...]:
    """Return at most three sure passages of as many notes, those for `also` last. Raises InvalidInput, StorageError."""
    texts = [prompt]
    if also:
        texts += question("search", prompt[:_MOST_OF_PROMPT], also=also).also
    best: dict[str, Passage] = {}
    for text in texts:
        for passage in _of_text(index, text):
            best.setdefault(passage.chunk.path, passage)
    return tuple(best.values())[:MOST]


def _of_text(index: Index, prompt: str) -> list[Passage]:
    """Return the passages that are surely related to a prompt, the best first, one a note."""
    catalog = index.catalog
    # Quotes in a prompt are no demand that a note must hold them.
    plain = re.sub('["“”„«»「」『』\ud800-\udfff]', " ", prompt[:_MOST_OF_PROMPT])
    with catalog.reading():
        total, guides = catalog.counts().chunks, catalog.guides()
        words = _prompt_words(plain, total, lambda part: catalog.frequency(str(part), guides))
        rare = [word for word in words if 0 < word.chunks <= max(_FEW, _RARE * total)]
        rare = sorted(rare, key=lambda word: word.chunks)[:_MOST_WORDS]
        if not rare:
            return []
        limits = (NO_GUIDES, privacy.ON_PURPOSE, *index.visible)
        scores = dict(catalog.match(str(terms.AnyOf(tuple(word.part for word in rare))), limits, _CANDIDATES))
        shared: dict[int, list[QueryWord]] = {number: [] for number in scores}
        for word in rare:
            for number, _ in catalog.match_among(str(word.part), list(scores)):
                shared[number].append(word)
        chunks = [chunk for chunk in catalog.by_number(list(scores)) if not privacy.is_untrusted(chunk.meta)]
        old = related.standing(index, chunks)
    # A word that the vault lacks weighs as much as the rarest that it has, not more: a polite one says nothing.
    heaviest = max(word.weight for word in rare)
    enough = _COVERED * sum(min(word.weight, heaviest) for word in words)
    content = set().union(*_forms(plain))
    best: dict[str, Passage] = {}
    for chunk in sorted(chunks, key=lambda chunk: (-scores[chunk.number], chunk.number)):
        there = shared[chunk.number]
        is_sure = _is_sure(there, enough) or _is_titled(chunk.title, content, there)
        if is_sure and chunk.path not in old and _holds(chunk):
            best.setdefault(chunk.path, _passage(chunk, _readable(there)))
    return [*best.values()][:MOST]


def _holds(chunk: StoredChunk) -> bool:
    """Say whether a note holds now, by its own keys."""
    begins, ends, _ = validity(chunk.meta)
    now = time.time()
    return begins <= now <= ends and chunk.meta.get("status") != "archived" and not privacy.lapsed(chunk.meta, now)


def _is_sure(shared: Sequence[QueryWord], enough: float) -> bool:
    """Say whether a passage shares several rare words with a prompt, of a weight that is `enough`."""
    return sum(len(word) > 1 for word in _readable(shared)) >= _LEAST and sum(each.weight for each in shared) >= enough


def _readable(shared: Sequence[QueryWord]) -> tuple[str, ...]:
    return tuple(terms.readable(word.part.text).casefold() for word in shared)


def _passage(chunk: StoredChunk, words: tuple[str, ...]) -> Passage:
    """Return of a chunk's paragraphs the one with most of the words, rather prose than code."""
    parts = [part.strip() for part in _BLANK_LINE.split(_HEADING.sub(r"\1\n", chunk.text.strip()))]
    shares = [sum(word in part.casefold() for word in words) - 0.5 * ("```" in part) for part in parts]
    return Passage(chunk, shortened(parts[shares.index(max(shares))], _MOST_OF_PASSAGE), words)


def related_text(passages: tuple[Passage, ...]) -> str:
    """Return passages as text to stand before a prompt, "" if there are none."""
    lines = [
        line
        for passage in passages
        for line in (f"- {flat(passage.chunk.title)} id: {exact(passage.chunk.id)}", quoted(passage.text))
    ]
    return "\n".join([HEAD, "Related to this prompt:", *lines]) if lines else ""


def _prompt_words(prompt: str, total: int, frequency: Callable[[terms.Phrase], int]) -> list[QueryWord]:
    """Return the prompt's words without stop words, each in the most exact form that the index has."""
    words: dict[terms.Phrase, QueryWord] = {}
    for forms in filter(None, _forms(prompt)):
        counts = [(form, frequency(form)) for form in forms]
        chosen, count = next((pair for pair in counts if pair[1]), counts[0])
        words[chosen] = QueryWord(chosen, count, math.log(1 + (total - count + 0.5) / (count + 0.5)))
        if len(words) >= 2 * _MOST_WORDS:
            break
    return [*words.values()]


def _forms(text: str) -> list[list[terms.Phrase]]:
    """Return the forms of each word of a text that are one expression of the index, without stop words."""
    return [[form[0] for form in term.forms if len(form) == 1] for term in parse(text).terms]


def _is_titled(title: str, content: set[terms.Phrase], shared: list[QueryWord]) -> bool:
    """Say whether a prompt of the words `content` has all words of a title, two at least, of which one is rare."""
    wanted = _forms(title)
    return (
        len(wanted) >= _LEAST
        and all(content.intersection(forms) for forms in wanted)
        and any(word.part in forms for forms in wanted for word in shared)
    )
