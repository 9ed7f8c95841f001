"""Routes of the JSON API: /health and /api/…"""

from __future__ import annotations

from starlette.routing import BaseRoute


def routes() -> list[BaseRoute]:
    """Return the routes."""
    return []
