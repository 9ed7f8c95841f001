"""
Words for PostgreSQL: the same words as in the catalog's full-text index, as FTS5's own tokenizer cuts them.

A chunk has them twice: as a tsvector with their places, which finds phrases and beginnings of words, and as a sparse
vector of BM25F weights, which ranks. The best are then scored by their places, exactly as FTS5's bm25 does.
"""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spellbook.index.catalog.tables import WEIGHTS
from spellbook.text.expressions import AllOf, Expression, Phrase, Without
from spellbook.text.unicode import mended

K1 = 1.2
"""How soon a further occurrence of a word adds little, as in FTS5's bm25."""

B = 0.75
"""How much the length of a chunk counts, as in FTS5's bm25."""

COLUMNS = ("title", "heading", "keywords", "questions", "body", "parts")
LETTERS = "AAABCD"
"""The letter of each column's words in a tsvector, which has four."""

WEIGHT = dict(zip(LETTERS, WEIGHTS, strict=True))
OUT_OF_QUESTIONS = "ACD"

WIDTH = 1_000_000_000
"""Dimensions of the sparse vectors: pgvector's most. Two words of one vault rarely share a number."""

_LAST_PLACE = 16_383
"""The last place of a word that a tsvector holds."""

_MOST_PLACES = 255
"""Places of a word that a tsvector holds."""

_GAP = 8
"""Places between two columns, so that no phrase reaches from one into the next."""

_local = threading.local()


class ChunkWords(NamedTuple):
    """A chunk's words: how many there are, in all columns, as a tsvector, and as a sparse vector."""

    length: int
    places: str
    bag: str


def of_chunks(rows: Sequence[Sequence[str]], own: str, average: float) -> list[ChunkWords]:
    """Return the words of chunks, given as columns; `own` is the word of their vault, `average` their mean length."""
    cut = _cut([text for row in rows for text in row])
    result = []
    for i in range(len(rows)):
        at = length = 0
        places: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for j, letter in enumerate(LETTERS):
            for token in cut[i * len(COLUMNS) + j]:
                at += 1
                length += 1
                places[token].append((at, letter))
            at += _GAP
        norm = K1 * (1 - B + B * length / (average or 1.0))
        bag: dict[int, float] = {}
        for token, listed in places.items():
            weight = sum(WEIGHT[letter] for _, letter in listed)
            number = number_of(token)
            bag[number] = bag.get(number, 0.0) + weight * (K1 + 1) / (weight + norm)
        lexemes = [_lexeme(token, listed) for token, listed in places.items()]
        result.append(ChunkWords(length, " ".join([_quote(own), *filter(None, lexemes)]), sparse(bag)))
    return result


def sparse(weights: Mapping[int, float]) -> str:
    """Return a sparse vector as pgvector reads it."""
    inside = ",".join(f"{number}:{weight:.5g}" for number, weight in sorted(weights.items()) if weight)
    return f"{{{inside}}}/{WIDTH}"


def tokens(phrase: Phrase) -> tuple[str, ...]:
    """Return the words of a phrase as the index has them."""
    return tuple(_cut([phrase.text])[0])


def spans(phrase: Phrase) -> list[tuple[str, str]]:
    """Return the first and last word that each word of a phrase means: the last one may be a beginning."""
    listed = [(token, token) for token in tokens(phrase)]
    if phrase.is_prefix and listed:
        listed[-1] = listed[-1][0], listed[-1][0] + "\U0010ffff"
    return listed


def tsquery(expression: Expression, column: str = "") -> str:
    """Return an expression as a tsquery, "" if it can find nothing; `column` (questions) does not count."""
    if isinstance(expression, Without):
        return tsquery(expression.part, expression.column)
    if isinstance(expression, Phrase):
        listed = tokens(expression)
        letters = OUT_OF_QUESTIONS if column else ""
        marks = [letters] * len(listed)
        if listed and expression.is_prefix:
            marks[-1] = "*" + letters
        parts = [_quote(token) + (f":{mark}" if mark else "") for token, mark in zip(listed, marks, strict=True)]
        return " <-> ".join(parts)
    parts = [tsquery(part, column) for part in expression.parts]
    if isinstance(expression, AllOf):
        return " & ".join(f"({each})" for each in parts) if all(parts) else ""
    return " | ".join(f"({each})" for each in parts if each)


@dataclass(frozen=True, slots=True)
class Sought:
    """A phrase to be scored: its words, whether the last is a beginning, its letters, and its idf."""

    tokens: tuple[str, ...]
    is_prefix: bool
    letters: str
    idf: float

    def bm25(self, places: Mapping[str, Mapping[int, str]], length: int, average: float) -> float:
        """Return its share of a chunk's bm25, by the places of words in the chunk, with each place's letter."""
        weight = sum(WEIGHT[letter] for letter in self._columns(places) if letter in self.letters)
        norm = K1 * (1 - B + B * length / (average or 1.0))
        return self.idf * weight * (K1 + 1) / (weight + norm) if weight else 0.0

    def _columns(self, places: Mapping[str, Mapping[int, str]]) -> Iterable[str]:
        """Yield the letter of the column for each place where the phrase ends."""
        *before, last = self.tokens
        for word, ends in places.items():
            if word == last or (self.is_prefix and word.startswith(last)):
                for at, letter in ends.items():
                    if all(at - n in places.get(token, ()) for n, token in enumerate(reversed(before), 1)):
                        yield letter


def number_of(token: str) -> int:
    """Return the dimension of a word in sparse vectors, from 1."""
    return zlib.crc32(token.encode("utf-8", "surrogatepass")) % (WIDTH - 1) + 1


def _lexeme(token: str, listed: Sequence[tuple[int, str]]) -> str:
    places = [f"{at}{letter}" for at, letter in listed if at <= _LAST_PLACE][:_MOST_PLACES]
    # PostgreSQL bounds a word to 2,046 bytes. Nobody asks for a longer one.
    return f"{_quote(token)}:{','.join(places)}" if places and len(token) < 500 else ""


def _quote(token: str) -> str:
    return "'" + token.replace("\\", "\\\\").replace("'", "''") + "'"


def _cut(texts: Sequence[str]) -> list[list[str]]:
    """Return the words of each text, in order, by the tokenizer of the catalog's index."""
    connection: sqlite3.Connection | None = getattr(_local, "connection", None)
    if connection is None:
        connection = _local.connection = sqlite3.connect(":memory:", isolation_level=None)
        connection.executescript(
            """
            CREATE VIRTUAL TABLE cut USING fts5 (
                text, tokenize = "porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'");
            CREATE VIRTUAL TABLE places USING fts5vocab (cut, instance);
            """
        )
    connection.execute("BEGIN")
    rows = [(i, mended(text)) for i, text in enumerate(texts, 1) if text]
    connection.executemany("INSERT INTO cut (rowid, text) VALUES (?, ?)", rows)
    placed: list[list[tuple[int, str]]] = [[] for _ in texts]
    for token, i, at in connection.execute('SELECT term, doc, "offset" FROM places'):
        placed[i - 1].append((at, token))
    connection.execute("ROLLBACK")
    return [[token for _, token in sorted(tokens)] for tokens in placed]
