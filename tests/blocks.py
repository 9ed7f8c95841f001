"""Blocks of random unit vectors, and their rows as a catalog keeps them."""

from typing import Any

import numpy as np

DIM = 16
RANDOM = np.random.default_rng(7)


def units(count: Any, dim: Any = DIM) -> Any:
    block = RANDOM.normal(size=(count, dim)).astype(np.float32)
    return block / np.linalg.norm(block, axis=1, keepdims=True)


def as_rows(block: Any, first: int = 0) -> Any:
    return [(f"k{first + i}", row.astype("<f4").tobytes(), first + i + 1) for i, row in enumerate(block)]
