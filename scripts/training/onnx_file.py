"""
A model as an ONNX file: operators and constants; its arrays are in a data file of their own.

The file is protobuf, whose messages and fields have numbers in onnx.proto3. The `onnx` package would save half of this
file, and cost a dependency for graphs that hardly ever change.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from spellbook.models.onnx.graph_data import ALIGNED, FILE, Array, NamedArrays

MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators."""

FLOAT = 1
"""The type float32, as `Cast` names it."""

INT64 = 7
"""The type int64, as `Cast` names it."""

_INT32 = 6
"""The type int32."""

_TYPES = {"float32": FLOAT, "uint8": 2, "int8": 3, "int64": INT64, "float16": 10}
"""The types of arrays by numpy's names."""

_FILE_SINCE = 8
"""The first version of the file format that has all of this."""

_OPERATORS_SINCE = 17
"""The first version of the operators that has all of this."""


class OnnxGraph:
    """A graph under construction. Values are known by name; its data file has the arrays `stored`, in their order."""

    def __init__(self, stored: NamedArrays) -> None:
        self._names, self._nodes, self._arrays = 0, list[bytes](), list[bytes]()
        self._stored: dict[str, bytes] = {}
        self.result = ""
        at = 0
        for name, array in stored:
            where = {"location": FILE, "offset": str(at), "length": str(array.nbytes)}
            place = b"".join(_field(13, _field(1, key) + _field(2, text)) for key, text in where.items())
            self._stored[name] = _shape(name, array) + place + _field(14, 1)
            at += array.nbytes + -array.nbytes % ALIGNED

    def kept(self, name: str) -> str:
        """Use an array of the data file; return its name."""
        if array := self._stored.pop(name, b""):
            self._arrays.append(array)
        return name

    def constant(self, array: Array) -> str:
        """Add a small array that is in the graph itself; return its name."""
        name = self._name()
        self._arrays.append(_shape(name, array) + _field(9, array.tobytes()))
        return name

    def whole(self, *numbers: int) -> str:
        """Add a constant of some whole numbers; return its name."""
        return self.constant(np.array(numbers, np.int64))

    def add(self, kind: str, inputs: Sequence[str], domain: str = "", **settings: float | list[int]) -> str:
        """Add an operator and return the name of its output."""
        [name] = self.add_all(kind, inputs, 1, domain, **settings)
        return name

    def add_all(
        self, kind: str, inputs: Sequence[str], outputs: int, domain: str = "", **settings: float | list[int]
    ) -> list[str]:
        """Add an operator and return the names of its outputs."""
        names = [self._name() for _ in range(outputs)]
        fields = [_field(1, name) for name in inputs] + [_field(2, name) for name in names] + [_field(4, kind)]
        fields += [_field(5, _setting(key, value)) for key, value in settings.items()]
        self._nodes.append(b"".join(fields) + _field(7, domain))
        return names

    def by_blocks(self, value: str, name: str, rows: int, size: int, block: int, bias: str) -> str:
        """Add a product with weights of 8 bits, shape (rows, size), of which each `block` has its own scale."""
        inputs = [value, self.kept(name), self.kept(f"{name}.scale"), "", "", bias]
        # Accuracy level 4: activations in int8 too, with a scale for each block of each token.
        return self.add("MatMulNBits", inputs, MICROSOFT, K=size, N=rows, bits=8, block_size=block, accuracy_level=4)

    def encoded(self, width: int, *lists: str) -> bytes:
        """Return the whole file: a graph from `ids`, (1, n), and `lists`, one axis each, all int32, to `result`."""
        parts = [*(_field(1, node) for node in self._nodes), _field(2, "spellbook")]
        parts += [_field(5, array) for array in self._arrays]
        parts += [_field(11, _tensor(name, _INT32, name)) for name in lists]
        parts += [_field(11, _tensor("ids", _INT32, 1, "tokens")), _field(12, _tensor(self.result, FLOAT, 1, width))]
        sets = _field(8, _field(2, _OPERATORS_SINCE)) + _field(8, _field(1, MICROSOFT) + _field(2, 1))
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
    return _field(1, name) + b"".join(_field(8, number) for number in value) + _field(20, 7)


def _tensor(name: str, kind: int, *sizes: int | str) -> bytes:
    shape = b"".join(_field(1, _field(2 if isinstance(size, str) else 1, size)) for size in sizes)
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))


def _shape(name: str, array: Array) -> bytes:
    sizes = b"".join(_field(1, size) for size in array.shape)
    return sizes + _field(2, _TYPES[array.dtype.name]) + _field(8, name)
