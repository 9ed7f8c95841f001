"""The table of contents: categories, their topics, and the notes of one topic."""

from __future__ import annotations

from starlette.responses import Response

from spellbook.server.http.pages import view
from spellbook.server.http.pages.view import View
from spellbook.system.errors import Conflict
from spellbook.text.quoting import counted

_MOST_TOPICS = 60
"""Topics of a category that are listed before it is opened by itself."""

_PAGE = 100


def contents(shown: View) -> Response:
    """List categories with their topics, one category, or the notes of a topic."""
    if name := shown.query.get("topic", ""):
        return _topic(shown, name)
    only = shown.query.get("category")
    listed = shown.book.contents()
    if only is not None:
        listed = tuple(each for each in listed if each.name == only)
    most = len(max((each.topics for each in listed), key=len, default=())) if only is not None else _MOST_TOPICS
    return shown.page("contents.html", categories=listed, most=most)


def _topic(shown: View, name: str) -> Response:
    notes = list({chunk.note: chunk for chunk in reversed(shown.book.topic(name))}.values())[::-1]
    offset = shown.number("offset", 0)
    listed = notes[offset : offset + _PAGE]
    return shown.page("topic.html", name=name, notes=listed, total=len(notes), offset=offset, page=_PAGE)


def erase(shown: View) -> Response:
    """Ask whether to erase the notes of a topic, which are listed, then move them to the trash."""
    name = shown.form.get("topic", "")
    chunks = shown.book.topic(name)
    notes = list({chunk.note: chunk for chunk in chunks}.values())
    if shown.form.get("sure") != "yes":
        return shown.page("erase.html", chunk=None, id="", linked=(), notes=notes, topic=name)
    if shown.form.get("count") != str(len(notes)):
        raise Conflict(
            f"The topic has {counted(len(notes), 'note')} now.", "Look at the list again; nothing was erased."
        )
    shown.book.whole.erase_topic(name)
    return shown.back(shown.entry("erase"), "/activity")


ROUTES = [view.page("/contents", contents), view.action("/do/erase-topic", erase)]
