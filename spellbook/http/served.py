"""The state that every route works with: the served book, the caller, and the threads that verbs run in."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

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
from spellbook.system.lazy import regex

T = TypeVar("T")
_LIKED = regex(r"(?:^|,)[ ]*(en|ko)(?:-[a-z0-9-]*)?[ ]*(?:;[ ]*q=([01](?:\.\d{0,3})?)[ ]*)?(?=,|$)", re.I)
"""A language of an Accept-Language and its share (RFC 9110, 12.5.4)."""


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
    liked = {"en": 0.0, "ko": 0.0}
    for name, share in _LIKED.findall(request.headers.get("accept-language", "")[:1_000]):
        liked[name.lower()] = max(liked[name.lower()], float(share or 1))
    return "ko" if liked["ko"] > liked["en"] else "en"


async def in_thread(verb: Callable[..., T], *args: Any) -> T:
    """Run a verb, which may read files and compute, in one of a few worker threads."""
    return await anyio.to_thread.run_sync(verb, *args, limiter=threads.computing())


async def waiting(verb: Callable[..., T], *args: Any) -> T:
    """Run a verb that waits for other machines in a worker thread, so that nobody else waits with it."""
    return await anyio.to_thread.run_sync(verb, *args)


async def writing(verb: Callable[..., T], *args: Any) -> T:
    """Run a verb that writes in one of two threads of its own, so that it does not queue behind the searches."""
    return await anyio.to_thread.run_sync(verb, *args, limiter=threads.writing())
