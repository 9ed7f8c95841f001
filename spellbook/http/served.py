"""The state that every route works with: the served book, the caller, and the threads that verbs run in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread
from starlette.requests import Request

from spellbook.http.jobs import Jobs
from spellbook.http.oauth.grants import Grants
from spellbook.http.tokens import Caller, Tokens
from spellbook.library.book import Spellbook
from spellbook.library.limited import Seen, seen_by
from spellbook.mcp.debug_log import Write
from spellbook.mcp.tool_names import DEFAULT
from spellbook.system import threads

T = TypeVar("T")
Queue = dict[Hashable, "asyncio.Task[Any]"]
"""Questions that wait for a thread."""


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
    return await anyio.to_thread.run_sync(verb, *args, limiter=threads.computing())


async def waiting(verb: Callable[..., T], *args: Any) -> T:
    """Run a verb that waits for other machines in a worker thread, so that nobody else waits with it."""
    return await anyio.to_thread.run_sync(verb, *args)


async def writing(verb: Callable[..., T], *args: Any) -> T:
    """Run a verb that writes in one of two threads of its own, so that it does not queue behind the searches."""
    return await anyio.to_thread.run_sync(verb, *args, limiter=threads.writing())


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
