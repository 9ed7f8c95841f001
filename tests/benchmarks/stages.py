"""
Indexing a large vault for the first time.

Embedding is compared with the model's engine alone on the same texts, in turns, with as many threads of the same priority.
A scan after edits is compared with the same number of notes in the full scan.
"""

import os
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from spellbook.index import embed, sync
from spellbook.index.opened import Index
from spellbook.models.base import clean, unhurried
from spellbook.models.e5.e5 import E5
from spellbook.models.embedders import HashEmbedder
from spellbook.models.onnx.lazy_engine import Engine, step_back
from tests.benchmarks.generated import Writer, write
from tests.benchmarks.table import Figure, Ratio, Sizes
from tests.benchmarks.timing import opened, seconds

_CHANGED = 300
"""Edited files: about as many as a git branch switch changes."""

_TURNS, _EMBEDDED = 4, 8
"""Rounds of embedding both ways, and notes in each round."""


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Measure both stages."""
    yield from _words(folder / "words", sizes.notes)
    yield from _vectors(folder / "vectors")


def _words(folder: Path, notes: int) -> Iterator[Figure]:
    megabytes = write(folder / "vault", range(notes), Writer()) / 1e6
    files = sorted((folder / "vault").rglob("*.md"))
    _settle(files)
    with opened(folder, HashEmbedder()) as book:
        index = book.index
        whole, processors = _look(index)
        also = f"{megabytes / whole:.1f} MB/s; CPU time {processors:.1f} s"
        yield Figure(f"scan, {notes:,} notes, {megabytes:.0f} MB", whole, also=also)
        for number in (min(_CHANGED, notes), 1):
            edited = random.Random(2).sample(files, number)
            for file in edited:
                file.write_text(file.read_text("utf-8") + "\nedited\n", "utf-8")
            _settle(edited)
            changed, _ = _look(index)
            ratio = Ratio(changed / (whole * number / notes), "the full scan, per note")
            yield Figure(f"scan after editing {number}, warm process", changed, ratio=ratio)


def _settle(files: Sequence[Path]) -> None:
    """Set old modification times: a scan reads young files again, changed or not."""
    for file in files:
        stamp = file.stat()
        os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns - 10 * sync.SETTLED_NS))


def _look(index: Index) -> tuple[float, float]:
    """Return the wall-clock and CPU seconds of a scan, over all processes."""
    processors = sum(os.times()[:4])
    return seconds(lambda: sync.scan(index)), sum(os.times()[:4]) - processors


def _alone(engine: Engine, texts: Sequence[str], threads: int) -> float:
    with ThreadPoolExecutor(threads, initializer=step_back) as pool:
        return seconds(lambda: list(pool.map(engine.passage, texts)))


def _vectors(folder: Path) -> Iterator[Figure]:
    embedder, writer = E5(), Writer()
    engine = embedder.local.engine()
    engine.passage("warm")
    raw = stage = words = second = 0.0
    with opened(folder, embedder) as book:
        index = book.index
        for turn in range(_TURNS):
            write(folder / "vault", range(turn * _EMBEDDED, (turn + 1) * _EMBEDDED), writer)
            words += seconds(lambda: sync.scan(index))
            texts = [clean(text) for text in index.catalog.vectors.embedded(index.catalog.waiting.in_order())]
            raw += _alone(engine, texts, embedder.threads)
            with unhurried():
                index.embedder.embed_passages(texts[:1])  # loads the model
            if index.second:
                index.second.vectors(["warm"])
                second += seconds(lambda: embed.embed_second(index))
            stage += seconds(lambda: embed.embed_texts(index))
        chunks = index.catalog.counts().chunks
    ratio, also = Ratio(raw / stage, "the engine alone", least=0.9), f"{chunks} chunks, {embedder.threads} threads"
    yield Figure("embedding, chunks per second", chunks / stage, "chunks/s", ratio=ratio, also=also)
    if index.second:
        name = "a new vault to search by meaning with the second encoder"
        ratio = Ratio((words + second) / (words + second + stage), "with the embedder too", most=0.2)
        also = f"{chunks} chunks; search by words after {words:.2f} s, {chunks / second:,.0f} chunks/s after that"
        yield Figure(name, words + second, ratio=ratio, also=also)
