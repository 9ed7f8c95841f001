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
from tests.house.test_shapes import LABELLED, TAGGED, by_turns, many

_BYTES = 9_700_000
_MOST_SECONDS = 10
_MOST_TIMES = 10
_SHOWN = {
    **{"prose": many("{1}\n\n"), "sections": many("## Section {0}\n\n{1}\n\n"), "equal headings": many("## Same\n")},
    **{"headings with tags": TAGGED, "sections and labels": LABELLED, "tags by lines": many("#tag{0}\n")},
    **{"links to one by lines": many("[[target]]\n"), "open fragments": many("[[a#b"), "one line": many("word ")},
    **{"table": many("| {0} | value {0} | {1} |\n", "| a | b | c |\n| --- | --- | --- |\n")},
    **{"two lines": by_turns("The one line.\n", "The two line.\n"), "loose list": many("- {1}\n\n")},
    **{"fences": many("```python\nx{0} = {0}\n```\n\n"), "rules": many("---\n"), "rules after text": many("a\n---\n")},
    **{"brackets": many("["), "ticks apart": many("` "), "turns": many("User: question {0}\n\nAssistant: {1}\n\n")},
    **{"hangul": many("가나다라마바사")},
}


def figures(folder: Path, sizes: Sizes) -> Iterator[Figure]:
    """Measure the shapes in order."""
    for name in _SHOWN:
        yield from apart(shape, name, folder / name.replace(" ", "-"))


def shape(name: str, folder: Path) -> Iterator[Figure]:
    """Index a note of a shape by words, edit it, and undo the edit."""
    os.environ["SPELLBOOK_DATA"] = str(folder / "data")
    vault = folder / "vault"
    vault.mkdir(parents=True)
    data = _SHOWN[name](_BYTES).encode()
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
