"""Routes of the admin API: /admin/…"""

from __future__ import annotations

from starlette.routing import BaseRoute

from spellbook.server.http.endpoints import Endpoint

ENDPOINTS: tuple[Endpoint, ...] = ()


def routes() -> list[BaseRoute]:
    """Return the routes."""
    return [each.route for each in ENDPOINTS]
