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
    OAuthAuthorizationServerProvider,
    RefreshToken,
    RegistrationError,
    TokenError,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyUrl

from spellbook.http.oauth import clients
from spellbook.http.oauth.grants import ACCESS_SECONDS, CODE_SECONDS, Grant, Grants, Registered
from spellbook.http.served import writing
from spellbook.http.tokens import May, Token, digest
from spellbook.system.errors import InvalidInput
from spellbook.text.quoting import one_line

_REMEMBERED = 600.0
"""Seconds for which a code is known after it was given: one that comes again ends its grant."""

AGAIN_SECONDS = 120.0
"""Seconds for which a used refresh token gets the same pair: apps refresh from several machines, up to 76 s apart."""

MOST_AGAIN = 10
_MOST_USED = 1_000
_MOST_NAME = 60
_MOST_REDIRECTS = 10


class Code(AuthorizationCode):
    """A code that was given at `given` (monotonic) for a grant; the answer went to `redirect`, letter by letter."""

    grant: str
    redirect: str
    given: float
    is_used: bool = False


@dataclass
class _Used:
    """A refresh token that was used at `at`, the tokens that it got, and how often these were given again."""

    grant: str
    pair: OAuthToken
    at: float
    again: int = 0


class Provider(OAuthAuthorizationServerProvider[Code, RefreshToken, AccessToken]):
    """The authorization server of one vault, known as `issuer`."""

    def __init__(self, grants: Grants, issuer: str, ticks: Callable[[], float] = time.monotonic) -> None:
        """`ticks` gives seconds of a clock that never jumps."""
        self.grants = grants
        self.issuer = issuer
        self._ticks = ticks
        self._lock = threading.Lock()
        self._codes: dict[str, Code] = {}
        self._used: dict[str, _Used] = {}

    # -- apps

    def redirects_to(self, id: str, redirect: str) -> str | None:
        """Return the name of the app with this id if its answers may go to `redirect`, else None."""
        if clients.pinned(id):
            return clients.app_at(redirect, id)
        app = self.grants.registered(id)
        if app is None or clients.portless(redirect) not in map(clients.portless, app.redirects):
            return None
        # An app of the web is known by its address alone, whatever it calls itself.
        return app.name if clients.is_loopback(redirect) else clients.app_at(redirect)

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        app = self.grants.registered(client_id)
        if app is None and not clients.pinned(client_id):
            return None
        secret = app.secret if app else ""
        method = "client_secret_post" if secret else "none"  # `routes` brings each request into this form
        return OAuthClientInformationFull(client_id=client_id, token_endpoint_auth_method=method, client_secret=secret)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        redirects = tuple(map(str, client_info.redirect_uris or ()))
        if not 0 < len(redirects) <= _MOST_REDIRECTS or any(clients.app_at(each) is None for each in redirects):
            raise RegistrationError("invalid_redirect_uri", "Only the redirects of known apps may be registered.")
        called = one_line((client_info.client_name or "")[:_MOST_NAME]).strip()
        secret = digest(client_info.client_secret) if client_info.client_secret else ""
        app = Registered(client_info.client_id, called or "MCP", redirects, secret, self.grants.now())
        try:
            await writing(self.grants.register, app)
        except InvalidInput as error:
            raise RegistrationError("invalid_client_metadata", error.message) from error

    # -- codes

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        """The page of `consent` asks a person, and then calls `give`."""
        raise NotImplementedError

    def give(self, app: str, name: str, redirect: str, challenge: str, holder: Token, may: May) -> str:
        """Return a code, which may be exchanged once within a minute for a grant below `holder`. Raises as `begin`."""
        grant = self.grants.begin(app, name, holder, may)
        now = self._ticks()
        code = Code(
            code=secrets.token_urlsafe(32),
            scopes=clients.scopes_for(may),
            expires_at=math.inf,  # `load_authorization_code` goes by a clock that does not jump
            client_id=app,
            code_challenge=challenge,
            redirect_uri=AnyUrl(redirect),
            redirect_uri_provided_explicitly=True,
            grant=grant.id,
            redirect=redirect,
            given=now,
        )
        with self._lock:
            self._codes = {key: each for key, each in self._codes.items() if now - each.given < _REMEMBERED}
            self._codes[digest(code.code)] = code
        return code.code

    def redirect_of(self, code: str) -> str | None:
        """Return where a code was sent, letter by letter; None for an unknown one."""
        given = self._codes.get(digest(code))
        return given.redirect if given else None

    async def load_authorization_code(self, client: OAuthClientInformationFull, authorization_code: str) -> Code | None:
        code = self._codes.get(digest(authorization_code))
        if code and code.is_used:
            await writing(self.grants.end, code.grant)
        return code if code and self._ticks() - code.given < CODE_SECONDS else None

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: Code
    ) -> OAuthToken:
        return await writing(self._exchange, authorization_code)

    def _exchange(self, code: Code) -> OAuthToken:
        with self._lock:
            if code.is_used:
                self.grants.end(code.grant)
                raise TokenError("invalid_grant", "The code was used before.")
            code.is_used = True
            return self._renewed(code.grant, "write" if clients.WRITE in code.scopes else "read")

    # -- tokens

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        grant = await writing(self._refreshing, refresh_token)
        if grant is None:
            return None
        return RefreshToken(
            token=refresh_token, client_id=grant.app, scopes=clients.scopes_for(grant.may), subject=grant.id
        )

    def _refreshing(self, token: str) -> Grant | None:
        """Return the grant that a refresh token, present or used, is of."""
        with self._lock:  # else it could be neither, while another request uses it
            used = self._used.get(digest(token))
            return self.grants.of(used.grant) if used else self.grants.refreshed_by(token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        return await writing(self._refresh, refresh_token.token, "write" if clients.WRITE in scopes else "read")

    def _refresh(self, token: str, may: May) -> OAuthToken:
        hashed = digest(token)
        now = self._ticks()
        with self._lock:
            if used := self._used.get(hashed):
                used.again += 1
                if now - used.at < AGAIN_SECONDS and used.again < MOST_AGAIN:
                    return used.pair
                self.grants.end(used.grant)
                raise TokenError("invalid_grant", "The refresh token was used before. Connect again.")
            grant = self.grants.refreshed_by(token)
            id = grant.id if grant else ""
            pair = self._renewed(id, may)
            if len(self._used) >= _MOST_USED:
                del self._used[next(iter(self._used))]
            self._used[hashed] = _Used(id, pair, now)
        return pair

    def _renewed(self, grant: str, may: May) -> OAuthToken:
        """Return new tokens of a grant. Raises TokenError if it is gone."""
        try:
            access, refresh = self.grants.renew(grant, may)
        except KeyError as error:
            raise TokenError("invalid_grant", "The grant is gone. Connect again.") from error
        return OAuthToken(
            access_token=access,
            expires_in=ACCESS_SECONDS,
            scope=" ".join(clients.scopes_for(may)),
            refresh_token=refresh,
        )

    async def load_access_token(self, token: str) -> AccessToken | None:
        if (found := self.grants.opened_by(token)) is None:
            return None
        grant, may = found
        return AccessToken(token=token, client_id=grant.app, scopes=clients.scopes_for(may), subject=grant.id)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        """End the grant of a token: an app that logs out is connected no more."""
        await writing(self.grants.end, token.subject or "")
