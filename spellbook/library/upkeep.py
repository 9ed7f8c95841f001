"""
Update the index before a question is answered, within a short time.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Collection
from pathlib import Path

from spellbook.index import sync
from spellbook.index.embed import embed_texts
from spellbook.index.opened import Index
from spellbook.notes import markdown
from spellbook.system import heap, processes
from spellbook.system.errors import EmbeddingError, InvalidInput, StorageError, VaultNotFound
from spellbook.system.sqlite import Damaged
from spellbook.vault.vault import UNDER_WAY

_MOST_EMBEDDED = 64
"""Most texts that a search embeds before it answers; a reindex or a watcher embeds the rest."""

_EMBED_SECONDS = 2.0
"""A search starts no further batch after so many seconds: MCP clients time out on a slow server."""

PAST = "past"
"""The folder in the state folder for indexes of earlier states of the vault, a folder each; see `earlier`."""

READY = "ready"
"""The file in such a folder that says that it is whole; its time is that of the last use."""

_MOST_PAST, _MOST_PAST_BYTES, _PAST_DAYS = 8, 1_000_000_000, 30
"""How many such indexes are kept, of how many bytes, and for how long without a use."""

_BUILDING = 3_600.0
"""Seconds after which a folder that is not ready is one that a killed process left."""


def refresh(index: Index, *, watching: bool, embed: bool, look: bool = True) -> str:
    """
    Scan the vault for changes, unless this process is `watching` it or another one does.

    With `embed`, some of the texts without a vector are embedded, if no watcher does it; without `look` nothing else is
    done. Return why the last scan failed, "" if it did not: search still answers from the index as it is.
    """
    try:
        finish_move(index)
        # A new index is filled at once, even if a watcher runs; so is one that was migrated, beside an older watcher.
        reported = None
        with contextlib.suppress(Damaged):
            reported = index.catalog.looked if index.catalog.is_read else None
        # What another watcher cannot do, since it is older, this process may.
        if reported is not None and (watching or (not reported and processes.is_watched(index.config.state))):
            return reported
        try:
            if look:
                sync.scan(index)
        except Damaged:  # the next use starts a new catalog
            sync.scan(index)
    except (StorageError, VaultNotFound, InvalidInput) as error:
        return str(error)
    if embed:
        until = time.monotonic() + _EMBED_SECONDS
        with contextlib.suppress(EmbeddingError):
            embed_texts(index, most=_MOST_EMBEDDED, stop=lambda: time.monotonic() > until)
    return ""


def mark_use(state: Path) -> bool:
    """Record a use of the index of an earlier state; return whether it is there, and whole."""
    try:
        os.utime(state / READY)
    except OSError:
        return False
    return True


def forget_past(folder: Path, keep: Collection[Path] = ()) -> list[Path]:
    """
    Delete indexes of earlier states that are too many, too large together, or unused for 30 days; return which.

    Those last used go last, and those to `keep` stay. Whoever asks for one again has it made again.
    """
    used: list[tuple[float, Path]] = []
    gone: list[Path] = []
    now = time.time()
    with contextlib.suppress(OSError):
        for state in (each for each in folder.iterdir() if each.is_dir()):
            ready = state / READY
            with contextlib.suppress(OSError):
                at = ready.stat().st_mtime if ready.exists() else 0.0
                if at or state.stat().st_mtime < now - _BUILDING:
                    used.append((at, state))
    room = _MOST_PAST_BYTES
    used.sort(key=lambda each: (each[1] in keep, each[0]), reverse=True)
    for number, (at, state) in enumerate(used, 1):
        with contextlib.suppress(OSError):
            room -= sum(file.stat().st_size for file in state.iterdir())
        is_old = at < now - _PAST_DAYS * 86_400
        if state not in keep and (number > _MOST_PAST or room < 0 or is_old):
            shutil.rmtree(state, ignore_errors=True)
            gone.append(state)
    return gone


def finish_move(index: Index) -> None:
    """Finish a move of notes that was interrupted."""
    if (index.config.state / UNDER_WAY).exists():
        from spellbook.editing import moves

        moves.finish(index)


def release(before: float, *, is_freed: bool) -> None:
    """
    Free the models if unused since `before` (monotonic clock, seconds), and the parser's memory.

    Give memory back to the system if any of it was freed; `is_freed` says whether the caller has freed some.
    """
    from spellbook.models.onnx.lazy_engine import release as release_models  # a vault without a model has none

    if any((release_models(before), markdown.forget(), is_freed)):
        heap.trim()
