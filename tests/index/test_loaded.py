"""Words that many chunks have, and how soon the memory of a loaded index is free."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import pytest

from spellbook.index import embed, loaded, sync
from spellbook.index.catalog.catalog import Catalog
from spellbook.index.loaded import LoadedIndex
from spellbook.text.terms import phrase
from tests.helpers import opened


def test_words_of_few_and_of_many_chunks_are_counted_and_found_alike(vault, write_note, monkeypatch):
    """Of a word that most chunks have the count and the notes that hold it are right, as of a rare one."""
    monkeypatch.setattr(loaded, "MOST_NUMBERED", 40)
    # A short section would be one chunk with the next.
    write_note("a.md", "".join(f"## s{i}\n\n{'zebra ' * 60}\n\n" for i in range(50)))
    write_note("b.md", "a zebra and a heron")
    write_note("c.md", "nothing of it")
    words = [phrase("zebra"), phrase("heron"), phrase("owl")]
    with opened(vault) as index:
        sync.scan(index)
        kept = LoadedIndex(index)
        count = kept.frequencies()
        notes = [(chunks[0].number, chunks[-1].number) for chunks in map(index.catalog.at, ("a.md", "b.md", "c.md"))]
        for _ in range(2):  # the second time they are kept
            assert [count(word) for word in words] == [len(index.catalog.at("a.md")) + 1, 1, 0]
            assert kept.holding(words, notes) == [[True, True, False], [False, True, False], [False] * 3]


def test_counts_are_kept_until_a_note_changes(vault, write_note, monkeypatch):
    """While texts are embedded no word is counted again; after a change of a note it is."""
    write_note("a.md", "a zebra")
    with opened(vault) as index:
        sync.scan(index)
        kept, word = LoadedIndex(index), phrase("zebra")
        assert kept.frequencies()(word) == 1
        embed.embed_texts(index)
        with monkeypatch.context() as patched:
            patched.setattr(Catalog, "frequency", lambda *_: pytest.fail("it was counted again"))
            assert kept.frequencies()(word) == 1
        write_note("b.md", "another zebra")
        sync.scan(index)
        assert kept.frequencies()(word) == 2


def test_a_catalog_that_is_begun_anew_is_counted_anew(vault, write_note):
    """As many changes of another catalog say nothing of the words, notes and chunks in this one."""
    write_note("a.md", "a zebra")
    write_note("b.md", "a heron")
    with opened(vault) as index:
        sync.scan(index)
        kept, word = LoadedIndex(index), phrase("zebra")
        assert kept.frequencies()(word) == 1
        changes, before = index.catalog.version[1], index.catalog.counts()
        index.catalog.close()
        for side in ("", "-wal", "-shm"):
            index.catalog.file.with_name(index.catalog.file.name + side).unlink(missing_ok=True)
        write_note("b.md", "the zebra")
        assert index.catalog.counts().notes == 0
        sync.scan(index)
        assert replace(index.catalog.counts(), generation=before.generation) == before
        assert index.catalog.version[1] == changes
        assert kept.frequencies()(word) == 2


def test_a_released_index_leaves_memory_at_once(vault, write_note):
    """Its vectors do not wait for the garbage collector, which a server may have told to let them be."""
    write_note("a.md", "a zebra")
    with opened(vault) as index:
        sync.scan(index)
        kept = LoadedIndex(index)
        kept.frequencies()(phrase("zebra"))
        there = weakref.ref(kept)
        gc.disable()
        try:
            del kept
            assert there() is None
        finally:
            gc.enable()
