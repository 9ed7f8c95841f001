"""
Answer the SDK's handlers of OAuth: apps, codes and tokens, over the grants of a vault.

Codes, and the pair that a refresh made, are in memory only: after a restart a used one is refused and ends nothing.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    RegistrationError,
    TokenError,
    construct_redirect_uri,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

from spellbook.http.oauth import clients
from spellbook.http.oauth.addresses import READ, SCOPES, WRITE, resources
from spellbook.http.oauth.grants import ACCESS_SECONDS, Grant, Grants, Registered
from spellbook.http.served import writing
from spellbook.http.tokens import May, digest
from spellbook.system.errors import SpellbookError
from spellbook.system.lazy import regex
from spellbook.text.quoting import one_line

CODE_SECONDS = 60.0
_REMEMBERED = 600.0
"""Seconds for which a code is known after it was given: one that comes again ends its grant."""

AGAIN_SECONDS = 120.0
"""Seconds for which a used refresh token gets the same pair: apps refresh from several machines, up to 76 s apart."""

MOST_AGAIN = 10
_MOST_USED = 1_000
_MOST_NAME = 60
_MOST_REDIRECTS = 10
_CHALLENGE = regex(r"[A-Za-z0-9_-]{43}")


@dataclass
class _Given:
    """A code that was given at `at` (monotonic) below the token `parent`; `grant` is the id of the grant it made."""

    code: AuthorizationCode
    redirect: str
    parent: str
    at: float
    grant: str = ""


@dataclass
class _Used:
    """A refresh token that was used at `at`, the tokens that it got, and how often these were given again."""

    grant: str
    pair: OAuthToken
    at: float
    again: int = 0


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """The authorization server of one vault, known as `issuer`."""

    def __init__(self, grants: Grants, issuer: str, ticks: Callable[[], float] = time.monotonic) -> None:
        """`ticks` gives seconds of a clock that never jumps."""
        self.grants, self.issuer = grants, issuer
        self._ticks = ticks
        self._lock = threading.Lock()
        self._codes: dict[str, _Given] = {}
        self._used: dict[str, _Used] = {}

    # -- apps

    def redirects_to(self, id: str, redirect: str) -> str | None:
        """Return the name of the app with this id if its answers may go to `redirect`, else None."""
        if clients.pinned(id):
            return clients.app_at(redirect, id)
        app = self.grants.registered(id)
        is_own = app and clients.portless(redirect) in map(clients.portless, app.redirects)
        of = clients.app_at(redirect) if is_own else None
        if app is None or of is None:
            return None
        return app.name if clients.is_loopback(redirect) else of  # an app of the web is known by its address alone

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        app = None if clients.pinned(client_id) else self.grants.registered(client_id)
        if app is None and not clients.pinned(client_id):
            return None
        secret = app.secret if app else ""
        return OAuthClientInformationFull(
            client_id=client_id,
            scope=" ".join(SCOPES),
            token_endpoint_auth_method="client_secret_post" if secret else "none",  # `routes` brings it into this form
            client_secret=secret or None,
        )

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        redirects = tuple(map(str, client_info.redirect_uris or ()))
        if not 0 < len(redirects) <= _MOST_REDIRECTS or any(clients.app_at(each) is None for each in redirects):
            raise RegistrationError("invalid_redirect_uri", "Only the redirects of known apps may be registered.")
        called = one_line((client_info.client_name or "")[:_MOST_NAME]).strip()
        secret = digest(client_info.client_secret) if client_info.client_secret else ""
        app = Registered(client_info.client_id, called or "MCP", redirects, secret, self.grants.now())
        try:
            await writing(self.grants.register, app)
        except SpellbookError as error:
            raise RegistrationError("invalid_client_metadata", error.message) from error

    # -- codes

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """Check what the SDK does not, before a person is asked; `give` then gives the code."""
        if params.resource is not None and params.resource not in resources(self.issuer):
            raise AuthorizeError("invalid_target", "This server is not that resource.")
        if not _CHALLENGE.fullmatch(params.code_challenge):
            raise AuthorizeError("invalid_request", "The code_challenge is not that of S256.")
        return self.issuer

    def give(self, app: str, redirect: str, params: AuthorizationParams, parent: str, may: May) -> str:
        """Return the redirect with a code that may be exchanged once within a minute, for a grant below `parent`."""
        code, now = secrets.token_urlsafe(32), self._ticks()
        scopes = list(SCOPES) if may == "write" else [READ]
        made = AuthorizationCode(
            code=code,
            scopes=scopes,
            expires_at=math.inf,  # `load_authorization_code` goes by a clock that does not jump
            client_id=app,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=True,
        )
        with self._lock:
            self._codes = {key: each for key, each in self._codes.items() if now - each.at < _REMEMBERED}
            self._codes[digest(code)] = _Given(made, redirect, parent, now)
        return construct_redirect_uri(redirect, code=code, state=params.state, iss=self.issuer)

    def redirect_of(self, code: str) -> str | None:
        """Return where a code was sent, letter by letter; None for an unknown one."""
        given = self._codes.get(digest(code))
        return given.redirect if given else None

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        given = self._codes.get(digest(authorization_code))
        if given and given.grant:
            await writing(self.grants.end, given.grant)
        is_fresh = given and not given.grant and self._ticks() - given.at < CODE_SECONDS
        return given.code if given and is_fresh else None

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        return await writing(self._exchange, client.client_id, authorization_code)

    def _exchange(self, app: str, code: AuthorizationCode) -> OAuthToken:
        may: May = "write" if WRITE in code.scopes else "read"
        with self._lock:
            given = self._codes.get(digest(code.code))
            if given is None or given.grant:
                if given:
                    self.grants.end(given.grant)
                raise TokenError("invalid_grant", "The code was used before.")
            name = self.redirects_to(app, str(code.redirect_uri)) or "MCP"
            try:
                grant, access, refresh = self.grants.begin(app, name, given.parent, may)
            except SpellbookError as error:
                raise TokenError("invalid_grant", error.message) from error
            given.grant = grant.id
        return _pair(access, refresh, may)

    # -- tokens

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        grant = await writing(self._refreshing, refresh_token)
        if grant is None:
            return None
        scopes = list(SCOPES) if grant.may == "write" else [READ]
        return RefreshToken(token=refresh_token, client_id=grant.app, scopes=scopes)

    def _refreshing(self, token: str) -> Grant | None:
        """Return the grant that a refresh token, present or used, is of."""
        with self._lock:  # else it could be neither, while another request uses it
            used = self._used.get(digest(token))
            return self.grants.of(used.grant) if used else self.grants.refreshed_by(token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        return await writing(self._refresh, refresh_token.token, "write" if WRITE in scopes else "read")

    def _refresh(self, token: str, may: May) -> OAuthToken:
        hashed, now = digest(token), self._ticks()
        with self._lock:
            if used := self._used.get(hashed):
                used.again += 1
                if now - used.at < AGAIN_SECONDS and used.again < MOST_AGAIN and self.grants.of(used.grant):
                    return used.pair
                self.grants.end(used.grant)
                raise TokenError("invalid_grant", "The refresh token was used before. Connect again.")
            grant = self.grants.refreshed_by(token)
            try:
                pair = _pair(*self.grants.renew(grant.id if grant else "", may), may)
            except KeyError as error:
                raise TokenError("invalid_grant", "The grant is gone.") from error
            if len(self._used) >= _MOST_USED:
                del self._used[next(iter(self._used))]
            self._used[hashed] = _Used(grant.id if grant else "", pair, now)
        return pair

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.grants.opened_by(token)
        return AccessToken(token=token, client_id=found[0].app, scopes=[]) if found else None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        """End the grant of a token: an app that logs out is connected no more."""
        found = self.grants.opened_by(token.token)
        grant = found[0] if found else self.grants.refreshed_by(token.token)
        if grant:
            await writing(self.grants.end, grant.id)


def _pair(access: str, refresh: str, may: May) -> OAuthToken:
    scope = " ".join(SCOPES) if may == "write" else READ
    return OAuthToken(access_token=access, expires_in=ACCESS_SECONDS, scope=scope, refresh_token=refresh)
