"""Routes of the JSON API: /health and /api/…"""

from __future__ import annotations

from starlette.routing import BaseRoute

from spellbook.server.http.api import events, health


def routes() -> list[BaseRoute]:
    """Return the routes."""
    return [*health.routes(), *events.routes()]
