"""
A large vault on a small machine: its first scan, what waits for it afterwards, and what a server of it takes.

Whole processes, as people start them. The bundled models read questions and, in a server, begin to embed; the vectors that
are left are made up then, since to compute them would take a day.
"""

import contextlib
import os
import sqlite3
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.benchmarks.generated import Writer, write
from tests.benchmarks.processes import Bench, Timed, make_vectors_up, until
from tests.benchmarks.table import Figure, Sizes
from tests.benchmarks.timing import medians, peak, resident, seconds, share

_QUESTIONS, _WARM = 100, 10
_NO_OPS, _STARTS = 5, 3
_CHANGED = 1_000
"""Notes that change at once, as by a `git checkout`."""

_WORD = "checkedout"
"""A word that they have then, and nothing else has."""


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Build a vault of `sizes.large` notes in `folder` and measure it."""
    bench = Bench(folder)
    written = write(bench.vault, range(sizes.large), Writer())
    yield from scanned(bench, written)
    yield from served(bench, "while embedding")
    yield from changed(bench, sizes.large)
    with bench.book() as book:
        make_vectors_up(book)
    yield catalog(bench, "catalog with all vectors")
    yield from served(bench, "with all vectors")


def scanned(bench: Bench, written: int) -> Iterator[Figure]:
    """Index the words of all notes, and look again with nothing to do."""
    command = [*bench.spellbook, "reindex", "--words-only", "--quiet"]
    started = time.perf_counter()
    child = subprocess.Popen(command, cwd=bench.vault, env=bench.variables)
    _, status, used = os.wait4(child.pid, 0)
    took = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    with bench.book() as book:
        counts = book.index.catalog.counts()
    also = f"{counts.notes:,} notes, {counts.chunks:,} chunks, {written / 1e6:,.0f} MB; {used.ru_maxrss / 1024:,.0f} MB memory"
    yield Figure("first scan by words", took, also=also)
    yield catalog(bench, "catalog without vectors")
    for _ in range(2):  # stamps are old enough to be trusted by then
        bench.run(*command[-3:])
    yield Figure("no-op `reindex --words-only`", medians({"": lambda _: bench.run(*command[-3:])}, _NO_OPS)[""], most=1)


def catalog(bench: Bench, name: str) -> Figure:
    """Return the size of the catalog on disk."""
    with bench.book() as book:
        return Figure(name, book.index.catalog.disk_bytes() / 1e6, "MB")


def _asked(name: str, most: float, ask: Callable[[int], object]) -> Iterator[Figure]:
    taken = [seconds(partial(ask, number)) for number in range(-_WARM, _QUESTIONS)][_WARM:]
    yield Figure(f"{name}, p50", statistics.median(taken), most=most, also=f"p95 {share(taken, 0.95) * 1000:.0f} ms")


def served(bench: Bench, when: str) -> Iterator[Figure]:
    """Start `spellbook mcp` and ask it; a server that watches embeds what waits meanwhile."""
    writer, firsts = Writer(), []
    command = [*bench.spellbook, "mcp"]
    for _ in range(_STARTS):
        started = time.perf_counter()
        with Timed(command, bench.variables) as server:
            server.done("find", keywords=["invoice"])
            firsts.append(time.perf_counter() - started)
    yield Figure(f"server {when}: start to first answer", statistics.median(firsts), most=1)
    with Timed(command, bench.variables) as server:
        server.done("search", query="a harbor")
        yield from _asked(
            f"`search` {when}",
            0.1 if when == "with all vectors" else 0.2,
            lambda number: server.done("search", query=writer.question(number)),
        )
        yield from _asked(f"`find` {when}", 0.05, lambda number: server.done("find", keywords=writer.words(number)))
        also = f"at most {peak(server.process.pid):,.0f} MB"
        yield Figure(f"memory of the server {when}", resident(server.process.pid), "MB", most=1_000, also=also)


def changed(bench: Bench, notes: int) -> Iterator[Figure]:
    """Change many notes at once and measure until a server has found the words of all of them."""
    writer, count = Writer(), min(_CHANGED, notes // 2)
    paths = [bench.vault / writer.note(number * (notes // count))[0] for number in range(count)]
    texts = [f"{path.read_text('utf-8')}\n{_WORD} {number}\n" for number, path in enumerate(paths)]
    with Timed([*bench.spellbook, "mcp"], bench.variables) as server, bench.book() as book:
        server.done("find", keywords=["invoice"])
        until(book.is_watched)
        place = f"file:{book.index.catalog.file}?mode=ro"
        with contextlib.closing(sqlite3.connect(place, uri=True, isolation_level=None)) as connection:
            for path, text in zip(paths, texts, strict=True):
                path.unlink()  # as git does
                path.write_text(text, "utf-8")
            sql = "SELECT count(*) FROM words WHERE words MATCH ?"
            took = seconds(lambda: until(lambda: connection.execute(sql, (_WORD,)).fetchone()[0] == count, 120))
    yield Figure(f"{count:,} notes changed at once, all found", took, most=5)
