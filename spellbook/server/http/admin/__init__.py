"""Routes of the admin API: /admin/…"""

from __future__ import annotations

from starlette.routing import BaseRoute


def routes() -> list[BaseRoute]:
    """Return the routes."""
    return []
