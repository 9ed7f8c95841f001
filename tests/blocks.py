"""Blocks of random unit vectors, and their rows as a catalog keeps them."""

import numpy as np

DIM = 16
RANDOM = np.random.default_rng(7)


def units(count, dim=DIM):
    block = RANDOM.normal(size=(count, dim)).astype(np.float32)
    return block / np.linalg.norm(block, axis=1, keepdims=True)


def as_rows(block, first=0):
    return [(f"k{first + i}", row.astype("<f4").tobytes(), first + i + 1) for i, row in enumerate(block)]
