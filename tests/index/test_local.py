"""The engine over SQLite: words that many chunks have, and what a released engine leaves."""

from __future__ import annotations

import gc
import weakref

import pytest

from spellbook.index import sync
from spellbook.search import weights
from spellbook.text.terms import phrase
from tests.helpers import opened


def test_words_of_few_and_of_many_chunks_are_counted_and_found_alike(vault, write_note):
    """Of a word that most chunks have the count and the notes that hold it are right, as of a rare one."""
    many = weights.MOST_COMMON + 50
    # A short section would be one chunk with the next.
    write_note("a.md", "".join(f"## s{i}\n\n{'zebra ' * 60}\n\n" for i in range(many)))
    write_note("b.md", "a zebra and a heron")
    write_note("c.md", "nothing of it")
    words = [phrase("zebra"), phrase("heron"), phrase("owl")]
    with opened(vault) as index:
        sync.scan(index)
        engine = index.engine()
        count = engine.frequencies(words, False)
        notes = [(chunks[0].number, chunks[-1].number) for chunks in map(index.catalog.at, ("a.md", "b.md", "c.md"))]
        common = len(index.catalog.at("a.md"))
        assert common > weights.MOST_COMMON
        for _ in range(2):  # the second time they are kept
            assert [count(word) for word in words] == [common + 1, 1, 0]
            assert engine.holding(words, notes) == [[True, True, False], [False, True, False], [False] * 3]


@pytest.mark.parametrize("is_used", [False, True])
def test_a_released_engine_leaves_at_once(vault, write_note, is_used):
    """Its vectors do not wait for the garbage collector, which a server may have told to let them be."""
    write_note("a.md", "a zebra")
    with opened(vault) as index:
        sync.scan(index)
        engine = index.engine()
        if is_used:
            engine.frequencies([phrase("zebra")], False)(phrase("zebra"))
        there = weakref.ref(engine)
        gc.disable()
        try:
            del engine
            assert there() is None
        finally:
            gc.enable()
