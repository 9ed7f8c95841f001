"""
Update the index before a question is answered, within a short time.
"""

from __future__ import annotations

import contextlib
import time

from spellbook.errors import EmbeddingError, InvalidInput, StorageError, VaultNotFound
from spellbook.index import sync
from spellbook.index.embed import embed_texts
from spellbook.index.opened import Index
from spellbook.system import processes
from spellbook.system.sqlite import Damaged
from spellbook.vault.vault import UNDER_WAY

_MOST_EMBEDDED = 64
"""Most texts that a search embeds before it answers; a reindex or a watcher embeds the rest."""

_EMBED_SECONDS = 2.0
"""A search starts no further batch after so many seconds: MCP clients time out on a slow server."""


def refresh(index: Index, *, watching: bool, embed: bool) -> str:
    """
    Scan the vault for changes, unless this process is `watching` it or another one does.

    With `embed`, some of the texts without a vector are embedded, if no watcher does it. Return why the last scan
    failed, "" if it did not: search still answers from the index as it is.
    """
    try:
        finish_move(index)
        # A new index is filled at once, even if a watcher runs.
        reported = None
        with contextlib.suppress(Damaged):
            reported = index.catalog.looked
        if reported is not None and (watching or processes.is_watched(index.config.state)):
            return reported
        try:
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
    from spellbook.models.onnx.lazy_engine import release as release_models
    from spellbook.notes import markdown
    from spellbook.system import heap

    if any((release_models(before), markdown.forget(), is_freed)):
        heap.trim()
