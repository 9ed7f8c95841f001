"""Grants: when they end, what a used token gets, how many there are, and what the file tells."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server.auth.provider import TokenError

from spellbook.http.oauth.grants import (
    CODE_SECONDS,
    DAY,
    GRANT_DAYS,
    MOST_GRANTS,
    MOST_REGISTERED,
    Grant,
    Grants,
    Registered,
)
from spellbook.http.oauth.provider import AGAIN_SECONDS, MOST_AGAIN, Provider
from spellbook.http.tokens import FILE, May, Token, Tokens
from spellbook.system.errors import InvalidInput, PermissionDenied, StorageError

from ..running import may_of
from .remote import CALLBACK, CHALLENGE, CLAUDE, ISSUER, READ


class Clocks:
    """The time of day, which may jump, and one that never does."""

    day = 1_800_000_000.0
    ticks = 100.0

    def pass_by(self, seconds: float) -> None:
        self.day += seconds
        self.ticks += seconds


class Place:
    """A vault's tokens and grants, as one process has them."""

    def __init__(self, file: Path, clocks: Clocks) -> None:
        self.tokens = Tokens(file, {})
        self.grants = Grants(self.tokens, lambda: clocks.day)
        self.provider = Provider(self.grants, ISSUER, lambda: clocks.ticks)

    def code(self, parent: str) -> str:
        return self.provider.give(CLAUDE, "Claude", CALLBACK, CHALLENGE, self.holder(parent), "read")

    def holder(self, name: str) -> Token:
        return next(each for each in self.tokens.all() if each.name == name)

    def begin(self, app: str = CLAUDE, name: str = "Claude", parent: str = "me", may: May = "read") -> Grant:
        """A grant whose app has its first tokens."""
        made = self.grants.begin(app, name, self.holder(parent), may)
        self.grants.renew(made.id, may)
        return made

    def exchange(self, code: str) -> Any:
        async def run() -> Any:
            client: Any = await self.provider.get_client(CLAUDE)
            found = await self.provider.load_authorization_code(client, code)
            return found and await self.provider.exchange_authorization_code(client, found)

        return anyio.run(run)

    def refresh(self, token: str) -> Any:
        async def run() -> Any:
            client: Any = await self.provider.get_client(CLAUDE)
            found = await self.provider.load_refresh_token(client, token)
            return found and await self.provider.exchange_refresh_token(client, found, [READ])

        return anyio.run(run)


@pytest.fixture
def clocks() -> Clocks:
    return Clocks()


@pytest.fixture
def place(tmp_path: Path, clocks: Clocks) -> Place:
    made = Place(tmp_path / FILE, clocks)
    made.tokens.add("me")
    return made


def test_when_things_end(place: Place, clocks: Clocks, tmp_path: Path) -> None:
    """
    A code after a minute, an access token after a day, a grant 90 days after its last refresh; a used refresh token gets
    the same pair for two minutes and ten times, and later ends its grant.

    A clock that is set forward or back ends no code and no repeat early, and deletes nothing. After a restart a used
    refresh token is refused and ends nothing.
    """
    me = "me"
    late, code = place.code(me), place.code(me)
    clocks.day += 10 * DAY
    pair = place.exchange(code)
    assert may_of(place.grants.caller(pair.access_token)) == "read"
    clocks.day -= 10 * DAY
    clocks.pass_by(CODE_SECONDS)
    assert place.exchange(late) is None
    renewed = place.refresh(pair.refresh_token)
    clocks.day += 3_600
    assert place.refresh(pair.refresh_token) == renewed
    clocks.day -= 7_200
    clocks.ticks += AGAIN_SECONDS - 1
    assert [place.refresh(pair.refresh_token) for _ in range(MOST_AGAIN - 2)] == [renewed] * (MOST_AGAIN - 2)
    other = Place(tmp_path / FILE, clocks)
    assert other.refresh(pair.refresh_token) is None
    assert other.grants.caller(renewed.access_token)
    with pytest.raises(TokenError):
        place.refresh(pair.refresh_token)
    assert place.grants.caller(renewed.access_token) is None
    assert place.refresh(renewed.refresh_token) is None
    pair = place.exchange(place.code(me))
    renewed = place.refresh(pair.refresh_token)
    clocks.pass_by(AGAIN_SECONDS)
    with pytest.raises(TokenError):
        place.refresh(pair.refresh_token)
    assert place.grants.caller(renewed.access_token) is None
    pair = place.exchange(place.code(me))
    clocks.pass_by(DAY - 1)
    assert place.grants.caller(pair.access_token)
    clocks.pass_by(1)
    assert place.grants.caller(pair.access_token) is None
    for _ in range(2):
        clocks.pass_by(GRANT_DAYS * DAY - DAY - 2)
        pair = place.refresh(pair.refresh_token)
    clocks.day += 400 * DAY  # a clock that is wrong for a while
    assert place.refresh(pair.refresh_token) is None
    clocks.day -= 400 * DAY
    assert place.grants.caller(pair.access_token)
    clocks.pass_by(GRANT_DAYS * DAY)
    assert place.refresh(pair.refresh_token) is None
    assert place.grants.all() == []


