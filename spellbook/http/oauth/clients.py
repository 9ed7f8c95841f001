"""The apps that may connect, from clients.toml: where their answers go, and what they may do. Nothing is fetched."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache
from urllib.parse import urlsplit

from spellbook.http.tokens import Caller, May
from spellbook.system.lazy import regex, toml_in

READ, WRITE = "vault:read", "vault:write"
SCOPES = (READ, WRITE)

_LOOPBACK = regex(r"(http://(?:localhost|127\.0\.0\.1|\[::1\])):(\d{1,5})(?=/)", re.A)
_LAST_PORT = 65_535
_MOST_LETTERS = 500


@cache
def _apps() -> tuple[tuple[str, re.Pattern[str], re.Pattern[str]], ...]:
    """Return name, ids and redirects of each app."""
    return tuple(
        (app["name"], _any(app["ids"]), _any(app["redirects"])) for app in toml_in(__file__, "clients.toml")["app"]
    )


def _any(addresses: Iterable[str]) -> re.Pattern[str]:
    """Return what matches one of these addresses, `(?!)` for none."""
    forms = "|".join(re.escape(each).replace(r"\{id\}", "[A-Za-z0-9_-]{1,100}") for each in addresses)
    return re.compile(forms or "(?!)")


def pinned(id: str) -> str:
    """Return the name of the app with this id, "" if there is none."""
    return next((name for name, ids, _ in _apps() if ids.fullmatch(id[:_MOST_LETTERS])), "")


def app_at(redirect: str, id: str = "") -> str | None:
    """Return the name of the app whose answer may go to `redirect`, of the one with `id` if given; None for nobody."""
    address = portless(redirect)
    for name, ids, redirects in _apps():
        if redirects.fullmatch(address) and (not id or ids.fullmatch(id)):
            return name
    return None


def portless(redirect: str) -> str:
    """Return an address without its port if it is of this machine: a program takes any free one (RFC 8252, 7.3)."""
    return _LOOPBACK.sub(lambda found: found[1] if int(found[2]) <= _LAST_PORT else found[0], redirect[:_MOST_LETTERS])


def is_loopback(redirect: str) -> bool:
    """Say whether an answer goes to a program on the computer of the person."""
    return urlsplit(redirect).scheme == "http"


def scopes_of(text: str | None) -> tuple[str, ...]:
    """Return the scopes in a request, without those that only ask for a refresh token or a person's name."""
    return tuple(dict.fromkeys(each for each in (text or "").split() if each not in {"offline_access", "openid"}))


def scopes_for(may: May) -> list[str]:
    """Return the scopes of a token that may read, or write."""
    return list(SCOPES) if may == "write" else [READ]


def may_write(scopes: Collection[str], person: Caller) -> bool:
    """Say whether a person may let an app write that asks for these scopes; for none, it is the person's choice."""
    return person.has("write") and (not scopes or WRITE in scopes)
