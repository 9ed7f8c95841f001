"""Routes of the JSON API: /health, /api/…, and the OpenAPI document of these and of /admin/…"""

from __future__ import annotations

from starlette.routing import Route

from spellbook.http import admin
from spellbook.http.api import changes, finding, notes, openapi

ENDPOINTS = (*finding.ENDPOINTS, *notes.ENDPOINTS, *changes.ENDPOINTS)


def routes() -> list[Route]:
    """Return the routes."""
    described = openapi.route((*ENDPOINTS, *admin.ENDPOINTS))
    return [*finding.ROUTES, described, *(endpoint.route for endpoint in ENDPOINTS)]
