"""Time and memory of exports, imports and snapshots of generated notes and one large attachment; one process a step."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import spellbook
from spellbook.library.book import Spellbook
from tests.benchmarks.generated import Writer, write
from tests.benchmarks.table import Figure, Sizes
from tests.benchmarks.timing import apart, peak, seconds

_PART = 3
"""The vault has 1/3 of the notes of the other parts."""

_ATTACHED = 50_000_000

_STEPS: dict[str, tuple[str, Callable[[Spellbook, Path], object]]] = {
    "export, JSON": ("vault", lambda book, folder: book.export(folder / "out.json")),
    "export, zip": ("vault", lambda book, folder: book.export(folder / "out.zip")),
    "import, JSON": ("empty", lambda book, folder: book.import_(folder / "out.json")),
    "import, nothing new": ("empty", lambda book, folder: book.import_(folder / "out.zip")),
    "first snapshot": ("vault", lambda book, _: book.snapshots.create()),
    "snapshot, nothing new": ("vault", lambda book, _: book.snapshots.create()),
    "snapshot verify": ("vault", lambda book, _: book.snapshots.verify()),
    "snapshot restore --into": ("vault", lambda book, folder: book.restore_snapshot("latest", folder / "then")),
}


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Measure the steps in order."""
    os.environ["SPELLBOOK_DATA"] = str(folder / "data")
    (folder / "empty").mkdir(parents=True)
    notes = sizes.notes // _PART
    megabytes = (write(folder / "vault", range(notes), Writer()) + _ATTACHED) / 1e6
    (folder / "vault" / "clip.mov").write_bytes(os.urandom(_ATTACHED))
    for name in _STEPS:
        yield from apart(step, name, folder, megabytes)


def step(name: str, folder: Path, megabytes: float) -> Iterator[Figure]:
    """Run one step; report its time and its memory beyond the opened vault."""
    where, action = _STEPS[name]
    with spellbook.open(folder / where, embedder="hash", state=folder / "state") as book:
        book.refresh()
        before = peak()
        took = seconds(lambda: action(book, folder))
        more = peak() - before
    yield Figure(f"{name}, {megabytes:,.0f} MB", took, also=f"{megabytes / took:.0f} MB/s, {more:.0f} MB memory")
