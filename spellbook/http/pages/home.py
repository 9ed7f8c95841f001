"""The first page: a box that asks and keeps, notes of agents, due reviews and open decisions; jobs; the manifest."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from spellbook.http import admin
from spellbook.http.alerts import alerts
from spellbook.http.api import changes, notes
from spellbook.http.pages import view
from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.catalog.usage import local
from spellbook.index.filters import WAITS, Condition
from spellbook.notes.labels import DECISION
from spellbook.search import newest, note_marks, presentation
from spellbook.system.errors import PermissionDenied

_NEWEST, _PENDING, _REVIEWS, _KEPT = 8, 5, 5, 12
_MOST_SEARCHED = 100
"""Newest notes among which those of agents are looked for."""


def home(shown: view.View) -> Response:
    """A box that asks and keeps, notes of agents, reviews that are due, open decisions, and the newest notes."""
    due = shown.ask(admin.reviews, due=True)["reviews"] if shown.may("admin") else []
    state = shown.book.state()
    recent = shown.book.recent(_MOST_SEARCHED).notes
    agents = _unkept(shown, recent)
    attention = [shown.translated(state.reason)] if state.reason else []  # it keeps answers incomplete
    if shown.may("admin"):  # that there is no snapshot waits for a day: the server makes one by itself
        listed = shown.ask(alerts)["alerts"]
        yesterday = local(time.time() - 86_400)
        left = [each for each in listed if each["id"] != "snapshot" or each["value"] or each["since"] < yesterday]
        attention = [each["what"] for each in left if each["id"] != "pending"]
    today = [chunk for chunk in agents if chunk.day == str(dt.date.today())]
    kept = (today or agents)[:_KEPT]
    return shown.page(
        "home.html",
        state=state,
        ready=100 * (state.chunks - state.pending) // max(state.chunks, 1),
        attention=attention if recent else [],
        is_today=bool(today),
        kept=kept,
        newest=[chunk for chunk in recent if chunk not in kept][:_NEWEST],
        pending=shown.book.memories.decisions.find(kind=DECISION, limit=_PENDING, outcome="pending"),
        reviews=due[:_REVIEWS],
        waiting=_waiting(shown),
    )


def _unkept(shown: view.View, recent: Sequence[StoredChunk]) -> list[StoredChunk]:
    """Return the notes of agents that nobody kept: those that wait for it, and of the `recent` ones."""
    catalog = shown.book.index.catalog
    listed = catalog.newest([Condition(WAITS)], _MOST_SEARCHED, 0)[0] if shown.book.config.review else []
    of_notes = {chunk.path: chunk for chunk in (*listed, *recent)}.values()
    return [each for each in of_notes if note_marks.author(each)[0] == "agent" and not note_marks.of(each).is_kept]


def _waiting(shown: view.View) -> str:
    """Say how many notes wait for the person; "" where the caller is not the person."""
    number, since = newest.waiting(shown.book.index) if shown.may("write") else (0, "")
    day = view.date(dt.date.fromisoformat(since), shown.say) if number else ""
    return shown.translated(presentation.waiting(number, day))


def keep(shown: view.View) -> Response:
    """Keep a note: it is right, and leaves the first page. A program with a token is no person."""
    if shown.caller.name and not shown.caller.by_cookie:
        raise PermissionDenied("A person keeps a note, on a page after a login or by `spellbook keep ID`.")
    return shown.back("keep", shown.book.whole.keep(shown.form.get("id", "")).path)


def manifest(shown: view.View) -> Response:
    """Return what a browser needs to put the pages on a home screen, and to share texts and addresses to a new note."""
    answer = shown.page("manifest.json")
    answer.headers["content-type"] = "application/manifest+json"
    return answer


def job(shown: view.View) -> Response:
    """The newest job, as the part of a page that is asked for again while it runs."""
    return shown.page("job.html", job=next(iter(shown.jobs.all()), None))


def cancel(shown: view.View) -> Response:
    """Ask the running job to stop."""
    shown.served.jobs.cancel(shown.form.get("job", ""))
    return shown.back()


_PAGE = view.page("/", home)


async def root(request: Request) -> Any:
    """Give a browser the page, and a program what is here."""
    if view.wants_page(request):
        return await _PAGE.endpoint(request)
    return await notes.about(request)


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
