"""The dashboard: pages for the browser, which work without JavaScript."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from spellbook.http.pages import activity, contents, home, login, notes, reading, searching, upkeep, writing

MODULES = (login, home, searching, writing, notes, contents, reading, activity, upkeep)


class _Static(StaticFiles):
    """Files of the package, which a browser asks for again only when they have changed."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        answer = await super().get_response(path, scope)
        answer.headers["cache-control"] = "no-cache"
        return answer


FILES = Mount("/static", _Static(packages=[("spellbook.http.pages", "static")]))
ROUTES: list[BaseRoute] = [FILES, *(route for module in MODULES for route in module.ROUTES)]
