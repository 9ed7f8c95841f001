"""Routes of the dashboard: pages, /login and /static/…"""

from __future__ import annotations

from starlette.routing import BaseRoute


def routes() -> list[BaseRoute]:
    """Return the routes."""
    return []
