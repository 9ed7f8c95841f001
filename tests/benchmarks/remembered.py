"""
The bundled model with a cache on disk: each text is embedded once.

The cache holds raw vectors, so a new calibration is measured without embedding anything again. Only this module knows how
the product's embedder is composed.
"""

from __future__ import annotations

import hashlib
import sqlite3
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from spellbook.models.base import clean
from spellbook.models.calibration import Calibration, Side
from spellbook.models.e5 import e5
from spellbook.models.e5.e5 import E5

if TYPE_CHECKING:
    from spellbook.models.base import Scale, Vectors

_BATCH = 64
_THREADS = 2
_WEIGHTS = "multilingual-e5-small:q4:nfc"
_ADAPTER = ":adapter1"


@dataclass(slots=True)
class Remembered:
    """Raw vectors of questions and passages, cached in `file`; `embedded` counts the computed ones."""

    file: Path
    embedder: E5 = field(default_factory=E5)
    embedded: int = 0
    _known: dict[str, Vectors] = field(default_factory=dict)
    _database: sqlite3.Connection = field(init=False)

    def __post_init__(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self._database = sqlite3.connect(self.file)
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
        )

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Return the raw vectors of questions, shape (n, width), by the encoder with the query adapter."""
        return self._of("query", texts, _ADAPTER)

    def passages(self, texts: Sequence[str]) -> Vectors:
        """Return the raw vectors of passages, shape (n, width)."""
        return self._of("passage", texts)

    def product(self) -> Embedder:
        """Return the model as the product has it."""
        calibration = Calibration.load(Path(e5.__file__).with_name(e5.CALIBRATION))
        return Embedder(self, calibration.scale, calibration.query, calibration.passage)

    def _of(self, side: str, texts: Sequence[str], adapter: str = "") -> Vectors:
        keys = [hashlib.sha256(f"{_WEIGHTS}{adapter}:{side}\0{clean(text)}".encode()).hexdigest() for text in texts]
        self._recall(keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        todo = list(missing.items())
        with ThreadPoolExecutor(_THREADS) as pool:
            for start in range(0, len(todo), _BATCH):
                batch = todo[start : start + _BATCH]
                vectors = pool.map(self._raw(side), (clean(text) for _, text in batch))
                self._keep(
                    [(key, np.asarray(vector, dtype="<f4")) for (key, _), vector in zip(batch, vectors, strict=True)]
                )
                self.embedded += len(batch)
                if len(todo) > _BATCH:
                    print(f"\r{self.embedded:,} texts embedded ", end="", file=sys.stderr, flush=True)
        return np.stack([self._known[key] for key in keys]) if keys else np.empty((0, 0), dtype=np.float32)

    def _recall(self, keys: Sequence[str]) -> None:
        wanted = [key for key in dict.fromkeys(keys) if key not in self._known]
        for start in range(0, len(wanted), 500):
            batch = wanted[start : start + 500]
            sql = f"SELECT key, vector FROM vectors WHERE key IN ({','.join('?' * len(batch))})"
            self._known |= {key: np.frombuffer(blob, dtype="<f4") for key, blob in self._database.execute(sql, batch)}

    def _keep(self, rows: Sequence[tuple[str, Vectors]]) -> None:
        with self._database:
            self._database.executemany(
                "INSERT OR REPLACE INTO vectors VALUES (?, ?)", [(key, vector.tobytes()) for key, vector in rows]
            )
        self._known |= dict(rows)

    def _raw(self, side: str) -> Callable[[str], Vectors]:
        made: Callable[[str], Vectors] = getattr(self.embedder.local.engine(), side)
        return made


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

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a question."""
        [vector] = self.model.queries([text])
        return self.query.apply(vector)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts."""
        return self.passage.apply_all(self.model.passages(texts))
