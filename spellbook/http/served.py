"""
The state that every route works with: the served book, the caller, the threads that verbs run in, and long work.

Long work is one job at a time, in a thread, which reports progress, can be cancelled and outlives its page.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import secrets
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, TypeVar, cast

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from starlette.requests import Request

from spellbook.http.faults import unforeseen
from spellbook.http.oauth.grants import Grants
from spellbook.http.tokens import Caller, Tokens
from spellbook.index.opened import Progress
from spellbook.library.book import Spellbook
from spellbook.library.limited import Seen, seen_by
from spellbook.mcp import base
from spellbook.mcp.base import Write, computing, limiter
from spellbook.mcp.names import DEFAULT
from spellbook.settings.config import service
from spellbook.system.errors import Conflict, MemoryNotFound, SpellbookError

T = TypeVar("T")
Queue = dict[Hashable, "asyncio.Task[Any]"]
"""Questions that wait for a thread."""

State = Literal["running", "done", "failed", "cancelled"]
Work = Callable[[Progress], Any]
"""Does a job: is given the function that it reports its progress to, and returns a result that JSON can hold."""

_ENDED = 20
"""Ended jobs that can still be asked for."""

_WRITING = 2
"""Threads that write at a time. The catalog takes one writer; a second one may read and parse meanwhile."""


@dataclass
class Served:
    """The book that one process serves, with its toolsets."""

    book: Spellbook
    toolsets: tuple[str, ...] = (DEFAULT,)
    started: float = field(default_factory=time.monotonic)
    log: Write | None = None
    """Gets each call of a tool."""
    phone: str = ""
    """The address that logs a phone in, "" unless the server is open to the home network."""
    public: str = ""
    """The address on the internet at which apps connect over OAuth, "" for none."""

    def __post_init__(self) -> None:
        base.set_waiting(service(self.book.config.embedder) is not None)
        self.jobs = Jobs(lambda kind, error: self.book.meter.failed(kind, "http", error))
        """The long work of this process."""
        self.noticed: dict[str, float] = {}
        """When each present alert was first seen, in seconds since 1970."""
        self.clients: dict[str, float] = {}
        """When each MCP client called last, in seconds since 1970."""
        self.queued: Queue = {}

    @cached_property
    def tokens(self) -> Tokens:
        """The tokens that are let in. Raises InvalidInput for a SPELLBOOK_TOKEN that is too short."""
        return Tokens.of(self.book.config.vault)

    @cached_property
    def grants(self) -> Grants:
        """The apps that a person connected."""
        return Grants(self.tokens)

    def book_of(self, caller: Caller) -> Seen:
        """Return a reader of the notes that a caller may see."""
        return seen_by(self.book, "" if caller.sees == "private" else caller.sees)


def served_of(request: Request) -> Served:
    """Return the state of the server."""
    return cast(Served, request.app.state.served)


def caller_of(request: Request) -> Caller:
    """Return the caller that the guard found."""
    return cast(Caller, request.scope["spellbook.caller"])


def language(request: Request) -> str:
    """Return "ko" or "en": what a person chose in this browser, else what its Accept-Language likes best."""
    if (chosen := request.cookies.get("spellbook-lang", "")) in {"en", "ko"}:
        return chosen
    liked: dict[str, float] = {}
    for each in request.headers.get("accept-language", "")[:1_000].split(","):
        name, _, quality = each.strip().lower().partition(";")
        try:
            share = float(quality.partition("=")[2] or 1)
        except ValueError:
            share = 0.0
        code = name.strip().partition("-")[0]
        liked[code] = max(share, liked.get(code, 0.0))
    return "ko" if liked.get("ko", 0.0) > liked.get("en", 0.0) else "en"


async def in_thread(verb: Callable[..., T], *args: Any) -> T:
    """Run a verb, which may read files and compute, in one of a few worker threads."""
    return await anyio.to_thread.run_sync(verb, *args, limiter=computing())


async def waiting(verb: Callable[..., T], *args: Any) -> T:
    """Run a verb that waits for other machines in a worker thread, so that nobody else waits with it."""
    return await anyio.to_thread.run_sync(verb, *args)


async def writing(verb: Callable[..., T], *args: Any) -> T:
    """Run a verb that writes in one of two threads of its own, so that it does not queue behind the searches."""
    return await anyio.to_thread.run_sync(verb, *args, limiter=limiter(_writers, _WRITING))


async def once(queued: Queue, key: Hashable, verb: Callable[..., T], *args: Any) -> T:
    """Run a verb as `in_thread` does; callers with an equal `key` before it begins share its result, or error."""

    def begin() -> T:
        queued.pop(key, None)
        return verb(*args)

    async def run() -> T:
        try:
            return await in_thread(begin)
        finally:
            if queued.get(key) is task:  # it never began
                del queued[key]

    if (task := queued.get(key)) is None:
        task = queued[key] = asyncio.create_task(run())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be left to take it
    return cast(T, await asyncio.shield(task))  # one who goes away takes nothing from the others


_writers: RunVar[anyio.CapacityLimiter] = RunVar("spellbook.writers")


class Cancelled(BaseException):
    """The job was cancelled. Like KeyboardInterrupt it is no Exception, so that no verb takes it for a failure."""


@dataclass(frozen=True, slots=True)
class Job:
    """A piece of long work: `done` of `total` of a `stage`; `ended` None while it runs; `error` of a failed one."""

    id: str
    kind: str
    started: dt.datetime
    state: State = "running"
    stage: str = ""
    done: int = 0
    total: int = 0
    result: Any = None
    error: dict[str, str] | None = None
    ended: dt.datetime | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the job as JSON: times in ISO 8601, `result` and `error` only where there is one."""
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {
            name: value.isoformat(timespec="seconds") if isinstance(value, dt.datetime) else value
            for name, value in values
            if value is not None
        }


