"""
An embedder from a folder of the kind that sentence-transformers writes, on onnxruntime.

One text at a time, so that none is padded and none depends on another. A text that is longer than the model reads at
once is read in parts, and each part counts by its length: the end of a long text is read too.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

from spellbook.models.base import Scale, Vectors
from spellbook.models.e5.engine import E5Engine
from spellbook.models.onnx.lazy_engine import LocalEngine
from spellbook.models.onnx.runtime import OnnxSession
from spellbook.models.onnx.sbert_config import Dense, Recipe
from spellbook.notes.note import TEMPLATE
from spellbook.system.lazy import np


class Sentences:
    """The model in a folder, raw: `recipe` as read, `digest` of its files; `threads` embed at once."""

    # A calibration finds out what a cosine means.
    scale: Scale = ((0.0, 0.0), (1.0, 1.0))

    def __init__(self, name: str, recipe: Recipe, digest: str, threads: int = 2) -> None:
        self.name = name
        self.fingerprint = f"onnx:{digest[:24]}:nfc:{TEMPLATE}"
        self._description = f"onnxruntime {metadata.version('onnxruntime')}, {recipe.graph}"
        hint = "Is its folder whole? Copy or pull it again, or set another SPELLBOOK_EMBEDDER."
        self._local = LocalEngine(name, lambda: (OnnxEncoder(recipe), self._description), hint, threads)

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (width,)."""
        return self._local.query(text)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts, shape (n, width); (0, 0) of none."""
        return np.stack(self._local.passages(texts)) if texts else np.empty((0, 0), dtype=np.float32)

    def describe(self) -> str:
        """Say what runs it, and where its graph is."""
        return self._description

    def engine(self) -> E5Engine:
        """Return what makes vectors of cleaned texts; loaded if need be. Raises EmbeddingError."""
        return self._local.engine()


class OnnxEncoder:
    """The graph, the tokeniser and the layers of a recipe, in memory; any number of threads may use one."""

    def __init__(self, recipe: Recipe) -> None:
        """Load them. Raises ImportError, OSError, RuntimeError, ValueError or KeyError for what cannot be loaded."""
        self._recipe = recipe
        self._tokenizer = _tokenizer(recipe)
        self._session = OnnxSession(recipe.graph)
        strange = [name for name, kind in self._session.inputs.items() if name not in _FED or kind not in _TYPES]
        if strange:
            raise RuntimeError(f"{recipe.graph} wants an input {strange[0]!r}, which is not known here")
        outputs = self._session.outputs
        self._output = next((name for name in _OUTPUTS if name in outputs), next(iter(outputs)))
        if outputs[self._output] not in {2, 3}:
            raise RuntimeError(f"{recipe.graph} gives neither vectors of tokens nor of texts, but {', '.join(outputs)}")
        self._layers = [_layer(dense) for dense in recipe.dense] if outputs[self._output] == 3 else []

    def query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (width,). Raises RuntimeError."""
        return self._embed(self._recipe.query, text)

    def passage(self, text: str) -> Vectors:
        """Return the unit vector of a text, shape (width,). Raises RuntimeError."""
        return self._embed(self._recipe.passage, text)

    def _embed(self, before: str, text: str) -> Vectors:
        whole = before + text
        encoding = self._tokenizer.encode(whole.lower() if self._recipe.lower else whole)
        total = np.zeros(1, np.float32)
        skipped = 0
        if not self._recipe.with_prompt:
            prompt = self._tokenizer.encode(before)
            skipped = len(prompt) - (prompt.special_tokens_mask[-1] if len(prompt) else 0)
        # Each part counts by its length without what begins and ends it, before anything is made a unit vector.
        for part in (encoding, *encoding.overflowing):
            weight = max(1, len(part) - sum(part.special_tokens_mask))
            total = total + weight * self._vector(part.ids, part.type_ids, skipped)
            skipped = 0
        length = float(np.linalg.norm(total))
        if not 0 < length < math.inf:
            raise RuntimeError(f"{self._recipe.graph} gave a vector with no direction")
        unit: Vectors = (total / length).astype(np.float32)
        return unit

    def _vector(self, ids: Sequence[int], types: Sequence[int], skipped: int) -> Any:
        """Return the vector of one part, shape (width,), its first `skipped` tokens read but not pooled."""
        fed = {name: np.array([_FED[name](ids, types)], _TYPES[kind]) for name, kind in self._session.inputs.items()}
        rows = self._session(fed, self._output)[0].astype(np.float32)
        if rows.ndim == 1:
            return rows
        rows = rows[min(skipped, len(rows) - 1) :]
        pooled = np.concatenate([_POOLED[name](rows) for name in self._recipe.pooling])
        for layer in self._layers:
            pooled = layer(pooled)
        return pooled


_FED: Mapping[str, Callable[[Sequence[int], Sequence[int]], Sequence[int]]] = {
    "input_ids": lambda ids, types: ids,
    "attention_mask": lambda ids, types: [1] * len(ids),
    "token_type_ids": lambda ids, types: types,
    "position_ids": lambda ids, types: range(len(ids)),
}
_TYPES = {"tensor(int64)": "int64", "tensor(int32)": "int32", "tensor(float)": "float32", "tensor(float16)": "float16"}
_OUTPUTS = ("sentence_embedding", "last_hidden_state", "token_embeddings")
"""Of a graph that has several; the first is that of one which pools for itself."""

_POOLED: Mapping[str, Callable[[Any], Any]] = {
    "cls": lambda rows: rows[0],
    "max": lambda rows: rows.max(axis=0),
    "mean": lambda rows: rows.mean(axis=0),
    "mean_sqrt_len_tokens": lambda rows: rows.sum(axis=0) / math.sqrt(len(rows)),
    "weightedmean": lambda rows: sum((i + 1) * row for i, row in enumerate(rows)) / (len(rows) * (len(rows) + 1) / 2),
    "lasttoken": lambda rows: rows[-1],
}


def _tokenizer(recipe: Recipe) -> Any:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(recipe.tokenizer))
    except Exception as error:  # its errors have no class of their own
        raise ValueError(f"{recipe.tokenizer}: {error}") from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(recipe.longest)
    return tokenizer


def _layer(dense: Dense) -> Callable[[Any], Any]:
    """Return what a dense layer does to a vector. Raises OSError, ValueError or KeyError for what is no such layer."""
    data = dense.file.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    entries = json.loads(data[8 : 8 + size])

    def array(name: str) -> Any:
        entry = entries[f"linear.{name}"]
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        numbers = np.frombuffer(data[begin:end], {"F32": "<f4", "F16": "<f2"}[entry["dtype"]])
        return numbers.astype(np.float32).reshape(entry["shape"])

    weight = array("weight")
    bias = array("bias") if "linear.bias" in entries else np.zeros(len(weight), np.float32)
    after = np.tanh if dense.activation == "tanh" else np.asarray
    return lambda vector: after(weight @ vector + bias)
