"""A person's home with transcripts, and capture switched on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spellbook.capture import jobs
from spellbook.capture.ledger import Ledger
from spellbook.library.book import Spellbook
from tests.capture.transcripts import claude


@pytest.fixture
def ledger(vault: Path) -> Ledger:
    """The ledger of the vault, with capture on."""
    ledger = Ledger(str(vault.resolve()))
    ledger.turn(True, vault)
    return ledger


@pytest.fixture
def captured(book: Spellbook, ledger: Ledger, home: Path) -> Callable[..., dict[str, str]]:
    """Write a transcript, capture it, and return the notes of sessions by name."""

    def capture(*pieces: bytes, place: Path | None = None, is_over: bool = True) -> dict[str, str]:
        place = place or claude(home)
        place.write_bytes(b"".join(pieces))
        jobs.capture(book.index, ledger, str(place), is_over)
        return {file.name: file.read_text("utf-8") for file in sorted((book.config.vault / "sessions").glob("*"))}

    return capture
