"""Who may ask: one check before every route."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from spellbook.server.http.served import Caller


class Guard:
    """Answers what must not reach a route, and names the caller to all others."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["spellbook.caller"] = Caller()
        await self.app(scope, receive, send)
