"""
Which long-lived processes have a vault open, and this process's own threads, children and memory.

Each holds a lock, which the kernel releases however it ends. Re-indexing by git's hooks waits in line: see `turn`.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from spellbook.system import disk, platform
from spellbook.system.lazy import regex
from spellbook.system.lock import held, take

if TYPE_CHECKING:
    import subprocess

ELECTED = "watch.lock"
"""Held by the process that watches; the others wait for it."""

WATCHED = "watched"
"""File of that process, written after each scan of the whole vault: empty, or which folders it does not see and why."""

BELIEVED = 60.0
"""Seconds for which that file is believed, as long as two such scans are apart at most: it may be suspended."""

EMBEDDING = "embedding"
"""The kind under which a process is present while it embeds all that waits, or is about to."""

_IMPORTED = time.monotonic() - time.process_time()
"""When this process was started, if it never waited until here."""

_THREADS_SECONDS = 0.5
"""Seconds that a process which ends waits for its threads."""

_FOLDER = "processes"
_NAME = regex(r"(?P<kind>\w+)-(?P<pid>\d+)-(?P<since>\d+)\.lock")


class Process(NamedTuple):
    """A process that has the vault open: its kind (mcp, watch …), its number, and its start in seconds since 1970."""

    kind: str
    pid: int
    since: int


@contextlib.contextmanager
def present(state: Path, kind: str) -> Iterator[None]:
    """Register a process of this `kind` that has the vault open, for the duration of the block."""
    # The name of the file says all: on Windows nobody else can read a locked file.
    file, lock = state / _FOLDER / f"{kind}-{os.getpid()}-{time.time_ns()}.lock", None
    with contextlib.suppress(OSError):
        (state / _FOLDER).mkdir(exist_ok=True)
        # A process that looks at the file before it is locked deletes it, or holds its lock for a moment.
        lock = take(file, 1.0, poll=0.005)
    try:
        yield
    finally:
        if lock is not None:
            lock.release()
            with contextlib.suppress(OSError):
                platform.remove(file)


def processes(state: Path) -> tuple[Process, ...]:
    """Return the processes that have the vault open, the longest first."""
    return tuple(process for process in _present(state) if process.kind != EMBEDDING)


def is_embedding(state: Path) -> bool:
    """Say whether some process embeds what waits, so that nobody else needs to."""
    return bool(_present(state, EMBEDDING))


def _present(state: Path, kind: str = "*") -> tuple[Process, ...]:
    running = []
    for file in state.glob(f"{_FOLDER}/{kind}-*.lock"):
        name = _NAME.fullmatch(file.name)
        if name is None:
            continue
        with contextlib.suppress(OSError):
            if is_locked(file):
                running.append(Process(name["kind"], int(name["pid"]), int(name["since"]) // 1_000_000_000))
            else:
                platform.remove(file)  # whoever held it was killed
    return tuple(sorted(running, key=lambda process: (process.since, process.pid)))


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


def is_elected(state: Path) -> bool:
    """Return whether some process watches the vault, whatever it can see."""
    try:
        return is_locked(state / ELECTED)
    except OSError:
        return False


def announce(state: Path, unseen: str | None) -> None:
    """Announce, as the process that watches, a scan of the vault and its `unseen` folders; None withdraws it."""
    with contextlib.suppress(OSError):
        if unseen is None:
            platform.discard(state / WATCHED)
        else:
            (state / WATCHED).write_text(unseen, "utf-8")
            os.utime(state / WATCHED)


def keep_watched(state: Path) -> None:
    """Renew the announcement during a long scan."""
    with contextlib.suppress(OSError):
        os.utime(state / WATCHED)


def is_watched(state: Path) -> bool:
    """Return whether some process watches the vault, sees every folder of it, and has scanned it lately."""
    return _announced(state) == 0 and is_elected(state)


def unseen(state: Path) -> str:
    """Return which folders the process that watches does not see, and why; "" for none, or without such a process."""
    with contextlib.suppress(OSError):
        return (state / WATCHED).read_text("utf-8") if _announced(state) and is_elected(state) else ""
    return ""


def is_silent(state: Path) -> bool:
    """Return whether the process that watches has not scanned the vault for long; it may be suspended."""
    return is_elected(state) and (state / WATCHED).exists() and _announced(state) is None


def _announced(state: Path) -> int | None:
    """Return the size of the watching process's announcement; None if it is too old."""
    with contextlib.suppress(OSError):
        file = os.stat(state / WATCHED)
        # If the clock was set back, that counts as long ago.
        if abs(time.time() - file.st_mtime) < BELIEVED:
            return file.st_size
    return None


def is_locked(file: Path) -> bool:
    """Say whether a process holds the lock `file`, without appearing as its holder to others."""
    try:
        import fcntl
    except ImportError:  # Windows
        with held(file, 0.05, poll=0.005) as is_ours:
            return not is_ours
    with file.open("rb") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


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
    return platform.start([sys.executable, "-P", "-c", code, *sys.path], env=variables, **pipes, **apart)


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


LOG = "git-hooks.log"
_MOST_LOGGED = 200_000
"""Bytes of the log before a new one is begun."""

_POLL_SECONDS = 0.25
"""Seconds between attempts to get the lock of the current run."""


@contextlib.contextmanager
def turn(state: Path) -> Iterator[Callable[[str], None] | None]:
    """Wait for the turn and yield a function that writes a line to the log; None if another run waits already."""
    with contextlib.ExitStack() as running:
        with held(state / "queue-next.lock") as is_next:
            if is_next:
                running.enter_context(held(state / "queue.lock", -1, poll=_POLL_SECONDS))
        yield (lambda text: _log(state / LOG, text)) if is_next else None


def _log(file: Path, text: str) -> None:
    disk.append_line(file, f"{dt.datetime.now().astimezone():%Y-%m-%d %H:%M:%S%z} {text}", _MOST_LOGGED)
