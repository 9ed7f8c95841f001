"""vector_bytes: a stored vector is a unit vector of the same direction and width."""

from __future__ import annotations

import numpy as np
import pytest

from spellbook.index.catalog.vector_bytes import compact, restored, width_of


@pytest.mark.parametrize("width", [1, 2, 3, 384, 1_025])
def test_a_vector_keeps_its_direction(width):
    """What is read back is a unit vector, as wide as before, and so near that no ranking changes."""
    block = np.random.default_rng(width).standard_normal((50, width)).astype("<f4")
    block /= np.linalg.norm(block, axis=1, keepdims=True)
    stored = [compact(row.tobytes()) for row in block]
    assert {(len(each), width_of(len(each))) for each in stored} == {((3 * width + 1) // 2, width)}
    back = np.stack([np.frombuffer(each, "<f4") for each in restored(stored)])
    assert back.shape == block.shape
    np.testing.assert_allclose(np.linalg.norm(back, axis=1), 1, atol=1e-6)
    assert (np.vecdot(back, block) > 1 - 1e-6).all()
    assert [compact(each) for each in restored(stored)] == stored


def test_vectors_of_several_widths_and_of_nothing():
    """Vectors of two embedders are read together, and a vector of zeros stays one."""
    vectors = [np.eye(1, width, dtype="<f4").tobytes() for width in (4, 7, 4)] + [bytes(16)]
    assert restored([compact(each) for each in vectors]) == vectors
    assert restored([]) == []
