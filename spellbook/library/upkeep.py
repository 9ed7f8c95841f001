"""
Update the index before a question is answered, within a short time.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from spellbook.index import sync
from spellbook.index.embed import embed_texts
from spellbook.index.opened import BEING_READ, Index
from spellbook.system import heap, processes
from spellbook.system.errors import EmbeddingError, InvalidInput, StorageError, VaultNotFound
from spellbook.system.sqlite import Damaged
from spellbook.system.waiting import tell, waiting

_MOST_EMBEDDED = 64
"""Most texts that a search embeds before it answers; a reindex or a watcher embeds the rest."""

_EMBED_SECONDS = 2.0
"""A search starts no further batch after so many seconds: MCP clients time out on a slow server."""

_EMBED_SECONDS_AT_START = 0.1
"""The same in a server whose watcher is about to embed: a just saved note is found, and the rest is left to it."""

_MOST_UNREAD = 200
"""Files of a vault that was never read which a question reads itself, in .3 s; more are left to who reads them."""


@dataclass(slots=True)
class QuietLook:
    """
    The last scan of a vault, if it found no change: when it began, by the `clock`, and the index's generation then.

    It is believed for the seconds that the settings say. A write through any Spellbook with this index ends it at once,
    by the generation; a file that another program saves is found when it has ended.
    """

    clock: Callable[[], float] = time.monotonic
    began: float = -math.inf
    generation: int = -1

    def is_believed(self, index: Index) -> bool:
        """Return whether nothing needs to be scanned yet."""
        is_fresh = self.clock() - self.began < index.config.look_seconds
        return is_fresh and index.catalog.generation == self.generation

    def end(self) -> None:
        """Believe it no longer."""
        self.began = -math.inf

    def scan(self, index: Index) -> None:
        """Scan the vault, as `scan` does, and remember it if nothing was read or gone."""
        began = self.clock()
        self.end()
        if scan(index):
            self.began, self.generation = began, index.catalog.generation


def refresh(
    index: Index, last: QuietLook, watched: processes.Watched, *, embed: bool, look: bool = True, whole: bool = False
) -> str:
    """
    Scan the vault for changes, unless this process has `watched` it or another one does, or the `last` look will do.

    With `embed`, some texts without a vector are embedded, if no watcher does it. Without `look` there is no scan. What
    needs all notes asks for the `whole` vault, also while it is read for the first time elsewhere. Return why the last
    scan failed, or that the first one is under way, "" if neither is so: search still answers from the index as it is.
    """
    try:
        # A new index is filled at once, even if a watcher runs; so is one that was migrated, beside an older watcher.
        reported = None
        with contextlib.suppress(Damaged):
            reported = index.catalog.looked if index.catalog.is_read else None
        # This process may be able to do what an older version's watcher cannot.
        if reported is not None and (watched.is_current or (not reported and processes.is_watched(index.config.state))):
            return reported
        if reported is None and not whole and is_being_read(index, watched):
            tell(BEING_READ)
            return BEING_READ
        if look and (reported != "" or not last.is_believed(index)):
            with waiting("the notes that changed are read first"):
                last.scan(index)
    except (StorageError, VaultNotFound, InvalidInput) as error:
        return str(error)
    if embed:
        until = time.monotonic() + (_EMBED_SECONDS_AT_START if watched.is_starting else _EMBED_SECONDS)
        with contextlib.suppress(EmbeddingError), waiting("the notes that changed are embedded first"):
            embed_texts(index, most=_MOST_EMBEDDED, stop=lambda: time.monotonic() > until)
    return ""


def is_being_read(index: Index, watched: processes.Watched) -> bool:
    """Say whether a process is at the first scan of a vault, or about to be, that a question should not wait for."""
    if index.catalog.is_read or not (watched.is_starting or processes.is_embedding(index.config.state)):
        return False
    return index.catalog.counts().notes > _MOST_UNREAD or len(index.vault.walk().files) > _MOST_UNREAD


def scan(index: Index) -> bool:
    """
    Scan the vault for changes; return whether no file was read or gone. A damaged catalog is begun anew.

    A file saved within the last two seconds is read, whether it has changed or not. Raises StorageError, VaultNotFound,
    InvalidInput.
    """
    read: list[str] = []

    def note(stage: str, done: int, total: int) -> None:
        read.append(stage)

    try:
        report = sync.scan(index, progress=note)
    except Damaged:  # the next use starts a new catalog
        report = sync.scan(index, progress=note)
    return not (read or report.removed)


def release(before: float, *, is_freed: bool) -> None:
    """
    Free the models if unused since `before` (monotonic clock, seconds).

    Give memory back to the system if any of it was freed; `is_freed` says whether the caller has freed some.
    """
    from spellbook.models.onnx.lazy_engine import release as release_models  # not needed by a vault without a model

    if release_models(before) or is_freed:
        heap.trim()
