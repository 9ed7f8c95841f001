"""
Exact vector search in memory, compared with a plain matrix product and with Chroma.

Vectors are clustered like those of notes and have 384 dimensions. Compared ways take turns.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spellbook.index.vectors.chroma import Chroma
from spellbook.index.vectors.matrix import Matrix
from tests.benchmarks.children import apart
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.table import Figure, Ratio
from tests.benchmarks.timing import medians, resident, seconds

WIDTH, WANTED, ROUNDS = 384, 50, 100
_CLUSTER = 40
_REOPENED = 5
_TURNS = 3


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Measure the search for the nearest vectors: plain product, exact search, Chroma."""
    size, taken = sizes.chunks, dict[str, list[float]](bare=[], exact=[])
    for _, (way, times) in itertools.product(range(_TURNS), taken.items()):
        times += apart(_asked, way, size)
    took = {way: statistics.median(times) for way, times in taken.items()}
    ratio = Ratio(took["exact"] / took["bare"], "`matrix @ query`", most=1.5)
    yield Figure(f"nearest {WANTED} of {size:,} vectors, exact search", took["exact"], ratio=ratio)
    yield from _chroma(folder, *_made(size))


def _made(size: int) -> tuple[Any, Any, Matrix]:
    drawn = np.random.default_rng(1)
    centres = drawn.standard_normal((max(1, size // _CLUSTER), WIDTH), dtype=np.float32)
    block, queries = (
        centres[drawn.integers(len(centres), size=count)]
        + 0.7 * drawn.standard_normal((count, WIDTH), dtype=np.float32)
        for count in (size, ROUNDS)
    )
    block /= np.linalg.norm(block, axis=1, keepdims=True)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    matrix = Matrix()
    matrix.add((f"{number:064x}", row.tobytes(), number) for number, row in enumerate(block, 1))
    return block, queries, matrix


def _asked(way: str, size: int) -> Iterator[float]:
    """Yield the seconds of each query. Runs in its own process, because a product's threads stay busy after it."""
    block, queries, matrix = _made(size)
    ask: Callable[[Any], object] = block.__matmul__ if way == "bare" else lambda query: matrix.nearest(query, WANTED)
    for query in queries:
        yield seconds(lambda query=query: ask(query))  # type: ignore[misc]


def _chroma(folder: Path, block: Any, queries: Any, matrix: Matrix) -> Iterator[Figure]:
    changes = [(f"{number:064x}", number) for number in range(1, len(block) + 1)]
    blobs = {key: block[number - 1].tobytes() for key, number in changes}
    before = resident()
    chroma, other = Chroma(folder, "f"), Chroma(folder, "f")

    class UpTo:
        """The first `last` vectors, as the catalog gives them."""

        def __init__(self, last: int) -> None:
            self.last = last

        def changes(self, seq: int) -> list[tuple[str, int]]:
            return changes[seq : self.last]

        def of(self, keys: Sequence[str]) -> dict[str, bytes]:
            return {key: blobs[key] for key in keys}

        def labels(self, keys: Sequence[str]) -> dict[str, dict[str, str]]:
            return {key: {"id": f"{key}#text", "path": f"{key}.md"} for key in keys}

    def caught_up(which: Chroma, last: int) -> float:
        return seconds(lambda: which.catch_up(UpTo(last), len(block)))

    built = caught_up(chroma, len(block) - _REOPENED)
    ways = {
        "chroma": lambda i: chroma.nearest(queries[i], WANTED),
        "exact": lambda i: matrix.nearest(queries[i], WANTED),
    }
    took = medians(ways, ROUNDS)
    held = resident() - before
    reopened = []
    for last in range(len(block) - _REOPENED + 1, len(block) + 1):
        caught_up(other, last)
        reopened.append(seconds(lambda: chroma.nearest(queries[0], WANTED)))
    near = [
        (set(chroma.nearest(query, WANTED)), {key for key, _ in matrix.nearest(query, WANTED)}) for query in queries
    ]
    recall = sum(len(found & exact) for found, exact in near) / len(near) / WANTED
    disk = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6
    chroma.close()
    other.close()
    also = f"{held:.0f} MB memory, {disk:.0f} MB disk, recall {recall:.2f}, built in {built:.0f} s"
    yield Figure(
        "nearest vectors, Chroma",
        took["chroma"],
        ratio=Ratio(took["chroma"] / took["exact"], "exact search"),
        also=also,
    )
    again = statistics.median(reopened)
    yield Figure(
        "nearest vectors, Chroma after another process wrote", again, ratio=Ratio(again / took["exact"], "exact search")
    )
