"""The page of changes: the log with undo, and what lies in the trash."""

from __future__ import annotations

from urllib.parse import unquote

from starlette.responses import Response

from spellbook.server.http.admin import memory
from spellbook.server.http.api import changes
from spellbook.server.http.pages import view
from spellbook.server.http.pages.view import View
from spellbook.system.errors import MemoryNotFound, SpellbookError

_ENTRIES = 50
_MOST_TRASH = 50


def activity(shown: View) -> Response:
    """List the latest changes; `entry` in the address opens one of them with its difference."""
    reply = shown.ask(changes.log, limit=_ENTRIES)
    files = memory.trashed(str(shown.book.config.vault)) if shown.may("write") else ()
    trash = [path for _, _, path in sorted(files, key=lambda file: (file[0], file[2]), reverse=True)]
    listed = trash[:_MOST_TRASH]
    return shown.page("activity.html", reply=reply, trash=listed, more=len(trash) - len(listed))


def difference(shown: View) -> Response:
    """Show what undoing a change would do."""
    entry = shown.query.get("entry", "")
    try:
        reply = shown.ask(changes.undo, entry=entry, dry_run=True)
        return shown.page("difference.html", difference=reply["difference"], why="", entry=entry)
    except SpellbookError as error:
        return shown.page("difference.html", difference="", why=error, entry=entry)


def undo(shown: View) -> Response:
    """Undo a change."""
    shown.ask(changes.undo, entry=shown.form.get("entry", ""))
    to = shown.form.get("to", "")
    path = unquote(to.partition("?")[0])
    try:
        _ = path.startswith("/note/") and shown.book.resolve(path.removeprefix("/note/"))
    except MemoryNotFound:  # the note was made, or moved here, by what is undone
        to = "/activity"
    return shown.back(shown.entry("undo"), to)


def restore(shown: View) -> Response:
    """Restore a file from the trash."""
    shown.ask(changes.restore, name=shown.form.get("name", ""))
    return shown.back(shown.entry("restore"))


ROUTES = [
    view.page("/activity", activity),
    view.page("/difference", difference),
    view.action("/do/undo", undo),
    view.action("/do/restore", restore),
]
