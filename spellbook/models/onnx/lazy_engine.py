"""
An engine that is loaded at the first text, used by several threads, and never across a fork; and ONNX Runtime for it.

It takes tens of megabytes, which `release` frees when it is idle; the next text loads it again. ONNX Runtime has no
output, telemetry or threads of its own here: callers that want parallelism use several threads.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from spellbook.models import prepared
from spellbook.models.base import Vectors, clean, give_way, is_unhurried, questions, servers
from spellbook.system import platform
from spellbook.system.errors import EmbeddingError

_NICE = 10
"""Niceness of the threads that embed while nobody waits."""

AT_ONCE = 0.04
"""Seconds that threads embed before they look for a question: one text of e5, a dozen of the encoder."""

_POLL = 0.1
"""Seconds between checks of a question whether its engine is loaded or, which takes seconds, prepared. By hand."""

_guard = threading.Lock()
"""Held while users of an engine are counted, or the list of engines is read."""


def _fork() -> None:
    global _guard
    _guard = threading.Lock()  # another thread of the parent may have held it
    questions.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_fork)


class Engine(Protocol):
    """
    Weights that embed cleaned texts, from any number of threads.

    The methods raise RuntimeError, OSError or MemoryError when they fail.
    """

    def query(self, text: str) -> Vectors:
        """Return the unit vector of a question, shape (width,)."""

    def passage(self, text: str) -> Vectors:
        """Return the unit vector of a text, shape (width,)."""


class _EngineState:
    """An engine in one process, its description, its current number of users, and the time of its last use."""

    engine: Engine | None = None
    description = ""
    users = 0
    used = 0.0

    def __init__(self) -> None:
        self.loading = threading.Lock()


class LocalEngine:
    """
    The engine that `load` returns, with its description; `name` and `hint` are for the message of a failure.

    `threads` embed texts at once. A text has the same vector alone and among others, in any order, from any thread.
    """

    def __init__(self, name: str, load: Callable[[], tuple[Engine, str]], hint: str, threads: int = 2) -> None:
        self.name, self.load, self.hint, self.threads = name, load, hint, threads
        # By process: after a fork nothing of the parent's is used, since another thread may have been in its midst.
        self._states: dict[int, _EngineState] = {}
        with _guard:
            _all.add(self)

    @property
    def _state(self) -> _EngineState:
        return self._states.setdefault(os.getpid(), _EngineState())

    @property
    def description(self) -> str:
        """The engine's description; "" while none is loaded."""
        return self._state.description

    def engine(self) -> Engine:
        """Return what makes vectors, raw, of cleaned texts; loaded if need be. Raises EmbeddingError."""
        with self._using() as engine:
            return engine

    def release(self, before: float) -> bool:
        """Forget the engine if it is idle since `before`, a time of the monotonic clock; say whether this was done."""
        with _guard:
            state = self._state
            if state.engine is None or state.users or state.used > before:
                return False
            state.engine, state.description = None, ""
            return True

    def query(self, text: str) -> Vectors:
        """
        Return the unit vector of a question, shape (width,).

        Raises EmbeddingError, in a server at once if somebody waits while a model is prepared: then words can answer.
        """
        with self._using(is_patient=is_unhurried()) as engine, self._errors("failed"):
            return engine.query(clean(text))

    def passages(self, texts: Sequence[str], *, is_patient: bool = True) -> list[Vectors]:
        """
        Return the unit vector of each text, shape (width,). Raises EmbeddingError, as `query` does if not `is_patient`.

        Where nobody waits, it gives way to questions between two texts, but works for `AT_ONCE` seconds in between:
        while one question follows another, it would stand still.
        """
        is_put_off, rested = is_unhurried(), 0.0

        def vector(text: str) -> Vectors:
            nonlocal rested
            if is_put_off and time.monotonic() - rested > AT_ONCE:
                give_way()
                rested = time.monotonic()
            return engine.passage(clean(text))

        with self._using(is_patient=is_patient) as engine, self._errors("failed"):
            if len(texts) == 1:
                return [vector(texts[0])]
            from concurrent.futures import ThreadPoolExecutor

            # Own threads even for one: they get a low priority, and the thread of a question keeps its own.
            with ThreadPoolExecutor(self.threads, initializer=step_back if is_put_off else None) as pool:
                # The longest first, so that the threads end at nearly the same time.
                order = sorted(range(len(texts)), key=lambda i: len(texts[i]), reverse=True)
                vectors = dict(zip(order, pool.map(vector, (texts[i] for i in order)), strict=True))
            return [vectors[i] for i in range(len(texts))]

    @contextlib.contextmanager
    def _using(self, *, is_patient: bool = True) -> Iterator[Engine]:
        """Yield the engine, which is not released meanwhile. Unless `is_patient`, a server prepares it beside this."""
        state = self._state
        if servers and not is_patient and state.engine is None:
            self._load_beside()
        with _guard:
            state.users += 1
        try:
            with state.loading, self._errors("cannot be loaded"):
                if state.engine is None:
                    state.engine, state.description = self.load()
                engine = state.engine
            yield engine
        finally:
            with _guard:
                state.users -= 1
                state.used = time.monotonic()

    def _load_beside(self) -> None:
        """Load the engine in another thread. Raises EmbeddingError if that fails, or while a model is prepared."""
        failed: list[EmbeddingError] = []

        def load() -> None:
            try:
                self.engine()
            except EmbeddingError as error:
                failed.append(error)

        thread = threading.Thread(target=load, name="spellbook-loading", daemon=True)
        while not prepared.making:
            if thread.ident is None:
                thread.start()
            thread.join(_POLL)
            if not thread.is_alive():
                if failed:
                    raise failed[0]
                return
        raise EmbeddingError("A model is being prepared, once on this machine.", "Ask again in a moment.")

    @contextlib.contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Raise an engine's errors as EmbeddingError."""
        try:
            yield
        except (ImportError, OSError, RuntimeError, ValueError, KeyError, MemoryError) as error:
            hint = getattr(error, "hint", self.hint)  # of a library of Windows that is missing
            raise EmbeddingError(f"The embedder {self.name} {what} ({error}).", hint) from error


_all: weakref.WeakSet[LocalEngine] = weakref.WeakSet()


def release(before: float) -> bool:
    """Release the engine of every `LocalEngine` that is idle since `before`; return whether there was one."""
    with _guard:
        engines = tuple(_all)
    return any([engine.release(before) for engine in engines])


def step_back() -> None:
    """Give this thread a low priority, where threads have a priority of their own."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


class OnnxSession:
    """A graph in memory; any number of threads may run it at once."""

    def __init__(self, file: Path) -> None:
        """Load `file`. Raises ImportError without onnxruntime, RuntimeError for a graph that it cannot run."""
        # Read at the import: without it, a file of its telemetry stays in the folder for temporary files.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        with platform.loading():
            import onnxruntime

        onnxruntime.disable_telemetry_events()
        onnxruntime.set_default_logger_severity(4)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        options.enable_mem_pattern = False  # it takes a fifth more memory, for a pattern of each length of text
        try:
            self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its errors have no other class in common
            raise RuntimeError(f"onnxruntime {onnxruntime.__version__} cannot load {file.name}: {error}") from error
        self.inputs: tuple[str, ...] = tuple(array.name for array in self._session.get_inputs())
        """Names of the input arrays."""

    def __call__(self, inputs: Mapping[str, Any]) -> Any:
        """Return the first output for arrays by their names. Raises RuntimeError."""
        try:
            return self._session.run(None, inputs)[0]
        except Exception as error:
            raise RuntimeError(f"onnxruntime failed: {error}") from error
