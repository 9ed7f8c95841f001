"""The apps that may connect, from clients.toml, and where their answers may go. Nothing is ever fetched."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from urllib.parse import urlsplit

from spellbook.system.lazy import regex, toml_in

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
