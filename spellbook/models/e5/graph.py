"""
The encoder of e5 as two ONNX graphs, written straight from the weights: one for texts, one for questions.

They differ by the query adapter alone, which is added to the weights of the graph for questions.

One text at a time, so there is no mask and no padding: `ids`, int32 (1, n),
in; float32 (1, 384) out, the mean over the last layer, not yet of length one.
Products with matrices are where the time goes. They are calculated in int8;
the rest is single precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from spellbook.models.e5.weights import Weights
from spellbook.models.onnx.graph_file import FLOAT, MICROSOFT, Array, ArrayFile, OnnxGraph, by_blocks
from spellbook.system.lazy import np

TEXTS, QUESTIONS = "graph.onnx", "questions.onnx"
"""The files of the two graphs."""

_WIDE = 128
"""Weights of 8 bits that share a scale."""

_SPREAD = 3.0
"""Standard deviations within which a column of activations is taken to be."""


def write(weights: Weights, folder: Path) -> None:
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
