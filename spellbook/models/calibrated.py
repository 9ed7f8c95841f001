"""
An embedder whose calibration is not shipped: it is learnt once and kept.

All its vectors are calibrated, so that those of an index are always of one
kind. Until the calibration is learnt, there are none.
"""

from __future__ import annotations

import contextlib
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
        return self._fitting_calibration(vector).query.apply(vector)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of questions, shape (n, width)."""
        vectors = embed_queries(self.raw, texts)
        return self._fitting_calibration(vectors).query.apply_all(vectors)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts, shape (n, width)."""
        vectors = self.raw.embed_passages(texts)
        return self._fitting_calibration(vectors).passage.apply_all(vectors)

    def describe(self) -> str:
        """Return what the embedder itself says."""
        return self.raw.describe()

    def _fitting_calibration(self, vectors: Vectors) -> Calibration:
        learnt = self._load()
        width, learnt_width = vectors.shape[-1], len(learnt.query.shift)
        if width != learnt_width:
            raise EmbeddingError(
                f"{self.name} now gives vectors of {width} numbers; those of this index have {learnt_width}: "
                f"its model changed.",
                f"Go back to the old model, or delete {self.folder.parent} and run `spellbook reindex`: "
                f"the notes stay as they are.",
            )
        return learnt

    def _load(self) -> Calibration:
        """Return the calibration, which is read or learnt at its first use. Raises EmbeddingError."""
        with self._learning:
            if self._calibration is None:
                self._calibration = self._read() or self._learn()
            return self._calibration

    @property
    def _file(self) -> Path:
        return self.folder / f"{hashlib.sha256(self.fingerprint.encode()).hexdigest()[:16]}.npz"

    def _read(self) -> Calibration | None:
        # A damaged file is learnt again, with the same result from the same model.
        with (
            contextlib.suppress(OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile),
            self._file.open("rb") as file,
        ):
            return Calibration.load(file)
        return None

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
