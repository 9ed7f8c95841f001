"""
The first page: a box that asks and keeps, notes of agents, due reviews and open decisions; and the browser's manifest.

The page of changes: the log by day and session, with undo, and the trash.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from spellbook.http import admin
from spellbook.http.api import changes, notes
from spellbook.http.pages import differences, view
from spellbook.http.pages.view import View
from spellbook.index.catalog.rows import StoredChunk
from spellbook.index.catalog.usage import local
from spellbook.index.filters import WAITS, Condition
from spellbook.notes.labels import DECISION
from spellbook.search import newest, presentation
from spellbook.system.errors import MemoryNotFound, PermissionDenied, SpellbookError

_NEWEST, _PENDING, _REVIEWS, _KEPT = 8, 5, 5, 12
_MOST_SEARCHED = 100
"""Newest notes among which those of agents are looked for."""

_ENTRIES = 50
"""Entries of a page."""

_MOST_ENTRIES = 1_000
"""Entries that a day or a session is looked for in."""

_MOST_TRASH = 50


def home(shown: View) -> Response:
    """A box that asks and keeps, notes of agents, reviews that are due, open decisions, and the newest notes."""
    due = shown.ask(admin.reviews, due=True)["reviews"] if shown.may("admin") else []
    state, recent = shown.book.state(), shown.book.recent(_MOST_SEARCHED).notes
    agents = _unkept(shown, recent)
    attention = [shown.translated(state.reason)] if state.reason else []  # it keeps answers incomplete
    if shown.may("admin"):  # that there is no snapshot waits for a day: the server makes one by itself
        listed, yesterday = shown.ask(admin.alerts)["alerts"], local(time.time() - 86_400)
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


def _unkept(shown: View, recent: Sequence[StoredChunk]) -> list[StoredChunk]:
    """Return the notes of agents that nobody kept: those that wait for it, and of the `recent` ones."""
    catalog = shown.book.index.catalog
    listed = catalog.newest([Condition(WAITS)], _MOST_SEARCHED, 0)[0] if shown.book.config.review else []
    of_notes = {chunk.path: chunk for chunk in (*listed, *recent)}.values()
    return [each for each in of_notes if presentation.author(each)[0] == "agent" and not presentation.is_kept(each)]


def _waiting(shown: View) -> str:
    """Say how many notes wait for the person; "" where the caller is not the person."""
    number, since = newest.waiting(shown.book.index) if shown.may("write") else (0, "")
    day = view.date(dt.date.fromisoformat(since), shown.say) if number else ""
    return shown.translated(presentation.waiting(number, day))


def keep(shown: View) -> Response:
    """Keep a note: it is right, and leaves the first page. A program with a token is no person."""
    if shown.caller.name and not shown.caller.by_cookie:
        raise PermissionDenied("A person keeps a note, on a page after a login or by `spellbook keep ID`.")
    return shown.back("keep", shown.book.whole.keep(shown.form.get("id", "")).path)


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
    return shown.page("job.html", job=next(iter(shown.jobs.all()), None))


def cancel(shown: View) -> Response:
    """Ask the running job to stop."""
    shown.served.jobs.cancel(shown.form.get("job", ""))
    return shown.back()


_PAGE = view.page("/", home)


async def root(request: Request) -> Any:
    """Give a browser the page, and a program what is here."""
    if view.wants_page(request):
        return await _PAGE.endpoint(request)
    return await notes.about(request)


def activity(shown: View) -> Response:
    """List changes by day, of one day or one session if the address names them."""
    session, day = shown.query.get("session", ""), shown.query.get("day", "")
    offset = 0 if session or day else shown.number("offset", 0)
    most = _MOST_ENTRIES if session or day else min(offset + _ENTRIES + 1, _MOST_ENTRIES)
    reply = shown.ask(changes.log, limit=most)
    entries = reply["entries"]
    chosen = [
        entry
        for entry in entries[offset:]
        if entry["at"].startswith(day) and (not session or entry.get("session") == session)
    ]
    files = admin.trashed(str(shown.book.config.vault)) if shown.may("write") else ()
    trash = [path for _, _, path in sorted(files, key=lambda file: (file[0], file[2]), reverse=True)]
    listed = trash[:_MOST_TRASH]
    return shown.page(
        "activity.html",
        reply=reply,
        days=list(_days(chosen[: _MOST_ENTRIES if session or day else _ENTRIES])),
        sessions=list(dict.fromkeys(entry["session"] for entry in entries if "session" in entry)),
        session=session,
        day=day,
        today=str(dt.date.today()),
        yesterday=str(dt.date.today() - dt.timedelta(days=1)),
        older=offset + _ENTRIES if len(chosen) > _ENTRIES and not (session or day) else 0,
        newer=max(offset - _ENTRIES, 0) if offset else None,
        trash=listed,
        more=len(trash) - len(listed),
    )


def _days(entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[tuple[str, list[Mapping[str, Any]]]]]]:
    """Yield each day with its entries; those of one session that follow each other are together."""
    for day, of_day in groupby(entries, lambda entry: entry["at"][:10]):
        of_sessions = groupby(of_day, lambda entry: entry.get("session", ""))
        yield day, [(session, list(group)) for session, group in of_sessions]


def difference(shown: View) -> Response:
    """Show what undoing a change would do."""
    entry = shown.number("entry", 0)
    found, why = list[differences.Difference](), None
    try:
        shown.caller.require("write")
        done = shown.book.whole.undo(entry, dry_run=True)
        found = [differences.compared(old, new, path) for path, old, new in done.changes]
    except SpellbookError as error:
        why = error
    return shown.page("difference.html", found=found, why=why, entry=entry)


def undo(shown: View) -> Response:
    """Undo a change."""
    shown.ask(changes.undo, entry=shown.form.get("entry", ""))
    to = shown.form.get("to", "")
    path = unquote(to.partition("?")[0])
    try:
        _ = path.startswith("/note/") and shown.book.resolve(path.removeprefix("/note/"))
    except MemoryNotFound:  # the note was made, or moved here, by what is undone
        to = "/activity"
    return shown.back("undo", to=to)


def restore(shown: View) -> Response:
    """Restore a file from the trash."""
    shown.ask(changes.restore, name=shown.form.get("name", ""))
    return shown.back("restore")


ROUTES = [
    Route("/", root),
    view.page("/manifest.webmanifest", manifest),
    view.page("/job", job),
    view.action("/do/reindex", view.asking(changes.reindex)),
    view.action("/do/snapshot", view.asking(changes.snapshot)),
    view.action("/do/check", view.asking(changes.check)),
    view.action("/do/cancel", cancel),
    view.action("/do/keep", keep),
    view.page("/activity", activity),
    view.page("/difference", difference),
    view.action("/do/undo", undo),
    view.action("/do/restore", restore),
]
