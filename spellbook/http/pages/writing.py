"""The page that writes a note, with the checks of an agent's note; a refused text comes back as it was typed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from spellbook.http import faults
from spellbook.http.api import notes
from spellbook.http.pages import view
from spellbook.http.pages.notes import section
from spellbook.http.pages.view import View
from spellbook.memories.memories import CATEGORY, INBOX
from spellbook.notes import dialogue
from spellbook.system.errors import SpellbookError
from spellbook.text import credentials
from spellbook.text.unicode import digest_of

_FIELDS = ("text", "title", "topic", "tags", "source", "scope")
_MOST_TOPICS = 50
"""Topics that the form proposes, the largest first."""


def new(shown: View) -> Response:
    """Show the form, filled by the address: `title`, `text`, `topic`, `tags`, `url`; or an exchange's id to `keep`."""
    typed = {name: shown.query.get(name, "") for name in _FIELDS} | {"source": shown.query.get("url", "").strip()}
    if keep := shown.query.get("keep", ""):
        reply = shown.ask(notes.note, keep.rpartition("#")[0])
        words, project = dialogue.words(section(reply, keep).text), str(reply["meta"].get("scope") or "")
        typed |= {"text": words, "topic": project, "scope": project, "source": reply["note"]}
    text = typed["text"].strip()
    if not typed["source"] and re.fullmatch(r"https?://\S+", text):  # as some apps share an address
        typed["source"] = text
    return _form(shown, typed | {"text": typed["text"] or typed["source"]})


def _form(
    shown: View, typed: Mapping[str, str], error: SpellbookError | None = None, near: Sequence[Mapping[str, Any]] = ()
) -> Response:
    """Return the form with what was typed, and why it was not saved, if it was not."""
    index = shown.book.index
    topics = dict.fromkeys(topic for _, topic, _ in index.catalog.topic_counts(index.visible) if topic)
    return shown.page(
        "new.html",
        faults.status_of(error) if error else 409 if near else 200,
        typed=typed,
        inbox=INBOX,
        topics=[*topics][:_MOST_TOPICS],
        error=error,
        reason=_reason(shown, error) if error else "",
        is_secret=bool(error and error.hint == credentials.HINT),
        near=near,
        anyway=_digest(typed) if near or error else "",
    )


def _reason(shown: View, error: SpellbookError) -> str:
    """Return why a note was refused, as of a note that is written alone."""
    reason = shown.translated(error.message.removeprefix("chunk 1: "))
    return reason[:1].upper() + reason[1:]


def write(shown: View) -> Response:
    """Write the note and go to it. A duplicate or a secret is written only if the very same text is sent for it."""
    typed = {name: shown.form.get(name, "") for name in _FIELDS}
    typed["text"] = typed["text"] or shown.form.get("q", "")  # of the box on Home
    lines = {name: " ".join(text.split()) for name, text in typed.items() if name != "text"}
    meta = {
        "category": CATEGORY,
        "topic": lines["topic"] or INBOX,
        "title": lines["title"] or None,
        "tags": [tag for each in lines["tags"].split(",") if (tag := each.strip().lstrip("#"))] or None,
        "source": lines["source"] or None,
        "scope": lines["scope"] or None,
    }
    meta = {key: value for key, value in meta.items() if value}
    is_sure = shown.form.get("anyway", "") == _digest(typed)
    try:
        done = shown.ask(notes.write, text=typed["text"], metadata=meta, force=is_sure)
    except SpellbookError as error:
        return _form(shown, typed, error)
    if done["status"] != "success":
        return _form(shown, typed, near=done["duplicates"])
    to = "/" if "q" in shown.form else view.note_address(done["chunk_id"])
    return shown.back("scribe", done["path"], to)


def _digest(typed: Mapping[str, str]) -> str:
    """Return the hash of a typed text: a browser sends its lines with CRLF."""
    return digest_of("\0".join(" ".join(typed[name].split()) for name in _FIELDS), 16)


ROUTES = [view.page("/new", new, "write"), view.action("/do/new", write)]
