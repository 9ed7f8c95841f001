"""The two graphs of multilingual-e5-small: texts are embedded after "passage: ", questions after "query: "."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from spellbook.models.base import Vectors
from spellbook.models.e5.tokens import E5Tokeniser
from spellbook.models.onnx.lazy_engine import OnnxSession
from spellbook.system.lazy import np

WINDOW = 510
"""Tokens that the model reads at once, without those that begin and end a text."""

TEXTS, QUESTIONS = "graph.onnx", "questions.onnx"
"""The files of the two graphs."""


class E5Onnx:
    """The two graphs and the tokeniser in a prepared folder. A graph is loaded at its first use."""

    def __init__(self, folder: Path) -> None:
        """
        Load the tokeniser.

        Raises OSError, and ValueError or KeyError for a folder of another kind.
        """
        self.tokens = E5Tokeniser(folder / "tokens.npz")
        self._session = cache(lambda name: OnnxSession(folder / name))

    def query(self, text: str) -> Vectors:
        """Return the unit vector of a question, by the encoder that the query adapter changed."""
        return self._embed(self._session(QUESTIONS), f"query: {text}")

    def passage(self, text: str) -> Vectors:
        """Return the unit vector of a text."""
        return self._embed(self._session(TEXTS), f"passage: {text}")

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
