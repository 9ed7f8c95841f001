"""A note whose every byte counts."""

from pathlib import Path

import pytest

from spellbook.library.book import Spellbook

NOTE = "\ufeff---\r\n# a comment\r\ntitle:   'Harbour'  # quoted\r\ntopic: sea\r\n---\r\n\r\nlead\r\n\r\n## One\r\n\r\nfirst\r\n\r\n## Two\r\n\r\nsecond\r\n\r\n## Three\r\nthird"


@pytest.fixture
def harbour(book: Spellbook, vault: Path) -> Path:
    """A note with BOM, CRLF, a comment, odd blanks and no newline at its end, indexed."""
    file = vault / "harbour.md"
    file.write_bytes(NOTE.encode())
    file.chmod(0o640)
    book.reindex()
    return file
