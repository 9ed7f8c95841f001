"""The vectors that come with Spellbook: of its guides, so that a new vault embeds a person's own notes only."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from spellbook.index.catalog.vectors import restored

FILE = Path(__file__).with_name("guides.json")
"""
`vectors` by the keys of their texts, as a catalog stores them, in base64; and those of the `encoder`, the `second` one.

`scripts/guide_vectors.py` writes it. Guides that changed and other models have other keys, so they are embedded.
"""


@dataclass(frozen=True, slots=True)
class Kept:
    """Vectors in base64 by key, of the second encoder `fingerprint` or, without one, of the model in the key."""

    rows: Mapping[str, str]
    fingerprint: str = ""
    read: Callable[[list[bytes]], list[bytes]] = list

    def of(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the vectors of `keys`; keys without one are left out."""
        found = [key for key in keys if key in self.rows]
        return dict(zip(found, self.read([base64.b64decode(self.rows[key]) for key in found]), strict=True))


@dataclass(frozen=True, slots=True)
class Packaged:
    """The vectors of both models, as a catalog gives them."""

    vectors: Kept
    second: Kept


@cache
def packaged() -> Packaged:
    """Return the vectors that come with Spellbook."""
    stored = json.loads(FILE.read_text("utf-8"))
    return Packaged(Kept(stored["vectors"], read=restored), Kept(stored["second"], stored["encoder"]))
