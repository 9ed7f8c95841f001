"""The page of changes: the log by day and session, with undo, and the trash."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import unquote

from starlette.responses import Response

from spellbook.http import admin
from spellbook.http.api import changes
from spellbook.http.pages import differences, view
from spellbook.system.errors import MemoryNotFound, SpellbookError

_ENTRIES = 50
"""Entries of a page."""

_MOST_ENTRIES = 1_000
"""Entries that a day or a session is looked for in."""

_MOST_TRASH = 50


def activity(shown: view.View) -> Response:
    """List changes by day, of one day or one session if the address names them."""
    session = shown.query.get("session", "")
    day = shown.query.get("day", "")
    offset = 0 if session or day else shown.number("offset", 0)
    most = _MOST_ENTRIES if session or day else min(offset + _ENTRIES + 1, _MOST_ENTRIES)
    reply = shown.ask(changes.log, limit=most)
    entries = reply["entries"]
    chosen = [
        entry
        for entry in entries[offset:]
        if entry["at"].startswith(day) and (not session or entry.get("session") == session)
    ]
    files = admin.trashed(shown.book) if shown.may("write") else ()
    trash = [path for _, _, path in sorted(files, key=lambda file: (file[0], file[2]), reverse=True)]
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
        trash=trash[:_MOST_TRASH],
        more=max(0, len(trash) - _MOST_TRASH),
    )


def _days(entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[tuple[str, list[Mapping[str, Any]]]]]]:
    """Yield each day with its entries; those of one session that follow each other are together."""
    for day, of_day in groupby(entries, lambda entry: entry["at"][:10]):
        of_sessions = groupby(of_day, lambda entry: entry.get("session", ""))
        yield day, [(session, list(group)) for session, group in of_sessions]


def difference(shown: view.View) -> Response:
    """Show what undoing a change would do."""
    entry = shown.number("entry", 0)
    found = list[differences.Difference]()
    why = None
    try:
        shown.caller.require("write")
        done = shown.book.whole.undo(entry, dry_run=True)
        found = [differences.compared(old, new, path) for path, old, new in done.changes]
    except SpellbookError as error:
        why = error
    return shown.page("difference.html", found=found, why=why, entry=entry)


def undo(shown: view.View) -> Response:
    """Undo a change."""
    shown.ask(changes.undo, entry=shown.form.get("entry", ""))
    to = shown.form.get("to", "")
    path = unquote(to.partition("?")[0])
    try:
        _ = path.startswith("/note/") and shown.book.resolve(path.removeprefix("/note/"))
    except MemoryNotFound:  # the note was made, or moved here, by what is undone
        to = "/activity"
    return shown.back("undo", to=to)


def restore(shown: view.View) -> Response:
    """Restore a file from the trash."""
    shown.ask(changes.restore, name=shown.form.get("name", ""))
    return shown.back("restore")


ROUTES = [
    view.page("/activity", activity),
    view.page("/difference", difference),
    view.action("/do/undo", undo),
    view.action("/do/restore", restore),
]
