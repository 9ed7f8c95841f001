"""
How costs grow with the vault.

Each size is measured in its own process, with hashed vectors, and compared with the size before it. Costs of the whole vault
are compared per note, so 1 is linear growth. Costs of one query or edit are compared as they are, so 1 is constant. A memory
test then runs queries and edits at the smallest size; it compares memory at the end with memory after the first tenth.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from spellbook.index import embed, sync
from spellbook.library.book import Spellbook
from spellbook.models.embedders import HashEmbedder
from tests.benchmarks.generated import Writer, write
from tests.benchmarks.table import Figure, Ratio, Sizes
from tests.benchmarks.timing import apart, opened, resident, seconds, share, still

_QUESTIONS, _EDITS, _WARM = 300, 60, 20
_WHOLE = ("scan", "embedding, hashed vectors", "scan, nothing changed", "index size")
_SIZE, _MOST_SIZE = "index with all vectors", 3.5
"""Size of the index, and the most that it may be of the notes' size."""

_LINEAR, _CONSTANT = 1.25, 2.0
"""Largest growth for a vault ten times as large: of whole-vault costs per note, and of one query or edit."""

_FIRST = "first query after an edit"
_READ_WHOLE = ("`find`", "`memorize`", "`search`", _FIRST)
"""Figures with index lookups, which grow with the vault: bm25 reads every chunk with a word, exact search every vector."""

_HELD = 1.25


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Measure the sizes in order; the first is only a baseline."""
    known: dict[str, float] = {}
    for number, (notes, less) in enumerate(zip(sizes.growth, (0, *sizes.growth), strict=False)):
        for figure in apart(measured, folder / str(notes), notes):
            if number:
                yield _against(figure, known[figure.name], notes, less)
            known[figure.name] = figure.value
    if sizes.rounds:
        yield from apart(endured, folder / "endured", sizes.growth[0], sizes.rounds)


def _against(figure: Figure, before: float, notes: int, less: int) -> Figure:
    """Return a figure of a vault of `notes` notes, with its ratio to the vault of `less` notes."""
    if figure.name == _SIZE:
        return replace(figure, name=f"{notes:,} notes: {_SIZE}")
    whole = figure.name in _WHOLE
    ratio = figure.value / before / (notes / less if whole else 1)
    of = f"{less:,} notes{', per note' if whole else ''}"
    bound = Ratio(ratio, of) if figure.name in _READ_WHOLE else Ratio(ratio, of, most=_LINEAR if whole else _CONSTANT)
    return Figure(f"{notes:,} notes: {figure.name}", figure.value, figure.unit, ratio=bound, also=figure.also)


def measured(folder: Path, notes: int) -> Iterator[Figure]:
    """Build a vault of `notes` notes in `folder` and measure it."""
    writer = Writer()
    written = write(folder / "vault", range(notes), writer)
    with opened(folder, HashEmbedder(dim=384)) as book:
        for name, action in zip(_WHOLE, (sync.scan, embed.embed_texts, sync.scan), strict=False):
            yield Figure(name, seconds(lambda action=action: action(book.index)))
        also = f"{written / 1e6:,.0f} MB of notes, {book.index.catalog.counts().chunks:,} chunks; {resident():.0f} MB memory"
        size = book.index.catalog.sizes()["bytes"]
        yield Figure(_WHOLE[3], size / 1e6, "MB", also=also)
        yield Figure(_SIZE, size / 1e6, "MB", ratio=Ratio(size / written, "the notes", most=_MOST_SIZE))
        still(book)
        yield from _asked(book, writer)
        yield from _edited(book, writer, notes)


def _asked(book: Spellbook, writer: Writer) -> Iterator[Figure]:
    for name in ("find", "memorize", "search"):
        taken: list[float] = []
        for number in range(-_WARM, _QUESTIONS):
            query = writer.words(number) if name == "find" else f"{writer.question(number)}{' ' * (name == 'search')}"
            taken.append(seconds(lambda name=name, query=query: getattr(book, name)(query)))
        half, most, all_but = (share(taken[_WARM:], part) for part in (0.5, 0.95, 0.99))
        yield Figure(f"`{name}`", half, also=f"p95 {most * 1000:.1f} ms, p99 {all_but * 1000:.1f} ms")


def _edited(book: Spellbook, writer: Writer, notes: int) -> Iterator[Figure]:
    """Edit one note at a time; measure until words are indexed, until vectors are, and the next query."""
    taken: dict[str, list[float]] = {}
    for number in range(-_WARM, _EDITS):
        path = edit(book, writer, number * 7 % notes, number)
        steps: dict[str, Callable[[], object]] = {
            "one edit, words indexed": lambda path=path: sync.scan_paths(book.index, [path]),
            "one edit, embedded": lambda: embed.embed_texts(book.index),
            _FIRST: lambda: book.memorize("a harbor"),
        }
        for name, step in steps.items():
            taken.setdefault(name, []).append(seconds(step))
    for name, times in taken.items():
        yield Figure(name, statistics.median(times[_WARM:]))


def edit(book: Spellbook, writer: Writer, note: int, number: int) -> str:
    """Append a line to a note and return the note's path."""
    path, text = writer.note(note)
    (book.config.vault / path).write_text(f"{text}\nedited {number} harbor{number}\n", "utf-8")
    return path


def endured(folder: Path, notes: int, rounds: int) -> Iterator[Figure]:
    """Run `rounds` queries and edits in a vault of `notes` notes and measure memory."""
    writer, held = Writer(), []
    write(folder / "vault", range(notes), writer)
    with opened(folder, HashEmbedder(dim=384)) as book:
        book.reindex()
        still(book)
        for number in range(rounds):
            path = edit(book, writer, number % notes, number)
            sync.scan_paths(book.index, [path])
            embed.embed_texts(book.index)
            book.search(writer.question(number))
            if number + 1 in {max(1, rounds // 10), rounds}:
                gc.collect()
                held.append(resident())
    ratio = Ratio(held[-1] / held[0], f"after {max(1, rounds // 10):,}", most=_HELD)
    yield Figure(f"memory after {rounds:,} queries and {rounds:,} edits", held[-1], "MB", ratio=ratio)
