"""The routes of jobs and events, against the app itself."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from spellbook.library import book as books
from spellbook.library.book import Spellbook
from spellbook.server import jobs as work
from spellbook.server.http import faults
from spellbook.server.http.api import events
from spellbook.server.http.callers import Caller
from spellbook.server.http.served import Served
from spellbook.system.errors import InvalidInput, SpellbookError
from tests.helpers import PATIENCE

LOCAL, LIMITED = Caller(), Caller("ann", "read", "team")


def app_of(served: Served, who: Caller = LOCAL) -> Any:
    """The routes of this module alone, as `who` has them: without a name, a program of this machine."""
    app = Starlette(routes=events.ROUTES, exception_handlers={SpellbookError: faults.of_spellbook})
    app.state.served = served

    async def as_caller(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "spellbook.caller": who}, receive, send)

    return as_caller


@pytest.fixture
def served(book: Spellbook) -> Iterator[Served]:
    """A served book."""
    made = Served(book)
    yield made
    made.jobs.close()


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a job waits for."""
    made = threading.Event()
    yield made
    made.set()


def waiting(gate: threading.Event) -> work.Work:
    """Work that reports, waits, and reports again."""

    def run(report: Callable[[str, int, int], None]) -> dict[str, str]:
        report("reading", 1, 2)
        assert gate.wait(PATIENCE)
        report("reading", 2, 2)
        return {"path": "secret.md"}

    return run


@dataclass
class Listener:
    """One connection to the stream, as a server has it: `events` are what was sent, `comments` the other lines."""

    events: list[tuple[str, Any, str]] = field(default_factory=list)
    comments: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, is_enough: Callable[[], bool]) -> None:
        """Wait until something is there."""
        async with asyncio.timeout(PATIENCE):
            while not is_enough():
                self.came.clear()
                await self.came.wait()

    def of(self, event: str) -> list[Any]:
        """The data of the events of one kind."""
        return [data for name, data, _ in self.events if name == event]


@contextlib.asynccontextmanager
async def listening(
    app: Any, last: str = "", stall: Callable[[], Awaitable[None]] | None = None
) -> AsyncIterator[Listener]:
    """Listen to the stream until the block ends; before it takes anything, the listener awaits `stall`."""
    listener, gone = Listener(), asyncio.Event()

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            listener.headers |= {name.decode(): value.decode() for name, value in message["headers"]}
        for block in message.get("body", b"").decode().split("\r\n\r\n"):
            lines = dict(line.split(": ", 1) for line in block.splitlines())
            if "event" in lines:
                listener.events.append((lines["event"], json.loads(lines["data"]), lines["id"]))
            elif lines:
                listener.comments.append(block)
        listener.came.set()
        if stall:
            await stall()

    headers = [(b"last-event-id", last.encode())] if last else []
    scope = {"type": "http", "method": "GET", "path": "/api/events", "query_string": b"", "headers": headers}
    task = asyncio.create_task(app({**scope, "http_version": "1.1"}, receive, send))
    try:
        yield listener
    finally:
        gone.set()
        async with asyncio.timeout(PATIENCE):
            await task


def ended(served: Served) -> None:
    """Wait until no job runs."""
    if running := served.jobs.running:
        assert served.jobs.wait(running.id, 10).state != "running"


def test_jobs_are_asked_for_and_cancelled(served: Served, gate: threading.Event) -> None:
    """A job is listed, shown with its result, and cancelled once; unknown ids are 404."""
    client = TestClient(app_of(served))
    assert client.get("/api/jobs").json() == {"jobs": []}
    job = served.jobs.start("reindex", waiting(gate))
    shown = client.get(f"/api/jobs/{job.id}").json()
    assert (shown["kind"], shown["state"], "result" in shown, "error" in shown) == ("reindex", "running", False, False)
    gate.set()
    ended(served)
    shown = client.get(f"/api/jobs/{job.id}").json()
    assert (shown["state"], shown["stage"], shown["done"], shown["total"]) == ("done", "reading", 2, 2)
    assert shown["result"] == {"path": "secret.md"}
    (listed,) = client.get("/api/jobs").json()["jobs"]
    assert listed == {key: value for key, value in shown.items() if key != "result"}
    assert client.delete(f"/api/jobs/{job.id}").json() == shown
    missing = client.get("/api/jobs/x")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "MEMORY_NOT_FOUND")

    gate.clear()
    job = served.jobs.start("check", waiting(gate))
    asked = client.delete(f"/api/jobs/{job.id}")
    assert (asked.status_code, asked.json()["state"]) == (202, "running")
    gate.set()
    ended(served)
    assert client.delete(f"/api/jobs/{job.id}").json()["state"] == "cancelled"


