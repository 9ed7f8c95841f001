"""
The tokens that a server lets in: their names and rights, and the cookies of browsers that logged in with one.

A token is 256 random bits. The file keeps its SHA-256 alone: a slow hash would protect a word that somebody could
guess, and nobody guesses these. No token is ever logged, listed or put into an error.

A cookie is `name.expiry.proof.nonce.signature`, each part base64 or a number. The proof is an HMAC by the token, of
which the file has the hash; the signature is an HMAC by the token's hash. So the file alone makes no cookie, a cookie
alone gives no token and cannot be made to last longer, and both end when the token is removed. The file also lists the
cookies that were logged out, until they would have ended.
"""

from __future__ import annotations

import base64
import datetime as dt
import hmac
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from spellbook.http.callers import RIGHTS, SCOPES, Caller, May, Sees
from spellbook.settings import paths
from spellbook.system import disk
from spellbook.system.errors import InvalidInput, StorageError

FILE = "tokens.json"
PHONE = "phone"  # the token of `spellbook serve --phone`
VARIABLE = "SPELLBOOK_TOKEN"
"""Names a token that is in no file; it may write and sees all notes."""

COOKIE_SECONDS = 30 * 24 * 3600

_PREFIX = "spb_"
"""Begins every token, so that tools which look for leaked secrets can recognize one."""

_SHORTEST = 16
"""Letters of SPELLBOOK_TOKEN: a word that can be guessed could be found from a stolen cookie."""

_MOST_LETTERS = 1_000
"""Letters of a token or cookie that are looked at. By hand: tokens and cookies of this server are far shorter."""

_MOST_ENDED = 100
"""Cookies of one token that are listed as logged out; if there are more, all that it has are."""

_NAME = re.compile(r"[\w][\w .@-]{0,59}")
_PATIENCE = 10.0


