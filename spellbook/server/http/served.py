"""What every route works with: the book that is served, and who asks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from starlette.requests import Request

from spellbook.library import limited
from spellbook.library.book import Spellbook
from spellbook.library.published import PublishedBook
from spellbook.server.debug_log import Write
from spellbook.server.handover import Writers
from spellbook.server.http.callers import Caller as Caller
from spellbook.server.http.callers import May as May
from spellbook.server.http.callers import Sees as Sees
from spellbook.server.http.tokens import Tokens
from spellbook.server.jobs import Jobs

T = TypeVar("T")

_COMPUTING = 4
"""Threads that compute at a time. Python runs one of them, and more of them take turns more often: with forty, two
hundred clients got two thirds of the answers, and waited longer for each."""


@dataclass
class Served:
    """The book that one process serves, with its toolsets."""

    book: Spellbook
    toolsets: tuple[str, ...] = ("core",)
    started: float = field(default_factory=time.monotonic)
    log: Write | None = None
    """Is told of each call of a tool."""
    writers: Writers = field(default_factory=lambda: Writers({}))
    """The machines that write into published vaults."""

    @property
    def is_published(self) -> bool:
        """Whether the book is one of published vaults, see `published`."""
        return self.book.config.published

    @cached_property
    def tokens(self) -> Tokens:
        """The tokens that are let in. Raises InvalidInput for a SPELLBOOK_TOKEN that is too short."""
        if self.is_published:
            return Tokens.of_published()
        return Tokens.of(self.book.config.vault)

    def __post_init__(self) -> None:
        self.jobs = Jobs(self.book.config.state, lambda kind, error: self.book.meter.failed(kind, "http", error))
        """The long work of this process."""
        self.noticed: dict[str, float] = {}
        """When each alert that holds now was first met, in seconds since 1970."""

    def book_of(self, caller: Caller) -> Spellbook:
        """Return the book as a caller sees it; see `limited`."""
        sees = "" if caller.sees == "private" else caller.sees
        if self.is_published:
            whole = cast("PublishedBook", self.book)
            return whole.seen_by(sees, caller.vaults or None) if caller.is_limited else whole
        if caller.sees == "private":
            return self.book
        return limited.of(self.book, caller.sees)


def served(request: Request) -> Served:
    """Return what is served."""
    found: Served = request.app.state.served
    return found


def caller(request: Request) -> Caller:
    """Return who asks, as the guard found out."""
    found: Caller = request.scope["spellbook.caller"]
    return found


def book(request: Request, right: May = "read") -> Spellbook:
    """Return the book as the caller sees it. Raises PermissionDenied if the caller has not that right."""
    who = caller(request)
    who.require(right)
    return served(request).book_of(who)


async def in_thread(verb: Callable[..., T], *args: Any) -> T:
    """Run a verb, which may read files and compute, in one of a few worker threads."""
    return await anyio.to_thread.run_sync(verb, *args, limiter=_computing())


async def waiting(verb: Callable[..., T], *args: Any) -> T:
    """Run a verb that waits for other machines in a worker thread, so that nobody else waits with it."""
    return await anyio.to_thread.run_sync(verb, *args)


_limiter: RunVar[anyio.CapacityLimiter] = RunVar("spellbook.computing")


def _computing() -> anyio.CapacityLimiter:
    """Return what bounds the threads of this event loop that compute at the same time."""
    try:
        return _limiter.get()
    except LookupError:
        found = anyio.CapacityLimiter(_COMPUTING)
        _limiter.set(found)
        return found
