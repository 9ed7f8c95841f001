"""Routes of the admin API: /admin/…"""

from __future__ import annotations

from starlette.routing import BaseRoute

from spellbook.server.http.admin import figures, memory, upkeep

ENDPOINTS = (*memory.ENDPOINTS, *figures.ENDPOINTS, *upkeep.ENDPOINTS)


def routes() -> list[BaseRoute]:
    """Return the routes."""
    return [each.route for each in ENDPOINTS]
