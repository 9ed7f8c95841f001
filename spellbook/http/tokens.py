"""
Callers and their rights, the tokens that a server lets in, and the cookies of browsers that logged in with one.

A token or cookie is 256 random bits. The file keeps only their SHA-256: a slow hash would protect guessable words, and
nobody guesses these. No token is ever logged, listed or put into an error.
"""

from __future__ import annotations

import datetime as dt
import hmac
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from spellbook.http.private_file import KeptFile
from spellbook.settings import paths
from spellbook.system.errors import InvalidInput, PermissionDenied
from spellbook.system.lazy import regex

May = Literal["read", "write", "admin"]
Sees = Literal["private", "team", "public"]

RIGHTS: tuple[May, ...] = ("read", "write", "admin")
"""Each includes those before it."""

SCOPES: tuple[Sees, ...] = ("private", "team", "public")
"""Each shows the notes of those after it, and more."""

FILE = "tokens.json"
BROWSER = "browser"  # the token of the browser that `spellbook serve` opens
PHONE = "phone"  # the token of `spellbook serve --phone`
VARIABLE = "SPELLBOOK_TOKEN"
"""Names a token that is in no file; it may write and sees all notes."""

COOKIE_SECONDS = 30 * 24 * 3600

_PREFIX = "spb_"
"""Begins every token, so that tools which look for leaked secrets can recognize one."""

_SHORTEST = 16
"""Letters of SPELLBOOK_TOKEN: a shorter word could be guessed from its hash."""

_MOST_LETTERS = 1_000
"""Letters of a token that are compared. By hand: tokens of this server are far shorter."""

_MOST_LOGINS = 100
"""Browsers that are logged in with one token; one more logs out the first."""

_RANDOM = regex(r"(?:sp[abr]_)?[\w-]{43}", re.A)
_NAME = regex(r"[\w][\w .@-]{0,59}")
_KEYS = ("name", "may", "sees", "created", "verifier")


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
    is_grant: bool = False
    """Whether an app asks that was connected over OAuth."""

    @property
    def is_limited(self) -> bool:
        """Whether there may be notes that the caller does not see."""
        return self.sees != "private"

    def has(self, right: May) -> bool:
        """Return whether the caller has a right."""
        with suppress(PermissionDenied):
            self.require(right)
            return True
        return False

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


@dataclass(frozen=True)
class Token:
    """A token by its name, without its secret; `created` is ISO 8601, "" for the one of the environment."""

    name: str
    may: May
    sees: Sees
    created: str = ""
    verifier: str = field(default="", repr=False)
    """The SHA-256 of the token."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that may be shown."""
        return {"name": self.name, "may": self.may, "sees": self.sees, "created": self.created}

    @property
    def id(self) -> str:
        """A hash that no other token has, not even a later one of its name; it opens nothing."""
        return digest(self.verifier)[:16]

    def caller(self, *, by_cookie: bool = False) -> Caller:
        return Caller(self.name, self.may, self.sees, by_cookie, self.id)


Logins = dict[str, tuple[str, int]]
"""The cookies, each by its hash: the id of its token, and when it ends in seconds since 1970."""


