"""Scripts and language in which a text is written: whether the second encoder knows them, and how two texts differ."""

from __future__ import annotations

from functools import cached_property, lru_cache

from spellbook.index.catalog.rows import inflated
from spellbook.models.use import LANGUAGES, SCRIPTS
from spellbook.search import weights
from spellbook.system.lazy import regex
from spellbook.text import languages, terms

_SAMPLED = 800
"""Letters of a chunk from which its scripts are detected. By hand, for speed."""
_STEP = 4
"""A long sample is read in steps of so many letters. By hand, for speed."""
_NAME = regex(r"(?<=[\w,] )[A-Z]\w*")
_CERTAIN = 1.5
"""Weight of words from which on a chunk is in their language, names aside: "to Los Angeles" is not Spanish. By hand."""
_REMEMBERED = 4_000
"""Chunks whose scripts and language are cached, about 1.5 kB each, so that their texts need not be read again."""


class Writing:
    """The scripts that a text is written in, with their shares, and its language, detected where it matters."""

    def __init__(self, text: str, heads: str | None = None) -> None:
        """The `heads` are a chunk's title and heading, None for a question."""
        self._is_chunk, self._start = heads is not None, text[:_SAMPLED] if heads is not None else text
        self._is_ascii = self._is_chunk and text.isascii()
        sample = f"{heads} {self._start}" if self._is_chunk else text
        self.scripts = terms.scripts(sample[:: _STEP if self._is_chunk and len(sample) > _SAMPLED // _STEP else 1])

    @cached_property
    def language(self) -> str:
        """The language, if several have its script."""
        if self._is_chunk:
            return languages.language(_NAME.sub("", self._start), _CERTAIN)
        return languages.language(self._start)

    @property
    def is_read(self) -> bool:
        """Whether the second encoder knows its main script and its language."""
        main = max(self.scripts, key=lambda script: self.scripts[script], default="latin")
        return self._is_ascii or (main in SCRIPTS and self.language in LANGUAGES)

    def foreign(self, chunk: Writing, words: float) -> float:
        """Return how much, 0..1, of a chunk is in another script or language; `words` is its score by words."""
        own = chunk.scripts
        if not (self.scripts and own):  # without letters nothing is sure
            return 0.0
        foreign = 1 - sum([min(share, weights.PRESENT * own.get(name, 0.0)) for name, share in self.scripts.items()])
        is_open = foreign < 1 and words < weights.ITS_WORDS and self.language
        return 1.0 if is_open and chunk.language not in {"", self.language} else foreign


@lru_cache(maxsize=_REMEMBERED)
def writing_of(title: str, heading: str, packed: str | bytes) -> Writing:
    """Return how a chunk is written; a known one is not inflated."""
    return Writing(packed if isinstance(packed, str) else inflated(packed), f"{title} {heading}")
