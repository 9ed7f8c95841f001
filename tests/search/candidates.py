"""Candidates made by hand."""

from typing import Any

from spellbook.index.catalog.rows import StoredChunk
from spellbook.search.scores import Candidate, Leg, Match


def candidate(
    path: str = "a.md",
    semantic: float | None = None,
    keyword: float | None = None,
    *,
    id: str = "",
    key: str = "",
    importance: float = 0.5,
    category: str = "",
    updated: str | None = None,
    **meta: Any,
) -> Candidate:
    id = id or path.removesuffix(".md")
    found = StoredChunk(
        0, f"{id}#", path, 1, 1, "", "", "text", key or id, "", category, importance, None, updated, 0, 0, (), (), meta
    )
    legs = [None if score is None else Leg(1, score) for score in (semantic, keyword)]
    return Candidate(found, [Match(legs[0], legs[1])])