class Jobs:
    """The jobs of one process; verbs lock against other processes. `failed` gets kind and error of each failed job."""

    def __init__(self, failed: Callable[[str, BaseException], None] = lambda kind, error: None) -> None:
        self._failed = failed
        self._guard = threading.Lock()
        self._jobs: dict[str, Job] = {}  # only the last one may be running
        self._thread: threading.Thread | None = None
        self._cancel = threading.Event()

    def start(self, kind: str, work: Work) -> Job:
        """Begin a job; its progress function raises Cancelled, which `work` must let through. Raises Conflict."""
        with self._guard:
            if other := next((job for job in self._jobs.values() if job.state == "running"), None):
                message = f"Another job is running: {other.kind} (job {other.id})."
                raise Conflict(message, "Wait until it has ended, or cancel it.")
            job = Job(secrets.token_hex(4), kind, dt.datetime.now(dt.UTC))
            for old in list(self._jobs)[: 1 - _ENDED]:
                del self._jobs[old]
            self._cancel.clear()
            self._jobs[job.id] = job
            self._thread = threading.Thread(target=self._run, args=(job, work), name="spellbook-job", daemon=True)
            self._thread.start()
        return job

    def all(self) -> list[Job]:
        """Return the running job and those that ended last, newest first."""
        return list(self._jobs.values())[::-1]

    def job(self, id: str) -> Job:
        """Return a job. Raises MemoryNotFound for an unknown id, or one that ended long ago."""
        if (job := self._jobs.get(id)) is None:
            raise MemoryNotFound(f"There is no job {id[:40]!r}.", f"The last {_ENDED} can be asked for: GET /api/jobs.")
        return job

    def last(self, kind: str) -> Job | None:
        """Return the job of this kind that was done last, None if there is none."""
        return next((job for job in self.all() if job.kind == kind and job.state == "done"), None)

    def cancel(self, id: str) -> Job:
        """Ask a running job to stop at its next report, and return it as it is now. Raises MemoryNotFound."""
        with self._guard:
            job = self.job(id)
            if job.state == "running":
                self._cancel.set()
        return job

    def wait(self, id: str, within: float) -> Job:
        """Wait at most `within` seconds until a job has ended, and return it as it is then. Raises MemoryNotFound."""
        thread = self._thread
        if self.job(id).state == "running" and thread is not None:
            thread.join(within)
        return self.job(id)

    def close(self, within: float = 1.0) -> None:
        """Cancel the running job, and wait at most `within` seconds for it."""
        self._cancel.set()
        if self._thread is not None:
            self._thread.join(within)

    def _run(self, job: Job, work: Work) -> None:
        def report(stage: str, done: int, total: int) -> None:
            if self._cancel.is_set():
                raise Cancelled
            self._jobs[job.id] = replace(self._jobs[job.id], stage=stage, done=done, total=total)

        ended: dict[str, Any]
        try:
            report("", 0, 0)
            ended = {"state": "done", "result": work(report)}
        except Cancelled:
            ended = {"state": "cancelled"}
        except Exception as failure:
            self._failed(job.kind, failure)
            error = failure if isinstance(failure, SpellbookError) else unforeseen(failure, f"The job {job.kind}")
            ended = {"state": "failed", "error": {"code": error.code, "message": error.message, "hint": error.hint}}
        self._jobs[job.id] = replace(self._jobs[job.id], ended=dt.datetime.now(dt.UTC), **ended)
