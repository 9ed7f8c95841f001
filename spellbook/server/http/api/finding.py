"""Routes that find: search, why, recent, the table of contents, a topic, and the state of the server."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import Field

from spellbook import asof
from spellbook._version import __version__
from spellbook.book import Spellbook
from spellbook.search.question import Answer
from spellbook.server.http.api import answers
from spellbook.server.http.endpoints import Call, Endpoint, Given, JsonFilter

if TYPE_CHECKING:
    from spellbook.published import PublishedBook

Text = Annotated[str, Field(min_length=1, max_length=20_000)]
Texts = Annotated[
    tuple[Text, ...],
    Field(max_length=3, description="Further texts, such as the sentence you expect; repeat it for several."),
]
Tokens = Annotated[int, Field(ge=50, le=50_000, description="Size of the answer.")]
Mode = Literal["search", "memorize", "find"]
When = Annotated[str, Field(max_length=200, description="Written by then: a date, a git revision or a snapshot.")]
Offset = Annotated[int, Field(ge=0, le=10_000_000)]


class Search(Given):
    """A question, and how much of its answer."""

    q: Text
    also: Texts = ()
    mode: Mode = "search"
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    filter: JsonFilter = None
    min_score: Annotated[float | None, Field(ge=0, le=1)] = None
    max_tokens: Tokens = 2_000
    per_note: Annotated[int, Field(ge=0, le=100, description="Most chunks of one note; 0 is no bound.")] = 0
    as_of: When = ""


class Why(Given):
    """A question, and the note or chunk to explain."""

    q: Text
    also: Texts = ()
    id: Annotated[str, Field(max_length=4_000)] = ""
    mode: Mode = "search"
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    filter: JsonFilter = None


class Recent(Given):
    """Which of the newest notes."""

    limit: Annotated[int, Field(ge=1, le=100)] = 20
    offset: Offset = 0
    filter: JsonFilter = None
    as_of: When = ""


class Contents(Given):
    """Which part of the table of contents."""

    scope: Annotated[str, Field(max_length=500)] = ""
    max_tokens: Tokens = 50_000
    as_of: When = ""


class History(Given):
    """A note by its id or path, and how many of its versions."""

    id: Annotated[str, Field(min_length=1, max_length=4_000)]
    limit: Annotated[int, Field(ge=1, le=200)] = 20


class Around(Given):
    """A note by its id or path, and how many notes around it."""

    id: Annotated[str, Field(min_length=1, max_length=4_000)]
    limit: Annotated[int, Field(ge=1, le=300)] = 60


class Topic(Given):
    """A topic, as `topic` or `category/topic`."""

    name: Annotated[str, Field(min_length=1, max_length=2_000)]
    max_tokens: Tokens = 4_000
    as_of: When = ""


def search(call: Call, asked: Search) -> dict[str, Any]:
    """
    Search by meaning and words, by meaning alone (memorize), or by words alone (find).

    find takes each word by itself, and what stands in double quotes as a phrase.
    """
    with asof.at(call.book, asked.as_of) as then:
        return {**answer(then, asked).as_dict(), **asof.fields(then)}


def answer(book: Spellbook, asked: Search) -> Answer:
    """Return the answer to a question."""
    options: dict[str, Any] = {"limit": asked.limit, "filter": asked.filter, "max_tokens": asked.max_tokens}
    options |= {"per_note": asked.per_note}
    if asked.min_score is not None:
        options["min_score"] = asked.min_score
    if asked.mode == "find":
        return book.find(_phrases(asked.q), **options)
    if asked.mode == "memorize":
        return book.memorize(asked.q, **options)
    return book.search(asked.q, also=asked.also, **options)


def _phrases(text: str) -> list[str]:
    """Return the words of a text; what stands between double quotes is one phrase."""
    found = ("".join(each) for each in re.findall(r'"([^"]*)"|([^\s"]+)', text))
    return [each for each in found if each.strip()] or [text]


def why(call: Call, asked: Why) -> dict[str, Any]:
    """Explain the answer to a question, or what became of one note or chunk in it."""
    options: dict[str, Any] = {"limit": asked.limit, "filter": asked.filter}
    return call.book.why(asked.q, asked.id or None, asked.mode, also=asked.also, **options).as_dict()


def recent(call: Call, asked: Recent) -> dict[str, Any]:
    """List notes by date, newest first."""
    with asof.at(call.book, asked.as_of) as then:
        return {**then.recent(asked.limit, asked.offset, asked.filter).as_dict(), **asof.fields(then)}


def contents(call: Call, asked: Contents) -> dict[str, Any]:
    """The table of contents: categories with their topics."""
    from spellbook.server import render

    with asof.at(call.book, asked.as_of) as then:
        listed = render.contents_json(then.contents(asked.scope), asked.max_tokens, then.about)
        return {**listed, **asof.fields(then)}


def topic(call: Call, asked: Topic) -> dict[str, Any]:
    """The chunks of a topic in reading order, and the notes that link to it."""
    from spellbook.server import render

    with asof.at(call.book, asked.as_of) as then:
        found = then.topic(asked.name)
        linking = then.backlinks({chunk.path for chunk in found})
        return {**render.topic_json(asked.name, found, asked.max_tokens, linking), **asof.fields(then)}


def history(call: Call, asked: History) -> dict[str, Any]:
    """The versions of a note with their differences, newest first: from git, snapshots and the journal."""
    return asof.history(call.book, asked.id, asked.limit)


def graph(call: Call, asked: Around) -> dict[str, Any]:
    """The notes around a note, which comes first, and their links; an edge names two places in `notes`."""
    from spellbook.search import related

    if call.served.is_published:
        found = cast("PublishedBook", call.book).graph(asked.id, asked.limit)
    else:
        found = related.graph(call.book.index, call.book.resolve(asked.id).path, asked.limit)
    notes = [{"path": path, "id": id, "title": title} for path, id, title in found.notes]
    return {"notes": notes, "edges": [{"from": a, "to": b, "kind": kind} for a, b, kind in found.edges]}


def status(call: Call, _: Given) -> dict[str, Any]:
    """The state of the index and of this server; `clients` counts its MCP servers and open streams of events."""
    call.book.refresh()
    served, doors = call.served, call.request.app.state.doors
    return {
        **call.book.status(),
        "version": __version__,
        "uptime_s": round(time.monotonic() - served.started, 1),
        "toolsets": list(served.toolsets),
        "clients": {"mcp": doors.count, "events": served.jobs.feed.listeners},
    }


ENDPOINTS = (
    Endpoint("GET", "/api/status", status, {200: answers.Status}),
    Endpoint("GET", "/api/index", contents, {200: answers.Contents}, Contents),
    Endpoint("GET", "/api/topic", topic, {200: answers.Topic}, Topic),
    Endpoint("GET", "/api/graph", graph, {200: answers.Graph}, Around),
    Endpoint("GET", "/api/search", search, {200: answers.Found}, Search),
    Endpoint("GET", "/api/why", why, {200: answers.Why}, Why),
    Endpoint("GET", "/api/history", history, {200: answers.History}, History),
    Endpoint("GET", "/api/recent", recent, {200: answers.Listed}, Recent),
)
