"""Callers: who asks, and what they may do and see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from spellbook.system.errors import PermissionDenied

May = Literal["read", "write", "admin"]
Sees = Literal["private", "team", "public"]

RIGHTS: tuple[May, ...] = ("read", "write", "admin")
"""Each includes those before it."""

SCOPES: tuple[Sees, ...] = ("private", "team", "public")
"""Each shows the notes of those after it, and more."""


@dataclass(frozen=True)
class Caller:
    """
    A caller: the name of a token, or "" for a program on this machine.

    `sees` is the most private scope of notes that are shown: private is all of them. `by_cookie` is whether a browser
    asks that has logged in. `id` tells the token from a later one of its name.
    """

    name: str = ""
    may: May = "admin"
    sees: Sees = "private"
    by_cookie: bool = False
    id: str = field(default="", compare=False)

    @property
    def is_limited(self) -> bool:
        """Whether there may be notes that the caller does not see."""
        return self.sees != "private"

    def has(self, right: May) -> bool:
        """Return whether the caller has a right."""
        try:
            self.require(right)
        except PermissionDenied:
            return False
        return True

    def require(self, right: May) -> None:
        """Raise PermissionDenied unless the caller has a right."""
        if RIGHTS.index(self.may) < RIGHTS.index(right):
            raise PermissionDenied(
                f"This token may {self.may}, and this needs {right}.", "Use a token that may: spellbook token add."
            )
        if self.sees != "private" and right != "read":
            raise PermissionDenied(
                f"This token sees what is {self.sees} alone, so it may only read.", "Use a token that sees all notes."
            )
