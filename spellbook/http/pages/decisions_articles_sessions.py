"""
The pages of decisions and checkpoints, of articles, which were saved from elsewhere, and of captured sessions; and the
page that writes a note, with the checks of an agent's note: a refused text comes back as it was typed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from spellbook.http import faults
from spellbook.http.api import changes, notes
from spellbook.http.pages import view
from spellbook.http.pages.notes import section
from spellbook.notes import article_text as saved
from spellbook.notes import decision_text as form
from spellbook.notes import dialogue as captured
from spellbook.notes import labels
from spellbook.system.errors import InvalidInput, SpellbookError
from spellbook.text import credentials
from spellbook.text.unicode import digest_of

_PAGE = 20
_MOST_DECISIONS = 100
_CHECKPOINTS = 3
_FIELDS = ("text", "title", "topic", "tags", "source", "scope")
_MOST_TOPICS = 50
"""Topics that the form proposes, the largest first."""


def decisions(shown: view.View) -> Response:
    """List decisions by topic, the latest topic first and its earliest decision first, and the newest checkpoints."""
    topic = shown.query.get("topic", "")
    outcome = shown.query.get("outcome", "")
    outcome = outcome if outcome in {*form.RESULTS, "pending"} else ""
    found = shown.book.memories.decisions.find(
        kind=labels.DECISION, limit=_MOST_DECISIONS, topic=topic, outcome=outcome
    )
    chains: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for item in found.items:  # they come newest first
        row = {**item.as_dict(), "title": item.chunk.title, "is_superseded": item.is_superseded}
        chains[item.chunk.topic].insert(0, row)
    checkpoints = shown.book.memories.decisions.find(kind=labels.CHECKPOINT, limit=_CHECKPOINTS)
    return shown.page(
        "decisions.html",
        chains=list(chains.items()),
        titles={item.chunk.note: item.chunk.title for item in found.items},
        total=found.total,
        shown_count=len(found.items),
        topic=topic,
        outcome=outcome,
        outcomes=("pending", *form.RESULTS),
        results=tuple(form.RESULTS),
        checkpoints=[(each, form.read_checkpoint(each.body)) for each in checkpoints.items],
    )


def outcome(shown: view.View) -> Response:
    """Record how a decision turned out."""
    return shown.change(
        changes.outcome,
        shown.form.get("id", ""),
        outcome=shown.form.get("outcome", ""),
        reason=shown.form.get("reason", "").strip(),
    )


def articles(shown: view.View) -> Response:
    """List articles, newest first, with the categories of all of them."""
    kept = shown.book.memories.articles
    offset = shown.number("offset", 0)
    category = shown.query.get("category", "")
    listed = kept.list(category[:200], _PAGE, offset)
    rows = [
        (each, labels.texts(each.meta.get("categories")) or [each.topic], saved.read(each.text).summary)
        for each in listed.notes
    ]
    return shown.page(
        "articles.html",
        rows=rows,
        categories=kept.categories(),
        category=category,
        total=listed.total,
        offset=offset,
        page=_PAGE,
    )


def save(shown: view.View) -> Response:
    """Save an address, or pasted text under a name."""
    source = shown.form.get("source", "").strip()
    done = shown.ask(changes.save, source=source, categories=_names(shown), text=shown.form.get("text", ""))
    return shown.back("save", done["path"], view.note_address(done["id"]))


def file(shown: view.View) -> Response:
    """Change the categories of an article."""
    return shown.change(notes.change, shown.form.get("id", ""), metadata={"categories": _names(shown)})


def sessions(shown: view.View) -> Response:
    """List captured sessions, newest first, with the number of exchanges of each."""
    offset = shown.number("offset", 0)
    listed = shown.book.recent(_PAGE, offset, {"category": "session", "trust": "agent"})
    return shown.page("sessions.html", listed=listed, chunks=shown.book.index.catalog.at, offset=offset, page=_PAGE)


def _names(shown: view.View) -> list[str]:
    """Return the categories of a form. Raises InvalidInput for none."""
    names: list[str] = labels.listed(shown.form.get("categories", ""), labels.COMMAS)
    if not names:
        raise InvalidInput("An article needs a category.", "Name one or more, with commas.")
    return names


def new(shown: view.View) -> Response:
    """Show the form, filled by the address: `title`, `text`, `topic`, `tags`, `url`; or an exchange's id to `keep`."""
    typed = {name: shown.query.get(name, "") for name in _FIELDS} | {"source": shown.query.get("url", "").strip()}
    if keep := shown.query.get("keep", ""):
        reply = shown.ask(notes.note, keep.rpartition("#")[0])
        words = captured.words(section(reply, keep).text)
        project = str(reply["meta"].get("scope") or "")
        typed |= {"text": words, "topic": project, "scope": project, "source": reply["note"]}
    text = typed["text"].strip()
    if not typed["source"] and re.fullmatch(r"https?://\S+", text):  # as some apps share an address
        typed["source"] = text
    return _form(shown, typed | {"text": typed["text"] or typed["source"]})


def _form(
    shown: view.View,
    typed: Mapping[str, str],
    error: SpellbookError | None = None,
    near: Sequence[Mapping[str, Any]] = (),
) -> Response:
    """Return the form with what was typed, and why it was not saved, if it was not."""
    index = shown.book.index
    reason = shown.translated(error.message.removeprefix("chunk 1: ")) if error else ""  # it is written alone
    topics = dict.fromkeys(topic for _, topic, _ in index.catalog.topic_counts(index.visible) if topic)
    status = faults.status_of(error) if error else 200
    return shown.page(
        "new.html",
        409 if near else status,
        typed=typed,
        inbox=labels.INBOX,
        topics=[*topics][:_MOST_TOPICS],
        error=error,
        reason=reason[:1].upper() + reason[1:],
        is_secret=bool(error and error.hint == credentials.HINT),
        is_erased=bool(error and "force=true" in error.hint),
        near=near,
        anyway=_digest(typed) if near or error else "",
    )


def write(shown: view.View) -> Response:
    """Write the note and go to it. A duplicate or a secret is written only if the very same text is sent for it."""
    typed = {name: shown.form.get(name, "") for name in _FIELDS}
    typed["text"] = typed["text"] or shown.form.get("q", "")  # of the box on Home
    lines = {name: " ".join(text.split()) for name, text in typed.items() if name != "text"}
    meta = {key: value for key, value in {**lines, "tags": labels.tags(lines["tags"])}.items() if value}
    is_sure = shown.form.get("anyway", "") == _digest(typed)
    try:
        done = shown.ask(notes.write, text=typed["text"], metadata=meta, force=is_sure)
    except SpellbookError as error:
        return _form(shown, typed, error)
    if done["status"] != "success":
        return _form(shown, typed, near=done["duplicates"])
    to = "/" if "q" in shown.form else view.note_address(done["chunk_id"])
    return shown.back("add", done["path"], to)


def _digest(typed: Mapping[str, str]) -> str:
    """Return the hash of a typed text: a browser sends its lines with CRLF."""
    return digest_of("\0".join(" ".join(typed[name].split()) for name in _FIELDS), 16)


ROUTES = [
    view.page("/new", new, "write"),
    view.action("/do/new", write),
    view.page("/decisions", decisions),
    view.page("/articles", articles),
    view.page("/sessions", sessions),
    view.action("/do/outcome", outcome),
    view.action("/do/save", save, waits=True),
    view.action("/do/file", file),
]
