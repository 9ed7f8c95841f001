"""
The encoder of e5 as an ONNX graph, written straight from the weights.

One text at a time, so there is no mask and no padding: `ids`, int32 (1, n),
in; float32 (1, 384) out, the mean over the last layer, not yet of length one.
Products with matrices are where the time goes, and `PLANS` says how each kind
of them is calculated; the rest is single precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spellbook.models.onnx.graph_file import FLOAT, MICROSOFT, Graph, by_blocks

if TYPE_CHECKING:
    import numpy.typing as npt

    from spellbook.models.e5.weights import Weights

    Array = npt.NDArray[Any]

PLANS: Mapping[str, Mapping[str, str]] = {
    # A scale for a whole matrix of activations is fast, but too coarse for what comes out of the inner layer's
    # activation function; in front of the inner layer it does once outlying columns are evened out.
    "mix": {"attention": "int8", "output": "int8", "inner": "even int8", "outer": "blocks of 8 bits"},
    "q4": dict.fromkeys(("attention", "output", "inner", "outer"), "blocks of 4 bits"),
}
"""The ways to calculate, fastest first where the processor multiplies int8; all from the same weights."""

_WIDE = 128  # weights of 8 bits that share a scale
_SPREAD = 3.0  # standard deviations within which a column of activations is taken to lie


def write(weights: Weights, plan: str, folder: Path) -> None:
    """Write `graph.onnx` and the arrays it refers to, `graph.data`, into `folder`. Raises OSError."""
    with (folder / "graph.data").open("wb") as data:
        graph = Graph(data.write)
        _encoder(graph, weights, PLANS[plan])
    (folder / "graph.onnx").write_bytes(graph.encoded(weights.width))


def _encoder(graph: Graph, weights: Weights, plan: Mapping[str, str]) -> None:
    import numpy as np

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
        parts = [at + "q", at + "k", at + "v"]
        product = _product(graph, weights, plan["attention"], value, parts)
        split = add("Transpose", [add("Reshape", [product, by_head])], perm=[0, 2, 1, 3])
        query, key, content = graph.add_all("Split", [split, thirds], 3, axis=1)
        likeness = add("FusedMatMul", [query, key], MICROSOFT, transB=1, alpha=(width // heads) ** -0.5)
        mixed = add("MatMul", [add("Softmax", [likeness], axis=-1), content])
        mixed = add("Reshape", [add("Transpose", [mixed], perm=[0, 2, 1, 3]), joined])
        value = normal(add("Add", [_product(graph, weights, plan["output"], mixed, [at + "ao"]), value]), at + "aln")
        inner = _product(graph, weights, plan["inner"], value, [at + "fi"], after=at + "aln")
        outer = _product(graph, weights, plan["outer"], add("Gelu", [inner], MICROSOFT), [at + "fo"])
        value = normal(add("Add", [outer, value]), at + "oln")
    graph.result = add("ReduceMean", [value], axes=[1], keepdims=0)


def _product(graph: Graph, weights: Weights, how: str, value: str, parts: Sequence[str], after: str = "") -> str:
    """
    Add the product of `value` with matrices side by side, plus their bias.

    `after` names the normalisation that `value` comes from.
    """
    import numpy as np

    names = [f"{part}.w" for part in parts]
    bias: Array = np.concatenate([weights.floats(f"{part}.b") for part in parts])
    width = weights.inner if parts[0].endswith("fo") else weights.width
    if how == "blocks of 4 bits":
        scales, nibbles = (
            np.concatenate(each) for each in zip(*(weights.blocks(name, width) for name in names), strict=True)
        )
        return by_blocks(graph, value, nibbles, scales, bias, 4)
    matrix: Array = weights.matrix(names, width)
    if how == "blocks of 8 bits":
        blocks = matrix.reshape(len(matrix), -1, _WIDE)
        scales = np.abs(blocks).max(axis=2) / 127
        return by_blocks(graph, value, (np.rint(blocks / scales[..., None]) + 128).astype(np.uint8), scales, bias, 8)
    if how == "even int8":
        # What a column of normalised activations reaches is known from the normalisation: no texts are needed to
        # find it. Moving that into the matrix loses nothing (Xiao et al., "SmoothQuant", ICML 2023).
        reach = _SPREAD * np.abs(weights.floats(f"{after}.w")) + np.abs(weights.floats(f"{after}.b"))
        value = graph.add("Mul", [value, graph.keep(1 / reach)])
        matrix = matrix * reach
    scale = np.abs(matrix).max(axis=1) / 127
    inputs = [
        value,
        graph.keep(np.rint(matrix / scale[:, None]).astype(np.int8).T),
        graph.keep(scale),
        "",
        graph.keep(bias),
    ]
    return graph.add("DynamicQuantizeMatMul", inputs, MICROSOFT)
