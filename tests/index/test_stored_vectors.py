"""Stored vectors: each stored once, visible to all followers, within a size limit."""

from __future__ import annotations

import shutil

from spellbook.index import sync
from spellbook.index.vectors.matrix import Matrix
from tests.helpers import Counting, opened, rows


def test_unused_vectors_are_evicted_longest_unused_first_and_used_ones_never(vault, write_note):
    """Beyond the limit, the longest unused vectors are deleted first; used ones never are."""
    for i in range(6):
        write_note(f"{i}.md", f"text number {i}")
    embedder = Counting()
    with opened(vault, embedder) as index:
        sync.run(index)
        keys = {i: index.catalog.note(str(i))[0].key for i in range(6)}
        for i in (3, 1, 4):
            (vault / f"{i}.md").unlink()
            sync.run(index)
        # Seconds are the unit of use: make the order plain.
        for used, i in enumerate((3, 1, 4)):
            rows(index.catalog, "UPDATE vectors SET used = ? WHERE key = ?", used, keys[i])
        assert index.catalog.vectors.evict(11 * 384) == 1
        assert index.catalog.vectors.has(keys.values()) == {keys[i] for i in (0, 1, 2, 4, 5)}
        assert index.catalog.vectors.evict(1) == 5  # two texts, three titles
        assert len(index.catalog.vectors.has(index.catalog.labels.keys())) == 3
        assert index.catalog.vectors.has(keys.values()) == {keys[i] for i in (0, 2, 5)}
        assert (index.catalog.counts().pending, index.catalog.vectors.evict(1)) == (0, 0)


def test_a_vector_that_comes_back_into_use_is_seen_by_who_follows_seq(vault, write_note):
    """A follower of `seq` finds the vector of a note that was away and came back."""
    write_note("a.md", "the lighthouse")
    write_note("b.md", "something else")
    with opened(vault) as index:
        sync.run(index)
        [away] = index.catalog.note("a")
        (vault / "a.md").unlink()
        sync.run(index)
        matrix = Matrix()
        matrix.add(index.catalog.vectors.since(matrix.seq))
        assert len(matrix) == 1
        write_note("c.md", "the lighthouse")
        assert sync.run(index).embedded == 0
        matrix.add(index.catalog.vectors.since(matrix.seq))
        assert matrix.nearest(index.embedder.embed_query("the lighthouse"), 1)[0][0] == away.key


def test_seq_never_repeats_what_a_deleted_catalog_counted(vault, write_note):
    """A follower of `seq` sees the vectors of a rebuilt catalog."""
    write_note("a.md", "text")
    with opened(vault) as index:
        sync.run(index)
        mark = index.catalog.vectors.changes(0)[-1][1]
    shutil.rmtree(index.config.state)
    with opened(vault) as index:
        sync.run(index)
        assert index.catalog.vectors.changes(mark) == index.catalog.vectors.changes(0) != []


def test_vectors_of_an_embedder_that_comes_back_are_seen_one_by_one(vault, write_note):
    """After switching back to an embedder, each of its vectors gets a new `seq` of its own."""
    for i in range(5):
        write_note(f"{i}.md", f"lighthouse {i}")
    embedders = Counting(), Counting(fingerprint="another"), Counting()
    last = 0
    for number, embedder in enumerate(embedders):
        with opened(vault, embedder) as index:
            sync.run(index)
            assert embedder.taken() == (0 if number == 2 else 5)
            came = [seq for _, seq in index.catalog.vectors.changes(last)]
            assert len(came) == 5
            assert number < 2 or len({*came}) == 5
            last = came[-1]
            if number == 2:
                write_note("new.md", "a harbour")
                sync.run(index)
                assert len(index.catalog.vectors.changes(last)) == 1
