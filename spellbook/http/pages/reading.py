"""The pages of decisions and checkpoints, of articles, which were saved from elsewhere, and of captured sessions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from spellbook.http.api import changes, notes
from spellbook.http.pages import view
from spellbook.http.pages.view import View
from spellbook.memories.decisions import DecisionItem
from spellbook.notes import articles as saved
from spellbook.notes import decisions as form
from spellbook.notes.labels import texts
from spellbook.system.errors import InvalidInput

_PAGE = 20
_MOST_DECISIONS = 100
_CHECKPOINTS = 3


def decisions(shown: View) -> Response:
    """List decisions by topic, the latest topic first and its earliest decision first, and the newest checkpoints."""
    topic, outcome = shown.query.get("topic", ""), shown.query.get("outcome", "")
    outcome = outcome if outcome in {*form.RESULTS, "pending"} else ""
    found = shown.book.memories.decisions.find(kind=form.DECISION, limit=_MOST_DECISIONS, topic=topic, outcome=outcome)
    checkpoints = shown.book.memories.decisions.find(kind=form.CHECKPOINT, limit=_CHECKPOINTS)
    return shown.page(
        "decisions.html",
        chains=_chains(found.items),
        titles={item.chunk.note: item.chunk.title for item in found.items},
        total=found.total,
        shown_count=len(found.items),
        topic=topic,
        outcome=outcome,
        outcomes=("pending", *form.RESULTS),
        results=tuple(form.RESULTS),
        checkpoints=[(each, form.read_checkpoint(each.body)) for each in checkpoints.items],
    )


def _chains(items: Sequence[DecisionItem]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the decisions of each topic, the earliest first. They come newest first, so topics do too."""
    chains: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for item in items:
        row = {**item.as_dict(), "title": item.chunk.title, "is_superseded": item.is_superseded}
        chains[item.chunk.topic].insert(0, row)
    return list(chains.items())


def outcome(shown: View) -> Response:
    """Record how a decision turned out."""
    fields = {"outcome": shown.form.get("outcome", ""), "reason": shown.form.get("reason", "").strip()}
    done = shown.ask(changes.outcome, shown.form.get("id", ""), **fields)
    return shown.back("revise", done["path"])


def articles(shown: View) -> Response:
    """List articles, newest first, with the categories of all of them."""
    kept, offset, category = shown.book.memories.articles, shown.number("offset", 0), shown.query.get("category", "")
    listed = kept.list(category[:200], _PAGE, offset)
    rows = [
        (each, texts(each.meta.get("categories")) or [each.topic], saved.read(each.text).summary)
        for each in listed.notes
    ]
    values: dict[str, Any] = {"rows": rows, "categories": kept.categories(), "category": category}
    return shown.page("articles.html", **values, total=listed.total, offset=offset, page=_PAGE)


def save(shown: View) -> Response:
    """Save an address, or pasted text under a name."""
    names = _names(shown.form.get("categories", ""))
    source, text = shown.form.get("source", "").strip(), shown.form.get("text", "")
    done = shown.ask(changes.save, source=source, categories=names, text=text)
    return shown.back("save", done["path"], view.note_address(done["id"]))


def file(shown: View) -> Response:
    """Change the categories of an article."""
    names = _names(shown.form.get("categories", ""))
    done = shown.ask(notes.change, shown.form.get("id", ""), metadata={"categories": names})
    return shown.back("revise", done["path"])


def sessions(shown: View) -> Response:
    """List captured sessions, newest first, with the number of exchanges of each."""
    offset = shown.number("offset", 0)
    listed = shown.book.recent(_PAGE, offset, {"category": "session", "trust": "agent"})
    return shown.page("sessions.html", listed=listed, chunks=shown.book.index.catalog.at, offset=offset, page=_PAGE)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidInput("An article needs a category.", "Name one or more, with commas.")
    return names


ROUTES = [
    view.page("/decisions", decisions),
    view.page("/articles", articles),
    view.page("/sessions", sessions),
    view.action("/do/outcome", outcome),
    view.action("/do/save", save, waits=True),
    view.action("/do/file", file),
]