def test_how_many_there_are_and_what_the_file_tells(place: Place, clocks: Clocks, tmp_path: Path) -> None:
    """
    A hundred grants, then a clear refusal, unless some have ended; fifty registered apps, of which one without a grant is
    forgotten after a day, and the oldest first. Names differ, and no token can have one of them. Only hashes are kept,
    for the owner alone; a damaged file lets nobody in and is not written over.
    """
    made = [place.begin() for _ in range(MOST_GRANTS)]
    assert len({grant.name for grant in made}) == MOST_GRANTS
    for name in (made[0].name, made[1].name):
        with pytest.raises(InvalidInput):
            place.tokens.add(name)
    with pytest.raises(InvalidInput, match="100 apps are connected"):
        place.begin()
    assert place.grants.remove(made[5].name).id == made[5].id
    for unknown in ("nothing", "no:thing"):
        with pytest.raises(InvalidInput, match="no token named"):
            place.grants.remove(unknown)
    secrets = place.grants.renew(place.begin("x", "앱 <b>").id, "read")
    file = place.grants.file
    text = file.read_text("utf-8")
    assert not [secret for secret in secrets if secret in text]
    assert sys.platform == "win32" or stat.S_IMODE(file.stat().st_mode) == 0o600
    clocks.pass_by(GRANT_DAYS * DAY)
    place.begin()
    assert len(json.loads(file.read_text("utf-8"))["grants"]) == 1
    reader = place.tokens.add("reader", "read")
    with pytest.raises(PermissionDenied):
        place.begin(parent="reader", may="write")
    of_reader = place.begin(parent="reader").id
    place.tokens.remove("reader")
    with pytest.raises(KeyError):
        place.grants.renew(of_reader, "read")
    for number in range(MOST_REGISTERED + 1):
        place.grants.register(Registered(str(number), "x", (CALLBACK,), "", clocks.day))
        if number == 1:
            place.begin("1", "x")
    assert [place.grants.registered(str(number)) is None for number in (0, 1, 2, MOST_REGISTERED)] == [
        True,
        False,
        False,
        False,
    ]
    clocks.pass_by(DAY)
    assert [place.grants.registered(str(number)) is None for number in (1, 2)] == [False, True]
    assert reader
    good = file.read_text("utf-8")
    for bad in (
        "{",
        "[]",
        good.replace('"read"', '"admin"'),
        good.replace('"private"', '"all"'),
        good.replace('"ends": ', '"ends": "x",\n"y": '),
    ):
        file.write_text(bad, "utf-8")
        for use in (place.grants.all, lambda: place.grants.caller("x"), lambda: place.grants.end("x")):
            with pytest.raises(StorageError, match=r"grants\.json"):
                use()
        assert file.read_text("utf-8") == bad
