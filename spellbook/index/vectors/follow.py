"""
Keep Chroma up to the catalog: when it is due, and by whom.

A child process does it: nobody waits for Chroma, no long-lived process holds it in memory, and its files, which keep
scraps of the memory of the process that writes them, hold no text. The child outlives its parent, and ends when nothing
is missing.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

from spellbook.index.catalog.catalog import FILE, Catalog
from spellbook.index.catalog.tables import FORM
from spellbook.index.opened import Index, vector_index
from spellbook.index.vectors.chroma import Chroma, Unavailable
from spellbook.index.vectors.server import Server
from spellbook.system import children, processes
from spellbook.system.disk import storage_error
from spellbook.system.errors import InvalidInput, StorageError
from spellbook.system.lock import held
from spellbook.system.sqlite import expect

MOST_BEHIND = 500
"""Vectors that Chroma may lack in a vault where it answers, until a command starts a child that adds them."""

MOST_WAIT = 30.0
"""Seconds that changes in quick succession postpone it: a child costs a second of processor time, so 3 % of one."""

RETRY_AFTER = 600.0
"""Seconds until the next child after one that failed, and for which a child goes on. By hand."""

COPY_PATIENCE = 60.0
"""Seconds for which a copy waits until another process has caught up: 100,000 vectors take that long."""

SOON = 0.8
"""Share of `exact_most` from which on Chroma is kept ready, so that it answers when the vault grows past it."""

_LOCK = "chroma-follow.lock"
_PATIENCE = 5.0
"""Seconds that a child waits for the one before, which may be about to end. By hand."""

_POLL = 0.1
"""Seconds between checks whether the child is done. By hand."""


def behind(index: Index) -> int:
    """Return how many vectors in use Chroma has not seen."""
    return index.catalog.vectors.count_changes(index.chroma.seq)


def is_due(index: Index) -> bool:
    """Say whether Chroma should catch up: a vector or a change of a note is missing there."""
    catalog = index.catalog
    if catalog.fingerprint != index.embedder.fingerprint:
        return False  # the vault went over to another embedder, and this index follows with the next look
    if not catalog.is_read or not (catalog.counts().chunks or index.chroma.rows):
        return False  # what is not read yet looks as if it were gone
    return not index.chroma.is_current(catalog.vectors, catalog.version)


def catch_up(catalog: Catalog, chroma: Chroma | Server, seconds: float = math.inf, *, patience: float = 0) -> bool:
    """
    Add missing vectors to Chroma, for so many seconds or little longer, then update its metadata; return if that is
    all.

    Does nothing if another process holds the lock for longer than `patience` seconds, or before the whole vault was
    read. Raises Unavailable.
    """
    with held(chroma.state / _LOCK, patience) as is_ours:
        if not (is_ours and catalog.is_read):
            return False
        chroma.catch_up(catalog.vectors, catalog.counts().chunks, seconds)
        if catalog.vectors.changes(chroma.seq, 1):
            return False
        if isinstance(chroma, Chroma):  # a server holds no metadata, and nothing is deleted there
            chroma.compare(catalog.vectors, catalog.version)
        return True


def copy(index: Index, to: Path) -> int:
    """
    Bring Chroma up to date, copy its folder to `to` and return how many vectors it holds.

    Raises InvalidInput if `to` is not new or empty or Chroma is a server, StorageError if Chroma fails or `to` cannot
    be written.
    """
    if isinstance(index.chroma, Server):
        raise InvalidInput(
            f"Chroma is a server here: {index.config.chroma_url}.",
            "Open it with any client, or unset SPELLBOOK_CHROMA_URL.",
        )
    to = to.absolute()
    try:
        if to.exists() and (not to.is_dir() or any(to.iterdir())):
            raise InvalidInput(
                f"{to} is there already and not an empty folder.", "Name a new folder; nothing was copied."
            )
        to.parent.mkdir(parents=True, exist_ok=True)
        complete(index)
        return index.chroma.copy(to)
    except Unavailable as error:
        raise StorageError(
            f"Chroma could not be copied: {error}.", "Try again in a moment; search does not need it."
        ) from error
    except OSError as error:
        raise storage_error(str(to), error) from error


def in_child(index: Index, stopping: threading.Event | None = None, *, patience: float = _PATIENCE) -> str:
    """
    Catch up in a child process, killed once `stopping` is set, and return why it failed, "" if it did not.

    The child waits `patience` seconds for another process that catches up.
    """
    if not (child := _begin(index, patience)):
        return "Chroma is not kept up: there is no Python to run beside this process"
    stopping = stopping or threading.Event()
    with child:
        assert child.stdout
        while child.poll() is None and not stopping.wait(_POLL):
            pass
        if child.poll() is None:
            child.kill()
            return ""
        reason = child.stdout.read().decode("utf-8", "replace").strip()
    if not child.returncode:
        return ""
    return f"Chroma was not brought up to date: {reason or f'the process ended with {child.returncode}'}"


def complete(index: Index) -> None:
    """Catch up in a child process until nothing is missing. Raises Unavailable, also before all notes are read."""
    if failed := in_child(index, patience=COPY_PATIENCE):
        raise Unavailable(failed)
    if not index.catalog.is_read:
        raise Unavailable("not all notes are read yet")
    if index.catalog.vectors.changes(index.chroma.seq, 1):
        raise Unavailable("another process has been at it for a minute")


def start(index: Index) -> None:
    """Catch up in a child process that goes on when this one ends, if it is due. Waits for nothing, raises nothing."""
    _left[:] = [child for child in _left if child.poll() is None]
    with contextlib.suppress(OSError, StorageError):  # a server or the next command does it
        if is_due(index) and (child := _begin(index, _PATIENCE)):
            _left.append(child)
            if child.stdout:
                child.stdout.close()


def is_at_work(index: Index) -> bool:
    """Say whether a process catches up: one that this process started, or any other."""
    if any(child.poll() is None for child in _left):
        return True
    with contextlib.suppress(OSError, StorageError):
        if is_due(index):
            with held(index.chroma.state / _LOCK) as is_free:
                return not is_free
    return False


_left: list[subprocess.Popen[bytes]] = []
"""Children that were started to go on alone, until they are known to have ended."""


def _begin(index: Index, patience: float) -> subprocess.Popen[bytes] | None:
    """Start a child process that catches up; None where there is no Python to run it. Raises OSError."""
    if not sys.executable or getattr(sys, "frozen", False):
        return None
    config, child = index.config, children.child(__name__)
    assert child.stdin
    with contextlib.suppress(OSError), child.stdin:  # it ended already: its exit code says so
        # On stdin, since a token in the arguments could be read by every user of the machine.
        settings = config.state, index.embedder.fingerprint, config.chroma_url, config.chroma_token
        pickle.dump((*settings, patience), child.stdin)
    return child


def serve() -> None:
    """Be the child process: catch up with the index that stdin names, until nothing is missing."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints, prints nowhere
    if hasattr(os, "nice"):
        os.nice(10)
    state, fingerprint, url, token, patience = pickle.load(sys.stdin.buffer)
    code = 0
    try:
        expect(state / FILE, FORM, 0)  # else it would be made anew, and the vault may be gone by now
        catalog, chroma = Catalog.open(state), vector_index(state, fingerprint, url, token)
        while catalog.fingerprint == fingerprint and catch_up(catalog, chroma, RETRY_AFTER, patience=patience):
            # Whoever embeds starts another one at its end, which may not have waited long enough for this one.
            if processes.is_embedding(state) or chroma.is_current(catalog.vectors, catalog.version):
                break
    except Exception as error:  # whatever it is, the parent logs it
        answer.write(" ".join(f"{error or type(error).__name__}".split())[:500])
        code = 1
    with contextlib.suppress(OSError):  # the parent has ended, as it may
        answer.flush()
    os._exit(code)  # Chroma's threads need not end first: what is written is written
