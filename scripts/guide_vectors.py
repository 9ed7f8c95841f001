"""
Write spellbook/index/guides.json: the vectors of the guides that a new vault begins with, by both default models.

    python scripts/guide_vectors.py

Run it after a guide, the cutting of notes or a default model changed; a test says so. Texts that have their vectors
already are not embedded again.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from pathlib import Path

import spellbook
from spellbook.editing import new_vault
from spellbook.index.catalog.vectors import compact
from spellbook.index.guide_vectors import FILE


def write(file: Path) -> int:
    """Index a new vault, write the vectors of its guides to `file`, and return how many these are."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        new_vault.make(Path(folder, "vault"))
        with spellbook.open(Path(folder, "vault"), state=Path(folder, "state")) as book:
            book.reindex()
            catalog = book.index.catalog
            keys = sorted(catalog.vectors.has(catalog.vectors.touched(0, 0.0)))
            vectors, second = catalog.vectors.of(keys), catalog.second.of(keys)
            stored = {
                "encoder": catalog.second.fingerprint,
                "vectors": {key: base64.b64encode(compact(vectors[key])).decode() for key in keys},
                "second": {key: base64.b64encode(second[key]).decode() for key in keys},
            }
    file.write_text(json.dumps(stored, indent=0) + "\n", "utf-8")
    return len(keys)


if __name__ == "__main__":
    print(f"{write(Path(sys.argv[1]) if sys.argv[1:] else FILE)} vectors.")
