"""
The data of an ONNX graph that comes with Spellbook: arrays of a model's weights, one after another in one file.

`scripts/training/graphs.py` writes the graphs, from the names, shapes and order of these arrays.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

from spellbook.system.lazy import np, npt

Array: TypeAlias = "npt.NDArray[Any]"
NamedArrays: TypeAlias = "Iterable[tuple[str, Array]]"

FILE = "graph.data"

ALIGNED = 4096
"""The place of an array in the file is a multiple of so many bytes, so that it can be mapped."""


def write(folder: Path, graphs: Iterable[Path], arrays: NamedArrays) -> None:
    """Copy `graphs` into `folder`, and write the file of their arrays there. Raises OSError."""
    for graph in graphs:
        shutil.copy(graph, folder)
    with (folder / FILE).open("wb") as data:
        for _, array in arrays:
            data.write(np.ascontiguousarray(array).data)
            data.write(bytes(-data.tell() % ALIGNED))


def rounded(name: str, matrix: Array, most: int) -> NamedArrays:
    """Yield a matrix, shape (in, out), as int8 from `-most` to `most`, and as `.scale` that of each column."""
    scale = (np.abs(matrix).max(axis=0) / most).astype(np.float32)
    yield name, np.rint(matrix / scale).astype(np.int8)
    yield f"{name}.scale", scale


def by_blocks(name: str, matrix: Array, block: int) -> NamedArrays:
    """Yield a matrix, shape (out, in), as uint8 (out, blocks, block), each weight 128 too high, and their `.scale`."""
    blocks = matrix.reshape(len(matrix), -1, block)
    scales = np.abs(blocks).max(axis=2) / 127
    yield name, (np.rint(blocks / scales[..., None]) + 128).astype(np.uint8)
    yield f"{name}.scale", scales
