"""Exact search in memory is exact, with any number of threads and however the matrix grew."""

from __future__ import annotations

import numpy as np
import pytest

from spellbook.index.vectors.matrix import Matrix
from tests.blocks import as_rows, units


@pytest.mark.parametrize("limit", [1, 10, 300, 1000])
def test_matrix_is_exact(limit):
    """The nearest are numpy's, in the same order and with the same cosines, however the matrix grew."""
    block, query = units(300), units(1)[0]
    matrix = Matrix()
    for first in range(0, 300, 37):
        matrix.add(as_rows(block[first : first + 37], first))
    cosines = block @ query
    expected = [f"k{i}" for i in np.argsort(-cosines, kind="stable")][:limit]
    near = matrix.nearest(query, limit)
    assert [key for key, _ in near] == expected
    np.testing.assert_allclose([cosine for _, cosine in near], np.sort(cosines)[::-1][:limit], atol=1e-6)
    assert (len(matrix), matrix.seq) == (300, 300)


def test_matrix_among_keys_is_exact_among_them():
    """With `keys`, only those count, and unknown ones do not matter."""
    block, query = units(100), units(1)[0]
    matrix = Matrix()
    matrix.add(as_rows(block))
    among = [3, 50, 99, 7]
    expected = sorted(among, key=lambda i: -float(block[i] @ query))
    assert [key for key, _ in matrix.nearest(query, 3, [*(f"k{i}" for i in among), "unknown"])] == [
        f"k{i}" for i in expected
    ][:3]
    assert matrix.nearest(query, 3, ["unknown"]) == []


def test_matrix_takes_a_key_once_and_no_row_of_another_length():
    """A repeated key keeps its row; a vector with other dimensions is skipped."""
    matrix = Matrix()
    assert matrix.nearest(units(1)[0], 5) == []
    matrix.add([*as_rows(units(5)), ("k1", b"", 9), ("short", b"1234", 10)])
    matrix.add(as_rows(units(5)))
    assert (len(matrix), matrix.seq) == (5, 10)
