"""
The compared systems over one vault: grep, plain full-text search, the bare model, and the product.

The product runs on a real folder through its public API. The others get favourable conditions: they rank exactly the judged
units (notes or sections), and the bare model gets the product's chunks.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spellbook.library.book import Spellbook
from spellbook.notes.chunks import cut
from spellbook.notes.note import parse
from spellbook.settings import config
from tests.benchmarks.corpora import LANGUAGES, SEEN, Asked, Vault, Xquad
from tests.benchmarks.measures import DEPTH
from tests.benchmarks.remembered import Embedder, Remembered
from tests.benchmarks.timing import still

if TYPE_CHECKING:
    from spellbook.models.base import Vectors

GREP, FTS, RAW, RAW_WORDS, WORDS, MEANING, ALL, PRODUCT = SYSTEMS = (
    "grep",
    "FTS5",
    "raw e5",
    "raw e5 + words",
    "by words",
    "by meaning",
    "all hits",
    "Spellbook",
)
"""
The last is what a user gets. `all hits` is without the threshold that keeps out what does not answer; `by meaning` is also
without words (`memorize`), `by words` without meaning (`find`, any of the question's words).
"""

SHOWN = "with closest"
"""Spellbook's hits, or the closest notes where it has none."""


class Trial:
    """A vault in `folder`, opened by the product and by the product with the bare model; the others read its texts."""

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
        self._unit_of = [vault.unit(path, chunk.line) for path, chunk in self.chunks]
        self._texts: dict[str, str] = defaultdict(str)
        for unit, (_, chunk) in zip(self._unit_of, self.chunks, strict=True):
            self._texts[unit] += chunk.text

    def close(self) -> None:
        """Close what was opened."""
        for name in ("book", "plain"):
            if name in self.__dict__:
                self.__dict__[name].close()

    @cached_property
    def book(self) -> Spellbook:
        """The product."""
        return self._opened(self.model.product())

    @cached_property
    def plain(self) -> Spellbook:
        """The product with the bare model: same full-text search and fusion, no calibration."""
        return self._opened(self.model.plain())

    def _opened(self, embedder: Embedder) -> Spellbook:
        book = Spellbook(replace(self._settings, state=self._folder / embedder.name), embedder)
        report = book.reindex()
        if report.failed or report.pending:
            raise SystemExit(f"{self._settings.vault}: {report.failed[:3]}, {report.pending} texts pending")
        still(book)  # nothing changes from here on
        return book

    def ranked(self, system: str, asked: Asked, apart: bool = False) -> list[str]:
        """Return the units that `system` finds, best first; with `apart`, only in notes of other languages."""
        if system in {PRODUCT, SHOWN, ALL, MEANING, WORDS, RAW_WORDS}:
            book = self.plain if system == RAW_WORDS else self.book
            verb = {MEANING: book.memorize, WORDS: book.find}.get(system, book.search)
            limits = {"topic!": asked.language} if apart else None
            least = None if system in {PRODUCT, SHOWN} and not apart else 0.0
            text: Any = asked.text.split() if system == WORDS else asked.text  # `find` takes a text for one phrase
            found = verb(text, limit=DEPTH, filter=limits, min_score=least)
            hits = found.hits or found.closest if system == SHOWN else found.hits
            return [self.vault.unit(hit.path, hit.line) for hit in hits]
        units = {GREP: self._grep, FTS: self._fts, RAW: self._nearest}[system](asked.text)
        return [unit for unit in units if not (apart and unit.startswith(f"{asked.language}/"))]

    def hits(self, system: str, text: str, limit: int = 5) -> list[str]:
        """Return the default hits of `system`, none below its threshold; grep and the bare model have no threshold."""
        if system in {PRODUCT, RAW_WORDS}:
            book = self.book if system == PRODUCT else self.plain
            return [self.vault.unit(hit.path, hit.line) for hit in book.search(text, limit=limit).hits]
        return self.ranked(system, Asked(text, "", frozenset()))[:limit]

    def _grep(self, text: str) -> list[str]:
        """Return units by the number of the question's words they hold."""
        words = set(_words(text.casefold()))
        held = [(sum(word in form for word in words), unit) for unit, form in self._casefolded.items()]
        return [unit for count, unit in sorted(held, key=lambda pair: -pair[0]) if count]

    @cached_property
    def _casefolded(self) -> dict[str, str]:
        return {unit: text.casefold() for unit, text in self._texts.items()}

    @cached_property
    def _database(self) -> sqlite3.Connection:
        database = sqlite3.connect(":memory:")
        database.execute("CREATE VIRTUAL TABLE texts USING fts5 (unit UNINDEXED, body, tokenize = 'unicode61')")
        database.executemany("INSERT INTO texts VALUES (?, ?)", self._texts.items())
        return database

    def _fts(self, text: str) -> list[str]:
        """Return units by bm25, any of the question's words."""
        words = " OR ".join(f'"{word}"' for word in _words(text))
        return [
            unit
            for (unit,) in self._database.execute(
                "SELECT unit FROM texts WHERE texts MATCH ? ORDER BY bm25(texts)", (words,)
            )
        ]

    @cached_property
    def raw(self) -> Vectors:
        """The bare model's vectors of the chunks."""
        return self.model.passages([chunk.embedded for _, chunk in self.chunks])

    def _nearest(self, text: str) -> list[str]:
        return self.by_cosine(self.raw, self.model.queries([text])[0])

    def by_cosine(self, matrix: Vectors, vector: Vectors) -> list[str]:
        """Return units by the cosine of their best chunk; `matrix` has one row per chunk."""
        return list(dict.fromkeys(self._unit_of[i] for i in np.argsort(-(matrix @ vector), kind="stable")))


class Oracle:
    """The bare model minus the mean vector of the known language: the gain of knowing languages."""

    def __init__(self, xquad: Xquad, model: Remembered) -> None:
        self._model = model
        self._asked = {
            at: model.queries([text for text, i, _ in xquad.questions[at] if i < SEEN]).mean(axis=0) for at in LANGUAGES
        }
        self._told = {at: model.passages(xquad.paragraphs[at][:SEEN]).mean(axis=0) for at in LANGUAGES}
        self._last: tuple[Trial, Vectors] | None = None

    def ranked(self, trial: Trial, asked: Asked, apart: bool = False) -> list[str]:
        """Return the units of `trial`, best first."""
        if self._last is None or self._last[0] is not trial:
            means = np.stack([self._told[path.partition("/")[0]] for path, _ in trial.chunks])
            self._last = trial, _unit(trial.raw - means)
        [vector] = _unit(self._model.queries([asked.text]) - self._asked[asked.language])
        units = trial.by_cosine(self._last[1], vector)
        return [unit for unit in units if not (apart and unit.startswith(f"{asked.language}/"))]


def _unit(rows: Vectors) -> Vectors:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text) or [text]
