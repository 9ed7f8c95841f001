"""What a server does beside answering: watch the vault, and load the model once somebody asks."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from importlib import import_module
from typing import Any

from spellbook.library import upkeep
from spellbook.library.book import Spellbook
from spellbook.models.base import servers
from spellbook.system import processes
from spellbook.system.errors import SpellbookError
from spellbook.system.heap import freeze

WARM_UP_SECONDS = 1.0
CALL_SECONDS = 0.25
"""Seconds after the first call before the model is loaded in the background, so that loading does not slow the call."""
_log = logging.getLogger(__name__)


class Background:
    """
    Watches the vault, and loads model and vectors only after the first call: an idle server must stay small.

    What a large vault needs that was never read is loaded beside its first scan.
    """

    def __init__(self, book: Spellbook, called: threading.Event) -> None:
        self._book = book
        self._called = called
        servers.add(self)
        book.hand_over(processes.Watched(is_starting=True))  # no question needs to read a large vault
        self._watcher: Any = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="spellbook-warm-up", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching, without waiting for a running embedding: clients give a server two seconds to end."""
        servers.discard(self)
        self._stopped.set()
        self._called.set()
        self._thread.join(timeout=0.5)
        if self._watcher:
            self._watcher.stop(within=0.5)

    def _run(self) -> None:
        if self._stopped.wait(WARM_UP_SECONDS):
            return
        import_module("spellbook.mcp.render")  # the first answer needs it
        from spellbook.watch.watcher import Watcher

        self._watcher = Watcher(self._book).start()
        if not self._is_being_read():
            self._called.wait()
            if self._stopped.wait(CALL_SECONDS):
                return
        try:
            self._book.warm_up()
        except Exception as error:  # the first search reports it to the client
            _log.warning("Warming up failed: %s", error)
        freeze()

    def _is_being_read(self) -> bool:
        """Say whether a large vault is read for the first time: its texts need the models in any case, so soon."""
        with suppress(SpellbookError):
            return upkeep.is_being_read(self._book.index, self._book.watched)
        return False
