"""
Routes of notes, which find, read, write, change and erase them; the state of the server, and /health.

An `ETag` is the hash of a note's file.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from spellbook import __version__
from spellbook.editing.erase import LEFT
from spellbook.http.endpoints import Call, Endpoint, Reply
from spellbook.http.headers import API
from spellbook.http.served import Served, served_of
from spellbook.index.catalog.usage import local
from spellbook.library import history as kept
from spellbook.library.reader import Reader
from spellbook.mcp import render, table_of_contents
from spellbook.mcp.arguments import phrase
from spellbook.search.presentation import note_fields, relations
from spellbook.search.question import Answer
from spellbook.system.errors import InvalidInput
from spellbook.system.threads import checking
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
    named = {each.strip().removeprefix("W/") for each in call.request.headers.get("if-none-match", "").split(",")}
    if named & {etag, "*"}:
        return Reply(None, 304, headers)
    chunks = book.show(id, as_of)
    around = book.around(path)
    use = book.index.catalog.usage.of([chunks[0].note]).get(chunks[0].note)
    return Reply(
        {
            **note_fields(id, chunks, around, book.superseded(chunks)),
            "note": chunks[0].note,
            "hash": etag.strip('"'),
            "text": data.decode("utf-8", "replace"),
            "relations": relations(around),
            "use": {"count": use.times, "last": local(use.last)} if use else None,
            "log": [each.as_dict() for each in book.log(_MOST_ENTRIES, path)],
            "fault": [asdict(each) for each in book.index.catalog.notes.faults() if each.path == path],
        },
        200,
        headers,
    )


def entry_of(book: Reader, verb: str, path: str = "") -> int | None:
    """Return the latest entry of the journal by a verb, about the file at `path` if one is given; None if none is."""
    entries = (each for each in book.log(_LATEST) if each.verb == verb)
    return next((each.id for each in entries if not path or path in {trace.path for trace in each.traces}), None)


def write(call: Call, text: str, metadata: dict[str, Any], force: bool) -> Reply:
    """Write a note. A duplicate is not written but named, unless `force`."""
    done = call.book.whole.scribe({"text": text, "metadata": metadata}, labels="derived", force=force)
    (row,) = render.scribed(done)
    return Reply(row, 201 if row["status"] == "success" else 200)


def change(call: Call, replace: dict[str, Any] | None, expected_hash: str, **changes: Any) -> dict[str, Any]:
    """Change a section (content), append, replace a phrase, or set frontmatter keys. 409 shows both sides."""
    old_and_new, every = phrase(replace)
    tag = call.request.headers.get("if-match", "").strip().removeprefix("W/").strip('"')
    tag = "" if tag == "*" else tag
    if len(tag) > 64 or "," in tag:
        raise InvalidInput("If-Match names no hash of a note.", "Send the ETag that GET gave, one alone.")
    if tag and expected_hash and tag != expected_hash:
        raise InvalidInput("If-Match and expected_hash differ.", "Give one of them.")
    changes |= {"expected_hash": expected_hash or tag or None, "replace": old_and_new, "every": every}
    return asdict(call.book.whole.revise(call.id, **changes))


def erase(call: Call, hard: bool) -> dict[str, Any]:
    """Erase a note or a section: it goes to .trash, from where restore and undo bring it back, unless `hard`."""
    done = call.book.whole.erase(call.id, hard=hard)
    path = done.trash[0] if done.trash else ""
    hint = {"hint": LEFT} if hard else {}
    return {"status": "erased", **asdict(done), **hint, "entry": entry_of(call.book, "forget", path) if path else None}


def search(call: Call, **question: Any) -> dict[str, Any]:
    """
    Search by meaning and words, by meaning alone (memorize), or by words alone (find).

    find takes each word by itself, and what stands in double quotes as a phrase.
    """
    return answer(call.book, **question).as_dict()


def answer(book: Reader, query: str, mode: str, also: Sequence[str] = (), **options: Any) -> Answer:
    """Return the answer to a question."""
    if mode == "find":
        parts = ("".join(each) for each in re.findall(r'"([^"]*)"|([^\s"]+)', query))  # between quotes, one phrase
        return book.find([each for each in parts if each.strip()] or [query], **options)
    if mode == "memorize":
        return book.memorize(query, **options)
    return book.search(query, also=also, **options)


def why(call: Call, query: str, id: str, mode: str, **options: Any) -> dict[str, Any]:
    """Explain the answer to a question, or what became of one note or chunk in it."""
    return call.book.why(query, id or None, mode, **options).as_dict()


def recent(call: Call, **bounds: Any) -> dict[str, Any]:
    """List notes by date, newest first."""
    return call.book.recent(**bounds).as_dict()


def contents(call: Call, scope: str, max_tokens: int) -> dict[str, Any]:
    """The table of contents: categories with their topics."""
    return table_of_contents.as_json(call.book.contents(scope), max_tokens, call.book.about)


def topic(call: Call, name: str, max_tokens: int) -> dict[str, Any]:
    """The chunks of a topic in reading order, and the notes that link to it."""
    chunks = call.book.topic(name)
    linking = call.book.backlinks({chunk.path for chunk in chunks})
    return render.topic_json(name, chunks, max_tokens, linking, call.book.superseded(chunks))


def history(call: Call, id: str, limit: int) -> dict[str, Any]:
    """The versions of a note with their differences, newest first: from git and the journal."""
    return kept.versions(call.book, id, limit)


def vault_graph(call: Call, limit: int) -> dict[str, Any]:
    """The notes of the whole vault and their links, the most linked notes first; `total` counts those left out too."""
    graph = call.book.vault_graph(limit)
    return {
        "notes": [{**note._asdict(), "links": links} for note, links in zip(graph.notes, graph.degrees, strict=True)],
        "edges": [{"from": a, "to": b, "kind": kind} for a, b, kind in graph.edges],
        "total": graph.total,
    }


def status(call: Call) -> dict[str, Any]:
    """The state of the index and, for who sees all notes, of this server; `clients` counts its MCP servers."""
    call.book.refresh()
    if call.caller.is_limited:
        return call.book.status()
    return {
        **call.book.status(),
        "version": __version__,
        "uptime_s": round(time.monotonic() - call.served.started, 1),
        "toolsets": list(call.served.toolsets),
        "clients": {"mcp": len(call.request.app.state.doors.servers)},
    }


async def health(request: Request) -> JSONResponse:
    """Answer 200, or 503 if the notes' folder is away, or elsewhere. It tells nothing of the notes."""
    lacks = await to_thread.run_sync(_lacks, served_of(request), limiter=checking())
    shown = {"status": "degraded" if lacks else "ok", "version": __version__, "api": API}
    return JSONResponse({**shown, "reason": lacks} if lacks else shown, 503 if lacks else 200)


