"""
The product over one vault, and by words or by meaning alone.

It runs on a real folder through its public API, with the bundled model from a cache.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from spellbook.library.book import Spellbook
from spellbook.notes.chunks import cut
from spellbook.notes.note import parse
from spellbook.settings import config
from tests.benchmarks.corpora import Asked, Vault
from tests.benchmarks.measures import DEPTH
from tests.benchmarks.remembered import Remembered
from tests.benchmarks.timing import still

WORDS, MEANING, ALL, PRODUCT, SHOWN = SYSTEMS = ("by words", "by meaning", "all hits", "Spellbook", "with closest")
"""
`by words` is `find` with any of the question's words, `by meaning` is `memorize`; `all hits` is `search` without the
threshold that keeps out hits that do not answer, `Spellbook` what a user gets, and `with closest` adds the closest notes
where it finds none.
"""


class Trial:
    """A vault in `folder`, opened by the product."""

    def __init__(self, vault: Vault, model: Remembered, folder: Path) -> None:
        self.vault, self.model = vault, model
        self._folder = folder
        root = folder / "vault"
        for path, text in vault.notes.items():
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8", newline="")
        self._settings = config.load(root, embedder="hash")
        most = self._settings.chunk_tokens
        self.chunks = [
            (path, chunk) for path, text in vault.notes.items() for chunk in cut(parse(path, text.encode()), most)
        ]

    def close(self) -> None:
        """Close the book if it was opened."""
        if "book" in self.__dict__:
            self.book.close()

    @cached_property
    def book(self) -> Spellbook:
        """The opened vault, with all its texts embedded."""
        book = Spellbook(replace(self._settings, state=self._folder / "state"), self.model.product())
        report = book.reindex()
        if report.failed or report.pending:
            raise SystemExit(f"{self._settings.vault}: {report.failed[:3]}, {report.pending} texts pending")
        still(book)  # nothing changes from here on
        return book

    def ranked(self, system: str, asked: Asked, apart: bool = False) -> list[str]:
        """Return the units that `system` finds, best first; with `apart`, only in notes of other languages."""
        verb = {MEANING: self.book.memorize, WORDS: self.book.find}.get(system, self.book.search)
        limits = {"topic!": asked.language} if apart else None
        least = None if system in {PRODUCT, SHOWN} and not apart else 0.0
        text: Any = asked.text.split() if system == WORDS else asked.text  # `find` takes a text for one phrase
        found = verb(text, limit=DEPTH, filter=limits, min_score=least)
        hits = found.hits or found.closest if system == SHOWN else found.hits
        return [self.vault.unit(hit.path, hit.line) for hit in hits]

    def hits(self, text: str, limit: int = 5) -> list[str]:
        """Return the default hits of the product, none below its threshold."""
        return [self.vault.unit(hit.path, hit.line) for hit in self.book.search(text, limit=limit).hits]
