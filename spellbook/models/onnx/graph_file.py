"""
A model as an ONNX file, written straight from its weights: operators, constants and nothing else.

The file is protobuf, written by the last seventy lines here. The `onnx` package would save half of them, and cost
everybody a download of 9 MB and 33 MB of disk for a file that is written once.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from spellbook.system.lazy import np, npt

Array: TypeAlias = "npt.NDArray[Any]"

MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators."""

FLOAT = 1
"""The type float32, as `Cast` names it."""

INT64 = 7
"""The type int64, as `Cast` names it."""

_ALIGNED = 4096
"""Bytes from which on an array is written to the data file; its offset there is a multiple of them."""

# Messages and fields of onnx.proto3 have numbers there.

_INT32 = 6
"""The type int32."""

_TYPES = {"float32": FLOAT, "uint8": 2, "int8": 3, "int64": INT64, "float16": 10}
"""The types of arrays by numpy's names."""

_FILE_SINCE = 8
"""The first version of the file format that has all of this."""

_OPERATORS_SINCE = 17
"""The first version of the operators that has all of this."""


class ArrayFile:
    """The file of the large arrays of one or more graphs. Equal arrays are written once."""

    def __init__(self, write: Callable[[bytes], int]) -> None:
        self._write, self._size = write, 0
        self._offsets: dict[bytes, int] = {}

    def offset(self, raw: bytes) -> int:
        """Return where `raw` is in the file; it is written if it is not there yet."""
        digest = hashlib.sha256(raw).digest()
        if digest not in self._offsets:
            self._size += self._write(bytes(-self._size % _ALIGNED))
            self._offsets[digest] = self._size
            self._size += self._write(raw)
        return self._offsets[digest]


class OnnxGraph:
    """A graph under construction. Values are known by name; large arrays go out to `arrays` at once."""

    def __init__(self, arrays: ArrayFile) -> None:
        self._file, self._names = arrays, 0
        self._nodes: list[bytes] = []
        self._arrays: list[bytes] = []
        self.result = ""

    def keep(self, array: Array) -> str:
        """Add an array of constants and return its name."""
        name, raw = self._name(), np.ascontiguousarray(array).tobytes()
        if len(raw) < _ALIGNED:
            place = _field(9, raw)
        else:
            where = {"location": "graph.data", "offset": str(self._file.offset(raw)), "length": str(len(raw))}
            place = b"".join(_field(13, _field(1, key) + _field(2, text)) for key, text in where.items())
            place += _field(14, 1)
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
        fields = [_field(1, name) for name in inputs] + [_field(2, name) for name in names] + [_field(4, kind)]
        fields += [_field(5, _setting(key, value)) for key, value in settings.items()]
        self._nodes.append(b"".join(fields) + _field(7, domain))
        return names

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


def by_blocks(graph: OnnxGraph, value: str, packed: Array, scales: Array, bias: Array) -> str:
    """Add a product with weights of 8 bits, packed (rows, blocks, bytes), each block with its own scale."""
    rows, count, block = packed.shape
    inputs = [value, graph.keep(packed), graph.keep(scales.astype(np.float32)), "", "", graph.keep(bias)]
    # Accuracy level 4: activations in int8 too, with a scale for each block of each token.
    return graph.add(
        "MatMulNBits", inputs, MICROSOFT, K=count * block, N=rows, bits=8, block_size=block, accuracy_level=4
    )
