"""
The sentences of a text in a form that survives rewriting: other case, blanks, marks, markup, look-alikes. Pure.

Two texts with the same sentences have the same keys, however their lines are broken and their items are marked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from unicodedata import normalize

from spellbook.system.lazy import regex
from spellbook.text.unicode import IGNORABLE

_LEAST_WORDS = 4
_LEAST_LETTERS = 20
"""A sentence has so many words or so many letters: a shorter one is in many texts."""

MOSTLY = 0.8
"""Share of the sentences of a text from which on it is taken for another one that holds them."""

_BLOCK = regex(r"\n(?:[ \t>]*\n)+|\n(?=[ \t>]*(?:[-+*]|\d{1,9}[.)]|#{1,6}|\|)(?:[ \t]|\|))")
"""The end of a paragraph, an item, a heading or a row."""

_MARK = regex(r"(?m)^[ \t>]*(?:(?:[-+*]|\d{1,9}[.)]|#{1,6})[ \t]+)?(?:\[[ xX]\][ \t]+)?")
_HIDDEN = regex(r"<!--.*?-->|\]\([^()\n]*\)|<[^<>\n]{1,200}>", re.S)
"""Text that a reader does not see: comments, tags and the addresses of links."""

_END = regex(r"(?<=[.!?…।॥؟۔])[\"'”’»)\]*_`]*\s+|[。！？]+|\|")
_NO_LETTER = regex(r"[\W_]+")
_IGNORABLE = regex(f"[{IGNORABLE}]+")

_ALIKE = str.maketrans("авекмнорстухіјѕԁԛԝһɡαεικνορτυχуʏ", "abekmhopctyxijsdqwhgaeikvoptuxyy")
"""Cyrillic and Greek letters that look like Latin ones, and the letters for which they stand."""


def ways(text: str) -> list[frozenset[str]]:
    """
    Return the keys of the sentences of a Markdown text, in three ways of dividing it, to be compared one by one.

    They are the sentences of its paragraphs, those of its lines, and its paragraphs as a whole.
    """
    blocks = _blocks(text)
    lines = [line for block in blocks for line in block.split("\n")]
    return [frozenset(filter(None, map(_key, parts))) for parts in (_divided(blocks), _divided(lines), blocks)]


def are_mostly(text: str, least: float, is_so: Callable[[str], bool]) -> bool:
    """Say whether a share of at least `least` of the sentences of a text's paragraphs, by their keys, are so."""
    parts = _divided(_blocks(text))
    hits = others = 0
    for key in filter(None, map(_key, parts)):
        if is_so(key):
            hits += 1
        else:
            others += 1
        if others > len(parts) - least * len(parts):  # the rest cannot outweigh these
            return False
    return hits > 0 and hits >= least * (hits + others)


def _blocks(text: str) -> list[str]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return [_MARK.sub("", block) for block in _BLOCK.split(_HIDDEN.sub(" ", text))]


def _divided(pieces: Sequence[str]) -> list[str]:
    return [part for each in pieces for part in _END.split(each)]


def squeezed(text: str) -> str:
    """Return the letters and digits of a text alone, in one case, with look-alikes as the letters they look like."""
    folded = normalize("NFKC", _IGNORABLE.sub("", normalize("NFKC", text)).casefold())
    return _NO_LETTER.sub("", folded).translate(_ALIKE)


def _key(sentence: str) -> str:
    """Return the key of a sentence, "" for one that is too short to be known again."""
    key = squeezed(sentence)
    return key if len(key) >= _LEAST_LETTERS or (key and _words(sentence) >= _LEAST_WORDS) else ""


def _words(sentence: str) -> int:
    return sum(1 for word in sentence.split() if _NO_LETTER.sub("", word))


def texts_of(value: object) -> Iterator[str]:
    """Yield the texts in a value of frontmatter."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts_of(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts_of(each)
