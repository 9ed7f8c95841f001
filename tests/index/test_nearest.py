"""Nearest chunks: with deleted chunks and filters, as many come back as exist."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from spellbook.index import embed, sync
from spellbook.index.catalog.catalog import Catalog
from spellbook.index.filters import conditions
from spellbook.index.vectors import chroma, follow, nearest
from spellbook.index.vectors.nearest import Nearest
from tests.helpers import opened, rows

NOTES, RARE = 500, 100


@pytest.fixture(params=["exact", "chroma", "read"])
def index(request, vault, write_note, monkeypatch):
    """Many notes that are nearer to "lighthouse" than the few of the category "rare", for each way to search."""
    if request.param == "read":  # from the catalog, as long as Chroma has nothing
        monkeypatch.setattr(nearest, "BLOCK", 10)
        monkeypatch.setattr(sync, "maintain", lambda index: None)
    for i in range(NOTES):
        rare = i % RARE == 0
        write_note(
            f"{i:03}.md", f"{'far away ' * 3 if rare else ''}lighthouse {i}", category="rare" if rare else "usual"
        )
    with opened(vault, exact_most=100_000 if request.param == "exact" else 1) as index:
        sync.run(index)
        yield index


def found(index, filter=None, wanted=30, searcher=None):
    reasons: list[str] = []
    with index.catalog.reading():
        near = (searcher or Nearest(index)).chunks(
            index.embedder.embed_query("lighthouse"), conditions(filter), wanted, reasons
        )
    assert not reasons
    assert [cosine for _, cosine in near] == sorted((cosine for _, cosine in near), reverse=True)
    return [chunk.path for chunks, _ in near for chunk in chunks]


def test_a_filter_is_filled_however_far_away_what_it_leaves_is(index):
    """All chunks of a rare category are found, and as many as wanted of a common one."""
    assert sorted(found(index, {"category": "rare"})) == [f"{i:03}.md" for i in range(0, NOTES, RARE)]
    assert len(found(index, {"category": "usual"})) == 30
    assert found(index, {"category": "usual", "path": "000.md"}) == []


def test_what_was_deleted_takes_no_place(index, vault):
    """After most notes were deleted the rest is found and nothing else, also by a searcher that knew the others."""
    for i in range(NOTES):
        if i % RARE:
            (vault / f"{i:03}.md").unlink()
    sync.run(index, full=True)
    assert sorted(found(index)) == [f"{i:03}.md" for i in range(0, NOTES, RARE)]


def test_cosines_of_chunks_need_no_rank(index):
    """Cosines are those of the stored vectors; unknown keys have none."""
    query = index.embedder.embed_query("lighthouse")
    stored = {key: np.frombuffer(vector, "<f4") @ query for key, vector, _ in index.catalog.vectors.since(0)}
    nearest = Nearest(index)
    for _ in range(2):  # before the vectors are in memory, and after
        assert nearest.cosines(query, [*stored, "unknown"]) == pytest.approx(stored, abs=1e-5)
        nearest.chunks(query, (), 1, [])


@pytest.mark.parametrize("index", ["read"], indirect=True)
def test_a_large_vault_is_searched_before_chroma_has_it(index, write_note, vault):
    """What is new is found at once, what is gone takes no place, and an answer says what Chroma lacks if it is much."""
    query = index.embedder.embed_query("lighthouse")
    known, reasons = Nearest(index), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "BEHIND", NOTES - 1)
        assert len(known.chunks(query, (), 30, reasons)) == 30
    assert reasons == [f"Chroma lacks {NOTES} vectors, which were read one by one"]
    for number in range(12):
        write_note(f"new{number}.md", f"lighthouse lighthouse {number}", category="new")
    sync.run(index)
    for searcher in (known, Nearest(index)):
        assert len(found(index, {"category": "new"}, searcher=searcher)) == 12
    for i in range(NOTES):
        (vault / f"{i:03}.md").unlink()
    sync.run(index, full=True)
    assert len(found(index, searcher=known)) == 12
    assert not index.chroma.seq


@pytest.mark.parametrize("index", ["chroma"], indirect=True)
def test_chroma_may_answer_with_fewer_than_it_holds(index, monkeypatch):
    """As many come back as exist: its graph can lose the way to vectors beside deleted ones."""
    whole = chroma.Chroma.nearest
    monkeypatch.setattr(chroma.Chroma, "nearest", lambda *asked: whole(*asked)[:3])
    assert len(found(index)) == 30
    assert len(found(index, {"category": "rare"})) == NOTES // RARE


@pytest.mark.parametrize("index", ["chroma"], indirect=True)
def test_where_chroma_fails_the_catalog_answers_and_says_so(index, monkeypatch):
    """As near, and as many; a filter is filled too."""
    query, reasons = index.embedder.embed_query("lighthouse"), list[str]()
    by_chroma = [cosine for _, cosine in Nearest(index).chunks(query, (), 30, [])]

    def failing(*_):
        raise chroma.Unavailable("it is being built anew")

    monkeypatch.setattr(chroma.Chroma, "nearest", failing)
    exactly = [cosine for _, cosine in Nearest(index).chunks(query, (), 30, reasons)]
    assert reasons == ["searched without Chroma: it is being built anew"]
    assert exactly == sorted(exactly, reverse=True)
    assert all(exact >= near - 0.001 for exact, near in zip(exactly, by_chroma, strict=True))
    assert len(Nearest(index).chunks(query, conditions({"category": "rare"}), 30, [])) == NOTES // RARE


@pytest.mark.parametrize("index", ["chroma"], indirect=True)
def test_what_chroma_lacks_is_found_beside_what_it_has(index, write_note, monkeypatch):
    """Before Chroma has followed, a new text that is nearer than all others comes first."""
    monkeypatch.setattr(sync, "maintain", lambda index: None)
    write_note("new.md", "lighthouse")
    sync.run(index)
    assert found(index)[0] == "new.md"
    assert len(found(index)) == 30


@pytest.mark.parametrize("count", [0, 7])
def test_while_most_texts_have_no_vector_no_list_of_the_vault_is_made(vault, write_note, monkeypatch, count):
    """If fewer texts than wanted have a vector, these are all that is looked for."""
    for i in range(40):
        write_note(f"{i:02}.md", f"lighthouse {i}")
    with opened(vault, exact_most=1) as index:
        sync.scan(index)
        embed.embed_and_store(
            index, index.catalog.waiting.texts(index.catalog.waiting.in_order()[-count:] * bool(count))
        )
        monkeypatch.setattr(Catalog, "keys", lambda *_: pytest.fail("all keys were listed"))
        assert len(Nearest(index).chunks(index.embedder.embed_query("lighthouse"), (), 30, [])) == count


@pytest.mark.parametrize("index", ["read"], indirect=True)
def test_a_vault_that_grows_and_shrinks_is_held_in_one_way_at_a_time(index, write_note):
    """New and returning vectors are found on either side of `exact_most`."""
    searcher = Nearest(index)

    def grown(most, names):
        object.__setattr__(index.config, "exact_most", most)
        for path in {path for (path,) in rows(index.catalog, "SELECT path FROM notes WHERE category = 'new'")} - names:
            (index.config.vault / path).unlink()
        for name in names:
            write_note(name, f"lighthouse lighthouse {name}", category="new")
        sync.run(index, full=True)
        assert {*found(index, {"category": "new"}, searcher=searcher)} == names
        return len(searcher.matrix) > 0

    assert not grown(1, {"x.md", "y.md"})
    assert grown(10_000, {"x.md", "z.md"})
    assert not grown(1, {"y.md", "z.md"})
    assert grown(10_000, {"x.md", "y.md"})


def test_chroma_follows_a_portion_at_a_time(vault, write_note, monkeypatch):
    """`maintain` returns whether more is left to do."""
    monkeypatch.setattr(chroma, "BATCH", 10)
    monkeypatch.setattr(follow, "AT_ONCE", 0.0)
    for i in range(25):
        write_note(f"{i}.md", f"lighthouse {i}")
    with opened(vault, exact_most=1) as index:
        sync.scan(index)
        embed.embed_texts(index)
        assert [embed.maintain(index) for _ in range(4)] == [False, False, True, True]
        assert not index.catalog.vectors.changes(index.chroma.seq)


def test_a_search_goes_on_as_it_began(vault, write_note, monkeypatch):
    """A search that began exact stays so, although the vault becomes too large meanwhile."""
    for i in range(NOTES):
        write_note(f"{i:03}.md", f"lighthouse {i}", category="rare" if i % RARE == 0 else "usual")
    with opened(vault, exact_most=NOTES) as index, ThreadPoolExecutor(1) as other:
        sync.run(index)
        searcher, by_key, met = Nearest(index), index.catalog.by_key, []

        def grown():
            write_note("new.md", "lighthouse")
            sync.run(index)
            assert len(found(index, searcher=searcher)) == 30

        def slowly(*asked):
            met.append(by_key(*asked))
            if len(met) == 1:
                other.submit(grown).result()
            return met[-1]

        monkeypatch.setattr(index.catalog, "by_key", slowly)
        assert len(found(index, {"category": "rare"}, searcher=searcher)) == NOTES // RARE
