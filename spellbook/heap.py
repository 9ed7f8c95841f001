"""The heap of this process: what was freed goes back to the system, where the C library can be told to."""

from __future__ import annotations

import contextlib
import gc


def trim() -> None:
    """Give freed memory back; without this glibc keeps what lies between blocks that are in use."""
    import ctypes

    gc.collect()
    # Not on Windows, macOS and musl: they give it back by themselves or not at all.
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
