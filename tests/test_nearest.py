"""nearest: whatever went out of use or is filtered away, as many chunks come back as there are."""

from __future__ import annotations

import numpy as np
import pytest

from spellbook import sync
from spellbook.filters import conditions
from spellbook.nearest import Nearest
from tests.helpers import opened

NOTES, RARE = 500, 100


@pytest.fixture(params=[100_000, 1], ids=["exact", "chroma"])
def index(request, vault, write_note):
    """Many notes that are all nearer to "lighthouse" than the few of the category "rare"."""
    for i in range(NOTES):
        rare = i % RARE == 0
        write_note(f"{i:03}.md", f"{'far away ' * 3 if rare else ''}lighthouse {i}", category="rare" if rare else "usual")
    with opened(vault, exact_most=request.param) as index:
        sync.run(index)
        yield index


def found(index, filter=None, wanted=30):
    reasons: list[str] = []
    with index.catalog.reading():
        near = Nearest(index).chunks(index.embedder.embed_query("lighthouse"), conditions(filter), wanted, reasons)
    assert not reasons
    assert [cosine for _, cosine in near] == sorted((cosine for _, cosine in near), reverse=True)
    return [chunk.path for chunks, _ in near for chunk in chunks]


def test_a_filter_is_filled_however_far_away_what_it_leaves_is(index):
    """All that a rare category has is found, and of a usual one as much as is wanted."""
    assert sorted(found(index, {"category": "rare"})) == [f"{i:03}.md" for i in range(0, NOTES, RARE)]
    assert len(found(index, {"category": "usual"})) == 30
    assert found(index, {"category": "usual", "path": "000.md"}) == []


def test_what_was_deleted_takes_no_place(index, vault):
    """After most notes went, those that are left are found, and nothing else, also by a searcher that knew the others."""
    for i in range(NOTES):
        if i % RARE:
            (vault / f"{i:03}.md").unlink()
    sync.run(index, full=True)
    assert sorted(found(index)) == [f"{i:03}.md" for i in range(0, NOTES, RARE)]


def test_cosines_of_chunks_need_no_rank(index):
    """The cosines of any keys are those of their vectors, of unknown keys there are none."""
    query = index.embedder.embed_query("lighthouse")
    stored = {key: np.frombuffer(vector, "<f4") @ query for key, vector, _ in index.catalog.vectors.since(0)}
    nearest = Nearest(index)
    for _ in range(2):  # before the vectors are in memory, and after
        assert nearest.cosines(query, [*stored, "unknown"]) == pytest.approx(stored, abs=1e-5)
        nearest.chunks(query, (), 1, [])
