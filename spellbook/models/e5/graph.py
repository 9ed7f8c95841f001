"""
The encoder of e5 as an ONNX graph, written straight from the weights.

One text at a time, so there is no mask and no padding: `ids`, int32 (1, n),
in; float32 (1, 384) out, the mean over the last layer, not yet of length one.
Products with matrices are where the time goes, and `PLANS` says how each kind
of them is calculated; the rest is single precision.

The file is protobuf, written by the last seventy lines here. The `onnx`
package would save half of them, and cost everybody a download of 9 MB and
33 MB of disk for a file that is written once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
_ALIGNED = 4096
_MICROSOFT = "com.microsoft"


def write(weights: Weights, plan: str, folder: Path) -> None:
    """Write `graph.onnx` and the arrays it refers to, `graph.data`, into `folder`. Raises OSError."""
    with (folder / "graph.data").open("wb") as data:
        graph = _Graph(data.write)
        _encoder(graph, weights, PLANS[plan])
    (folder / "graph.onnx").write_bytes(graph.encoded(weights.width))


def _encoder(graph: _Graph, weights: Weights, plan: Mapping[str, str]) -> None:
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
    words = add("GatherBlockQuantized", table, _MICROSOFT, gather_axis=0, quantize_axis=1, block_size=32, bits=4)
    places = weights.floats("emb.pos").reshape(1, weights.most, width) + weights.floats("emb.type")[:width]
    length = add("Slice", [add("Shape", ["ids"]), ends(1), ends(2)])
    placed = add("Slice", [graph.keep(places), ends(0), length, ends(1)])
    value = normal(add("Add", [add("Cast", [words], to=_FLOAT), placed]), "emb.ln")

    by_head, joined, thirds = ends(0, 0, 3 * heads, width // heads), ends(0, 0, width), ends(heads, heads, heads)
    for layer in range(weights.layers):
        at = f"l{layer}."
        parts = [at + "q", at + "k", at + "v"]
        product = _product(graph, weights, plan["attention"], value, parts)
        split = add("Transpose", [add("Reshape", [product, by_head])], perm=[0, 2, 1, 3])
        query, key, content = graph.add_all("Split", [split, thirds], 3, axis=1)
        likeness = add("FusedMatMul", [query, key], _MICROSOFT, transB=1, alpha=(width // heads) ** -0.5)
        mixed = add("MatMul", [add("Softmax", [likeness], axis=-1), content])
        mixed = add("Reshape", [add("Transpose", [mixed], perm=[0, 2, 1, 3]), joined])
        value = normal(add("Add", [_product(graph, weights, plan["output"], mixed, [at + "ao"]), value]), at + "aln")
        inner = _product(graph, weights, plan["inner"], value, [at + "fi"], after=at + "aln")
        outer = _product(graph, weights, plan["outer"], add("Gelu", [inner], _MICROSOFT), [at + "fo"])
        value = normal(add("Add", [outer, value]), at + "oln")
    graph.result = add("ReduceMean", [value], axes=[1], keepdims=0)


def _product(graph: _Graph, weights: Weights, how: str, value: str, parts: Sequence[str], after: str = "") -> str:
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
        return _by_blocks(graph, value, nibbles, scales, bias, 4)
    matrix: Array = weights.matrix(names, width)
    if how == "blocks of 8 bits":
        blocks = matrix.reshape(len(matrix), -1, _WIDE)
        scales = np.abs(blocks).max(axis=2) / 127
        return _by_blocks(graph, value, (np.rint(blocks / scales[..., None]) + 128).astype(np.uint8), scales, bias, 8)
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
    return graph.add("DynamicQuantizeMatMul", inputs, _MICROSOFT)


def _by_blocks(graph: _Graph, value: str, packed: Array, scales: Array, bias: Array, bits: int) -> str:
    import numpy as np

    rows, count, size = packed.shape
    block = size * 8 // bits
    inputs = [value, graph.keep(packed), graph.keep(scales.astype(np.float32)), "", "", graph.keep(bias)]
    # Accuracy level 4: activations in int8 too, with a scale for each block of each token.
    return graph.add(
        "MatMulNBits", inputs, _MICROSOFT, K=count * block, N=rows, bits=bits, block_size=block, accuracy_level=4
    )


# -- the file: messages and fields of onnx.proto3, by their numbers there

_FLOAT, _INT32 = 1, 6
_TYPES = {"float32": _FLOAT, "uint8": 2, "int8": 3, "int64": 7, "float16": 10}
_FILE_SINCE = 8  # the version of the format, and of the operators, that has all of this
_OPERATORS_SINCE = 17


class _Graph:
    """A graph under construction. Values are known by name; arrays go out to `write` at once."""

    def __init__(self, write: Callable[[bytes], int]) -> None:
        self._write, self._size, self._names = write, 0, 0
        self._nodes: list[bytes] = []
        self._arrays: list[bytes] = []
        self.result = ""

    def keep(self, array: Array) -> str:
        """Add an array of constants and return its name."""
        import numpy as np

        name, raw = self._name(), np.ascontiguousarray(array).tobytes()
        if len(raw) < _ALIGNED:
            place = _field(9, raw)
        else:
            self._size += self._write(bytes(-self._size % _ALIGNED))
            where = {"location": "graph.data", "offset": str(self._size), "length": str(len(raw))}
            place = b"".join(_field(13, _field(1, key) + _field(2, text)) for key, text in where.items()) + _field(
                14, 1
            )
            self._size += self._write(raw)
        sizes = b"".join(_field(1, size) for size in array.shape)
        self._arrays.append(sizes + _field(2, _TYPES[array.dtype.name]) + _field(8, name) + place)
        return name

    def add(self, kind: str, inputs: Sequence[str], domain: str = "", **settings: float | list[int]) -> str:
        """Add an operator and return the name of its output."""
        [name] = self.add_all(kind, inputs, 1, domain, **settings)
        return name

    def add_all(
        self, kind: str, inputs: Sequence[str], outputs: int, domain: str = "", **settings: float | list[int]
    ) -> list[str]:
        """Add an operator and return the names of its outputs."""
        names = [self._name() for _ in range(outputs)]
        fields = [_field(1, name) for name in inputs] + [_field(2, name) for name in names]
        fields += [
            _field(4, kind),
            *(_field(5, _setting(key, value)) for key, value in settings.items()),
            _field(7, domain),
        ]
        self._nodes.append(b"".join(fields))
        return names

    def encoded(self, width: int) -> bytes:
        """Return the whole file: a graph from `ids` to `result`."""
        parts = (
            [_field(1, node) for node in self._nodes] + [_field(2, "e5")] + [_field(5, array) for array in self._arrays]
        )
        parts += [_field(11, _tensor("ids", _INT32, "tokens")), _field(12, _tensor(self.result, _FLOAT, width))]
        sets = _field(8, _field(2, _OPERATORS_SINCE)) + _field(8, _field(1, _MICROSOFT) + _field(2, 1))
        return _field(1, _FILE_SINCE) + _field(7, b"".join(parts)) + sets

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names}"


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _whole(number << 3) + _whole(value)
    raw = value.encode() if isinstance(value, str) else value
    return _whole(number << 3 | 2) + _whole(len(raw)) + raw


def _whole(value: int) -> bytes:
    """Seven bits a byte, lowest first; negative numbers as 64 bits."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _setting(name: str, value: float | list[int]) -> bytes:
    if isinstance(value, float):
        return _field(1, name) + _whole(2 << 3 | 5) + struct.pack("<f", value) + _field(20, 1)
    if isinstance(value, int):
        return _field(1, name) + _field(3, value) + _field(20, 2)
    return _field(1, name) + b"".join(_field(8, each) for each in value) + _field(20, 7)


def _tensor(name: str, kind: int, size: int | str) -> bytes:
    last = _field(2, size) if isinstance(size, str) else _field(1, size)
    shape = _field(1, _field(1, 1)) + _field(1, last)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))
