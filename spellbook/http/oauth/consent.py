"""The page on which a person lets an app in, and their answer. The SDK checks what was asked; no script is needed."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from urllib.parse import parse_qsl, urlencode, urlsplit

from mcp.server.auth.handlers.authorize import AuthorizationHandler
from mcp.server.auth.provider import AuthorizationParams, construct_redirect_uri
from mcp.shared.auth import OAuthClientInformationFull
from pydantic import AnyUrl
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from spellbook.http.exchange import HEADERS, POLICY
from spellbook.http.guard import AGAIN, COOKIE
from spellbook.http.oauth import clients
from spellbook.http.oauth.addresses import AUTHORIZE, WRITE, scopes_of
from spellbook.http.oauth.grants import GRANT_DAYS
from spellbook.http.oauth.provider import Provider
from spellbook.http.pages import view
from spellbook.http.served import in_thread, language, served_of
from spellbook.http.tokens import Token, Tokens
from spellbook.settings.translate import translated
from spellbook.system.errors import InvalidInput

_MOST_FIELDS = 10
_OWN = {"referrer-policy": "no-referrer", "cross-origin-opener-policy": "unsafe-none"}
"""An app may have opened the page in a window of its own, and waits there for the answer."""


@dataclass(frozen=True)
class _Asked:
    """A request that the SDK found right: id and name of the app, and where the answer goes, letter by letter."""

    app: str
    name: str
    redirect: str
    params: AuthorizationParams

    @property
    def wants_write(self) -> bool:
        return WRITE in (self.params.scopes or ())


class _Checked(Provider):
    """A provider for one request: the app has the one redirect that was asked and checked, and nothing is given yet."""

    def __init__(self, provider: Provider, redirect: str) -> None:
        super().__init__(provider.grants, provider.issuer)
        self._redirect = redirect
        self.params: AuthorizationParams | None = None

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        client = await super().get_client(client_id)
        return client and client.model_copy(update={"redirect_uris": [AnyUrl(self._redirect)]})

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        place = await super().authorize(client, params)
        self.params = params
        return place


async def ask(provider: Provider, request: Request) -> Response:
    """Show who asks for what, and ask for a token unless this browser has logged in."""
    asked = await _check(provider, request)
    if isinstance(asked, Response):
        return asked
    if request.headers.get("sec-fetch-site") == "cross-site" and COOKIE not in request.cookies:
        return HTMLResponse(AGAIN, headers=_OWN)  # the browser keeps its cookie from a page that another one leads to
    return await _page(request, asked)


async def answer(provider: Provider, request: Request) -> Response:
    """Give the app a code if a person says yes who may, else say no to it."""
    asked = await _check(provider, request)
    if isinstance(asked, Response):
        return asked
    try:
        form = dict(parse_qsl((await request.body()).decode(), max_num_fields=_MOST_FIELDS))
    except ValueError:
        form = {}
    if form.get("answer") != "yes":
        denied = {"error": "access_denied", "state": asked.params.state, "iss": provider.issuer}
        return _to(construct_redirect_uri(asked.redirect, **denied))
    token, guard = form.get("token", "").strip(), request.app.state.guard
    address = request.client.host if request.client else ""
    tongue = language(request)
    if wait := guard.login_wait(address, token):
        message = translated(f"Too many wrong tokens came. Wait {wait} s.", tongue)
        return await _page(request, asked, 429, message, {"retry-after": str(wait)})
    holder = await _holder(request, token, form.get("csrf", ""))
    if holder is None:
        if token:
            guard.fail_login(address)
        return await _page(request, asked, 401, translated("The token is wrong, or ends with the server.", tongue))
    try:
        await in_thread(provider.grants.check_room)
    except InvalidInput as error:
        return await _page(request, asked, 409, translated(error.message, tongue))
    is_writing = asked.wants_write and form.get("write") == "yes" and holder.caller().has("write")
    return _to(provider.give(asked.app, asked.redirect, asked.params, holder.id, "write" if is_writing else "read"))


async def _check(provider: Provider, request: Request) -> _Asked | Response:
    """Return the request if it is right; else a page for an unknown app, and a redirect for every other fault."""
    pairs = request.query_params.multi_items()
    query = dict(pairs)
    app, redirect = query.get("client_id", ""), query.get("redirect_uri", "")
    name = await in_thread(provider.redirects_to, app, redirect) if len(query) == len(pairs) else None
    if name is None:
        return _rendered(request, "refused.html", 400)
    scopes = scopes_of(query.pop("scope", ""))
    query |= {"scope": " ".join(scopes)} if scopes else {}
    query.setdefault("code_challenge_method", "plain")  # so says RFC 7636, 4.3; the SDK would take S256
    checked = _Checked(provider, redirect)
    scope = {**request.scope, "method": "GET", "query_string": urlencode(query).encode()}
    reply = await AuthorizationHandler(checked).handle(Request(scope))
    if checked.params:
        return _Asked(app, name, redirect, checked.params)
    if place := reply.headers.get("location"):
        return _to(f"{place}&{urlencode({'iss': provider.issuer})}")
    return _rendered(request, "refused.html", 400)


async def _holder(request: Request, token: str, csrf: str) -> Token | None:
    """Return the lasting token that a person typed, or with which this browser has logged in; its form has `csrf`."""
    cookie = "" if token else request.cookies.get(COOKIE, "")
    is_ours = token or hmac.compare_digest(Tokens.csrf(cookie).encode(), csrf.encode("utf-8", "replace"))
    return await in_thread(served_of(request).tokens.lasting, token, cookie) if is_ours else None


async def _page(
    request: Request, asked: _Asked, status: int = 200, message: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    cookie = request.cookies.get(COOKIE, "")
    known = await in_thread(served_of(request).tokens.lasting, "", cookie)
    parts = urlsplit(asked.redirect)
    values = {
        "action": f"{AUTHORIZE}?{request.url.query}",
        "name": asked.name,
        "host": parts.hostname,
        "is_here": clients.is_loopback(asked.redirect),
        "asks_write": asked.wants_write and (known is None or known.caller().has("write")),
        "sees": known.sees if known else "private",
        "days": GRANT_DAYS,
        "csrf": Tokens.csrf(cookie) if known else "",
        "message": message,
    }
    # No form of a policy names an IPv6 address.
    origin = f"{parts.scheme}:" if "[" in parts.netloc else f"{parts.scheme}://{parts.netloc}"
    policy = HEADERS[POLICY].replace("form-action 'self'", f"form-action 'self' {origin}")
    return _rendered(request, "consent.html", status, {POLICY: policy, **(headers or {})}, **values)


def _rendered(
    request: Request, template: str, status: int, headers: Mapping[str, str] | None = None, **values: object
) -> Response:
    tongue = language(request)
    own = {
        "_": partial(view.say, tongue),
        "language": tongue,
        "theme": request.cookies.get("spellbook-theme"),
    }
    text = view.environment().get_template(template).render(own, **values)
    return HTMLResponse(text, status, {**_OWN, **(headers or {})})


def _to(place: str) -> Response:
    """Return a redirect, letter by letter."""
    return RedirectResponse(place, 302, _OWN)
