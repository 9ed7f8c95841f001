"""The dashboard: pages for the browser, which work without JavaScript."""

from __future__ import annotations

from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles

from spellbook.http.pages import (
    activity,
    contents_and_search,
    decisions_articles_sessions,
    health_and_settings,
    home,
    notes,
    statistics,
)

MODULES = (home, activity, notes, contents_and_search, decisions_articles_sessions, statistics, health_and_settings)

FILES = Mount("/static", StaticFiles(packages=[("spellbook.http.pages", "static")]))
ROUTES: list[BaseRoute] = [FILES, *(route for module in MODULES for route in module.ROUTES)]
