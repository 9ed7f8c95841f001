"""Routes that find: search, why, recent, the table of contents, a topic; and the state of the server, and /health."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from spellbook import __version__
from spellbook.http.endpoints import Call, Endpoint
from spellbook.http.guard import API
from spellbook.http.served import Served, served_of
from spellbook.library import history as kept
from spellbook.library.reader import Reader
from spellbook.mcp import render
from spellbook.mcp.base import limiter
from spellbook.search.question import Answer
from spellbook.verbs import table

_checking: RunVar[CapacityLimiter] = RunVar("spellbook.checking")
_CHECKING = 2
"""Threads that strangers can make wait for a disk that hangs."""


def search(call: Call, **question: Any) -> dict[str, Any]:
    """
    Search by meaning and words, by meaning alone (memorize), or by words alone (find).

    find takes each word by itself, and what stands in double quotes as a phrase.
    """
    return answer(call.book, **question).as_dict()


def answer(book: Reader, query: str, mode: str, also: Sequence[str] = (), **options: Any) -> Answer:
    """Return the answer to a question."""
    if mode == "find":
        return book.find(_phrases(query), **options)
    if mode == "memorize":
        return book.memorize(query, **options)
    return book.search(query, also=also, **options)


def _phrases(text: str) -> list[str]:
    """Return the words of a text; what stands between double quotes is one phrase."""
    parts = ("".join(each) for each in re.findall(r'"([^"]*)"|([^\s"]+)', text))
    return [each for each in parts if each.strip()] or [text]


def why(call: Call, query: str, id: str, mode: str, **options: Any) -> dict[str, Any]:
    """Explain the answer to a question, or what became of one note or chunk in it."""
    return call.book.why(query, id or None, mode, **options).as_dict()


def recent(call: Call, **bounds: Any) -> dict[str, Any]:
    """List notes by date, newest first."""
    return call.book.recent(**bounds).as_dict()


def contents(call: Call, scope: str, max_tokens: int) -> dict[str, Any]:
    """The table of contents: categories with their topics."""
    return render.contents_json(call.book.contents(scope), max_tokens, call.book.about)


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
    notes = [{**note._asdict(), "links": links} for note, links in zip(graph.notes, graph.degrees, strict=True)]
    return {
        "notes": notes,
        "edges": [{"from": a, "to": b, "kind": kind} for a, b, kind in graph.edges],
        "total": graph.total,
    }


def status(call: Call) -> dict[str, Any]:
    """The state of the index and of this server; `clients` counts its MCP servers."""
    call.book.refresh()
    return {
        **call.book.status(),
        "version": __version__,
        "uptime_s": round(time.monotonic() - call.served.started, 1),
        "toolsets": list(call.served.toolsets),
        "clients": {"mcp": call.request.app.state.doors.count},
    }


async def health(request: Request) -> JSONResponse:
    """Answer 200, or 503 if the notes' folder is away, or elsewhere. It tells nothing of the notes."""
    here = served_of(request)
    lacks = await to_thread.run_sync(_lacks, here, limiter=limiter(_checking, _CHECKING))
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
    Endpoint("GET", "/api/search", search, table.SEARCH.without("category", "format", "explain"), is_shared=True),
    Endpoint("GET", "/api/why", why, table.WHY.without("min_score"), names={"mode": "verb"}),
    Endpoint("GET", "/api/history", history, table.HISTORY),
    Endpoint("GET", "/api/recent", recent, table.RECENT.without("format")),
)
ROUTES = [Route("/health", health)]
