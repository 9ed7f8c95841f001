"""Routes of the JSON API: /health, /api/…, and the OpenAPI document of these and of /admin/…"""

from __future__ import annotations

from spellbook.server.http import admin
from spellbook.server.http.api import changes, events, finding, health, notes, openapi

ENDPOINTS = (*finding.ENDPOINTS, *notes.ENDPOINTS, *changes.ENDPOINTS)
_PLAIN = (*health.ROUTES, *events.ROUTES)
ROUTES = [
    *_PLAIN,
    openapi.route((*ENDPOINTS, *admin.ENDPOINTS), _PLAIN),
    *(endpoint.route for endpoint in ENDPOINTS),
]