class Tokens:
    """The tokens in a file, and the one of the environment; a changed file is read again, so removals hold at once."""

    def __init__(self, file: Path, environment: Mapping[str, str] = os.environ) -> None:
        """Raises InvalidInput for a SPELLBOOK_TOKEN that is too short."""
        self.file = file
        token = environment.get(VARIABLE, "").strip()
        if token and len(token) < _SHORTEST:
            raise InvalidInput(
                f"SPELLBOOK_TOKEN has fewer than {_SHORTEST} letters.",
                "Give a random one: python -c 'import secrets; print(secrets.token_urlsafe(32))'.",
            )
        self._own = (_token(VARIABLE, "write", "private", "", token),) if token else ()
        self._lent: dict[str, Token] = {}
        """Tokens that are in no file and end with this process, by name."""
        self._links: dict[str, str] = {}
        """Secrets that log a browser in once, each with the lent token that its cookie then stands for."""
        self._kept: KeptFile[tuple[list[Token], Logins]] = KeptFile(file, _parsed, {"tokens": []})

    @classmethod
    def of(cls, vault: Path) -> Tokens:
        """Return the tokens of a vault. Raises InvalidInput as above, and if they would lie in the vault."""
        folder = Path(paths.data(str(vault)))
        if folder.resolve().is_relative_to(vault):
            raise InvalidInput(
                f"{folder}: tokens cannot be kept in the vault.", "Set SPELLBOOK_DATA to a folder outside it."
            )
        return cls(folder / FILE)

    # -- who asks

    def caller(self, token: str, cookie: str = "") -> Caller | None:
        """
        Return the caller with this token, or else cookie; None if nobody has it. Takes as long for a wrong token.

        Raises StorageError.
        """
        holder = self._holder_of(token) if token else self._holder_by_cookie(cookie)
        return holder.caller(by_cookie=not token) if holder else None

    def cookie(self, token: str) -> str | None:
        """
        Return a new cookie that stands for this token, or for that of a `link`, for 30 days; None if nobody has it.

        Raises StorageError.
        """
        if (holder := self._holder_of(self._links.pop(token, token))) is None:
            return None
        cookie = secrets.token_urlsafe(32)
        with self._changing() as (_, logins):
            mine = [each for each, (id, _) in logins.items() if id == holder.id]
            for oldest in mine[: max(0, len(mine) - _MOST_LOGINS + 1)]:
                del logins[oldest]
            logins[digest(cookie)] = holder.id, int(time.time()) + COOKIE_SECONDS
        return cookie

    def lasting(self, cookie: str) -> Token | None:
        """Return the token with which a browser logged in, unless it ends with this process. Raises StorageError."""
        holder = self._holder_by_cookie(cookie)
        return None if holder in self._lent.values() else holder

    def log_out(self, value: str) -> None:
        """End a cookie: nobody is let in with it any more. Raises StorageError."""
        if self._holder_by_cookie(value):
            with self._changing() as (_, logins):
                logins.pop(digest(value), None)

    @staticmethod
    def csrf(cookie: str) -> str:
        """Return the value that a form must send with this cookie: a stranger's page knows neither."""
        return hmac.digest(cookie.encode(), b"spellbook csrf", "sha256").hex()

    def _holder_by_cookie(self, value: str) -> Token | None:
        """Return the token of this cookie; None if it is false, too old, logged out, or its token is gone."""
        holders = {each.id: each for each in self.all()}
        id, expiry = self._kept.value()[1].get(digest(value), ("", 0))
        return holders.get(id) if time.time() < expiry else None

    def _holder_of(self, token: str) -> Token | None:
        """Return the token with this secret. Every one is compared, whichever fits."""
        hashed = digest(token[:_MOST_LETTERS])
        holder = None
        for known in self.all():
            holder = known if hmac.compare_digest(known.verifier, hashed) else holder
        return holder if len(token) <= _MOST_LETTERS else None

    # -- which there are

    def all(self) -> tuple[Token, ...]:
        """Return all tokens by name, those in no file first. Raises StorageError for a damaged file."""
        return (*self._own, *self._lent.values(), *self._kept.value()[0])

    @property
    def is_empty(self) -> bool:
        """Whether nobody has made a token. Those that this process lends do not count."""
        return set(self.all()) <= set(self._lent.values())

    def lend(self, name: str = PHONE, may: May = "write") -> str:
        """Make a token that is in no file and ends with this process, in place of one of its name, and return it."""
        secret = _PREFIX + secrets.token_urlsafe(32)
        self._lent[name] = _token(name, may, "private", "", secret)
        return secret

    def link(self) -> str:
        """Return a secret that logs a browser in, once, as the person at this machine until the process ends."""
        secret = _PREFIX + secrets.token_urlsafe(32)
        self._links[secret] = self.lend(BROWSER, "admin")
        return secret

    def add(self, name: str, may: May | None = None, sees: Sees = "private") -> str:
        """
        Make a token and return it, for the only time; without `may` it may write if it sees all notes, others only
        read.

        Raises InvalidInput, StorageError. See `library.limited`.
        """
        may = may or ("write" if sees == "private" else "read")
        if not _NAME.fullmatch(name) or name == VARIABLE:
            raise InvalidInput(
                f"{name[:80]!r} cannot be the name of a token.", "Use up to 60 letters, digits, blanks and .@_-."
            )
        if may not in RIGHTS or sees not in SCOPES:
            raise InvalidInput(f"A token may {', '.join(RIGHTS)} and sees {', '.join(SCOPES)}.", "Choose one of each.")
        if sees != "private" and may != "read":
            raise InvalidInput(
                f"A token that sees what is {sees} alone may only read: what it writes could tell of others.",
                "Give --may read, or --sees private.",
            )
        secret = _PREFIX + secrets.token_urlsafe(32)
        now = dt.datetime.now().astimezone().isoformat(timespec="seconds")
        with self._changing() as (tokens, _):
            if any(each.name == name for each in tokens):
                raise InvalidInput(
                    f"There is a token named {name!r} already.", f"Remove it first: spellbook token remove {name!r}."
                )
            tokens.append(_token(name, may, sees, now, secret))
        return secret

    def remove(self, name: str) -> Token:
        """Remove a token and return it. It is refused from now on, and so are its cookies. Raises InvalidInput."""
        if lent := self._lent.pop(name, None):
            return lent
        with self._changing() as (tokens, _):
            removed = next((each for each in tokens if each.name == name), None)
            if removed is None:
                there = ", ".join(each.name for each in tokens) or "none"
                raise InvalidInput(f"There is no token named {name[:80]!r}.", f"Tokens here: {there}.")
            tokens.remove(removed)
        return removed

    @contextmanager
    def _changing(self) -> Iterator[tuple[list[Token], Logins]]:
        """Yield tokens and cookies of the file to be changed, then write them; other processes wait."""
        with self._kept.alone() as (tokens, logins):
            before = {*tokens}
            yield tokens, logins
            # A token of the environment, or of a phone, is another process's, and keeps its cookies.
            gone = {each.id for each in before - {*tokens}}
            now = time.time()
            left = {each: (id, end) for each, (id, end) in logins.items() if id not in gone and end > now}
            self._kept.write({"tokens": [asdict(each) for each in tokens], "logins": left})


