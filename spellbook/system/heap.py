"""Garbage collection and memory of this process: exclude permanent objects, and return freed memory to the system."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_OBJECTS = 20_000
"""Objects made and not deleted before a server collects garbage: those of a few searches, some megabytes."""


@contextlib.contextmanager
def growing() -> Iterator[None]:
    """Import and build permanent objects without garbage collections, which take a tenth of a server's start."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was:
            gc.enable()


def freeze() -> None:
    """Exclude loaded objects from garbage collections, which would delay an answer in 250 by 50 ms; collect less."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS)


def trim() -> None:
    """Return freed memory to the system where the C library supports it; glibc keeps fragments otherwise."""
    import ctypes

    gc.collect()
    # Not on Windows, macOS and musl: they give it back by themselves or not at all.
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
