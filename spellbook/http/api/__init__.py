"""Routes of the JSON API: /health and /api/…"""

from __future__ import annotations

from spellbook.http.api import changes, notes

ENDPOINTS = (*notes.ENDPOINTS, *changes.ENDPOINTS)
ROUTES = [*notes.ROUTES, *(each.route for each in ENDPOINTS)]
