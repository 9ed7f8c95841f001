"""The page of statistics: what it counts, for whom, and the picture with its table."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from html import unescape
from pathlib import Path

import pytest

from spellbook.http.pages.statistics import growth
from spellbook.http.served import Served
from spellbook.library import book as books
from spellbook.library.book import Spellbook

from ..running import asked, lacks, shows
from .conftest import Browser


def words(page: str) -> str:
    """What a person reads on a page."""
    return " ".join(unescape(re.sub(r"(?s)<title>.*?</title>|<[^>]+>", " ", page.partition("<main")[2])).split())


TODAY = dt.date(2026, 3, 9)


@pytest.mark.parametrize(
    ("days", "first", "last", "periods"),
    [
        pytest.param([], ("2026-03", 0, 0), ("2026-03", 0, 0), 1, id="no note"),
        pytest.param(
            ["2026-01-31", "2026-03-01"], ("2026-01", 1, 1), ("2026-03", 1, 2), 3, id="an empty month between"
        ),
        pytest.param(["2023-04-01"], ("2023-04", 1, 1), ("2026-03", 0, 1), 36, id="three years by months"),
        pytest.param(["2023-03-31", "2026-02-01"], ("2023", 1, 1), ("2026", 1, 2), 4, id="longer, by years"),
        pytest.param(["0001-01-01", "1980-01-01"], ("1997", 2, 2), ("2026", 0, 2), 30, id="very old ones in the first"),
        pytest.param(["2026-04-01", "9999-12-31"], ("2026-03", 2, 2), ("2026-03", 2, 2), 1, id="of the future"),
    ],
)
def test_growth(days: Sequence[str], first: object, last: object, periods: int) -> None:
    """Each month or year since the first note is there, and the last total is the number of all notes."""
    shown = list(growth(days, TODAY))
    assert (shown[0], shown[-1], len(shown)) == (first, last, periods)
    assert sum(added for _, added, _ in shown) == shown[-1][2] == len(days)


def test_the_page_counts_what_is_there(browser: Browser, full: object, vault: Path, book: Spellbook) -> None:
    """
    Notes, chunks, categories and vectors are those of the status, also of a note that is not embedded yet; a title
    alone needs no vector. The picture's numbers are in a table too.
    """
    (vault / "bare.md").write_text("# Only a title\n\n## Section\n\nA pier.\n", "utf-8")
    book.reindex()
    (vault / "new.md").write_text("A lighthouse stands on the northern cape.", "utf-8")
    book.reindex(words_only=True)
    status = browser.client.get("/api/status", headers={"accept": "application/json"}).json()
    page = browser.open("/statistics")
    said = words(page)
    notes, chunks = status["notes"], status["chunks"]
    assert status["pending"] == 1
    shows(said, f"Notes {notes} ", f"Sections {chunks} ", "Model: hash")
    shows(said, f"{chunks - status['pending']} of {chunks} sections have the vector that they need")
    shows(said, "project 2 ", "decision 2 ", "without category")
    assert {name or "without category" for name in status["categories"]} - {"(none)"} <= set(
        re.findall(r"[\w-]+", said)
    )
    [table] = re.findall(r'(?s)<table class="numbers" aria-labelledby="growth">.*?</table>', page)
    rows = re.findall(r'<th scope="row">([\d-]+)</th><td>([\d,]+)</td><td>([\d,]+)</td>', table)
    assert rows[0][2] == str(notes)
    assert [f"{name}: {total} (+{added})" for name, added, total in rows][::-1] == re.findall(
        "<g><title>(.*?)</title>", page
    )
    shows(page, 'role="img" aria-label="Notes at the end', 'href="/contents?category=project"')
    shows(browser.open("/"), '<a href="/statistics">')
    browser.client.headers["accept-language"] = "ko"
    shows(words(browser.open("/statistics")), "통계", "의미로 찾음", f"섹션 {chunks}개 중", "분류 없음", "프로젝트 2 ")


def test_a_limited_token_counts_what_it_sees(guarded: Browser, served: Served, full: object) -> None:
    """A token that sees public notes alone is told of no other note, of no other category, and of no model."""
    folder = served.book.config.vault
    (folder / "open.md").write_text("---\ncategory: harbour\nprivacy_scope: public\n---\nA.\n\n## B\n\nC.\n", "utf-8")
    served.book.reindex()
    guarded.send("/login", token=served.tokens.add("reader", "read", "public"))
    page = guarded.open("/statistics")
    said = words(page)
    shows(said, "Notes 1 ", "Sections 2 ", "2 of 2 sections have the vector that they need", "harbour 1 2")
    lacks(said, "project", "decision", "Model")


def test_a_scope_counts_its_own_notes_and_those_of_all(vault: Path) -> None:
    """A server for one project shows the figures of what its searches see."""
    for name, scope in (("a", "acme"), ("b", "globex"), ("c", "shared")):
        (vault / f"{name}.md").write_text(f"---\nscope: {scope}\ncategory: {scope}\n---\nText.\n", "utf-8")
    with books.open(vault, embedder="hash", scope="acme") as book, asked(Served(book)) as client:
        book.reindex()
        said = words(Browser(client).open("/statistics"))
    shows(said, "Notes 2 ", "acme 1 1", "shared 1 1")
    lacks(said, "globex")


def test_an_empty_vault_says_so(browser: Browser) -> None:
    """Without notes there are no pictures, and nothing divides by their number."""
    said = words(browser.open("/statistics"))
    shows(said, "Notes 0 ", "100 %", "Nothing yet.")
    lacks(said, "Growth")
