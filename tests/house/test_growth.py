"""Memory does not grow with queries and edits, and the work for each does not grow with the vault."""

from __future__ import annotations

import gc
import math
import tracemalloc
from functools import partial
from pathlib import Path

import pytest

from spellbook.index import embed, sync
from spellbook.index.filters import conditions
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.system import processes
from tests.benchmarks.generated import Writer, write
from tests.helpers import finished, python, rows, steps, watched

ROUNDS = 50


@pytest.mark.slow
@pytest.mark.bare
def test_memory_does_not_grow_with_questions_and_edits(vault: Path) -> None:
    """After twice as many queries and edits a process uses the same memory, except for cached vectors."""
    # In a process of its own: what other tests left in caches would leave them unseen while this fills them.
    [grown] = finished(
        python("import sys; from tests.house.test_growth import grown; print(grown(sys.argv[1]))", vault)
    )
    # A vector is 1 kB, and how a chunk is written 1.5 kB, of 4,000 chunks at most; other caches have their bounds too.
    assert int(grown) < ROUNDS * 5_000


def grown(vault: str) -> int:
    """Return how many more bytes are used after as many queries and edits again."""
    processes.BELIEVED = math.inf  # on a slow machine a scan would take memory meanwhile
    writer = Writer()
    write(Path(vault), range(20), writer)
    with books.open(vault, embedder="hash") as book:
        book.reindex()
        watched(book)

        def held(first: int) -> int:
            for number in range(first, first + ROUNDS):
                path, text = writer.note(number % 20)
                (Path(vault) / path).write_text(f"{text}\nedited {number} harbor{number}\n", "utf-8")
                sync.scan_paths(book.index, [path])
                embed.embed_texts(book.index)
                assert book.search(writer.question(number % 50), min_score=0).hits
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        held(0)
        tracemalloc.start()
        before = held(ROUNDS)
        return held(2 * ROUNDS) - before


def test_the_work_does_not_grow_with_the_vault(book: Spellbook, vault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    In a vault ten times as large, SQLite takes nearly as many steps for an edit and a query, and to list pending texts. To look
    up near chunks it does not read every chunk that meets a filter.
    """
    writer, taken, listed = Writer(), [], []
    monkeypatch.setattr(processes, "BELIEVED", math.inf)
    watched(book)

    def edit_and_ask(text: str) -> None:
        (vault / path).write_text(text, "utf-8")
        sync.scan_paths(book.index, [path])
        embed.embed_texts(book.index)
        assert book.memorize("harbour", min_score=0).hits
        book.state()

    for notes in (40, 400):
        write(vault, range(notes), writer)
        book.reindex()
        path, text = writer.note(0)
        edits = [f"{text}\n\nharbour {notes} {number}\n" for number in range(4)]
        # The first one after a reindex brings what is in memory up to it, and now and then the full-text index merges its segments.
        taken.append(min(steps(partial(edit_and_ask, each)) for each in edits))
        (vault / f"{notes}.md").write_text(f"the last of {notes}")
        book.reindex(words_only=True)
        assert len(book.index.catalog.waiting.in_order()) == 2  # the text and the title
        listed.append(steps(book.index.catalog.waiting.in_order))
        book.reindex()
    assert taken[1] < 1.5 * taken[0]
    assert listed[1] < listed[0] + 3
    [(chunks,)] = rows(book.index.catalog, "SELECT count(*) FROM chunks")
    keys = [key for (key,) in rows(book.index.catalog, _KEYS)]
    limits = conditions(
        {"category": ["knowledge", "project", "decision", "preference", "article", "reference", "journal"]}
    )
    found = steps(lambda: book.index.catalog.by_key(keys, limits))
    assert len(book.index.catalog.by_key(keys, limits)) == 5
    assert found * 10 < 3 * chunks


_KEYS = "SELECT DISTINCT key FROM chunks JOIN notes USING (note) WHERE category = 'knowledge' ORDER BY key LIMIT 5"
