"""
The product over one vault, through its public API, with the bundled model from a cache on disk: each text is embedded once.

The cache holds raw vectors, so a new calibration is measured without embedding anything again.
"""

from __future__ import annotations

import hashlib
import sqlite3
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from spellbook.library.book import Spellbook
from spellbook.models.base import Scale, Vectors, clean
from spellbook.models.calibration import Side
from spellbook.models.e5 import e5
from spellbook.notes.chunks import cut
from spellbook.notes.note import parse
from spellbook.settings import config
from tests.benchmarks.corpora import Asked, Vault
from tests.benchmarks.measures import DEPTH, MEANING, PRODUCT, SHOWN, WORDS
from tests.benchmarks.timing import still

_BATCH = 64
_THREADS = 2
_WEIGHTS = "multilingual-e5-small:q4:nfc"
_ADAPTER = ":adapter1"


@dataclass(slots=True)
class Remembered:
    """Raw vectors of questions and passages, cached in `file`; `embedded` counts the computed ones."""

    file: Path
    embedder: e5.E5 = field(default_factory=e5.E5)
    embedded: int = 0
    _database: sqlite3.Connection = field(init=False)

    def __post_init__(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(self.file)
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
        )

    def product(self) -> Embedder:
        """Return the model as the product has it."""
        known = e5.calibration()
        return Embedder(self, known.scale, known.query, known.passage)

    def vectors(self, side: str, texts: Sequence[str]) -> Vectors:
        """Return the raw vectors of a side, "query" with the query adapter or "passage": shape (n, width)."""
        adapter = _ADAPTER if side == "query" else ""
        keys = [hashlib.sha256(f"{_WEIGHTS}{adapter}:{side}\0{clean(text)}".encode()).hexdigest() for text in texts]
        known = {key: vector for key in dict.fromkeys(keys) if (vector := self._known(key)) is not None}
        todo = list({key: clean(text) for key, text in zip(keys, texts, strict=True) if key not in known}.items())
        raw = getattr(self.embedder.local.engine(), side)
        with ThreadPoolExecutor(_THREADS) as pool:
            for start in range(0, len(todo), _BATCH):
                batch = dict(todo[start : start + _BATCH])
                made = [np.asarray(vector, dtype="<f4") for vector in pool.map(raw, batch.values())]
                rows = list(zip(batch, made, strict=True))
                with self._database:
                    sql = "INSERT OR REPLACE INTO vectors VALUES (?, ?)"
                    self._database.executemany(sql, [(key, vector.tobytes()) for key, vector in rows])
                known |= rows
                self.embedded += len(batch)
                if len(todo) > _BATCH:
                    print(f"\r{self.embedded:,} texts embedded ", end="", file=sys.stderr, flush=True)
        return np.stack([known[key] for key in keys]) if keys else np.empty((0, 0), dtype=np.float32)

    def _known(self, key: str) -> Vectors | None:
        row = self._database.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
        return np.frombuffer(row[0], dtype="<f4") if row else None


@dataclass(frozen=True, slots=True)
class Embedder:
    """The cached model as an embedder of the product."""

    model: Remembered
    scale: Scale
    query: Side
    passage: Side
    name: str = "remembered"
    fingerprint: str = "remembered:product"
    question_scale: Scale = e5.QUESTION_SCALE

    def describe(self) -> str:
        """There is nothing to say."""
        return ""

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a question."""
        [vector] = self.model.vectors("query", [text])
        return self.query.apply(vector)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts."""
        return self.passage.apply_all(self.model.vectors("passage", texts))


class Trial:
    """A vault in `folder`, opened by the product."""

    def __init__(self, vault: Vault, model: Remembered, folder: Path) -> None:
        self.vault, self.model, self._folder = vault, model, folder
        for path, text in vault.notes.items():
            file = folder / "vault" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8", newline="")
        self._settings = config.load(folder / "vault", embedder="hash")
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

    def ranked(self, system: str, asked: Asked) -> list[str]:
        """Return the units that `system` finds, best first."""
        verb = {MEANING: "memorize", WORDS: "find"}.get(system, "search")
        text = asked.text.split() if system == WORDS else asked.text  # `find` takes a text for one phrase
        found = self.book.ask(verb, text, limit=DEPTH, min_score=None if system in {PRODUCT, SHOWN} else 0.0)
        hits = found.hits or found.closest if system == SHOWN else found.hits
        return [self.vault.unit(hit.path, hit.line) for hit in hits]

    def hits(self, text: str, limit: int = 5) -> list[str]:
        """Return the default hits of the product, none below its threshold."""
        return [self.vault.unit(hit.path, hit.line) for hit in self.book.search(text, limit=limit).hits]
