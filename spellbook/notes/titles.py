"""Titles of notes that are made of their texts: the first sentence without marks, and whether a text begins with it."""

from __future__ import annotations

from spellbook.notes.splitter import sentences
from spellbook.system.lazy import regex
from spellbook.text.quoting import shortened

_MOST_TITLE = 120
"""Letters of a title that is made of a text's first sentence."""

_PAIRED = regex(
    r"(?m)%%[^%]{0,2000}%%|^%%[^%]*\Z|\[\^[^\]\s]{1,100}\]:?|(?<!\S)\^[A-Za-z0-9-]+[ \t]*$"
    r"|\$\$(?P<formula>[^$]{1,2000})\$\$|(?P<sign>\*\*|==|~~|\$)(?=\S)(?P<text>.{1,500}?)(?<=\S)(?P=sign)(?!\d)"
)


def without_signs(text: str) -> str:
    """Return a text for a title or a list, without comments, notes' marks, ids, and signs of emphasis and formulas."""
    return _PAIRED.sub(lambda pair: pair["formula"] or pair["text"] or "", text)


def title(text: str) -> str:
    """Return the first sentence of a text on one line, at most 120 letters, without a final full stop."""
    line = next((text[start:end] for start, end in sentences(text)), "").strip().split("\n", 1)[0]
    line = " ".join((without_signs(line) or line).lstrip("#>-*+ ").split())
    line = shortened(line, _MOST_TITLE, to_a_word=True)
    return line.rstrip(".。") or line


def begins_with(text: str, title: str) -> bool:
    """
    Say whether a text begins with a title as a sentence, as a memory's does.

    Embedded twice, the sentence would outweigh the rest: of 35 questions about memories 16 instead of 19 had the right
    one first (tests/benchmarks/quality.py, agents).
    """
    start, beginning = title.removesuffix("…"), " ".join(text[: 2 * len(title) + 2].split())
    ends = title.endswith(("…", ".", "!", "?")) or beginning[len(start) : len(start) + 1] in {"", ".", "。"}
    return bool(start) and ends and beginning.startswith(start)