@dataclass(frozen=True)
class Token:
    """A token by its name, without its secret; `created` is ISO 8601, "" for the one of the environment."""

    name: str
    may: May
    sees: Sees
    created: str = ""
    verifier: bytes = field(default=b"", repr=False)
    """The SHA-256 of the token."""

    proof: bytes = field(default=b"", repr=False)
    """The SHA-256 of the proof that its cookies carry."""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that may be shown."""
        return {"name": self.name, "may": self.may, "sees": self.sees, "created": self.created}

    @property
    def id(self) -> str:
        """A hash that no other token has, not even a later one of its name; it opens nothing."""
        return sha256(self.verifier).hexdigest()[:16]

    def caller(self, *, by_cookie: bool = False) -> Caller:
        """Return who asks with it."""
        return Caller(self.name, self.may, self.sees, by_cookie, self.id)


Ended = dict[str, dict[str, int]]
"""The cookies that were logged out, by the id of their token: the hash of each, and when it would have ended. "" stands
for all that would have ended by then."""


class Tokens:
    """
    The tokens in a file, and the one of the environment.

    Every look reads the file again if it has changed, so that a token removed by another process is refused at once.
    """

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
        self._lent: tuple[Token, ...] = ()
        self._guard = threading.Lock()
        self._read: tuple[object, tuple[Token, ...], Ended] = (None, (), {})

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

    def caller(self, token: str) -> Caller | None:
        """Return who has this token, None if nobody has. Takes as long for a wrong one. Raises StorageError."""
        holder = self._holder_of(token)
        return holder.caller() if holder else None

    def cookie(self, token: str) -> str | None:
        """Return the value of a cookie that stands for this token for 30 days; None if nobody has the token."""
        if (holder := self._holder_of(token)) is None:
            return None
        expiry, nonce = int(time.time()) + COOKIE_SECONDS, secrets.token_urlsafe(9)
        body = f"{_text(holder.name.encode())}.{expiry}.{_text(_proof(token))}.{nonce}"
        return f"{body}.{_signature(holder, body)}"

    def caller_by_cookie(self, value: str) -> Caller | None:
        """Return who has logged in with this cookie; None if it is false, too old, logged out, or its token is gone."""
        login = self._of_cookie(value)
        if login is None:
            return None
        token, expiry = login
        ended = self._read[2].get(token.id, {})
        is_ended = _digest(value) in ended or expiry <= ended.get("", 0)
        return None if is_ended else token.caller(by_cookie=True)

    def log_out(self, value: str) -> None:
        """End a cookie: nobody is let in with it any more. Raises StorageError."""
        if (login := self._of_cookie(value)) is None:
            return
        token, expiry = login
        with self._changing() as (_, ended):
            mine = ended.setdefault(token.id, {})
            mine[_digest(value)] = expiry
            if len(mine) > _MOST_ENDED:
                ended[token.id] = {"": max(mine.values())}

    def _of_cookie(self, value: str) -> tuple[Token, int] | None:
        """Return the token that a cookie stands for, and when it ends; None if it is false or too old."""
        body, _, signature = value.rpartition(".")
        parts = body.split(".")
        if len(value) > _MOST_LETTERS or not value.isascii() or len(parts) != 4:
            return None
        try:
            name, expiry, proof = _bytes(parts[0]).decode(), int(parts[1]), sha256(_bytes(parts[2])).digest()
        except ValueError:
            return None
        for holder in (each for each in self.all() if each.name == name):
            is_true = hmac.compare_digest(_signature(holder, body), signature)
            if is_true & hmac.compare_digest(holder.proof, proof) and time.time() < expiry:
                return holder, expiry
        return None

    @staticmethod
    def csrf(cookie: str) -> str:
        """Return the value that a form must send with this cookie: a stranger's page knows neither."""
        return hmac.digest(cookie.encode(), b"spellbook csrf", "sha256").hex()

    @classmethod
    def is_csrf(cls, cookie: str, value: str) -> bool:
        """Return whether a form sent the value that belongs to this cookie."""
        return hmac.compare_digest(cls.csrf(cookie).encode(), value.encode("utf-8", "replace"))

    def _holder_of(self, token: str) -> Token | None:
        """Return the token with this secret. Every one is compared, whichever fits."""
        digest = sha256(token[:_MOST_LETTERS].encode("utf-8", "replace")).digest()
        holder = None
        for known in self.all():
            holder = known if hmac.compare_digest(known.verifier, digest) else holder
        return holder if len(token) <= _MOST_LETTERS else None

    # -- which there are

    def all(self) -> tuple[Token, ...]:
        """Return all tokens by name, those in no file first. Raises StorageError for a damaged file."""
        with self._guard:
            stamp = self._stamp()
            if stamp != self._read[0]:
                self._read = (stamp, *self._in_file())
            return (*self._own, *self._lent, *self._read[1])

    @property
    def is_empty(self) -> bool:
        """Whether nobody has made a token; one that this process lends opens and closes nothing else."""
        return set(self.all()) <= set(self._lent)

    def lend(self) -> str:
        """Make the token of a phone, which may write, is in no file and ends with this process, and return it."""
        self._lent = (_token(PHONE, "write", "private", "", secret := _PREFIX + secrets.token_urlsafe(32)),)
        return secret

    def add(self, name: str, may: May | None = None, sees: Sees = "private") -> str:
        """
        Make a token and return it, for the only time. Raises InvalidInput, StorageError.

        Without `may` it may write if it sees all notes. One that does not may only read; see `library.limited`.
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
        if name == PHONE and self._lent:
            lent, self._lent = self._lent, ()
            return lent[0]
        with self._changing() as (tokens, _):
            removed = next((each for each in tokens if each.name == name), None)
            if removed is None:
                there = ", ".join(each.name for each in tokens) or "none"
                raise InvalidInput(f"There is no token named {name[:80]!r}.", f"Tokens here: {there}.")
            tokens.remove(removed)
        return removed

    # -- the file

    @contextmanager
    def _changing(self) -> Iterator[tuple[list[Token], Ended]]:
        """Yield tokens and ended cookies of the file to be changed, then write them; other processes wait."""
        busy = StorageError(f"{self.file}: another process is changing it.", "Try again in a moment.")
        try:
            self.file.parent.mkdir(0o700, parents=True, exist_ok=True)
            with disk.alone(self.file.with_suffix(".lock"), _PATIENCE, busy):
                there, ended = self._in_file()
                tokens = list(there)
                yield tokens, ended
                # A token of the environment, or of a phone, is another process's, and keeps what it ended.
                gone, now = {each.id for each in {*there} - {*tokens}}, time.time()
                left = {id: {k: v for k, v in of.items() if v > now} for id, of in ended.items() if id not in gone}
                ended = {id: of for id, of in left.items() if of}
                kept = [
                    {**each.as_dict(), "verifier": each.verifier.hex(), "proof": each.proof.hex()} for each in tokens
                ]
                data = json.dumps({"tokens": kept, "ended": ended}, ensure_ascii=False, indent=1).encode()
                with disk.written(self.file.parent, data, 0o600) as made:
                    os.replace(made, self.file)
                disk.sync_folder(self.file.parent)
        except OSError as error:
            raise disk.storage_error(str(self.file), error) from error

    def _stamp(self) -> object:
        try:
            status = self.file.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._fault(error.strerror or str(error)) from error
        return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def _in_file(self) -> tuple[tuple[Token, ...], Ended]:
        try:
            data = disk.read_small(self.file)
        except FileNotFoundError:
            return (), {}
        except OSError as error:
            raise self._fault(error.strerror or str(error)) from error
        try:
            kept = json.loads(data)
            ended = {str(id): {str(k): int(v) for k, v in of.items()} for id, of in kept.get("ended", {}).items()}
            # A token that a file of 0.2.0 limits to some vaults must not see this whole one: it is not let in.
            rows = [row for row in kept["tokens"] if "vaults" not in row]
            return tuple(sorted(map(_from_dict, rows), key=lambda each: each.name)), ended
        except (AttributeError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise self._fault("it is not as Spellbook wrote it") from error

    def _fault(self, reason: str) -> StorageError:
        return StorageError(
            f"{self.file}: {reason}, so nobody is let in.", "Mend the file, or delete it and make new tokens."
        )


def _token(name: str, may: May, sees: Sees, created: str, secret: str) -> Token:
    proof = sha256(_proof(secret)).digest()
    return Token(name, may, sees, created, sha256(secret.encode("utf-8", "replace")).digest(), proof)


def _from_dict(row: Mapping[str, Any]) -> Token:
    """Read a token of the file. Raises ValueError, TypeError, KeyError."""
    may, sees, hashes = row["may"], row["sees"], [bytes.fromhex(row[key]) for key in ("verifier", "proof")]
    if may not in RIGHTS or sees not in SCOPES or any(len(each) != sha256().digest_size for each in hashes):
        raise ValueError("unknown rights or a broken hash")
    return Token(str(row["name"]), may, sees, str(row["created"]), hashes[0], hashes[1])


def _digest(cookie: str) -> str:
    return sha256(cookie.encode()).hexdigest()[:32]


def _proof(secret: str) -> bytes:
    return hmac.digest(secret.encode("utf-8", "replace"), b"spellbook cookie", "sha256")


def _signature(token: Token, body: str) -> str:
    return _text(hmac.digest(token.verifier, body.encode(), "sha256"))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    """Decode the base64 of `_text`. Raises ValueError."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
