"""Background work of a server: watch the vault, and load the model once somebody asks."""

from __future__ import annotations

import logging
import threading
from contextlib import suppress

from spellbook.library.book import Spellbook
from spellbook.library.scanning import is_being_read
from spellbook.models.base import servers
from spellbook.system import processes
from spellbook.system.children import freeze
from spellbook.system.errors import SpellbookError
from spellbook.watch import watcher
from spellbook.watch.schedule import CALL_SECONDS, WARM_UP_SECONDS

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
        self._watcher: watcher.Watcher | None = None
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
        # From now on no question reads a large vault by itself.
        with processes.present(self._book.config.state, processes.EMBEDDING):
            if self._stopped.wait(WARM_UP_SECONDS):
                return
            self._watcher = watcher.Watcher(self._book).start()
            is_first_scan = False
            with suppress(SpellbookError):  # a large vault's texts need the models in any case, so soon
                is_first_scan = is_being_read(self._book.index)
            if is_first_scan:
                self._warm_up()
            self._watcher.begun.wait()
        if not is_first_scan:
            self._called.wait()
            if self._stopped.wait(CALL_SECONDS):
                return
            self._warm_up()
        freeze()

    def _warm_up(self) -> None:
        try:
            self._book.warm_up()
        except Exception as error:  # the first search reports it to the client
            _log.warning("Warming up failed: %s", error)
