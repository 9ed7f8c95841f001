"""Memory does not grow with queries and edits, and the work for each does not grow with the vault."""

from __future__ import annotations

import gc
import tracemalloc
from functools import partial
from pathlib import Path

import pytest

from spellbook.index import embed, sync
from spellbook.index.filters import conditions
from spellbook.library import book as books
from spellbook.library.book import Spellbook
from tests.benchmarks.generated import Writer, write
from tests.helpers import finished, python, rows, steps, watched

ROUNDS = 100


@pytest.mark.slow
@pytest.mark.bare
def test_memory_does_not_grow_with_questions_and_edits(vault: Path) -> None:
    """After twice as many queries and edits a process uses the same memory, except for cached vectors."""
    # In a process of its own: what other tests left in caches would leave them unseen while this fills them.
    [grown] = finished(
        python("import sys; from tests.house.test_growth import grown; print(grown(sys.argv[1]))", vault)
    )
    # A vector is 1 kB; what is shown of chunks is cached too, in caches that have their bounds.
    assert int(grown) < ROUNDS * 4_000


def grown(vault: str) -> int:
    """Return how many more bytes are used after as many queries and edits again."""
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


def edit_and_ask(book: Spellbook, vault: Path, path: str, text: str) -> None:
    """Edit a note, make its vectors, and ask a question."""
    (vault / path).write_text(text, "utf-8")
    sync.scan_paths(book.index, [path])
    embed.embed_texts(book.index)
    assert book.memorize("harbour", min_score=0).hits
    book.state()


def test_an_edit_and_a_question_look_at_no_more_of_a_larger_vault(
    book: Spellbook, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a vault ten times as large, SQLite takes nearly as many steps for an edit and a query."""
    writer = Writer()
    taken = []
    watched(book)
    for notes in (40, 400):
        write(vault, range(notes), writer)
        book.reindex()
        path, text = writer.note(0)
        edits = [
            partial(edit_and_ask, book, vault, path, f"{text}\n\nharbour {notes} {number}\n") for number in range(4)
        ]
        counted = [steps(each) for each in edits]
        # The first one after a reindex brings what is in memory up to it, and now and then the full-text index merges its segments.
        taken.append(min(counted))
    assert taken[1] < 1.5 * taken[0]
    assert rows(book.index.catalog, "SELECT count(*) FROM notes") == [(400,)]


_KEYS = "SELECT DISTINCT key FROM chunks JOIN notes USING (note) WHERE category = 'knowledge' ORDER BY key LIMIT 5"


def test_what_is_near_is_looked_up_without_a_look_at_all_that_a_filter_leaves(book: Spellbook, vault: Path) -> None:
    """To look up near chunks, SQLite does not read every chunk that meets a filter."""
    write(vault, range(200), Writer())
    book.reindex()
    [(chunks,)] = rows(book.index.catalog, "SELECT count(*) FROM chunks")
    keys = [key for (key,) in rows(book.index.catalog, _KEYS)]
    limits = conditions(
        {"category": ["knowledge", "project", "decision", "preference", "article", "reference", "journal"]}
    )
    taken = steps(lambda: book.index.catalog.by_key(keys, limits))
    assert len(book.index.catalog.by_key(keys, limits)) == 5
    assert taken * 10 < 3 * chunks


def test_what_is_pending_costs_what_is_pending(book: Spellbook, vault: Path) -> None:
    """Listing pending texts takes as many SQLite steps however many others there are."""
    taken = []
    for notes in (0, 200):
        write(vault, range(notes), Writer())
        book.reindex()
        (vault / f"{notes}.md").write_text(f"the last of {notes}")
        book.reindex(words_only=True)
        assert len(book.index.catalog.waiting.in_order()) == 2  # the text and the title
        taken.append(steps(book.index.catalog.waiting.in_order))
    assert taken[1] < taken[0] + 3
