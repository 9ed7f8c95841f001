"""This process's children, threads, memory and standard input, and how it ends."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from spellbook.system import platform

if TYPE_CHECKING:
    import subprocess

_IMPORTED = time.monotonic() - time.process_time()
"""When this process was started, if it never waited until here."""

_THREADS_SECONDS = 0.5
"""Seconds that a process which ends waits for its threads."""


def leave_threads() -> None:
    """Wait a moment for threads at work, and exit at once, with 0, if one goes on: closing what it uses may abort."""
    deadline = time.monotonic() + _THREADS_SECONDS
    for thread in threading.enumerate():
        is_ours = not thread.daemon or thread.name.startswith(("spellbook-", "AnyIO"))
        if is_ours and thread is not threading.current_thread():
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                leave(0)


def leave(code: int) -> NoReturn:
    """Exit at once, whatever threads compute. Every write is atomic, and the kernel frees the locks."""
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)


def child(module: str, variables: Mapping[str, str] | None = None, *, alone: bool = False) -> subprocess.Popen[bytes]:
    """
    Start a Python that imports what this one can and runs `serve` of a module, which reads stdin and writes stdout.

    An `alone` child has no streams, and outlives this process. A terminal sends Ctrl-C to every process of it, though
    it is meant for the parent. Raises OSError.
    """
    import subprocess

    # DETACHED_PROCESS and CREATE_NEW_PROCESS_GROUP, or CREATE_NO_WINDOW, which `subprocess` names on Windows alone.
    flags, stream = (0x0000_0208, subprocess.DEVNULL) if alone else (0x0800_0000, subprocess.PIPE)
    apart: dict[str, Any] = {"creationflags": flags} if sys.platform == "win32" else {"start_new_session": True}
    pipes: dict[str, Any] = {"stdin": stream, "stdout": stream, "stderr": subprocess.DEVNULL}
    code = f"import sys; sys.path[:] = sys.argv[1:]; from {module} import serve; serve()"
    started = platform.start([sys.executable, "-P", "-c", code, *sys.path], env=variables, **pipes, **apart)
    if alone:  # the caller need not keep it: this thread knows when it has ended
        threading.Thread(target=started.wait, daemon=True).start()
    return started


def run_module(module: str, *arguments: str) -> int:
    """Run a module of this Python, with its output on stderr; return its exit code at its end. Raises OSError."""
    # -P: a folder of that name in the working directory is not the module.
    return platform.run([sys.executable, "-P", "-m", module, *arguments], stdout=2).returncode


def read_stdin(most: int, seconds: float) -> bytes:
    """Return up to `most` bytes of stdin; nothing from a terminal, or if nobody ends it within `seconds`."""
    parts: list[bytes] = []
    if os.isatty(0):
        return b""

    def read() -> None:
        with contextlib.suppress(OSError):
            while sum(map(len, parts)) < most and (part := os.read(0, 1 << 16)):
                parts.append(part)

    reader = threading.Thread(target=read, daemon=True)  # a read that never ends must not hold the command up
    reader.start()
    reader.join(seconds)
    return b"".join(parts)


def age() -> float:
    """Return the seconds since this process was started; where the system does not say it, those since it computes."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, IndexError, ValueError):
            ticks = int(Path("/proc/self/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19])
            return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.monotonic() - _IMPORTED


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
