"""The first page: how the memory is, what needs attention, what is new."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from spellbook.notes.decisions import DECISION
from spellbook.server.http.admin import alerts, memory
from spellbook.server.http.api import changes, finding, health
from spellbook.server.http.pages import view
from spellbook.server.http.pages.view import View

_NEWEST = 8
_PENDING = 5
_REVIEWS = 5


def overview(shown: View) -> Response:
    """Counts, alerts, the newest notes, decisions without outcome, and reviews that are due."""
    is_admin = shown.may("admin")
    pending = shown.book.memories.decisions.find(kind=DECISION, limit=_PENDING, outcome="pending")
    due = shown.ask(memory.reviews, due=True)["reviews"] if is_admin else []
    return shown.page(
        "overview.html",
        status=shown.ask(finding.status),
        degraded="" if is_admin else shown.book.state().reason,  # an admin's alerts say it
        alerts=shown.ask(alerts.alerts)["alerts"] if is_admin else [],
        newest=shown.book.recent(_NEWEST).notes,
        pending=pending,
        reviews=due[:_REVIEWS],
    )


def job(shown: View) -> Response:
    """The running job, as the part of a page that a script keeps up to date."""
    return shown.page("job.html")


def cancel(shown: View) -> Response:
    """Ask the running job to stop."""
    shown.served.jobs.cancel(shown.form.get("job", ""))
    return shown.back()


_PAGE = view.page("/", overview)


async def home(request: Request) -> Any:
    """Give a browser the page, and a program what is here."""
    if "text/html" in request.headers.get("accept", ""):
        return await _PAGE.endpoint(request)
    return await health.about(request)


ROUTES = [
    Route("/", home),
    view.page("/job", job),
    view.action("/do/reindex", view.asking(changes.reindex)),
    view.action("/do/snapshot", view.asking(changes.snapshot)),
    view.action("/do/check", view.asking(changes.check)),
    view.action("/do/cancel", cancel),
]