def _parsed(kept: Any) -> tuple[list[Token], Logins]:
    """Return tokens and cookies of the file. Raises ValueError and others for what Spellbook did not write."""
    logins = {str(each): (str(id), int(end)) for each, (id, end) in kept.get("logins", {}).items()}
    # A token that a file of 0.2.0 limits to some vaults must not see this whole one: it is not let in.
    rows = [{key: str(row[key]) for key in _KEYS} for row in kept["tokens"] if "vaults" not in row]
    tokens = [Token(**row) for row in rows]  # type: ignore[arg-type]
    for each in tokens:
        size = len(bytes.fromhex(each.verifier))
        if each.may not in RIGHTS or each.sees not in SCOPES or size != sha256().digest_size:
            raise ValueError("unknown rights or a broken hash")
    return sorted(tokens, key=lambda each: each.name), logins


def _token(name: str, may: May, sees: Sees, created: str, secret: str) -> Token:
    return Token(name, may, sees, created, digest(secret))


def is_random(secret: str) -> bool:
    """Say whether a secret has the form of those that are made here, which nobody can guess."""
    return bool(_RANDOM.fullmatch(secret))


def digest(secret: str) -> str:
    """Return the hash of a secret, by which it is kept."""
    return sha256(secret.encode("utf-8", "replace")).hexdigest()
