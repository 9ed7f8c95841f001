"""
The first page: a box that asks and keeps, notes of agents, due reviews and open decisions; and the browser's manifest.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from spellbook.capture.ledger import Ledger
from spellbook.http.admin import figures, upkeep
from spellbook.http.api import changes, finding
from spellbook.http.pages import view
from spellbook.http.pages.view import View
from spellbook.index.catalog.usage import local
from spellbook.notes.decisions import DECISION
from spellbook.search import presentation

_NEWEST, _PENDING, _REVIEWS, _KEPT = 8, 5, 5, 12
_MOST_SEARCHED = 100
"""Newest notes among which those of agents are looked for."""

_SEEN = "seen"
"""The kind, in the ledger, of notes of agents that a person kept."""


def home(shown: View) -> Response:
    """A box that asks and keeps, notes of agents, reviews that are due, open decisions, and the newest notes."""
    due = shown.ask(upkeep.reviews, due=True)["reviews"] if shown.may("admin") else []
    state, recent = shown.book.state(), shown.book.recent(_MOST_SEARCHED).notes
    seen = Ledger(str(shown.book.config.vault)).all(_SEEN)
    agents = [chunk for chunk in recent if presentation.author(chunk)[0] == "agent" and chunk.note not in seen]
    today = [chunk for chunk in agents if chunk.day == str(dt.date.today())]
    kept = (today or agents)[:_KEPT]
    return shown.page(
        "home.html",
        state=state,
        ready=100 * (state.chunks - state.pending) // max(state.chunks, 1),
        attention=_attention(shown, state.reason) if recent else [],
        is_today=bool(today),
        kept=kept,
        newest=[chunk for chunk in recent if chunk not in kept][:_NEWEST],
        pending=shown.book.memories.decisions.find(kind=DECISION, limit=_PENDING, outcome="pending"),
        reviews=due[:_REVIEWS],
    )


def _attention(shown: View, reason: str) -> list[str]:
    """Return the alerts in words. That there is no snapshot waits for a day: the server makes one by itself."""
    if not shown.may("admin"):  # the page tells how far the index is; this keeps answers incomplete
        return [shown.translated(reason)] if reason else []
    listed, yesterday = shown.ask(figures.alerts)["alerts"], local(time.time() - 86_400)
    left = [each for each in listed if each["id"] != "snapshot" or each["value"] or each["since"] < yesterday]
    return [each["what"] for each in left if each["id"] != "pending"]


def keep(shown: View) -> Response:
    """Take a note of an agent off the first page: a person has seen it, and it stays as it is."""
    shown.book.index.vault.check_there()
    id = shown.book.resolve(shown.form.get("id", "")).note
    Ledger(str(shown.book.config.vault)).put((_SEEN, id, 1))
    return shown.back()


def manifest(shown: View) -> Response:
    """Return what a browser needs to put the pages on a home screen, and to share texts and addresses to a new note."""
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
        "background_color": "#faf6ec",
        "theme_color": "#553a9e",
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
    if view.wants_page(request):
        return await _PAGE.endpoint(request)
    return await finding.about(request)


ROUTES = [
    Route("/", root),
    view.page("/manifest.webmanifest", manifest),
    view.page("/job", job),
    view.action("/do/reindex", view.asking(changes.reindex)),
    view.action("/do/snapshot", view.asking(changes.snapshot)),
    view.action("/do/check", view.asking(changes.check)),
    view.action("/do/cancel", cancel),
    view.action("/do/keep", keep),
]
