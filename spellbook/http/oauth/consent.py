"""The page on which a person who has logged in lets an app in, and the way back to the app. No script is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from mcp.server.auth.provider import construct_redirect_uri
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from spellbook.http.guard import COOKIE, to_login
from spellbook.http.headers import HEADERS, POLICY
from spellbook.http.oauth import clients
from spellbook.http.oauth.addresses import AUTHORIZE, resources
from spellbook.http.oauth.grants import GRANT_DAYS
from spellbook.http.oauth.provider import Provider
from spellbook.http.pages import view
from spellbook.http.served import in_thread, language, served_of, writing
from spellbook.http.tokens import Tokens
from spellbook.settings.translate import translated
from spellbook.system.errors import InvalidInput
from spellbook.system.lazy import regex

_OWN = {"referrer-policy": "no-referrer"}
_CHALLENGE = regex(r"[A-Za-z0-9_-]{43}")


async def consent(provider: Provider, request: Request) -> Response:
    """
    Show who asks for what, and lead back to the app with a code for yes and an error for no.

    Each request is checked anew. An unknown app or redirect gets a page; the app is told of every other fault.
    """
    asked = dict(request.query_params)
    app = asked.get("client_id", "")
    redirect = asked.get("redirect_uri", "")
    name = await in_thread(provider.redirects_to, app, redirect)
    if name is None or len(asked) < len(request.query_params.multi_items()):
        return view.bare(request, "refused.html", 400, _OWN)

    def back(**answer: str) -> Response:
        place = construct_redirect_uri(redirect, **answer, state=asked.get("state"), iss=provider.issuer)
        return RedirectResponse(place, 302, _OWN)

    scopes = clients.scopes_of(asked.get("scope"))
    if fault := _fault(asked, scopes, provider.issuer):
        return back(error=fault)
    cookie = request.cookies.get(COOKIE, "")
    holder = await in_thread(served_of(request).tokens.lasting, cookie)
    if holder is None:
        return to_login(request.scope, request.headers)
    csrf = Tokens.csrf(cookie)
    form = await view.form_of(request)
    form = form if view.is_ours(form, csrf) else {}
    if form.get("answer") == "no":
        return back(error="access_denied")
    may_write = clients.may_write(scopes, holder.caller())
    message = ""
    if form.get("answer") == "yes":
        may = "write" if may_write and form.get("write") == "yes" else "read"
        try:
            code = await writing(provider.give, app, name, redirect, asked["code_challenge"], holder, may)
            return back(code=code)
        except InvalidInput as error:
            message = translated(error.message, language(request))
    parts = urlsplit(redirect)
    # No form of a policy names an IPv6 address.
    origin = f"{parts.scheme}:" if "[" in parts.netloc else f"{parts.scheme}://{parts.netloc}"
    policy = HEADERS[POLICY].replace("form-action 'self'", f"form-action 'self' {origin}")
    return view.bare(
        request,
        "consent.html",
        409 if message else 200,
        {**_OWN, POLICY: policy},
        action=f"{AUTHORIZE}?{request.url.query}",
        name=name,
        host=parts.hostname,
        is_here=clients.is_loopback(redirect),
        may_write=may_write,
        sees=holder.sees,
        days=GRANT_DAYS,
        csrf=csrf,
        message=message,
    )


def _fault(asked: Mapping[str, str], scopes: Iterable[str], issuer: str) -> str:
    """Return the error of a request (RFC 6749, 4.1.2.1; RFC 7636, 4.4.1; RFC 8707, 2), "" for a right one."""
    if asked.get("response_type") != "code":
        return "unsupported_response_type" if "response_type" in asked else "invalid_request"
    if asked.get("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(asked.get("code_challenge", "")):
        return "invalid_request"
    if asked.get("resource", issuer) not in resources(issuer):
        return "invalid_target"
    return "" if {*scopes} <= {*clients.SCOPES} else "invalid_scope"
