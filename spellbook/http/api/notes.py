"""Routes of notes: read, write, change and erase them. An `ETag` is the hash of a note's file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from spellbook.editing.revise import LEFT
from spellbook.http.endpoints import Call, Endpoint, Reply
from spellbook.index.catalog.usage import local
from spellbook.library.reader import Reader
from spellbook.mcp import render
from spellbook.mcp.arguments import phrase
from spellbook.search.presentation import note_fields
from spellbook.search.related import Around
from spellbook.system.errors import InvalidInput
from spellbook.verbs import table

_MOST_ENTRIES = 20
_LATEST = 50
"""Latest entries that are searched for one just made: other processes may have added some since."""


def note(call: Call, as_of: str) -> Reply:
    """Read a note, or one chunk of it, with its file's text, links, relations, use and changes."""
    id, book = call.id, call.book
    path = book.resolve(id, as_of).path
    data = book.index.vault.read(path)[0]
    etag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
    headers = {"ETag": etag}
    if _matches(call.request.headers.get("if-none-match", ""), etag):
        return Reply(None, 304, headers)
    chunks = book.show(id, as_of)
    around = book.around(path)
    use = book.index.catalog.usage.of([chunks[0].note]).get(chunks[0].note)
    fields = {
        **note_fields(id, chunks, around, book.superseded(chunks)),
        "note": chunks[0].note,
        "hash": etag.strip('"'),
        "text": data.decode("utf-8", "replace"),
        "relations": _relations(around),
        "use": {"count": use.count, "last": local(use.last)} if use else None,
        "log": entries(book, _MOST_ENTRIES, path),
        "fault": [asdict(each) for each in book.index.catalog.notes.faults() if each.path == path],
    }
    return Reply(fields, 200, headers)


def _matches(header: str, etag: str) -> bool:
    """Say whether an If-None-Match header names this tag."""
    tags = {each.strip().removeprefix("W/") for each in header.split(",")}
    return bool(tags & {etag, "*"})


def _relations(around: Around) -> dict[str, list[str]]:
    """Return the ids of related notes by relation; those that other notes say begin with `by:`."""
    named: dict[str, list[str]] = {}
    for link in around.links:
        if link.relation and link.id:
            named.setdefault(link.relation, []).append(link.id)
    for back in around.backlinks:
        for relation in back.relations:
            named.setdefault(f"by:{relation}", []).append(back.id)
    return {key: list(dict.fromkeys(ids)) for key, ids in named.items()}


def entries(book: Reader, most: int, path: str = "") -> list[dict[str, Any]]:
    """Return the latest entries of the journal, or those that changed the file at `path`."""
    return [each.as_dict() for each in book.log(most, path)]


def entry_of(book: Reader, verb: str, path: str = "") -> int | None:
    """Return the latest entry of the journal by a verb, about the file at `path` if one is given; None if none is."""
    entries = (each for each in book.log(_LATEST) if each.verb == verb)
    return next((each.id for each in entries if not path or path in {trace.path for trace in each.traces}), None)


def write(call: Call, text: str, metadata: dict[str, Any], force: bool) -> Reply:
    """Write a note. A duplicate is not written but named, unless `force`."""
    chunk = {"text": text, "metadata": metadata}
    (row,) = render.scribed(call.book.whole.scribe(chunk, labels="derived", force=force))
    return Reply(row, 201 if row["status"] == "success" else 200)


def change(call: Call, replace: dict[str, Any] | None, expected_hash: str, **changes: Any) -> dict[str, Any]:
    """Change a section (content), append, replace a phrase, or set frontmatter keys. 409 shows both sides."""
    old_and_new, every = phrase(replace)
    expected = _expected_hash(call.request.headers, expected_hash) or None
    return asdict(call.book.whole.revise(call.id, expected_hash=expected, replace=old_and_new, every=every, **changes))


def _expected_hash(headers: Mapping[str, str], from_body: str) -> str:
    """Return the hash that a change is for, from the body or from If-Match. Raises InvalidInput if they differ."""
    tag = headers.get("if-match", "").strip().removeprefix("W/").strip('"')
    tag = "" if tag == "*" else tag
    if len(tag) > 64 or "," in tag:
        raise InvalidInput("If-Match names no hash of a note.", "Send the ETag that GET gave, one alone.")
    if tag and from_body and tag != from_body:
        raise InvalidInput("If-Match and expected_hash differ.", "Give one of them.")
    return from_body or tag


def erase(call: Call, hard: bool) -> dict[str, Any]:
    """Erase a note or a section: it goes to .trash, from where restore and undo bring it back, unless `hard`."""
    done = call.book.whole.erase(call.id, hard=hard)
    path = done.trash[0] if done.trash else ""
    hint = {"hint": LEFT} if hard else {}
    return {"status": "erased", **asdict(done), **hint, "entry": entry_of(call.book, "erase", path) if path else None}


ENDPOINTS = (
    Endpoint("GET", "/api/notes/{id}", note, table.SHOW, (200, 304)),
    Endpoint("POST", "/api/notes", write, table.WRITE, (201, 200)),
    Endpoint("PATCH", "/api/notes/{id}", change, table.REVISE.without("chunk_id")),
    Endpoint("DELETE", "/api/notes/{id}", erase, table.ERASE),
)
