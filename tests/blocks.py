"""Blocks of random unit vectors, and their rows as a catalog keeps them."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

DIM = 16
RANDOM = np.random.default_rng(7)


def units(count: int, dim: int = DIM) -> Floats:
    block = RANDOM.normal(size=(count, dim)).astype(np.float32)
    made: Floats = block / np.linalg.norm(block, axis=1, keepdims=True)
    return made


def as_rows(block: Floats, first: int = 0) -> list[tuple[str, bytes, int]]:
    return [(f"k{first + i}", row.astype("<f4").tobytes(), first + i + 1) for i, row in enumerate(block)]
