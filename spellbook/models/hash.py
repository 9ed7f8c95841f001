"""An embedder that needs no model."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from spellbook.models.base import Scale, Vectors, clean
from spellbook.notes.note import TEMPLATE
from spellbook.system.lazy import np


@dataclass(slots=True)
class HashEmbedder:
    """
    Hashed words and letter triples, 256 dimensions; needs no model and knows no meaning.

    For tests, and so that the rest works where no model can run.
    """

    name: str = "hash"
    dim: int = 256
    fingerprint: str = f"hash:v1:{TEMPLATE}"
    scale: Scale = ((0.0, 0.0), (0.25, 0.5), (0.5, 0.7), (0.95, 0.95), (1.0, 1.0))

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (256,)."""
        first: Vectors = self.embed_passages([text])[0]
        return first

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts, shape (n, 256)."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in re.findall(r"\w+", clean(text).casefold()) or [""]:
                padded = f"^{word}$"
                for feature, weight in [(word, 2.0)] + [(padded[i : i + 3], 0.5) for i in range(len(padded) - 2)]:
                    bits = int.from_bytes(
                        hashlib.blake2b(feature.encode("utf-8", "replace"), digest_size=8).digest(), "little"
                    )
                    row[bits % self.dim] += weight if bits >> 40 & 1 else -weight
            row /= np.linalg.norm(row) or 1.0
        return vectors

    def describe(self) -> str:
        """There is nothing to say."""
        return ""
