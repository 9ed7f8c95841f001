"""Routes of the JSON API: /health, /api/…, and the OpenAPI document of these and of /admin/…"""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from spellbook.server.http import admin
from spellbook.server.http.api import changes, events, finding, health, notes, openapi

ENDPOINTS = (*finding.ENDPOINTS, *notes.ENDPOINTS, *changes.ENDPOINTS)


def routes() -> list[BaseRoute]:
    """Return the routes."""
    plain = [each for each in (*health.routes(), *events.routes()) if isinstance(each, Route)]
    described = openapi.route((*ENDPOINTS, *admin.ENDPOINTS), plain)
    return [*plain, described, *(each.route for each in ENDPOINTS)]
