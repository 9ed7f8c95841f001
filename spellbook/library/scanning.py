"""Scans before a question: whether one is due, and whether it found a change."""

from __future__ import annotations

import contextlib
import math
import time
from dataclasses import dataclass

from spellbook.index import embed as embedding
from spellbook.index import sync
from spellbook.index.opened import Index
from spellbook.system import processes
from spellbook.system.errors import EmbeddingError
from spellbook.system.lock import waiting
from spellbook.system.sqlite import Damaged

_MOST_EMBEDDED = 64
"""Most texts that a search embeds before it answers; a reindex or a watcher embeds the rest."""

_EMBED_SECONDS = 2.0
"""A search starts no further batch after so many seconds: MCP clients time out on a slow server."""

_EMBED_SECONDS_BESIDE = 0.1
"""The same while a process embeds all that waits: a just saved note is found, and the rest is left to that process."""

_MOST_UNREAD = 200
"""Files of a never-read vault which a question reads itself, in .3 s; more are left to the process that reads them."""


@dataclass(slots=True)
class LastScan:
    """
    The beginning of the last scan that found no change (monotonic clock), and the index's generation then.

    It is believed for the seconds in the settings. A write through any Spellbook with this index ends it at once, by
    the generation; another program's change is found when it has ended.
    """

    began: float = -math.inf
    generation: int = -1

    def is_believed(self, index: Index) -> bool:
        """Return whether nothing needs to be scanned yet."""
        is_fresh = time.monotonic() - self.began < index.config.look_seconds
        return is_fresh and index.catalog.generation == self.generation


def is_being_read(index: Index) -> bool:
    """Return whether a process is at the first scan of a vault, or about to be, that a question should not wait for."""
    if index.catalog.is_read or not processes.is_embedding(index.config.state):
        return False
    return index.catalog.counts().notes > _MOST_UNREAD or len(index.vault.walk().files) > _MOST_UNREAD


def scan(index: Index) -> bool:
    """Scan the vault; return whether no file was read or gone. A damaged catalog is begun anew. Raises StorageError."""
    read: list[str] = []

    def scanned() -> sync.Report:
        return sync.scan(index, progress=lambda stage, *_: read.append(stage))

    try:
        report = scanned()
    except Damaged:  # the next use starts a new catalog
        report = scanned()
    return not (read or report.removed)


def embed_briefly(index: Index) -> None:
    """Embed some new texts in the short time that a search can wait. If that fails they stay pending."""
    seconds = _EMBED_SECONDS_BESIDE if processes.is_embedding(index.config.state) else _EMBED_SECONDS
    until = time.monotonic() + seconds
    with contextlib.suppress(EmbeddingError), waiting("the notes that changed are embedded first"):
        embedding.embed_texts(index, most=_MOST_EMBEDDED, stop=lambda: time.monotonic() > until)
