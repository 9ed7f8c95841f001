"""
An embedder whose calibration is not shipped: it is learnt once and kept.

All its vectors are calibrated, so that those of an index are always of one
kind. Until the calibration is learnt, there are none.
"""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from spellbook.models.base import Embedder, Scale, Vectors, embed_queries, is_unhurried
from spellbook.models.calibration import VERSION, Calibration, calibrate
from spellbook.system import disk
from spellbook.system.errors import EmbeddingError


@dataclass(slots=True)
class Calibrated:
    """`raw` as calibrated; `folder` keeps what was learnt of each model."""

    raw: Embedder
    folder: Path
    _calibration: Calibration | None = None
    _learning: threading.Lock = field(default_factory=threading.Lock)

    @property
    def name(self) -> str:
        """The embedder's own name."""
        return self.raw.name

    @property
    def fingerprint(self) -> str:
        """The embedder's own, and how it was calibrated."""
        return f"{self.raw.fingerprint}:{VERSION}"

    @property
    def scale(self) -> Scale:
        """What its cosines mean. Raises EmbeddingError before it could be learnt."""
        return self._load().scale

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (width,)."""
        vector = self.raw.embed_query(text)  # first: a service that is down is the error to report
        return self._load(len(vector)).query.apply(vector)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of questions, shape (n, width)."""
        vectors = embed_queries(self.raw, texts)
        return self._load(vectors.shape[1]).query.apply_all(vectors)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts, shape (n, width)."""
        vectors = self.raw.embed_passages(texts)
        return self._load(vectors.shape[1]).passage.apply_all(vectors)

    def describe(self) -> str:
        """Return the embedder's own description."""
        return self.raw.describe()

    def _load(self, width: int = 0) -> Calibration:
        """Return the calibration, read or learnt at its first use. Raises EmbeddingError if it is of another width."""
        with self._learning:
            learnt = self._calibration = self._calibration or self._read() or self._learn()
        if width not in {0, len(learnt.query.shift)}:
            raise EmbeddingError(
                f"{self.name} now gives vectors of {width} numbers; those of this index have "
                f"{len(learnt.query.shift)}: its model changed.",
                f"Go back to the old model, or delete {self.folder.parent} and run `spellbook reindex`: "
                f"the notes stay as they are.",
            )
        return learnt

    @property
    def _file(self) -> Path:
        return self.folder / f"{hashlib.sha256(self.fingerprint.encode()).hexdigest()[:16]}.npz"

    def _read(self) -> Calibration | None:
        try:
            with self._file.open("rb") as file:
                return Calibration.load(file)
        except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile):
            return None  # a damaged file is learnt again, with the same result from the same model

    def _learn(self) -> Calibration:
        if not is_unhurried():
            raise EmbeddingError(
                f"{self.name} is not calibrated yet, which takes a minute.", "Run `spellbook reindex` once."
            )
        learnt = calibrate(partial(embed_queries, self.raw), self.raw.embed_passages)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with disk.replacing(self._file) as target:
                learnt.save(target)
            with self._file.open("rb") as file:
                return Calibration.load(file)  # as every later process reads it, to the last bit
        except OSError as error:
            raise EmbeddingError(
                f"{self._file} cannot be written ({error.strerror}).", "Make room there, or let it be written."
            ) from error
