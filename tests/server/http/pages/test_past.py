"""Pages of earlier times: search and a note as of a date, and the history of a note."""

from __future__ import annotations

from pathlib import Path

import pytest

from spellbook.library.book import Spellbook
from tests import repositories

from .conftest import Browser

OLD = "# Keys\n\nKeys are rotated every thirty days. See [[tea]].\n"


@pytest.fixture
def commits(vault: Path, book: Spellbook) -> list[repositories.Commit]:
    """Keys of thirty days and tea on 2026-01-01; of ninety days a day later, when tea is gone."""
    old = {"ops/keys.md": OLD.encode(), "tea.md": b"# Tea\n\nGreen <script>tea</script>.\n"}
    made = repositories.write(vault, [old, {"ops/keys.md": OLD.replace("thirty", "ninety").encode()}])
    book.reindex()
    return made


def test_search_as_of_a_date(browser: Browser, commits: list[repositories.Commit]) -> None:
    """Hits are of then and lead to notes of then; the page says so, and how to ask of today."""
    page = browser.open("/search?q=rotated&as_of=2026-01-01&days=7")
    assert "thirty" in page
    assert "ninety" not in page
    assert f"As of 2026-01-01: what was written by commit {commits[0].hash[:12]}" in page
    assert '<a href="/search?q=rotated">Ask today' in page
    assert 'href="/note/ops/keys?as_of=2026-01-01#' in page
    assert "ninety" in browser.open("/search?q=rotated")
    assert "someday" in browser.open("/search?q=rotated&as_of=someday", 400)


def test_a_note_as_it_was(browser: Browser, commits: list[repositories.Commit]) -> None:
    """It is only read, and its links lead to notes of then, also to one that is gone."""
    page = browser.open("/note/ops/keys?as_of=2026-01-01")
    assert "thirty" in page
    assert 'href="/note/tea?as_of=2026-01-01"' in page
    assert "/do/" not in page.split("<main", 1)[1]
    assert "?edit=" not in page
    assert "Green" in browser.open("/note/tea?as_of=2026-01-01")
    browser.open("/note/tea", 404)


def test_the_history_of_a_note(browser: Browser, vault: Path, commits: list[repositories.Commit]) -> None:
    """Each version says what it changed and leads to the note then; so for a note that is gone."""
    page = browser.open("/history/ops/keys")
    assert "Keys are rotated every ninety days" in page
    assert '<span class="del">-Keys are rotated every thirty days' in page
    assert f'href="/note/ops/keys.md?as_of={commits[0].hash}"' in page
    gone = browser.open("/history/tea.md")
    assert "This note is gone." in gone
    assert "&lt;script&gt;tea" in gone
    assert '<span class="tag">deleted</span>' in gone
    assert f'href="/note/tea.md?as_of={commits[0].hash}"' in gone
    assert "Green" in browser.open(f"/note/tea.md?as_of={commits[0].hash}")
