"""
Which long-lived processes have a vault open, and which of them watches it.

Each holds a lock, which the kernel releases however it ends.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from spellbook.system import platform
from spellbook.system.lazy import regex
from spellbook.system.lock import held, take

ELECTED = "watch.lock"
"""Held by the process that watches; the others wait for it."""

WATCHED = "watched"
"""File of that process, written after each scan of the whole vault: empty, or which folders it does not see and why."""

BELIEVED = 60.0
"""Seconds for which that file is believed, as long as two such scans are apart at most: it may be suspended."""

EMBEDDING = "embedding"
"""The kind under which a process is present while it embeds all that waits, or is about to."""

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
