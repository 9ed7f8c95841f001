"""Routes of long work: the jobs, and the stream of events that tells of them and of changes in the index."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from sse_starlette.sse import EventSourceResponse, SendTimeoutError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from spellbook.server.http.callers import Caller
from spellbook.server.http.served import Served, caller_of, in_thread, served_of
from spellbook.server.jobs import Job, LatestValue
from spellbook.system.errors import SpellbookError
from spellbook.text.quoting import json_of

PING = 15
"""Seconds between comments, by which proxies and clients see that the stream is alive."""

LOOK = 1.0
"""Seconds between looks at the index, which other processes change as well; one look serves all listeners."""

_PAUSE = 0.2
"""Seconds between rounds of events: a job reports hundreds of times a second."""

SEND = 30.0
"""Seconds within which a listener must take an event; otherwise it is cut off."""


def shown(job: Job, who: Caller) -> dict[str, Any]:
    """Return a job as JSON. Its result and the words of an error name notes that not every caller may see."""
    row = job.as_dict()
    if who.is_limited:
        row.pop("result", None)
        if job.error:
            row["error"] = {"code": job.error["code"]}
    return row


def _without_result(job: Job, who: Caller) -> dict[str, Any]:
    return {key: value for key, value in shown(job, who).items() if key != "result"}


async def jobs(request: Request) -> Response:
    """GET: the running job and those that ended last, newest first, without their results."""
    who = caller_of(request)
    who.require("read")
    return _json({"jobs": [_without_result(each, who) for each in served_of(request).jobs.all()]})


async def job(request: Request) -> Response:
    """GET: one job."""
    who = caller_of(request)
    who.require("read")
    return _json(shown(served_of(request).jobs.job(request.path_params["id"]), who))


async def cancel(request: Request) -> Response:
    """DELETE: ask a job to stop. 202 while it still runs, 200 once it has ended."""
    who = caller_of(request)
    who.require("write")
    job = served_of(request).jobs.cancel(request.path_params["id"])
    return _json(shown(job, who), 202 if job.state == "running" else 200)


async def events(request: Request) -> Response:
    """
    GET: a stream of server-sent events, which starts with how things are.

    `generation` when the index has changed, `job` when one has begun, gone on or ended (without its result),
    `degraded` when answers have become incomplete or complete again. A browser that connects again names the last
    event that it got, and gets what it missed.
    """

    class Stream(EventSourceResponse):
        """Ends quietly when the listener is cut off."""

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            with contextlib.suppress(SendTimeoutError):
                await super().__call__(scope, receive, send)

    who = caller_of(request)
    who.require("read")
    served = served_of(request)
    name, _, number = request.headers.get("last-event-id", "").partition("-")
    feed = served.jobs.feed
    if name == feed.name and number.isdecimal():
        stream = _stream(served, who, after=int(number[:15]))
    else:
        stream = _stream(served, who, at_start=feed.number)
    return Stream(stream, ping=PING, send_timeout=SEND)


async def _stream(
    served: Served, who: Caller, *, after: int = 0, at_start: int = 0
) -> AsyncIterator[Mapping[str, str]]:
    """Yield the changes since `after`, without jobs that had ended before the change `at_start`."""
    feed = served.jobs.feed
    last: dict[str, dict[str, Any]] = {}
    await _look(served)
    async with contextlib.aclosing(feed.listen(after, every=LOOK, pause=_PAUSE)) as changes:
        async for change in changes:
            is_over = change and change.event == "job" and change.data.state != "running"
            if change and (change.number > at_start or not is_over):
                data = await data_of(served, change, who)
                if change.event != "job" and last.get(change.event) == data:
                    continue  # of what the caller does not see
                last[change.event] = data
                yield {"event": change.event, "data": json_of(data), "id": f"{feed.name}-{change.number}"}
            await _look(served)


async def data_of(served: Served, change: LatestValue, who: Caller) -> dict[str, Any]:
    """Return the data of an event, as a caller may know it."""
    if change.event == "job":
        return _without_result(change.data, who)
    if who.vaults and change.event == "generation":
        try:
            state = await in_thread(served.book_of(who).state)
        except SpellbookError:  # the next event says it
            return {"generation": 0}
        return {"generation": state.generation}
    data: dict[str, Any] = change.data
    return {change.event: data[change.event]} if who.is_limited else data


async def _look(served: Served) -> None:
    """Say how the index is now, unless that was done less than `LOOK` seconds ago."""
    feed, now = served.jobs.feed, time.monotonic()
    if feed.looked + LOOK > now:
        return
    feed.looked = now  # the others need not, even while this look waits
    try:
        state = await in_thread(served.book.state)
    except SpellbookError as error:
        feed.set("degraded", {"degraded": True, "reason": str(error)})
        return
    counts = {"generation": state.generation, "notes": state.notes, "chunks": state.chunks, "pending": state.pending}
    feed.set("generation", counts)
    feed.set("degraded", {"degraded": state.degraded, "reason": state.reason})


def _json(value: object, status: int = 200) -> Response:
    return Response(json_of(value), status, media_type="application/json")


ROUTES = [
    Route("/api/jobs", jobs),
    Route("/api/jobs/{id}", job),
    Route("/api/jobs/{id}", cancel, methods=["DELETE"]),
    Route("/api/events", events),
]
