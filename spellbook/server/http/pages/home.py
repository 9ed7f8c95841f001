"""The first page: search, new and lately read notes, what is due, what is open; and what a browser installs."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from spellbook.notes.decisions import DECISION
from spellbook.server.http.admin import alerts, memory
from spellbook.server.http.api import changes, health
from spellbook.server.http.pages import view
from spellbook.server.http.pages.view import View

_NEWEST = 8
_READ = 5
_PENDING = 5
_REVIEWS = 5


def home(shown: View) -> Response:
    """The newest notes, those read last, reviews that are due, decisions without outcome, and whether all is well."""
    is_admin = shown.may("admin")
    pending = shown.book.memories.decisions.find(kind=DECISION, limit=_PENDING, outcome="pending")
    due = shown.ask(memory.reviews, due=True)["reviews"] if is_admin else []
    state = shown.book.state()
    listed = shown.ask(alerts.alerts)["alerts"] if is_admin else []
    complaints = [shown.translated(state.reason)] if state.reason else []
    return shown.page(
        "home.html",
        state=state,
        ready=100 * (state.chunks - state.pending) // max(state.chunks, 1),
        # The page says by itself how far the index is. Who may not see alerts learns what keeps answers incomplete.
        attention=[each["what"] for each in listed if each["id"] != "pending"] if is_admin else complaints,
        newest=shown.book.recent(_NEWEST).notes,
        # What others read is not told to whom sees a part alone.
        read=shown.book.opened(_READ) if shown.book.config.count_use and not shown.caller.is_limited else None,
        pending=pending,
        reviews=due[:_REVIEWS],
    )


def manifest(shown: View) -> Response:
    """What a browser needs to put the pages on a home screen, and to share texts and addresses to a new note."""
    say = shown.say
    icon = {"src": "/static/spellbook.svg", "type": "image/svg+xml", "sizes": "any", "purpose": "any"}
    places = [("/new", say("New note"))] * shown.may("write") + [("/search", say("Search"))]
    made: dict[str, Any] = {
        "id": "/",
        "name": "Spellbook",
        "short_name": "Spellbook",
        "lang": shown.language,
        "start_url": "/",
        "scope": "/",
        "display": "standalone",
        "background_color": "#fbfaf8",
        "theme_color": "#5b3cc4",
        "icons": [icon, {**icon, "purpose": "maskable"}],
        "shortcuts": [{"name": name, "url": place} for place, name in places],
    }
    if shown.may("write"):
        # By GET: what another app shares fills the form, and a person saves it.
        fields = {"title": "title", "text": "text", "url": "url"}
        form = "application/x-www-form-urlencoded"
        made["share_target"] = {"action": "/new", "method": "GET", "enctype": form, "params": fields}
    return Response(json.dumps(made, ensure_ascii=False), media_type="application/manifest+json")


def job(shown: View) -> Response:
    """The newest job, as the part of a page that is asked for again while it runs."""
    return shown.page("job.html", job=shown.served.jobs.newest)


def cancel(shown: View) -> Response:
    """Ask the running job to stop."""
    shown.served.jobs.cancel(shown.form.get("job", ""))
    return shown.back()


_PAGE = view.page("/", home)


async def root(request: Request) -> Any:
    """Give a browser the page, and a program what is here."""
    if "text/html" in request.headers.get("accept", ""):
        return await _PAGE.endpoint(request)
    return await health.about(request)


ROUTES = [
    Route("/", root),
    view.page("/manifest.webmanifest", manifest),
    view.page("/job", job),
    view.action("/do/reindex", view.asking(changes.reindex)),
    view.action("/do/snapshot", view.asking(changes.snapshot)),
    view.action("/do/check", view.asking(changes.check)),
    view.action("/do/cancel", cancel),
]