def test_rights(served: Served, gate: threading.Event) -> None:
    """A token that only reads cancels nothing, and one that sees less learns no names from results and errors."""
    client = TestClient(app_of(served, LIMITED))
    job = served.jobs.start("check", waiting(gate))
    refused = client.delete(f"/api/jobs/{job.id}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "PERMISSION_DENIED")
    gate.set()
    ended(served)
    assert served.jobs.job(job.id).state == "done"

    def fails(report: object) -> None:
        raise InvalidInput("secret.md: no.", "secret")

    failed = served.jobs.start("import", fails)
    ended(served)
    assert client.get(f"/api/jobs/{failed.id}").json()["error"] == {"code": "INVALID_INPUT"}
    for path in (job.id, failed.id, ""):
        answer = client.get(f"/api/jobs/{path}".rstrip("/"))
        assert answer.status_code == 200
        assert "secret" not in answer.text

    async def listen() -> list[Any]:
        async with listening(app_of(served, LIMITED), f"{served.jobs.feed.name}-0") as listener:
            await listener.until(lambda: len(listener.of("job")) >= 2 and len(listener.of("degraded")) >= 1)
        return [listener.events, listener.of("generation"), listener.of("degraded")]

    told, generations, degraded = asyncio.run(listen())
    assert "secret" not in json.dumps(told)
    assert generations == [{"generation": served.book.state().generation}]
    assert degraded == [{"degraded": False}]


def test_what_a_listener_gets(
    served: Served, gate: threading.Event, vault: Path, write_note: Callable[..., Path]
) -> None:
    """How things are, then what changes: jobs, and the index, also by another process; a reconnect misses nothing."""
    served.jobs.start("snapshot", lambda report: None)
    ended(served)
    app = app_of(served)

    async def listen() -> None:
        async with listening(app) as listener:
            await listener.until(lambda: bool(listener.of("generation") and listener.of("degraded")))
            assert not listener.of("job")  # what ended before
            assert listener.headers["content-type"].startswith("text/event-stream")
            assert listener.headers["x-accel-buffering"] == "no"
            job = await asyncio.to_thread(served.jobs.start, "reindex", waiting(gate))
            await listener.until(lambda: bool(listener.of("job")) and listener.of("job")[-1]["done"] == 1)
            seen = listener.events[-1][2]
        async with listening(app) as late:
            await late.until(lambda: bool(late.of("job")))
            assert late.of("job")[0]["state"] == "running"
        gate.set()
        await asyncio.to_thread(ended, served)
        write_note("new.md", "# New\n\nText.\n")
        with books.open(vault, embedder="hash") as other:
            await asyncio.to_thread(other.reindex)
        before = served.jobs.feed.number
        async with listening(app, seen) as again:
            await again.until(lambda: bool(again.of("job")) and bool(again.of("generation")))
            assert again.of("job")[-1]["id"] == job.id
            assert again.of("job")[-1]["state"] == "done"
            assert "result" not in again.of("job")[-1]
            assert again.of("generation")[-1]["notes"] == 1
            assert served.jobs.feed.number > before
        assert served.jobs.feed.listeners == 0

    asyncio.run(listen())


def test_degraded_is_told(served: Served) -> None:
    """Listeners learn that answers became incomplete, why, and that they are complete again."""

    async def listen() -> None:
        async with listening(app_of(served)) as listener:
            await listener.until(lambda: bool(listener.of("degraded")))
            served.book.complaint = "the drive is gone"
            await listener.until(lambda: len(listener.of("degraded")) > 1)
            served.book.complaint = ""
            await listener.until(lambda: len(listener.of("degraded")) > 2)
            said = [(each["degraded"], each["reason"]) for each in listener.of("degraded")]
            assert said == [(False, ""), (True, "the drive is gone"), (False, "")]

    asyncio.run(listen())


def test_a_listener_that_takes_nothing_blocks_nobody(served: Served, gate: threading.Event) -> None:
    """A stalled connection holds up neither the job nor another listener, and gets the end when it reads again."""

    async def listen() -> None:
        go_on = asyncio.Event()

        async def stalled() -> None:
            await go_on.wait()

        app = app_of(served)
        async with listening(app, stall=stalled) as slow, listening(app) as quick:
            job = served.jobs.start("reindex", waiting(gate))
            await quick.until(lambda: bool(quick.of("job")))
            gate.set()
            await quick.until(lambda: quick.of("job")[-1]["state"] == "done")
            assert not slow.of("job")
            go_on.set()
            await slow.until(lambda: bool(slow.of("job")))
            assert [each["state"] for each in slow.of("job")] == ["done"]
            assert slow.of("job")[0]["id"] == job.id

    asyncio.run(listen())


def test_comments_and_the_end(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment shows that the stream is alive, and the server's end ends it."""
    assert events.PING == 15
    monkeypatch.setattr(events, "PING", 0.05)

    async def listen() -> None:
        async with listening(app_of(served)) as listener:
            await listener.until(lambda: len(listener.comments) > 1)
            assert listener.comments[0].startswith(": ping")
            await asyncio.to_thread(served.jobs.close)

    asyncio.run(asyncio.wait_for(listen(), 5))


def test_a_listener_that_takes_nothing_for_long_is_cut_off(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection ends without an error, and it is forgotten."""
    monkeypatch.setattr(events, "SEND", 0.1)

    async def listen() -> None:
        sent = 0

        async def stall() -> None:
            nonlocal sent
            sent += 1
            if sent > 1:  # after the head
                await asyncio.sleep(60)

        async with listening(app_of(served), stall=stall), asyncio.timeout(PATIENCE):
            while served.jobs.feed.listeners or sent < 2:
                await asyncio.sleep(0.01)

    asyncio.run(listen())
