"""The routes of OAuth for programs: metadata, and the SDK's handlers, each given a request that it reads rightly."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

from mcp.server.auth.handlers.register import RegistrationHandler
from mcp.server.auth.handlers.revoke import RevocationHandler
from mcp.server.auth.handlers.token import TokenHandler
from mcp.server.auth.middleware.client_auth import ClientAuthenticator
from mcp.server.auth.routes import cors_middleware
from mcp.server.auth.settings import ClientRegistrationOptions
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from spellbook.http.headers import arrived
from spellbook.http.oauth.addresses import (
    AUTHORIZE,
    REGISTER,
    RESOURCE,
    REVOKE,
    SERVERS,
    STREAMABLE,
    TOKEN,
    resources,
)
from spellbook.http.oauth.clients import SCOPES, scopes_of
from spellbook.http.oauth.consent import consent
from spellbook.http.oauth.grants import Grants
from spellbook.http.oauth.provider import Provider
from spellbook.http.request_counts import Bounded
from spellbook.http.tokens import digest
from spellbook.text.json_values import parsed

_MOST_REGISTRATIONS = 20
"""Registrations of one address within a minute."""

_MOST_FIELDS = 30
Handler = Callable[[Request], Awaitable[Response]]


def routes(grants: Grants, issuer: str) -> list[BaseRoute]:
    """Return the routes of a server that is known as `issuer`."""
    provider = Provider(grants, issuer)
    authenticator = ClientAuthenticator(provider)
    tokens = TokenHandler(provider, authenticator)
    revocations = RevocationHandler(provider, authenticator)
    registrations = RegistrationHandler(provider, ClientRegistrationOptions(enabled=True))
    documents = {
        f"{RESOURCE}{STREAMABLE}": _resource(issuer, STREAMABLE),
        RESOURCE: _resource(issuer, ""),
        **dict.fromkeys(SERVERS, _server(issuer)),
    }
    return [
        *(_for_programs("GET", path, partial(_document, document)) for path, document in documents.items()),
        _for_programs("POST", TOKEN, partial(_with_form, provider, tokens.handle)),
        _for_programs("POST", REVOKE, partial(_with_form, provider, revocations.handle)),
        _for_programs("POST", REGISTER, partial(_register, Bounded(_MOST_REGISTRATIONS, 60), registrations.handle)),
        Route(AUTHORIZE, partial(consent, provider), methods=["GET", "POST"]),
    ]


def _for_programs(method: str, path: str, handler: Callable[[Request], Awaitable[Response]]) -> Route:
    """Return a route that pages of other origins may ask, too: some apps run in a browser."""
    methods = [method, "OPTIONS"]
    return Route(path, cors_middleware(handler, methods), methods=methods)


def _resource(issuer: str, path: str) -> dict[str, Any]:
    return {
        "resource": f"{issuer}{path}",
        "authorization_servers": [issuer],
        "scopes_supported": list(SCOPES),
        "bearer_methods_supported": ["header"],
        "resource_name": "Spellbook",
    }


def _server(issuer: str) -> dict[str, Any]:
    """Return the metadata of the authorization server (RFC 8414); the issuer ends without a slash, as `iss` does."""
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}{AUTHORIZE}",
        "token_endpoint": f"{issuer}{TOKEN}",
        "registration_endpoint": f"{issuer}{REGISTER}",
        "revocation_endpoint": f"{issuer}{REVOKE}",
        "scopes_supported": list(SCOPES),
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none", "client_secret_post", "client_secret_basic"],
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
    }


async def _document(document: Mapping[str, Any], request: Request) -> Response:
    return JSONResponse(document)


async def _with_form(provider: Provider, handle: Handler, request: Request) -> Response:
    """Check what the SDK does not: fields that come twice, another resource, a redirect that differs in a byte."""
    form = await _form(request)
    if form is None:
        return _refused("invalid_request", "Send each field once, as application/x-www-form-urlencoded.")
    if form.get("resource") and form["resource"] not in resources(provider.issuer):
        return _refused("invalid_target", "This server is not that resource.")
    redirect = provider.redirect_of(form.get("code", ""))
    if redirect is not None and redirect != form.get("redirect_uri"):
        return _refused("invalid_grant", "The redirect_uri is not the one of the code.")
    if "scope" in form:
        form["scope"] = " ".join(scopes_of(form["scope"]))
    return await handle(Request(request.scope, arrived(urlencode(form).encode(), request.receive)))


async def _register(counts: Bounded, handle: Handler, request: Request) -> Response:
    """Register an app, with both scopes whatever it asks, and with a secret only if it asks for one."""
    address = request.client.host if request.client else ""
    counts.add(address)
    if wait := counts.wait(address, 1):
        return _refused("temporarily_unavailable", f"Wait {wait} s.", 429, {"retry-after": str(wait)})
    asked = parsed(await request.body())
    if not isinstance(asked, dict):
        return _refused("invalid_client_metadata", "The body must be one JSON object.")
    own = {"scope": " ".join(SCOPES), "token_endpoint_auth_method": asked.get("token_endpoint_auth_method") or "none"}
    return await handle(Request(request.scope, arrived(json.dumps({**asked, **own}).encode(), request.receive)))


async def _form(request: Request) -> dict[str, str] | None:
    """
    Return the fields of a form, None if it is none. An app's id and secret are also read from a header.

    The secret is replaced by its hash: only that is kept, and the SDK compares it with that of `Provider.get_client`.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    scheme, _, basic = request.headers.get("authorization", "").partition(" ")
    try:
        pairs = parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
        form = {"client_secret": "", **dict(pairs)}
        if scheme.lower() == "basic":
            id, _, secret = base64.b64decode(basic, validate=True).decode().partition(":")
            form |= {"client_id": unquote(id), "client_secret": unquote(secret)}
    except ValueError:
        return None
    if kind != "application/x-www-form-urlencoded" or len(dict(pairs)) < len(pairs):
        return None
    return {**form, "client_secret": digest(form["client_secret"]) if form["client_secret"] else ""}


def _refused(error: str, why: str, status: int = 400, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": error, "error_description": why}, status, headers)
