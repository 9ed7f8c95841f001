"""
Grants: which apps a person has connected, each below a token; and the apps that registered themselves.

Both are in a file beside the tokens, which has hashes alone. A grant may do no more than its token, and ends with it.
"""

from __future__ import annotations

import datetime as dt
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from spellbook.http.private_file import KeptFile
from spellbook.http.tokens import RIGHTS, SCOPES, VARIABLE, Caller, May, Sees, Token, Tokens, digest
from spellbook.system.errors import InvalidInput

FILE = "grants.json"

CODE_SECONDS = 60.0
"""Seconds that an app has to get its first tokens after a person consented."""

DAY = 24 * 3600
ACCESS_SECONDS = DAY
"""Life of an access token. It is looked up at each request, so removing a grant holds at once, however long this is."""

GRANT_DAYS = 90
"""Days after its last refresh that a grant ends."""

MOST_GRANTS = 100
MOST_REGISTERED = 50
_MOST_ACCESS = 3
"""Access tokens of a grant: an app that has refreshed may still be asking with the one before."""

_ACCESS, _REFRESH = "spa_", "spr_"


@dataclass(frozen=True)
class Grant:
    """
    An app that a person connected: `app` is its id, `parent` the id of the token that consented, `by` its name.

    `ends` is in seconds since 1970; `refresh` and the keys of `access` are hashes, these with an end and a right each.
    """

    id: str
    name: str
    app: str
    parent: str
    by: str
    may: May
    sees: Sees
    created: str
    ends: float
    refresh: str
    access: dict[str, tuple[float, May]]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that may be shown."""
        return {key: getattr(self, key) for key in ("name", "may", "sees", "created", "app", "by")}


@dataclass(frozen=True)
class Registered:
    """An app that registered itself, with the hash of its secret, "" for none; `created` is in seconds since 1970."""

    id: str
    name: str
    redirects: tuple[str, ...]
    secret: str
    created: float


Held = tuple[list[Grant], list[Registered]]


class Grants:
    """The grants and registered apps of a vault."""

    def __init__(self, tokens: Tokens, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives seconds since 1970."""
        self.now = clock
        self._tokens = tokens
        self.file = tokens.file.with_name(FILE)
        self._kept: KeptFile[Held] = KeptFile(self.file, _parsed, {"grants": [], "apps": []})

    # -- grants

    def all(self) -> list[Grant]:
        """Return the grants that have not ended; those below a token of the environment wherever it is set."""
        return self._lasting(self._kept.value()[0])

    def of(self, id: str) -> Grant | None:
        """Return the grant with this id, None if it or its token is gone. Raises StorageError."""
        return next((each for each in self._live() if each.id == id), None)

    def refreshed_by(self, refresh: str) -> Grant | None:
        """Return the grant whose present refresh token this is."""
        hashed = digest(refresh)
        return next((each for each in self._live() if each.refresh == hashed), None)

    def opened_by(self, access: str) -> tuple[Grant, May] | None:
        """Return the grant with this access token, and what the token may do; None if it is false or too old."""
        hashed = digest(access)
        now = self.now()
        for grant in self._live():
            ends, may = grant.access.get(hashed, (0.0, "read"))
            if now < ends:
                return grant, may
        return None

    def caller(self, access: str) -> Caller | None:
        """Return the caller with this access token, None for nobody. Raises StorageError."""
        if (found := self.opened_by(access)) is None:
            return None
        grant, may = found
        return Caller(grant.name, may, grant.sees, id=f"{grant.id}-{may}", is_grant=True)

    def begin(self, app: str, name: str, holder: Token, may: May) -> Grant:
        """
        Make a grant for an app below the token `holder`; it ends in a minute unless it is renewed.

        Raises PermissionDenied if that token may not do so much, InvalidInput for too many grants, StorageError.
        """
        holder.caller().require(may)
        now = self.now()
        created = dt.datetime.fromtimestamp(now).astimezone().isoformat(timespec="seconds")
        with self._changing() as (grants, _):
            if len(grants) >= MOST_GRANTS:
                grants[:] = self._lasting(grants)
            if len(grants) >= MOST_GRANTS:
                raise InvalidInput(
                    f"{MOST_GRANTS} apps are connected already.", "Remove one: spellbook token remove NAME."
                )
            id = secrets.token_hex(8)
            called = _free(name, now, {each.name for each in grants})
            end = now + CODE_SECONDS
            made = Grant(id, called, app, holder.id, holder.name, may, holder.sees, created, end, "", {})
            grants.append(made)
        return made

    def renew(self, id: str, may: May) -> tuple[str, str]:
        """Give a grant new tokens, for access and refresh, and 90 days. Raises KeyError if it or its parent is gone."""
        access, refresh = (each + secrets.token_urlsafe(32) for each in (_ACCESS, _REFRESH))
        now = self.now()
        holders = self._holders()
        with self._changing() as (grants, _):
            grant = next((each for each in grants if each.id == id and each.parent in holders), None)
            if grant is None:
                raise KeyError(id)
            kept = [(hashed, row) for hashed, row in grant.access.items() if now < row[0]]
            latest = dict([*kept, (digest(access), (now + ACCESS_SECONDS, may))][-_MOST_ACCESS:])
            ends = now + GRANT_DAYS * DAY
            grants[grants.index(grant)] = replace(grant, ends=ends, refresh=digest(refresh), access=latest)
        return access, refresh

    def end(self, id: str) -> None:
        """End a grant: its tokens are refused at once."""
        with self._changing() as (grants, _):
            grants[:] = [each for each in grants if each.id != id]

    def remove(self, name: str) -> Grant | Token:
        """Remove the grant or the token with this name, and return it. Raises InvalidInput, StorageError."""
        # Without a colon it is a token, which can be removed whatever is wrong with this file.
        grants = self._kept.value()[0] if ":" in name else ()
        removed = next((each for each in grants if each.name == name), None)
        if removed is None:
            return self._tokens.remove(name)
        self.end(removed.id)
        return removed

    # -- apps that registered themselves

    def registered(self, id: str) -> Registered | None:
        """Return the app that registered itself and was given this id; after a day it needs a grant."""
        return next((each for each in self._known(*self._kept.value()) if each.id == id), None)

    def register(self, app: Registered) -> None:
        """Keep an app that registers itself; of more than 50 the oldest without a grant goes. Raises InvalidInput."""
        with self._changing() as (grants, apps):
            apps[:] = self._known(grants, apps)
            if len(apps) >= MOST_REGISTERED:
                used = {each.app for each in self._lasting(grants)}
                unused = [each for each in apps if each.id not in used]
                if not unused:
                    raise InvalidInput(
                        f"{MOST_REGISTERED} apps are registered already.", "Remove one: spellbook token remove NAME."
                    )
                apps.remove(unused[0])
            apps.append(app)

    def _known(self, grants: Iterable[Grant], apps: Iterable[Registered]) -> list[Registered]:
        """Return the apps that have a grant, or registered themselves within a day."""
        used = {each.app for each in self._lasting(grants)}
        since = self.now() - DAY
        return [each for each in apps if each.id in used or each.created > since]

    # -- the file

    def _holders(self) -> set[str]:
        return {each.id for each in self._tokens.all()}

    def _lasting(self, grants: Iterable[Grant]) -> list[Grant]:
        there = self._holders()
        now = self.now()
        return [each for each in grants if now < each.ends and (each.parent in there or each.by == VARIABLE)]

    def _live(self) -> list[Grant]:
        there = self._holders()
        return [each for each in self.all() if each.parent in there]

    @contextmanager
    def _changing(self) -> Iterator[Held]:
        """Yield grants and apps to be changed, then write them; other processes wait. Raises StorageError."""
        with self._kept.alone() as (grants, apps):
            yield grants, apps
            self._kept.write({"grants": [asdict(each) for each in grants], "apps": [asdict(each) for each in apps]})


def _free(app: str, now: float, taken: set[str]) -> str:
    """Return a name for a grant: app, day, and a number if that is taken. No token can have a colon in its name."""
    plain = re.sub(r"[^\w.-]+", "-", app).strip("-")[:40] or "app"
    name = f"{plain}:{dt.date.fromtimestamp(now)}"
    numbered = (f"{name}:{number}" for number in range(2, MOST_GRANTS + 2))
    return next(each for each in (name, *numbered) if each not in taken)


def _parsed(kept: Any) -> Held:
    """Return grants and apps of the file. Raises ValueError and others for what Spellbook did not write."""
    grants = []
    for row in kept["grants"]:
        access = {str(each): (float(ends), may) for each, (ends, may) in row["access"].items()}
        rights = {row["may"], *(may for _, may in access.values())}
        if not rights <= {*RIGHTS[:2]} or row["sees"] not in SCOPES or not isinstance(row["ends"], float):
            raise ValueError("unknown rights, or no time")
        grants.append(Grant(**{**row, "access": access}))
    apps = [Registered(**{**row, "redirects": tuple(map(str, row["redirects"]))}) for row in kept["apps"]]
    return grants, apps
