"""Who asks, and what this caller may do and see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from spellbook.errors import PermissionDenied

May = Literal["read", "write", "admin"]
Sees = Literal["private", "team", "public"]

RIGHTS: tuple[May, ...] = ("read", "write", "admin")
"""Each includes those before it."""

SCOPES: tuple[Sees, ...] = ("private", "team", "public")
"""Each shows what those after it show, and more."""


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
        if RIGHTS.index(self.may) < RIGHTS.index(right):
            raise PermissionDenied(
                f"This token may {self.may}, and this needs {right}.", "Use a token that may: spellbook token add."
            )
