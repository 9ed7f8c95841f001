"""What every test shares: a vault of its own, state of its own, and the small deterministic embedder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spellbook import book as books
from spellbook.book import Spellbook
from tests.helpers import note_writer


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the settings of whoever runs it, nor leaves an index behind."""
    for name in ("SPELLBOOK_VAULT", "SPELLBOOK_EMBEDDER", "SPELLBOOK_TOOLSETS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SPELLBOOK_STATE", str(tmp_path / "state"))


@pytest.fixture
def vault(tmp_path: Path) -> Path:
    """An empty vault."""
    folder = tmp_path / "vault"
    folder.mkdir()
    return folder


@pytest.fixture
def write_note(vault: Path) -> Callable[..., Path]:
    """Write a note by its path: `write_note("a/b.md", "text", topic="x")`; `age` is how many seconds ago."""

    return note_writer(vault)


@pytest.fixture
def book(vault: Path) -> Iterator[Spellbook]:
    """The vault, opened."""
    with books.open(vault, embedder="hash") as opened:
        yield opened
