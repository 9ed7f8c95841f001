"""What every route works with: the book that is served, and who asks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import anyio.to_thread
from starlette.requests import Request

from spellbook.book import Spellbook
from spellbook.errors import PermissionDenied
from spellbook.server.jobs import Jobs

May = Literal["read", "write", "admin"]
Sees = Literal["private", "team", "public"]
T = TypeVar("T")

_RIGHTS: tuple[May, ...] = ("read", "write", "admin")
"""Each includes those before it."""


@dataclass(frozen=True)
class Caller:
    """
    Who asks: the name of a token, or "" for a program on this machine.

    `sees` is the most private scope of notes that are shown: private is all of them. `by_cookie` is whether a browser
    asks that has logged in.
    """

    name: str = ""
    may: May = "admin"
    sees: Sees = "private"
    by_cookie: bool = False

    def require(self, right: May) -> None:
        """Raise PermissionDenied unless the caller has a right."""
        if _RIGHTS.index(self.may) < _RIGHTS.index(right):
            raise PermissionDenied(
                f"This token may {self.may}, and this needs {right}.", "Use a token that may: spellbook token add."
            )


@dataclass
class Served:
    """The book that one process serves, with its toolsets."""

    book: Spellbook
    toolsets: tuple[str, ...] = ("core",)
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.jobs = Jobs(self.book.config.state, lambda kind, error: self.book.meter.failed(kind, "http", error))
        """The long work of this process."""

    def book_of(self, caller: Caller) -> Spellbook:
        """Return the book as a caller sees it."""
        return self.book


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
    """Run a verb, which may read files and compute, in a worker thread."""
    return await anyio.to_thread.run_sync(verb, *args)
