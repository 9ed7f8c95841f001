"""Candidates made by hand."""

from spellbook.index.catalog.rows import StoredChunk
from spellbook.search.scores import Candidate, Leg, Match


def candidate(
    path="a.md", semantic=None, keyword=None, *, id="", key="", importance=0.5, category="", updated=None, **meta
):
    id = id or path.removesuffix(".md")
    found = StoredChunk(
        0, f"{id}#", path, 1, 1, "", "", "text", key or id, "", category, importance, None, updated, 0, 0, (), (), meta
    )
    legs = [None if score is None else Leg(1, score) for score in (semantic, keyword)]
    return Candidate(found, [Match(*legs)])
