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
from spellbook.index.vectors.simhash import Sketches
from tests.helpers import Counting, opened, rows

NOTES, RARE = 500, 100


@pytest.fixture(params=["exact", "chroma", "sketches"])
def index(request, vault, write_note, monkeypatch):
    """Many notes that are nearer to "lighthouse" than the few of the category "rare", for each way to search."""
    if request.param == "sketches":  # as long as Chroma is far behind
        monkeypatch.setattr(nearest, "BEHIND", 3)
        monkeypatch.setattr(nearest, "BLOCK", 10)
        monkeypatch.setattr(nearest, "COMPARED", 60)
        monkeypatch.setattr(nearest, "WORTH_KEEPING", NOTES)
        monkeypatch.setattr(sync, "maintain", lambda index, embedded: True)
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


@pytest.mark.parametrize("index", ["sketches"], indirect=True)
def test_a_large_vault_is_searched_before_chroma_has_it(index, write_note, vault):
    """New vectors are found at once; a new process starts with the stored sketches and drops deleted ones."""
    known, file = Nearest(index), index.config.state / "sketches.npy"
    assert len(found(index, searcher=known)) == 30
    kept = file.read_bytes()
    for number in range(12):
        write_note(f"new{number}.md", f"lighthouse lighthouse {number}", category="new")
    sync.run(index)
    for searcher in (known, Nearest(index)):
        assert len(found(index, {"category": "new"}, searcher=searcher)) == 12
        assert len(searcher.sketches) == NOTES + 12
    assert file.read_bytes() == kept  # a few are not worth it
    for i in range(NOTES):
        (vault / f"{i:03}.md").unlink()
    for number in range(2_000):
        write_note(f"new{number}.md", f"lighthouse lighthouse {number} {number % 7}", category="new")
    sync.run(index, full=True)
    assert len(found(index, searcher=known)) == 30
    for number in range(100, 2_000):
        (vault / f"new{number}.md").unlink()
    sync.run(index, full=True)
    assert len(found(index, searcher=known)) == 30
    assert len(known.sketches) == 100
    assert not index.chroma.seq


@pytest.mark.parametrize("index", ["chroma"], indirect=True)
@pytest.mark.parametrize(("most", "is_asked"), [(NOTES, True), (NOTES - 1, False)])
def test_chroma_is_asked_as_long_as_it_takes_little_memory(index, monkeypatch, most, is_asked):
    """Above so many vectors sketches answer, although Chroma has all of them."""
    assert index.chroma.rows == NOTES
    monkeypatch.setattr(nearest, "ASKED", most)
    searcher = Nearest(index)
    assert len(found(index, searcher=searcher)) == 30
    assert (searcher.sketches is None) == is_asked


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


@pytest.mark.parametrize("index", ["sketches"], indirect=True)
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
        return searcher.sketches is not None, len(searcher.matrix) > 0

    assert grown(1, {"x.md", "y.md"}) == (True, False)
    assert grown(10_000, {"x.md", "z.md"}) == (False, True)
    assert grown(1, {"y.md", "z.md"}) == (True, False)
    assert grown(10_000, {"x.md", "y.md"}) == (False, True)


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


@pytest.mark.parametrize(
    ("exact_most", "worth", "expected"), [(NOTES - 1, NOTES, NOTES), (NOTES, NOTES, 0), (NOTES - 1, NOTES + 1, 0)]
)
def test_after_much_was_embedded_the_first_question_makes_nothing(
    vault, write_note, monkeypatch, exact_most, worth, expected
):
    """After a large run the sketches are stored for the first query; not after a small one, nor in a small vault."""
    monkeypatch.setattr(nearest, "WORTH_KEEPING", worth)
    for i in range(NOTES):
        write_note(f"{i:03}.md", f"lighthouse {i}")
    made: list[Sketches] = []
    monkeypatch.setattr(
        Nearest, "refresh_sketches", lambda self, made=made, whole=Nearest.refresh_sketches: made.append(whole(self))
    )
    with opened(vault, exact_most=exact_most) as index:
        sync.run(index)
        assert (
            sum(map(len, made))
            == len(Sketches.load(index.config.state / "sketches.npy", index.embedder.fingerprint))
            == expected
        )


@pytest.mark.parametrize("index", ["sketches"], indirect=True)
def test_a_catalog_begun_anew_is_not_sketched_twice(index):
    """After a catalog was rebuilt, old sketches are dropped, in memory and on disk."""
    known = Nearest(index)
    assert len(found(index, searcher=known)) == 30
    index.catalog.close()
    for file in index.config.state.glob("catalog*"):
        file.unlink()
    sync.run(index)
    for searcher in (known, Nearest(index)):
        assert len(found(index, searcher=searcher)) == 30
        assert len(searcher.sketches) == NOTES


@pytest.mark.parametrize("index", ["sketches"], indirect=True)
def test_sketches_that_cannot_be_kept_are_made_again(index, monkeypatch):
    """On a full disk sketches are rebuilt by the next process; no answer is lost and no file left."""

    def full(*_):
        raise OSError(28, "No space left on device")

    (index.config.state / "sketches.npy").unlink()
    monkeypatch.setattr("spellbook.index.vectors.simhash.fsync", full)
    assert len(found(index)) == len(found(index)) == 30
    assert {file.name for file in index.config.state.glob("sketches.*")} <= {"sketches.lock"}


def test_vectors_of_another_embedding_are_not_kept_as_those_of_this_one(vault, write_note, monkeypatch):
    """If another process switched the embedder meanwhile, no sketches are stored for the new one."""
    write_note("a.md", "a lighthouse")
    write_note("b.md", "a harbour")
    with opened(vault, exact_most=1) as ours, opened(vault, Counting(fingerprint="another"), exact_most=1) as theirs:
        for index in (ours, theirs):
            sync.run(index)
        monkeypatch.setattr(nearest, "WORTH_KEEPING", 1)
        Nearest(ours).prepare(2)
        assert not (ours.config.state / "sketches.npy").exists()
        Nearest(theirs).prepare(2)
        assert len(Sketches.load(theirs.config.state / "sketches.npy", "another")) == 2


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


def test_vectors_that_were_let_go_take_no_place(vault, write_note, monkeypatch):
    """Sketches of many former texts, which were nearer than what there is, do not hide it."""
    monkeypatch.setattr(nearest, "COMPARED", 40)
    for i in range(60):
        write_note(f"{i}.md", f"# Note {i}\n\nsubject{i} word{i} apple{i % 7}")
    with opened(vault, exact_most=10) as index:
        searcher = Nearest(index)
        for i in range(100):
            write_note("log.md", f"# Log\n\nlighthouse crossing {i}")
            sync.scan(index)
            embed.embed_texts(index)
            searcher.refresh_sketches()
        assert index.catalog.vectors.evict(0) >= 60
        assert len(found(index, wanted=10, searcher=searcher)) == 10
