"""
The first minute of a large vault: `spellbook mcp` is started over notes that were never indexed, and asked all the while.

Seconds count from the start of the process. A question is asked every quarter of a second, by words and by both in turns,
until all notes are found by meaning and for a while of the embedding after that.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from spellbook.index.catalog.catalog import FILE
from tests.benchmarks.generated import Writer, write
from tests.benchmarks.processes import Bench, Timed
from tests.benchmarks.table import Figure, Sizes
from tests.benchmarks.timing import peak, processor, share

_EVERY = 0.25
_LATER = 15.0
_MOST = 600.0


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Write a vault of `sizes.notes` notes into `folder`, serve it and ask."""
    bench, writer = Bench(folder), Writer()
    megabytes = write(bench.vault, range(sizes.notes), writer) / 1e6
    found: dict[str, tuple[float, float]] = {}
    waits: dict[str, list[float]] = {"until all words are found": [], "until all is found by meaning": [], "then": []}
    started = time.monotonic()
    with Timed([*bench.spellbook, "mcp"], bench.variables) as server:
        for number in range(int(_MOST / _EVERY)):
            asked = time.monotonic()
            if number % 2:
                server.done("find", keywords=writer.words(number))
            else:
                server.done("search", query=writer.question(number))
            waits[list(waits)[len(found)]].append(time.monotonic() - asked)
            done = _done(folder)
            for stage in list(waits)[len(found) : done]:
                found[stage] = time.monotonic() - started, processor(server.process.pid)
            if done == 2 and time.monotonic() > started + found["until all is found by meaning"][0] + _LATER:
                break
            time.sleep(max(0.0, asked + _EVERY - time.monotonic()))
        memory = peak(server.process.pid)
    vault = f"{sizes.notes:,} notes, {megabytes:.0f} MB"
    for stage, aim in zip(waits, (15.0, 60.0), strict=False):
        seconds, spent = found[stage]
        yield Figure(f"a new vault, {vault}: {stage}", seconds, most=aim, also=f"CPU of the server {spent:.0f} s")
    for stage, times in waits.items():
        yield Figure(
            f"longest wait of a question, {stage}",
            max(times),
            most=0.5,
            also=f"p50 {share(times, 0.5) * 1e3:.0f} ms, p99 {share(times, 0.99) * 1e3:.0f} ms, {len(times)} questions",
        )
    yield Figure("peak memory of the server in that time", memory, "MB")


def _done(folder: Path) -> int:
    """Return 0 until the whole vault is read, then 1, and 2 once no text waits for the second encoder."""
    for file in folder.glob(f"state/*/{FILE}"):
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as catalog,
        ):
            meta = dict(catalog.execute("SELECT key, value FROM meta"))
            is_encoded = meta["second"] and not meta["second_pending"]
            return bool(meta.get("read_as")) + bool(meta.get("read_as") and is_encoded)
    return 0
