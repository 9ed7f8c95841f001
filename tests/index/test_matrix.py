"""vectors: exact search is exact, whoever helps and however the matrix grew."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from spellbook.index.vectors import vectors
from spellbook.index.vectors.vectors import Matrix
from tests.blocks import as_rows, units


@pytest.mark.parametrize("limit", [1, 10, 300, 1000])
def test_matrix_is_exact(limit):
    """Its nearest are numpy's, in numpy's order, with numpy's cosines, however it grew."""
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


class Quick:
    """A helper that does everything before anybody else begins."""

    def submit(self, work, take):
        work(take)


class Absent:
    """A helper that never comes."""

    def submit(self, *_):
        pass


class Ending:
    """A helper whose Python is ending."""

    def submit(self, *_):
        raise RuntimeError("cannot schedule new futures after shutdown")


class Slow:
    """A helper that takes a share and is not done with it before it is too late."""

    def submit(self, _, take):
        take()


@pytest.mark.parametrize("helper", [ThreadPoolExecutor(1), Quick(), Absent(), Ending(), Slow()], ids=lambda helper: type(helper).__name__)
@pytest.mark.parametrize("rows", [1, vectors.SHARE, vectors.SHARE + 1, 5 * vectors.SHARE + 7])
def test_whoever_helps_every_row_is_multiplied(helper, rows):
    """What two threads do together is what one does alone, bit by bit, also if the other leaves its share."""
    dice = np.random.default_rng(rows)
    matrix, query = dice.standard_normal((rows, 8), dtype=np.float32), dice.standard_normal(8, dtype=np.float32)
    for _ in range(20):
        assert (vectors.product(matrix, query, helper) == np.vecdot(matrix, query)).all()


def test_a_large_matrix_has_help_as_long_as_it_is_there():
    """It finds what a small one finds, and its thread ends with it."""
    block = units(vectors.LEAST_SHARED + 500, dim=4)
    matrix = Matrix()
    matrix.add(as_rows(block))
    best = np.argsort(-np.vecdot(block, block[7]), kind="stable")[:5]
    assert [key for key, _ in matrix.nearest(block[7], 5)] == [f"k{row}" for row in best]
    helping = [thread for thread in threading.enumerate() if thread.name.startswith("cosines")]
    assert helping
    del matrix
    gc.collect()
    for thread in helping:
        thread.join(10)
        assert not thread.is_alive()


def test_matrix_among_keys_is_exact_among_them():
    """With `keys`, only those count, and unknown ones do not matter."""
    block, query = units(100), units(1)[0]
    matrix = Matrix()
    matrix.add(as_rows(block))
    among = [3, 50, 99, 7]
    expected = sorted(among, key=lambda i: -float(block[i] @ query))
    assert [key for key, _ in matrix.nearest(query, 3, [*(f"k{i}" for i in among), "unknown"])] == [f"k{i}" for i in expected][:3]
    assert matrix.nearest(query, 3, ["unknown"]) == []


def test_matrix_takes_a_key_once_and_no_row_of_another_length():
    """A key that comes again keeps its place, a vector of other dimensions is passed over."""
    matrix = Matrix()
    assert matrix.nearest(units(1)[0], 5) == []
    matrix.add([*as_rows(units(5)), ("k1", b"", 9), ("short", b"1234", 10)])
    matrix.add(as_rows(units(5)))
    assert (len(matrix), matrix.seq) == (5, 10)
