"""The form of a good chunk: its length, and the labels by which it is found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from spellbook.index.filters import fold
from spellbook.text.quoting import counted
from spellbook.text.terms import estimate_tokens, is_short

MIN_TOKENS = 100
MAX_TOKENS = 512
"""Tokens of a memory that are best; the guides say so, and a longer one is to be divided."""
MIN_KEYWORDS = 3
MAX_KEYWORDS = 10
"""Keywords of a memory between which it needs no remark."""


def remarks(text: str, meta: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning for each thing that makes a chunk hard to find, of its text and its frontmatter."""
    tokens = estimate_tokens(text)
    length = counted(tokens, "token")
    if text and is_short(text) and fold(meta.get("category")) != "preference":
        yield f"about {length}; {MIN_TOKENS} to {MAX_TOKENS} are best: does it stand alone, with names and reasons?"
    if tokens > MAX_TOKENS:
        yield f"about {length}; {MIN_TOKENS} to {MAX_TOKENS} are best: divide it where the question changes"
    count = len(meta.get("keywords") or ())
    if count and not MIN_KEYWORDS <= count <= MAX_KEYWORDS:
        yield f"{counted(count, 'keyword')}; {MIN_KEYWORDS} to {MAX_KEYWORDS} are best"
    if not meta.get("questions"):
        yield "no questions: name what this chunk answers"
    if len(re.findall(r"^ {0,3}##[ \t]", text, re.M)) > 1:
        yield "more than one ## heading: each becomes a chunk of its own"
