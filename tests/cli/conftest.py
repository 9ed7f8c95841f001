"""What commands run with: the small embedder."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _hash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPELLBOOK_EMBEDDER", "hash")
