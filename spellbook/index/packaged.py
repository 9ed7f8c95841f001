"""The vectors that come with Spellbook: of its guides, so that a new vault embeds a person's own notes only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from spellbook.index.catalog.vectors import restored
from spellbook.system.lazy import np

FILE = Path(__file__).with_name("guides.npz")
"""
`keys` by text and embedding, with `vectors` as a catalog stores them, and `second_vectors` of the encoder `second`.

`scripts/guide_vectors.py` writes it. Guides that changed and other models have other keys, so they are embedded.
"""


@dataclass(frozen=True, slots=True)
class Kept:
    """Vectors by key, of the second encoder `fingerprint` or, without one, of the model in the key."""

    rows: Mapping[str, bytes]
    fingerprint: str = ""

    def of(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the vectors of `keys`; keys without one are left out."""
        return {key: self.rows[key] for key in keys if key in self.rows}


@dataclass(frozen=True, slots=True)
class Packaged:
    """The vectors of both models, as a catalog gives them."""

    vectors: Kept
    second: Kept


@cache
def packaged() -> Packaged:
    """Return the vectors that come with Spellbook."""
    with np.load(FILE, allow_pickle=False) as stored:
        keys = stored["keys"].tolist()
        vectors = restored([row.tobytes() for row in stored["vectors"]])
        second = [row.tobytes() for row in stored["second_vectors"]]
        fingerprint = str(stored["second"])
    return Packaged(
        Kept(dict(zip(keys, vectors, strict=True))), Kept(dict(zip(keys, second, strict=True)), fingerprint)
    )
