"""uvicorn's HTTP protocol with a time limit for the head of a request, which it lacks."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from spellbook.server.http.run import HEADER_SECONDS


class Timed(H11Protocol):
    """Closes a connection on which no request arrives whole, so that such connections cannot take all places."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._limit:
            self._limit.cancel()

    def _watch(self) -> None:
        """Run the time limit while a request is awaited, and only then."""
        is_waiting = self.cycle is None or self.cycle.response_complete
        if is_waiting and self._limit is None:
            self._limit = self.loop.call_later(HEADER_SECONDS, self.transport.close)
        elif not is_waiting and self._limit:
            self._limit.cancel()
            self._limit = None
