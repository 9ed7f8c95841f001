"""
Keep Chroma up to the catalog: when it is due, and by whom.

A process that lives long does it in a child process, so that it stays small
itself. The child ends with its parent, however that ends.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import sys
import threading
from pathlib import Path

from spellbook.index.catalog.catalog import Catalog
from spellbook.index.opened import Index
from spellbook.index.vectors.chroma import Chroma, Unavailable
from spellbook.system import processes
from spellbook.system.disk import storage_error
from spellbook.system.errors import InvalidInput, StorageError
from spellbook.system.lock import held

MOST_BEHIND = 500
"""Vectors that Chroma may be behind: an exact search over so many takes a moment, to load Chroma a second."""

MOST_AGE = 600.0
"""Seconds that Chroma may be behind while a process keeps it up to date: people who open it expect today's notes."""

AT_ONCE = 20.0
"""Seconds for which a command catches up: for a large vault it takes minutes, and nobody should wait for that."""

COPY_PATIENCE = 60.0
"""Seconds for which a copy waits until another process has caught up: 100,000 vectors take that long."""

_SOON = 0.8
"""Share of `exact_most` from which on Chroma is kept ready, so that it answers when the vault grows past it."""

_LOCK = "chroma-follow.lock"
_POLL = 0.1
"""Seconds between looks at whether the child is done. By hand."""


def behind(index: Index) -> int:
    """Return how many vectors in use Chroma has not seen."""
    return index.catalog.vectors.count_changes(index.chroma.seq)


def is_missed(index: Index) -> bool:
    """
    Say whether Chroma is so far behind that answers take longer.

    That can only be in a vault where Chroma answers questions, or soon will.
    """
    chunks = index.catalog.counts().chunks
    return chunks > _SOON * index.config.exact_most and _is_behind(index, min(MOST_BEHIND, chunks // 20))


def is_due(index: Index, most: int = MOST_BEHIND, seconds: float = MOST_AGE) -> bool:
    """
    Say whether a process that lives long should let Chroma catch up.

    It should if Chroma is `most` vectors or `seconds` behind, or missed.
    """
    catalog = index.catalog
    if catalog.fingerprint != index.embedder.fingerprint:
        return False  # the vault went over to another embedder, and this index follows with the next look
    if not catalog.is_read or not (catalog.counts().chunks or index.chroma.rows):
        return False  # what is not read yet looks as if it were gone
    return _is_behind(index, most - 1) or index.chroma.age(catalog.generation) >= seconds or is_missed(index)


def _is_behind(index: Index, most: int) -> bool:
    return len(index.catalog.vectors.changes(index.chroma.seq, most + 1)) > most


def catch_up(catalog: Catalog, chroma: Chroma, seconds: float = math.inf, *, patience: float = 0) -> bool:
    """
    Add to Chroma what it has not seen, for so many seconds or little longer, then bring its metadata up to the catalog.

    Returns whether that is all. Does nothing if another process holds the lock for longer than `patience` seconds, or
    before the whole vault was read. Raises Unavailable.
    """
    with held(chroma.state / _LOCK, patience) as is_ours:
        if not (is_ours and catalog.is_read):
            return False
        generation = catalog.generation
        chroma.catch_up(catalog.vectors, catalog.counts().chunks, seconds)
        if catalog.vectors.changes(chroma.seq, 1):
            return False
        chroma.compare(catalog.vectors, generation)
        return True


def copy(index: Index, to: Path) -> int:
    """
    Bring Chroma up to date, copy its folder to `to` and return how many vectors it holds.

    Raises InvalidInput if `to` is not new or empty or Chroma is a server, StorageError if Chroma fails or `to` cannot
    be written.
    """
    if index.config.chroma_url:
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
        if not catch_up(index.catalog, index.chroma, patience=COPY_PATIENCE):
            raise Unavailable("another process has been at it for a minute")
        return index.chroma.copy(to)
    except Unavailable as error:
        raise StorageError(
            f"Chroma could not be copied: {error}.", "Try again in a moment; search does not need it."
        ) from error
    except OSError as error:
        raise storage_error(str(to), error) from error


def in_child(index: Index, stopping: threading.Event) -> str:
    """
    Catch up in a child process, wait for it, and return why it failed, "" if it did not.

    Kills the child once `stopping` is set.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        return "Chroma is not kept up: there is no Python to run beside this process"
    config = index.config
    with processes.child(__name__) as child:
        assert child.stdin
        assert child.stdout
        with contextlib.suppress(OSError):  # it ended already: its exit code says so
            # On stdin, since a token in the arguments could be read by every user of the machine.
            pickle.dump((config.state, index.embedder.fingerprint, config.chroma_url, config.chroma_token), child.stdin)
            child.stdin.flush()
        while child.poll() is None and not stopping.wait(_POLL):
            pass
        if child.poll() is None:
            child.kill()
            return ""
        reason = child.stdout.read().decode("utf-8", "replace").strip()
    if not child.returncode:
        return ""
    return f"Chroma was not brought up to date: {reason or f'the process ended with {child.returncode}'}"


def serve() -> None:
    """Be the child process of `in_child`: catch up with what stdin names, and end when the parent ends."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints, prints nowhere
    if hasattr(os, "nice"):
        os.nice(10)
    state, fingerprint, url, token = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    code = 0
    try:
        catalog = Catalog.open(state)
        if catalog.fingerprint == fingerprint:
            catch_up(catalog, Chroma(state, fingerprint, url, token))
    except Exception as error:  # whatever it is, the parent logs it
        answer.write(" ".join(f"{error or type(error).__name__}".split())[:500])
        code = 1
    answer.flush()
    os._exit(code)  # Chroma's threads need not end first: what is written is written


def _end_with_parent() -> None:
    sys.stdin.buffer.read()  # nothing comes any more, and it ends when the parent does
    os._exit(1)
