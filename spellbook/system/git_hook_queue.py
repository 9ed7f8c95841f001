"""The queue and the log of the runs that git's hooks start: one runs, one waits, and others are not needed."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path

from spellbook.system import disk
from spellbook.system.lock import held

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
