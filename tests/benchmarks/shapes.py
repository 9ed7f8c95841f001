"""CPU time of extreme notes of ten megabytes: indexing, an edit, its undo. Each shape runs in its own process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import spellbook
from tests.benchmarks.children import apart
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.table import Figure, Ratio
from tests.benchmarks.timing import peak, still
from tests.shapes import SHAPES

_BYTES = 9_700_000
_MOST_SECONDS = 10
_MOST_TIMES = 10
_SHOWN = (
    *(
        "prose",
        "sections",
        "headings with tags",
        "equal headings",
        "tags by lines",
        "sections and labels",
        "links to one by lines",
        "open fragments",
    ),
    *(
        "table",
        "one line",
        "two lines",
        "loose list",
        "fences",
        "rules",
        "rules after text",
        "brackets",
        "ticks apart",
        "turns",
        "hangul",
    ),
)


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Measure the shapes in order."""
    for name in _SHOWN:
        yield from apart(shape, name, folder / name.replace(" ", "-"))


def shape(name: str, folder: Path) -> Iterator[Figure]:
    """Index a note of a shape by words, edit it, and undo the edit."""
    os.environ["SPELLBOOK_DATA"] = str(folder / "data")
    vault = folder / "vault"
    vault.mkdir(parents=True)
    data = SHAPES[name](_BYTES).encode()
    (vault / "note.md").write_bytes(data)
    with spellbook.open(vault, embedder="hash", state=folder / "state") as book:
        before = peak()
        took = _busy(lambda: book.reindex(words_only=True))
        more = peak() - before
    with spellbook.open(vault, embedder="hash", state=folder / "state") as book:
        still(book)
        catalog = book.index.catalog.sizes()["bytes"]
        edited = _busy(lambda: book.revise("note", append="One more sentence."))
        undone = _busy(book.undo)
    size = Ratio(catalog / len(data), "the note", most=_MOST_TIMES)
    also = f"{more / len(data) * 1e6:.0f} × memory"
    yield Figure(
        f"{name}, {len(data) / 1e6:.0f} MB: index by words; catalog size",
        took,
        most=_MOST_SECONDS,
        ratio=size,
        also=also,
    )
    yield Figure(f"{name}: append a sentence", edited, most=_MOST_SECONDS)
    yield Figure(f"{name}: undo", undone, most=_MOST_SECONDS)


def _busy(action: Callable[[], object]) -> float:
    """Return the CPU seconds of an action, which other processes do not affect."""
    started = time.process_time()
    action()
    return time.process_time() - started
