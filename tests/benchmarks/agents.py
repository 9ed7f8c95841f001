"""
How agents ask: a question with the texts that a language model guesses beside it, which it has not seen answered.

`tests/quality/also-NAME.yaml` has for each question the sentence that an agent expects the note to contain, and the words
of a note in the other language. Whoever wrote them saw nothing but the question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import yaml

from spellbook.library.book import Spellbook
from spellbook.notes.chunks import Chunk
from tests.benchmarks.corpora import Vault
from tests.benchmarks.questions import HALVES, QUALITY, Loose

WAYS: Mapping[str, Callable[[Sequence[str], Sequence[str]], Sequence[str]]] = {
    "alone": lambda own, other: (),
    "with two texts": lambda own, other: own,
    "with one": lambda own, other: own[:1],
    "with two, one wrong": lambda own, other: (other[0], *own[1:]),
}
"""Ways to ask: what is asked beside a question, of its `own` further texts and of those of an `other` question."""

_ANOTHER = 7
"""So many places on in the list is the question whose guess serves as a wrong one. By hand."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its further texts and those of another one; `accept` are the places that answer it."""

    text: str
    half: str
    also: tuple[str, ...]
    wrong: tuple[str, ...]
    accept: frozenset[str] = frozenset()


def questions(name: str, halves: Mapping[str, str], accept: Mapping[str, frozenset[str]]) -> list[Question]:
    """Return the questions of `tests/quality/also-NAME.yaml`, with the half of each and the places that answer it."""
    rows = yaml.safe_load((QUALITY / f"also-{name}.yaml").read_text("utf-8"))
    also = [tuple(row["also"]) for row in rows]
    others = [also[(i + _ANOTHER) % len(also)] for i in range(len(also))]
    texts = [row["question"] for row in rows]
    return [
        Question(text, halves.get(text, HALVES[1]), own, other, accept.get(text, frozenset()))
        for text, own, other in zip(texts, also, others, strict=True)
    ]


def off_topic(name: str) -> list[Question]:
    """Return questions that no note answers."""
    return questions(name, {}, {})


def right(
    vault: Vault, chunks: Sequence[tuple[str, Chunk]], lines: Mapping[Loose, Sequence[tuple[str, int, int]]]
) -> dict[str, frozenset[str]]:
    """Return the places of the chunks that hold one of a question's lines (path, first, last), by its text."""
    return {
        question.text: frozenset(
            vault.unit(path, chunk.line)
            for path, chunk in chunks
            if any(path == at and chunk.line <= last and chunk.end_line >= first for at, first, last in accepted)
        )
        for question, accepted in lines.items()
    }


def places(book: Spellbook, vault: Vault, asked: Sequence[Question], way: str) -> list[tuple[int, int]]:
    """
    Return the place, from 1, of the first right one among the hits of each question, and among what is shown.

    That is the hits, or the closest notes. 0 stands for none that is right, -1 for nothing at all.
    """
    found = []
    for question in asked:
        answer = book.search(question.text, also=WAYS[way](question.also, question.wrong))
        both = []
        for hits in (answer.hits, answer.hits or answer.closest):
            right = [i for i, hit in enumerate(hits, 1) if vault.unit(hit.path, hit.line) in question.accept]
            both.append(right[0] if right else 0 if hits else -1)
        found.append((both[0], both[1]))
    return found


def figures(asked: Sequence[Question], found: Sequence[tuple[int, int]]) -> Iterator[tuple[str, str, float, float]]:
    """Yield half, figure, and its value by sure hits and by what is shown."""
    kinds: Mapping[str, Callable[[int], float]] = {
        "hit@1": lambda rank: float(rank == 1),
        "hit@5": lambda rank: float(1 <= rank <= 5),
        "any hit": lambda rank: float(rank >= 0),
    }
    for half in HALVES:
        chosen = [ranks for question, ranks in zip(asked, found, strict=True) if question.half == half]
        for figure, worth in kinds.items() if chosen else ():
            sure, shown = (float(np.mean([worth(ranks[i]) for ranks in chosen])) for i in (0, 1))
            yield half, figure, sure, shown
