"""
Grants: which apps a person has connected, each below a token; and the apps that registered themselves.

Both are in a file beside the tokens, which has hashes alone. A grant may do no more than its token, and ends with it.
"""

from __future__ import annotations

import datetime as dt
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from spellbook.http.kept import KeptFile
from spellbook.http.tokens import RIGHTS, SCOPES, VARIABLE, Caller, May, Sees, Tokens, digest
from spellbook.system.errors import InvalidInput

FILE = "grants.json"

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


Held = tuple[tuple[Grant, ...], tuple[Registered, ...]]


class Grants:
    """The grants and registered apps of a vault."""

    def __init__(self, tokens: Tokens, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives seconds since 1970."""
        self._tokens, self.now = tokens, clock
        self._kept: KeptFile[Held] = KeptFile(tokens.file.with_name(FILE), _parsed, {"grants": [], "apps": []})

    @property
    def file(self) -> Path:
        return self._kept.file

    def all(self) -> tuple[Grant, ...]:
        """Return the grants that have not ended; those below a token of the environment wherever it is set."""
        there, now = {each.id for each in self._tokens.all()}, self.now()
        known = (each for each in self._kept.value()[0] if each.parent in there or each.by == VARIABLE)
        return tuple(each for each in known if now < each.ends)

    def of(self, id: str) -> Grant | None:
        """Return the grant with this id, None if it or its token is gone. Raises StorageError."""
        return next((each for each in self._live() if each.id == id), None)

    def refreshed_by(self, refresh: str) -> Grant | None:
        """Return the grant whose present refresh token this is."""
        hashed = digest(refresh)
        return next((each for each in self._live() if each.refresh == hashed), None)

    def opened_by(self, access: str) -> tuple[Grant, May] | None:
        """Return the grant with this access token, and what the token may do; None if it is false or too old."""
        hashed, now = digest(access), self.now()
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

    def begin(self, app: str, name: str, parent: str, may: May) -> tuple[Grant, str, str]:
        """
        Make a grant for an app below the token with the id `parent`; return it, an access and a refresh token.

        Raises InvalidInput if that token is gone, may not do so much, or there are too many grants; StorageError.
        """
        holder = next((each for each in self._tokens.all() if each.id == parent), None)
        if holder is None:
            raise InvalidInput("The token that consented was removed.", "Connect the app again.")
        holder.caller().require(may)
        now = self.now()
        with self._changing() as (grants, _):
            self._make_room(grants)
            called = _free(name, now, {each.name for each in grants})
            created = dt.datetime.fromtimestamp(now).astimezone().isoformat(timespec="seconds")
            own = (secrets.token_hex(8), called, app, parent, holder.name, may, holder.sees, created)
            made, access, refresh = self._renewed(Grant(*own, now, "", {}), may)
            grants.append(made)
        return made, access, refresh

    def renew(self, id: str, may: May) -> tuple[str, str]:
        """Give a grant a new access and a new refresh token, and 90 days more. Raises KeyError if it is gone."""
        with self._changing() as (grants, _):
            at = next((at for at, each in enumerate(grants) if each.id == id), None)
            if at is None:
                raise KeyError(id)
            grants[at], access, refresh = self._renewed(grants[at], may)
        return access, refresh

    def check_room(self) -> None:
        """Raise InvalidInput if no app more can be connected."""
        self._make_room([*self._kept.value()[0]])

    def end(self, id: str) -> None:
        """End a grant: its tokens are refused at once."""
        with self._changing() as (grants, _):
            grants[:] = [each for each in grants if each.id != id]

    def remove(self, name: str) -> Grant | None:
        """End the grant with this name and return it, None if there is none."""
        with self._changing() as (grants, _):
            removed = next((each for each in grants if each.name == name), None)
            grants[:] = [each for each in grants if each != removed]
        return removed

    def registered(self, id: str) -> Registered | None:
        """Return the app that registered itself and was given this id; after a day it needs a grant."""
        used, since = {each.app for each in self.all()}, self.now() - DAY
        return next(
            (each for each in self._kept.value()[1] if each.id == id and (id in used or each.created > since)), None
        )

    def register(self, app: Registered) -> None:
        """Keep an app that registers itself; of more than 50 the oldest without a grant goes. Raises InvalidInput."""
        with self._changing() as (grants, apps):
            used, since = {each.app for each in grants}, self.now() - DAY
            apps[:] = [each for each in apps if each.id in used or each.created > since]
            unused = [each for each in apps if each.id not in used]
            if len(apps) >= MOST_REGISTERED:
                if not unused:
                    raise InvalidInput(
                        f"{MOST_REGISTERED} apps are registered already.", "Remove one: spellbook token remove NAME."
                    )
                apps.remove(unused[0])
            apps.append(app)

    def _live(self) -> list[Grant]:
        there = {each.id for each in self._tokens.all()}
        return [each for each in self.all() if each.parent in there]

    def _make_room(self, grants: list[Grant]) -> None:
        """Drop grants that have ended, if there are too many. Raises InvalidInput if all are in use."""
        if len(grants) >= MOST_GRANTS:
            there = {each.id for each in self.all()}
            grants[:] = [each for each in grants if each.id in there]
        if len(grants) >= MOST_GRANTS:
            raise InvalidInput(f"{MOST_GRANTS} apps are connected already.", "Remove one: spellbook token remove NAME.")

    def _renewed(self, grant: Grant, may: May) -> tuple[Grant, str, str]:
        access, refresh = (each + secrets.token_urlsafe(32) for each in (_ACCESS, _REFRESH))
        now = self.now()
        kept = {hashed: row for hashed, row in grant.access.items() if now < row[0]}
        latest = dict([*kept.items(), (digest(access), (now + ACCESS_SECONDS, may))][-_MOST_ACCESS:])
        made = replace(grant, ends=now + GRANT_DAYS * DAY, refresh=digest(refresh), access=latest)
        return made, access, refresh

    @contextmanager
    def _changing(self) -> Iterator[tuple[list[Grant], list[Registered]]]:
        """Yield grants and apps to be changed, then write them; other processes wait. Raises StorageError."""
        with self._kept.alone() as held:
            grants, apps = [*held[0]], [*held[1]]
            yield grants, apps
            if (tuple(grants), tuple(apps)) != held:
                self._kept.write({"grants": [asdict(each) for each in grants], "apps": [asdict(each) for each in apps]})


def _free(app: str, now: float, taken: set[str]) -> str:
    """Return a name for a grant: app, day, and a number if that is taken. No token can have a colon in its name."""
    plain = re.sub(r"[^\w.-]+", "-", app).strip("-")[:40] or "app"
    name = f"{plain}:{dt.date.fromtimestamp(now)}"
    return next(
        each for each in (name, *(f"{name}:{number}" for number in range(2, MOST_GRANTS + 2))) if each not in taken
    )


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
    return tuple(grants), tuple(apps)