def _lacks(here: Served) -> str:
    """Return the reason why nothing can be answered, "" for none."""
    if not here.book.config.vault.is_dir():
        return "The vault is not there."
    if here.book.config.is_elsewhere:
        return "The vault's path leads to another folder than its index came from. Start the server again."
    return ""


async def about(request: Request) -> JSONResponse:
    """Tell a program that asks for / the addresses of this server; a browser gets a page."""
    return JSONResponse({"name": "Spellbook", "mcp": "/mcp", "api": "/api/openapi.json", "health": "/health"})


ENDPOINTS = (
    Endpoint("GET", "/api/status", status, table.STATUS),
    Endpoint("GET", "/api/index", contents, table.WHOLE_CONTENTS),
    Endpoint("GET", "/api/topic", topic, table.TOPIC, names={"name": "topic"}),
    Endpoint("GET", "/api/graph/whole", vault_graph, table.VAULT_GRAPH),
    Endpoint("GET", "/api/search", search, table.SEARCH.without("category", "format", "explain")),
    Endpoint("GET", "/api/why", why, table.WHY.without("min_score"), names={"mode": "verb"}),
    Endpoint("GET", "/api/history", history, table.HISTORY),
    Endpoint("GET", "/api/recent", recent, table.RECENT.without("format")),
    Endpoint("GET", "/api/notes/{id}", note, table.SHOW, (200, 304)),
    Endpoint("POST", "/api/notes", write, table.WRITE, (201, 200)),
    Endpoint("PATCH", "/api/notes/{id}", change, table.REVISE.without("chunk_id")),
    Endpoint("DELETE", "/api/notes/{id}", erase, table.ERASE),
)
ROUTES = [Route("/health", health)]
