"""Routes of the admin API: /admin/…"""

from __future__ import annotations

from spellbook.http.admin import figures, upkeep

ENDPOINTS = (*figures.ENDPOINTS, *upkeep.ENDPOINTS)
ROUTES = [endpoint.route for endpoint in ENDPOINTS]
