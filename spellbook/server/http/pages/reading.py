"""The pages of articles, which were saved from elsewhere, and of captured sessions."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from spellbook.notes import articles as form
from spellbook.notes.labels import texts
from spellbook.server.http.api import changes, notes
from spellbook.server.http.pages import view
from spellbook.server.http.pages.view import View
from spellbook.system.errors import InvalidInput

_PAGE = 20


def articles(shown: View) -> Response:
    """List articles, newest first, with the categories of all of them."""
    offset = shown.number("offset", 0)
    category = shown.query.get("category", "")[:200]
    reply = shown.ask(changes.articles, category=category, limit=_PAGE, offset=offset)
    rows: list[dict[str, Any]] = []
    for row in reply["articles"]:
        chunk = shown.book.resolve(row["id"])
        about = {key: str(chunk.meta.get(key) or "") for key in ("author", "published")}
        about["summary"] = form.read(chunk.text).summary
        names = texts(chunk.meta.get("categories")) or [chunk.topic]
        rows.append({"chunk": chunk, "categories": names, **about})
    more = offset + len(rows) < reply["total"]
    return shown.page("articles.html", reply=reply, rows=rows, category=category, offset=offset, page=_PAGE, more=more)


def save(shown: View) -> Response:
    """Save an address, or pasted text under a name."""
    names = _names(shown.form.get("categories", ""))
    source, text = shown.form.get("source", "").strip(), shown.form.get("text", "")
    done = shown.ask(changes.save, source=source, categories=names, text=text)
    return shown.back(shown.entry("save", done["path"]), view.note_address(done["id"]))


def file(shown: View) -> Response:
    """Change the categories of an article."""
    names = _names(shown.form.get("categories", ""))
    done = shown.ask(notes.change, shown.form.get("id", ""), metadata={"categories": names})
    return shown.back(shown.entry("revise", done["path"]))


def sessions(shown: View) -> Response:
    """List captured sessions, newest first, with the number of exchanges of each."""
    offset = shown.number("offset", 0)
    listed, chunks = (
        shown.book.recent(_PAGE, offset, {"category": "session", "trust": "agent"}),
        shown.book.index.catalog.at,
    )
    return shown.page("sessions.html", listed=listed, chunks=chunks, offset=offset, page=_PAGE)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidInput("An article needs a category.", "Name one or more, with commas.")
    return names


ROUTES = [view.page("/articles", articles), view.page("/sessions", sessions)]
ROUTES += [view.action("/do/save", save, waits=True), view.action("/do/file", file)]
