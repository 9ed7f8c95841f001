"""An embedder that is not there: everything else works, answers are found by words, and say why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from spellbook.models.base import Scale
from spellbook.system.errors import EmbeddingError
from spellbook.text.terms import estimate_tokens


@dataclass(frozen=True, slots=True)
class Absent:
    """Stands in for the embedder `name`; `message` says what is missing and `hint` how to come by it."""

    name: str
    fingerprint: str
    message: str
    hint: str
    scale: Scale = ((0.0, 0.0), (1.0, 1.0))
    tokeniser: str = ""

    def embed_query(self, text: str) -> NoReturn:
        """Raise EmbeddingError."""
        raise EmbeddingError(self.message, self.hint)

    def embed_passages(self, texts: Sequence[str]) -> NoReturn:
        """Raise EmbeddingError."""
        raise EmbeddingError(self.message, self.hint)

    def count_tokens(self, text: str) -> int:
        """Return an estimate: there is no tokeniser to ask."""
        return estimate_tokens(text)

    def describe(self) -> str:
        """Say what is missing, and how to come by it."""
        return f"none: {self.message} {self.hint}"
